"""From a job's specification to the processes of Spark: whose Spark, which ports, which secret, which folder.

Every job has a folder under the data folder: `launch.json` (private: the secret and the driver's ports),
and for a driver on this host `driver/` with its logs and Spark's event log.
"""

import contextlib
import json
import os
import random
import secrets
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from conf.schema import Config, Driver, JobSpec
from environment.events import Task
from environment.records import ExecutorRecord, sizes_of
from environment.types import Job, Size
from framework.spark import (
    Application,
    DriverEndpoint,
    DriverStatus,
    ExecutorPlace,
    ExecutorShape,
    ProcessSpec,
    SparkHome,
    driver_process,
    driver_status,
    executor_process,
    heap_mib,
    local_spark_home,
    start_driver,
    stop_driver,
)

#: Where drivers on this host listen: below the range from which Linux takes ports for outgoing connections.
DRIVER_PORTS = range(10_000, 20_000)


@dataclass(frozen=True, slots=True)
class Launch:
    """What driver and executors of one job must agree on; `ports`: driver, block manager, UI."""

    secret: str
    ports: tuple[int, int, int]


class Launcher:
    """Turns jobs into processes; keeps nothing in memory that is not in the job's folder."""

    def __init__(self, config: Config, data_dir: Path, driver_host: str) -> None:
        self._config = config
        self._jobs = data_dir / "jobs"
        self._driver_host = config.spark.driver_host or driver_host
        self._here_id = _host_id(data_dir)
        #: Ports of drivers that may not listen on them yet.
        self._given: dict[str, tuple[int, int, int]] = {}
        self._here = local_spark_home(os.environ)
        spark = config.spark
        self._there = SparkHome(
            home=spark.home or self._here.home,
            java_home=spark.java_home or (None if spark.home else self._here.java_home),
            python=spark.python or ("python3" if spark.home else self._here.python),
            uris=spark.uris,
        )

    def folder(self, job_id: str) -> Path:
        """The job's folder."""
        return self._jobs / job_id

    def driver_size(self, spec: JobSpec) -> Size | None:
        """What the job's driver takes from the cluster; None when it runs on this host."""
        driver = self._driver(spec)
        return Size(driver.cpus, driver.memory) if driver.on == "cluster" else None

    def check(self, spec: JobSpec) -> None:
        """Raise ValueError when the job could not be launched, whatever the cluster."""
        heap_mib(spec.memory)
        heap_mib(self._driver(spec).memory, "driver")
        _application(spec)
        for path in (spec.app, *spec.py_files, *spec.files, *spec.jars):
            if path.startswith("/"):
                _check_file(Path(path))

    def describe(
        self, task: Task, job: Job, spec: JobSpec, tasks: Sequence[ExecutorRecord]
    ) -> tuple[ProcessSpec, str]:
        """The process of one Mesos task and the name it is shown under; ValueError when it cannot be made."""
        launch, application = self._launch(job.id), _application(spec)
        endpoint = self._endpoint(spec, launch, tasks)
        if task.executor is None:
            python = self._there.python
            process = driver_process(
                job.name,
                application,
                endpoint,
                _shapes(job, tasks),
                launch.secret,
                self._there,
                python,
                fetch=True,
            )
            return process, f"{job.name}: driver"
        address = next(t.address for t in tasks if t.task_id == task.task_id)
        if not task.ports:
            raise ValueError("no port is offered")
        place = ExecutorPlace(task.executor, address, task.ports[0])
        shape = ExecutorShape(task.cpus, task.memory_mib)
        patience = self._config.spark.connect_timeout
        process = executor_process(application, endpoint, place, shape, launch.secret, self._there, patience)
        return process, f"{job.name}: executor {task.executor}"

    def start_driver(self, job: Job, spec: JobSpec, tasks: Sequence[ExecutorRecord]) -> None:
        """Start the driver on this host, once, for the executors among these tasks.

        OSError or ValueError when it cannot be.
        """
        launch = self._launch(job.id)
        process = driver_process(
            job.name,
            _application(spec),
            self._endpoint(spec, launch, ()),
            _shapes(job, tasks),
            launch.secret,
            self._here,
            self._there.python,
        )
        start_driver(process, self.folder(job.id) / "driver", os.environ)

    def driver_status(self, job_id: str) -> DriverStatus:
        """How the driver on this host is doing."""
        return driver_status(self.folder(job_id) / "driver")

    def stop_driver(self, job_id: str) -> None:
        """Ask the driver on this host to end."""
        stop_driver(self.folder(job_id) / "driver")

    @property
    def here(self) -> str:
        """The name under which drivers run here: one for each data folder, and kept in it."""
        return self._here_id

    def is_here(self, driver_on: str) -> bool:
        """Whether a driver that was started under that name is one of ours; an empty name says nothing."""
        return not driver_on or driver_on.partition("@")[0] == self._here_id.partition("@")[0]

    def abandon(self, job_id: str, *, afresh: bool) -> None:
        """End a driver here that nobody waits for. Once it has ended, the job may start here `afresh`."""
        folder = self.folder(job_id) / "driver"
        if driver_status(folder).state == "running":
            stop_driver(folder)
            return
        stop_driver(folder)  # it may have lost its supervisor only
        if not afresh:
            return
        if folder.exists():
            number = sum(1 for _ in folder.parent.glob("driver.*"))
            folder.rename(folder.with_name(f"driver.{number}"))
        self.forget(job_id)

    def launched(self) -> list[str]:
        """The jobs that were launched and not forgotten since."""
        return [path.parent.name for path in self._jobs.glob("*/launch.json")]

    def forget(self, job_id: str) -> None:
        """The job is over: its secret and its ports are of no more use. Logs stay."""
        self._given.pop(job_id, None)
        (self.folder(job_id) / "launch.json").unlink(missing_ok=True)

    def _driver(self, spec: JobSpec) -> Driver:
        return spec.driver or self._config.driver

    def _endpoint(self, spec: JobSpec, launch: Launch, tasks: Sequence[ExecutorRecord]) -> DriverEndpoint:
        driver = self._driver(spec)
        host, ports = self._driver_host, launch.ports
        if driver.on == "cluster":
            task = next((t for t in tasks if t.number is None and not t.ended), None)
            if task is None or len(task.ports) < 3:
                raise ValueError("no three ports are offered for the driver")
            host, ports = task.address, (task.ports[0], task.ports[1], task.ports[2])
        return DriverEndpoint(host, *ports, memory_mib=driver.memory)

    def _launch(self, job_id: str) -> Launch:
        path = self.folder(job_id) / "launch.json"
        try:
            kept = json.loads(path.read_text())
            return Launch(kept["secret"], tuple(kept["ports"]))
        except FileNotFoundError:
            launch = Launch(secrets.token_urlsafe(32), self._free_ports())
        self._given[job_id] = launch.ports
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(".draft")
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            json.dump({"secret": launch.secret, "ports": launch.ports}, file)
        draft.rename(path)
        return launch

    def _free_ports(self) -> tuple[int, int, int]:
        given = {port for ports in self._given.values() for port in ports}
        candidates = random.sample(DRIVER_PORTS, len(DRIVER_PORTS))
        free = (port for port in candidates if port not in given and _is_free(self._driver_host, port))
        for first, second, third in zip(free, free, free, strict=False):
            return first, second, third
        raise ValueError(f"no free ports for a driver on {self._driver_host} in {DRIVER_PORTS}")


def _shapes(job: Job, tasks: Sequence[ExecutorRecord]) -> list[ExecutorShape]:
    """What the job's executors take; of one whose executors have all come to their end, what it asked for."""
    return [ExecutorShape(size.cpus, size.memory_mib) for size in sizes_of(tasks) or job.asked]


def _host_id(data_dir: Path) -> str:
    """An id that the data folder keeps, with the host's name for people to read."""
    path, draft = data_dir / "host", data_dir / f"host.{os.getpid()}"
    if not path.exists():
        draft.write_text(secrets.token_hex(8))
        with contextlib.suppress(FileExistsError):
            os.link(draft, path)  # another daemon finds all of it or nothing
        draft.unlink()
    return f"{path.read_text().strip()}@{socket.gethostname()}"


def _application(spec: JobSpec) -> Application:
    return Application(
        app=spec.app,
        main_class=spec.main_class,
        arguments=spec.args,
        py_files=spec.py_files,
        files=spec.files,
        jars=spec.jars,
        conf=spec.conf,
        environment=spec.env,
    )


def _check_file(path: Path) -> None:
    try:
        if path.is_file():
            return
        why = "no such file on the daemon's host"
    except OSError as error:  # a part of the path is too long, or a folder cannot be looked into
        why = f"cannot be found on the daemon's host: {error.strerror}"
    raise ValueError(f"{path}: {why}")


def _is_free(host: str, port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True
