"""What setup.cfg cannot name: the project's packages are those of two folders, its own and the client's."""

from setuptools import find_packages, setup

setup(
    packages=[*find_packages(exclude=["tests", "tests.*"]), *find_packages("client")],
    package_dir={"stoker": "client/stoker"},
)
