"""Converts a job's spec to a Spark application, and checks that it could run on some cluster."""

import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from conf.schema import Config, Driver, DynamicExecutors, JobSpec
from conf.uploaded_file import uploaded
from conf.util.secret_masking import masked_urls
from daemon.core.identity import NOBODY, Submitter
from daemon.disk.file_delivery import files_of
from daemon.disk.run_as import RunAs
from daemon.disk.uploads import Uploads
from framework.host.user_files import OpenFile
from framework.spark import Application, SparkHomes, alias_parts, unserved
from framework.spark.conf_check import check_first_heap, check_resources
from framework.spark.executor_resources import check_shares
from framework.spark.install.backend_jar import BackendJarError
from framework.spark.property_values import size_mib
from framework.spark.treatments import by_current_names

#: Bytes of the specifications of an array, which are stored at once. Chosen: 8 KiB for each of 1000 jobs.
_LARGEST_ARRAY = 8 << 20
#: A limit of Python's memory in each executor.
_PYTHON = "spark.executor.pyspark.memory"


def driver_of(spec: JobSpec, config: Config) -> Driver:
    """Driver settings of a job: its own, or else the config's."""
    return spec.driver or config.driver


def application_of(
    spec: JobSpec, paths: Mapping[str, str] | None = None, packed: Mapping[str, str] | None = None
) -> Application:
    """Spark application of a spec; `paths` are those of uploaded files, by their names in the job.

    `packed` are those of uploaded archives, where they differ.
    """
    at = paths or {}

    def placed(references: Sequence[str], at: Mapping[str, str] = at) -> tuple[str, ...]:
        parts = (reference.partition("#") for reference in references)
        return tuple(f"{at.get(place, place)}{mark}{name}" for place, mark, name in parts)

    return Application(
        app=at.get(spec.app, spec.app),
        main_class=spec.main_class,
        arguments=spec.args,
        py_files=placed(spec.py_files),
        files=placed(spec.files),
        jars=placed(spec.jars),
        archives=placed(spec.archives, at if packed is None else packed),
        packages=spec.packages,
        repositories=spec.repositories,
        conf=by_current_names(spec.conf)[0],
        environment=spec.env,
    )


@dataclass(frozen=True, slots=True)
class LaunchCheck:
    """Refuses jobs that could not be launched.

    `reachable`: VMs reach the daemon's API. `backend_jar` makes the jar of a Spark by its name.
    """

    config: Config
    homes: SparkHomes
    rights: RunAs
    uploads: Uploads
    reachable: bool
    backend_jar: Callable[[str], Path]

    def check(
        self, spec: JobSpec, submitter: Submitter = NOBODY, sends: Mapping[str, int] | None = None
    ) -> None:
        """Raise ValueError when the job could not be launched on any cluster.

        Its uploaded files are kept for it from now on. With `sends`, the files that its user will upload
        before submitting (bytes by hash), nothing is kept: those files are not looked up, but must be
        acceptable (RejectedError).
        """
        if (size := spec.array_bytes) > _LARGEST_ARRAY:
            raise ValueError(
                f"count: the specifications of an array of {spec.count} have {size:,} bytes, where "
                f"{_LARGEST_ARRAY:,} are allowed: put long values into a file"
            )
        here = driver_of(spec, self.config).on == "host" or self.config.vms_here
        rights = self.rights.of(submitter.unix_user, here=here)
        spark = self.homes.there(spec.spark)
        if driver_of(spec, self.config).on == "host":
            self.homes.here(spec.spark)
        application = application_of(spec)
        heap = application.heap_mib(spec.memory_mib)
        check_first_heap(application.conf, spec.env, "executor", heap)
        application.check()
        check_resources(application.conf, spec.resources, spec.fewest_cpus or spec.most_cpus)
        check_shares(application.conf, spark.line)
        if driver_of(spec, self.config).on == "client":
            return  # it has its files itself
        heap = application.heap_mib(driver_of(spec, self.config).memory, "driver")
        check_first_heap(application.conf, spec.env, "driver", heap)
        if spec.main_class and spec.app.endswith(".py"):
            raise ValueError(f"main_class: {spec.main_class} goes with a jar, not with a Python file")
        self._check_uploaded(spec, submitter, sends)
        if isinstance(spec.executors, DynamicExecutors):
            self._check_asking(spec)
        paths = [
            reference if reference == spec.app else alias_parts(reference)[0]
            for reference in spec.references
            if uploaded(reference) is None
        ]
        rights.check_all(
            [
                *((path, _jar_or_other(path) if path.startswith("/") else None) for path in paths),
                *((repository, None) for repository in spec.repositories),
            ],
            submitter.name,
        )
        for path in paths:
            if why := unserved(path, (*spec.jars, *spec.packages), spec.conf, self._home_jars(spec)):
                raise ValueError(f"{masked_urls(path)}: {why}")

    def _check_uploaded(self, spec: JobSpec, submitter: Submitter, sends: Mapping[str, int] | None) -> None:
        files = files_of(spec).values()
        for file in files:
            if sends is None:
                self.uploads.use(file, submitter.name, spec.owner)
                _check_jar(file.name, self.uploads.path(file, spec.owner))
            elif file.sha256 not in sends:
                _check_jar(file.name, self.uploads.look(file, submitter.name))
        if sends:
            self.uploads.check_sizes(sends, submitter.name)
        if files and driver_of(spec, self.config).on == "cluster" and not self.reachable:
            raise ValueError(
                "a driver on the cluster fetches uploaded files from this daemon, which listens on loopback "
                "only; `listen` (with token_file) lets others reach it, or leave the driver on the host"
            )

    def _check_asking(self, spec: JobSpec) -> None:
        if driver_of(spec, self.config).on == "cluster" and not self.reachable:
            raise ValueError(
                "a driver on the cluster asks this daemon for executors, which listens on loopback only; "
                "`listen` (with token_file) lets others reach it, or leave the driver on the host"
            )
        try:
            self.backend_jar(self.homes.named(spec.spark))
        except BackendJarError as error:
            raise ValueError(str(error)) from error

    def _home_jars(self, spec: JobSpec) -> list[str] | None:
        """Names of the jars of the driver's Spark; None where this host cannot list them."""
        home = self.homes.there if driver_of(spec, self.config).on == "cluster" else self.homes.here
        try:
            return [path.name for path in Path(home(spec.spark).home, "jars").iterdir()]
        except OSError:
            return None


def _jar_or_other(name: str) -> Callable[[OpenFile], None]:
    """Judges a file by its name: a jar should be one, as Spark would say when its job has its executors."""

    def judge(file: OpenFile) -> None:
        with open(file.descriptor, "rb", closefd=False) as stream:
            _check_jar(name, stream)

    return judge


def _check_jar(name: str, file: IO[bytes] | Path) -> None:
    if name.endswith(".jar") and not zipfile.is_zipfile(file):
        raise ValueError(f"{name}: not a jar: it is not in the format of zip files")


def python_raised(conf: Mapping[str, str], asked_mib: int, memory_mib: int) -> Mapping[str, str]:
    """Settings with as much more memory for Python as a restart gave each executor: it is a limit, too."""
    if _PYTHON not in conf or memory_mib <= asked_mib:
        return conf
    python = size_mib(_PYTHON, conf[_PYTHON]) * memory_mib // asked_mib
    return {**conf, _PYTHON: f"{python}m"}
