"""Archives of drivers: the real driver script unpacks them, with a shell script in the place of Spark."""

import subprocess
import sys
import tarfile
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from framework.spark import Application, ProcessSpec
from tests.framework.spark.test_command_lines import make_driver

SUBMIT = """#!/bin/sh
for folder in $FOLDERS; do cat "$folder/words.txt"; done
while [ "$1" != --archives ]; do shift; done
IFS=,
for archive in $2; do test -f "${archive%%#*}" || echo "missing: $archive"; done
"""


def make_archive(path: Path) -> Path:
    """An archive with one file, which says the archive's name."""
    words = path.with_name("words.txt")
    words.write_text(f"{path.name}\n")
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w") as zipped:
            zipped.write(words, "words.txt")
    else:
        with tarfile.open(path, "w:gz") as tarred:
            tarred.add(words, "words.txt")
    words.unlink()
    return path


def run(process: ProcessSpec, folder: Path, *folders: str) -> str:
    """Output of a driver that shows the file of each folder into which an archive was unpacked."""
    home = folder.with_name("home")
    (home / "bin").mkdir(parents=True)
    (home / "bin/spark-submit").write_text(SUBMIT)
    (home / "bin/spark-submit").chmod(0o755)
    environment = {
        **process.environment, **process.secrets, "SPARK_HOME": str(home), "FOLDERS": " ".join(folders),
        "PYSPARK_DRIVER_PYTHON": sys.executable, "PATH": "/usr/bin:/bin",
    }  # fmt: skip
    done = subprocess.run(
        process.argv, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("elsewhere", [True, False])
def test_an_archive_without_a_folder_becomes_one_of_its_name(tmp_path: Path, *, elsewhere: bool) -> None:
    """Also where the archive was brought into the driver's folder; and where it is one on this machine."""
    brought, folder = tmp_path / "brought", tmp_path / "driver"
    brought.mkdir()
    folder.mkdir()
    archives = [make_archive(brought / name) for name in ("env.tar.gz", "data.zip", "at 10:30.tgz")]
    named = tuple(map(str, archives[:2])), (f"{archives[2]}#b",)
    application = replace(Application("/apps/app.py"), archives=(*named[0], *named[1]))
    process = make_driver(application, fetched="file://{}".format if elsewhere else None)
    for uri in process.uris:
        if (source := Path(uri.value.removeprefix("file://"))) in archives:
            target = folder / str(uri.name)
            target.parent.mkdir(exist_ok=True)
            target.write_bytes(source.read_bytes())
    printed = run(process, folder, "env.tar.gz", "data.zip", "b")
    assert printed == "env.tar.gz\ndata.zip\nat 10:30.tgz\n"


def test_the_name_of_an_archive_is_no_option(tmp_path: Path) -> None:
    """The folder of `-f.tar.gz` is made like any other."""
    folder = tmp_path / "driver"
    folder.mkdir()
    archive = make_archive(tmp_path / "-f.tar.gz")
    process = make_driver(Application("/apps/app.py", archives=(str(archive),)))
    assert run(process, folder, "./-f.tar.gz") == "-f.tar.gz\n"
