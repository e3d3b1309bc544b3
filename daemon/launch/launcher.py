"""Launches a job: chooses its Spark, ports, secret and folder, and starts its Spark processes.

Under the data folder every job has a folder in `jobs`, for a driver on this host: `driver/` with its logs and
Spark's event log. The daemon's records are in `records`, which no job may use: `launch.json` (the secret and
the driver's ports), and `driver/` with the output of its supervisor.
"""

import contextlib
import math
import os
import re
import secrets
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from conf.schema import Config, Driver, JobSpec
from conf.uploaded_file import PACKED
from daemon.core.identity import NOBODY, Submitter
from daemon.disk.file_delivery import archives_of, copy_in, files_of, plain_of, url, wanted
from daemon.disk.launch_records import LaunchLostError, LaunchRecord, LaunchRecords, RecordsError
from daemon.disk.run_as import RunAs, own_rights
from daemon.disk.uploads import Uploads
from daemon.launch.application_records import ApplicationRecords, launched_key
from daemon.launch.driver_failures import failure_line
from daemon.launch.launch_validation import LaunchCheck, application_of, driver_of, python_raised
from daemon.store.job_store import Store
from environment.model.messages.records import ExecutorRecord, sizes_of
from environment.resources import Resources
from environment.types import Job
from framework.host.cgroups import make_tracker
from framework.host.untrusted_files import read_tail
from framework.spark import (
    TAIL,
    Application,
    DriverEndpoint,
    DriverPlace,
    DriverStatus,
    DriverUi,
    DynamicAllocation,
    ExecutorAttributes,
    ExecutorPlace,
    HostError,
    ProcessSpec,
    SparkHome,
    SparkHomes,
    driver_process,
    driver_status,
    executor_process,
    start_driver,
    stop_driver,
    ui_key,
)
from framework.spark.install.backend_jar import BackendJarError, backend_jar, jar_folders

T = TypeVar("T")

# Spark's own words for a port that it could not have, at the end of what the driver printed. Bounded, since
# a job may print what takes long to match, and the daemon does nothing else meanwhile.
_PORT_TAKEN = re.compile(
    rb"BindException: [^\n]{0,200}?Service '?"
    rb"(sparkDriver|SparkUI|[\w.]{0,100}NettyBlockTransferService)'? failed after[^\n!]{0,300}"
)
#: How `driver.sh` ends where its folder cannot be written, before there is an `events` in it.
_NOT_WRITTEN = 74
#: Seconds for which the files of a Spark are not looked for again when executors are launched.
_ONCE_IN = 1.0


class Launcher:
    """Turns jobs into processes; keeps nothing in memory that is not in the job's folder."""

    def __init__(
        self,
        config: Config,
        data_dir: Path,
        driver_host: str,
        rights: RunAs | None = None,
        uploads: Uploads | None = None,
        url: str = "",
        url_here: str = "",
        store: Store | None = None,
    ) -> None:
        """`driver_host` is the address of this host's drivers; without `rights`, jobs have the daemon's.

        `url` is the daemon's API address for VMs; empty: none. `url_here` is the one for this host.
        `store` holds the values that other hosts need once they lead; a leader has one.
        """
        self.uploads = uploads or Uploads(data_dir / "uploads", config.uploads)
        self._url = url
        self._url_here = url_here or url
        self._config = config
        self._rights = rights or own_rights(config, data_dir)
        #: Looks at files that jobs name.
        self.files = self._rights.files
        self._jobs = data_dir / "jobs"
        #: Where executors reach drivers on this host.
        self.driver_host = config.spark.driver_host or driver_host
        self._here_id = _host_id(data_dir)
        self._launches = LaunchRecords(data_dir, self.driver_host)
        self.applications = ApplicationRecords(store, self._launches)
        self._jar_folders = jar_folders(data_dir)
        #: The Sparks that are served: one runs driver and executors of a job.
        self.homes = SparkHomes(config.spark, os.environ)
        self._last_spark: tuple[str, float, SparkHome] | None = None
        self._launch_check = LaunchCheck(
            config, self.homes, self._rights, self.uploads, bool(url), self.backend_jar
        )

    def folder(self, job_id: str) -> Path:
        """The job's folder."""
        return self._jobs / job_id

    def driver_size(self, spec: JobSpec) -> Resources | None:
        """Resources of the job's driver on the cluster; None when it runs on this host."""
        driver = self._driver(spec)
        return Resources.of(driver.cpus, driver.memory) if driver.on == "cluster" else None

    def spot_driver(self, spec: JobSpec) -> bool:
        """Whether the job's driver may be on a spot VM."""
        return spec.spot == "only" or self._driver(spec).spot == "allowed"

    def spark(self, spec: JobSpec) -> str:
        """The name of the Spark that runs the job, driver and executors; ValueError when it is not served."""
        return self.homes.named(spec.spark)

    def heap_mib(self, spec: JobSpec) -> int:
        """The heap (MiB) of the job's executors, unless they are of another resource profile."""
        return application_of(spec).heap_mib(spec.memory_mib)

    def check(
        self, spec: JobSpec, submitter: Submitter = NOBODY, sends: Mapping[str, int] | None = None
    ) -> None:
        """Raise ValueError when the job could not be launched on any cluster; see `LaunchCheck`."""
        self._launch_check.check(spec, submitter, sends)

    def handed(self, job_id: str, spec: JobSpec, key: str) -> tuple[Path, str] | None:
        """The file that this key opens for the job's driver, and its name; None when it opens none."""
        with contextlib.suppress(OSError, ValueError):
            launch = self.applications.launch(job_id)
            file = None if launch is None else wanted(files_of(spec).values(), launch.secret, key)
            if file is not None:
                return self.uploads.checked(file, spec.owner), file.name
        return None

    def describe(
        self, task: ExecutorRecord, job: Job, spec: JobSpec, tasks: Sequence[ExecutorRecord]
    ) -> tuple[ProcessSpec, str]:
        """The process of one task and the name it is shown under.

        ValueError when it cannot be made, StoreError when it cannot be looked up now.
        """
        process, name = self._described(task, job, spec, tasks)
        return replace(process, user=job.unix_user), name

    def _described(
        self, task: ExecutorRecord, job: Job, spec: JobSpec, tasks: Sequence[ExecutorRecord]
    ) -> tuple[ProcessSpec, str]:
        if job.client_driver:
            known = self.applications.kept(job.id)
            if known is None or not known.secret:
                raise RecordsError(f"the address of its driver ({job.client_driver}) is no longer known")
            endpoint = DriverEndpoint(known.host, known.port, 0, 0, memory_mib=0)
            return self._executor(
                task, job, application_of(spec), endpoint, known.secret, known.application_id
            )
        spec = _raised(spec, job)
        elsewhere, files = self._driver(spec).on == "cluster", files_of(spec)
        launch = self.applications.launch_elsewhere(job.id) if elsewhere else self._launches.of(job.id)
        paths = {reference: f"/{file.sha256}/{file.name}" for reference, file in files.items()}
        application = application_of(spec, paths)
        endpoint = self._endpoint(spec, launch, tasks, job)
        if task.number is None:
            self.applications.unname(job.id)
            urls = {paths[each]: url(self._url, job.id, launch.secret, files[each]) for each in files}
            process = driver_process(
                job.name,
                application,
                endpoint,
                _sizes(job, tasks),
                launch.secret,
                self.homes.there(job.spark),
                fetched=lambda path: urls.get(path) or f"file://{path}",
                asking=self._asking(job, launch, here=False),
            )
            return process, f"{job.name}: driver"
        asks = job.dynamic is not None and _runs(tasks, self._driver(spec))
        own = self.applications.name(job.id, launch) if asks else ""
        return self._executor(task, job, application, endpoint, launch.secret, own)

    def _executor(
        self,
        task: ExecutorRecord,
        job: Job,
        application: Application,
        endpoint: DriverEndpoint,
        secret: str,
        application_id: str,
    ) -> tuple[ProcessSpec, str]:
        if not task.ports or task.number is None:
            raise ValueError("no port is offered")
        attributes = ExecutorAttributes(task.launched_at, task.vm_type, task.share, task.price_per_hour)
        place = ExecutorPlace(
            task.number, task.address, task.ports[0], application_id, task.profile, attributes
        )
        size, patience = task.resources, self._config.spark.connect_timeout
        spark = self._spark_of_executors(job.spark)
        process = executor_process(application, endpoint, place, size, secret, spark, patience)
        return process, f"{job.name}: executor {task.number}"

    def _spark_of_executors(self, name: str) -> SparkHome:
        """The Spark of this name on the agents, looked for once a second: many executors start at once."""
        now, last = time.monotonic(), self._last_spark
        if last is None or last[0] != name or now - last[1] >= _ONCE_IN:
            last = self._last_spark = name, now, self.homes.there(name)
        return last[2]

    def start_driver(
        self,
        job: Job,
        spec: JobSpec,
        tasks: Sequence[ExecutorRecord],
        before: Callable[[], float] = lambda: math.inf,
    ) -> DriverStatus:
        """Start the driver on this host, once, for the executors among these tasks.

        Not from `before` on (seconds by CLOCK_BOOTTIME, asked at last): then another daemon may lead.
        TooLateError when that was so. HostError when this host could not; it may be tried again.
        LaunchLostError when it never started, and its executors wait for it nobody knows where. ValueError
        when it cannot be started.
        """
        records = self._launches.records(job.id)
        try:
            status = driver_status(records)
        except OSError as error:
            raise HostError(str(error)) from error
        if status.state != "absent":
            return status
        account = self._rights.of(job.unix_user).account
        # Of a job that begins without executors nothing was launched before.
        launch = self._launches.kept(job.id) if job.begins_with else self._launches.of(job.id)
        if launch is None:
            raise LaunchLostError("its launch was given up before its driver was started")
        spec = _raised(spec, job)
        endpoint, folder = self._endpoint(spec, launch, ()), self.folder(job.id) / "driver"
        brought = ((plain_of(spec), folder), (archives_of(spec), folder / PACKED))
        paths = [{each: str(place / file.name) for each, file in files.items()} for files, place in brought]
        process = driver_process(
            job.name,
            application_of(spec, *paths),
            endpoint,
            _sizes(job, tasks),
            launch.secret,
            self.homes.here(job.spark),
            self.homes.there(job.spark).python,
            asking=self._asking(job, launch, here=True),
        )
        address = endpoint.bind_address or endpoint.host
        try:
            for files, place in brought:
                copy_in(self.uploads, set(files.values()), spec.owner, place, account)
        except OSError as error:
            raise HostError(f"a file of it cannot be copied: {error}") from error
        ports = tuple((address, port) for port in launch.ports)
        own = DriverPlace(folder, records, ports, account, self._groups(job.id))
        status = start_driver(process, own, os.environ, before=before)
        self._launches.release(job.id)
        return status

    def ui(self, job_id: str, spec: JobSpec, tasks: Sequence[ExecutorRecord]) -> DriverUi | None:
        """Address of a launched driver's UI; None without a launch."""
        try:
            launch = None if self._driver(spec).on == "client" else self.applications.launch(job_id)
            if launch is None:
                return None
            endpoint = self._endpoint(spec, launch, tasks)
        except (
            OSError,
            ValueError,
        ):  # no record that can be read, or a driver on the cluster without a place
            return None
        return DriverUi(endpoint.host, endpoint.ui_port, ui_key(launch.secret))

    def _groups(self, job_id: str) -> tuple[str, ...]:
        """Control group for the job's driver and its processes, where available."""
        with contextlib.suppress(OSError):
            mounts, own = (Path("/proc/self", name).read_text() for name in ("mountinfo", "cgroup"))
            tracker = make_tracker(f"stoker-{self._here_id.partition('@')[0]}-{job_id}", mounts, own)
            return () if tracker is None else (str(tracker),)
        return ()

    def driver_status(self, job_id: str) -> DriverStatus:
        """Status of the driver on this host; OSError when it is unreadable now."""
        return driver_status(self._launches.records(job_id))

    def host_trouble(self, job_id: str, status: DriverStatus, owner: str = "") -> str:
        """Reason for a driver's end that is this host's fault and not the job's; else empty.

        `owner` is the job's.
        """
        if status.host_failed or not status.exit_code:
            return status.message
        written = partial(os.path.lexists, self.folder(job_id) / "driver/events")
        if status.exit_code == _NOT_WRITTEN and self._looked(job_id, owner, written) is False:
            return "its folder takes nothing: the disk may be full"
        if found := _PORT_TAKEN.search(self._tail(job_id, owner, "stderr")):
            return found[0].decode(errors="replace")[:300]
        return ""

    def failure(self, job_id: str, spec: JobSpec | None, code: int | None = None) -> str:
        """Failure reason for a driver that failed on this host with this code; see `failure_line`."""
        owner = "" if spec is None else spec.owner
        stderr, stdout = (self._tail(job_id, owner, stream) for stream in ("stderr", "stdout"))
        return self.failure_in(job_id, spec, stderr, stdout, code)

    def _tail(self, job_id: str, owner: str, stream: str) -> bytes:
        name = f"driver/{stream}"
        return self._looked(job_id, owner, lambda: read_tail(self.folder(job_id), name, TAIL)) or b""

    def _looked(self, job_id: str, owner: str, work: Callable[[], T]) -> T | None:
        """The finding of `work` by `look_at_output`; None where it cannot, or hangs."""
        with contextlib.suppress(OSError):
            return self.look_at_output(job_id, owner, work)
        return None

    def look_at_output(self, job_id: str, owner: str, work: Callable[[], T]) -> T:
        """The finding of `work` in the job's driver folder; raises as it does, TimeoutError when it hangs.

        The job's user can mount a file system there that never answers, and others' drivers wait meanwhile.
        """
        return self.files.look(None, f"the output of {job_id}'s driver", work, owner or job_id)

    def failure_in(
        self, job_id: str, spec: JobSpec | None, stderr: bytes, stdout: bytes, code: int | None = None
    ) -> str:
        """Failure reason found in the ends of the driver's output; see `failure_line`."""
        return failure_line(stderr, stdout, spec, self.applications.secrets(job_id), code)

    def stop_driver(self, job_id: str) -> None:
        """Ask the driver on this host to end."""
        stop_driver(self._launches.records(job_id))

    @property
    def here(self) -> str:
        """The name under which drivers run here: one for each data folder, and kept in it."""
        return self._here_id

    def is_here(self, driver_on: str) -> bool:
        """Whether a driver that was started under that name is one of ours; an empty name says nothing."""
        return not driver_on or driver_on.partition("@")[0] == self._here_id.partition("@")[0]

    def abandon(self, job_id: str, *, afresh: bool) -> None:
        """End a driver here that nobody waits for. Once it has ended, the job may start here `afresh`."""
        records = self._launches.records(job_id)
        running = driver_status(records).state == "running"
        stop_driver(records)  # it may have lost its supervisor only
        if running or not afresh:
            return
        self._launches.put_aside(job_id)

    def launched(self) -> list[str]:
        """The jobs that were launched and not forgotten since."""
        return self._launches.all()

    def forget(self, job_id: str) -> None:
        """The job is over: its secret and its ports are of no more use. Logs stay."""
        self._launches.forget(job_id)
        self.applications.forget(job_id)

    def _asking(self, job: Job, launch: LaunchRecord, *, here: bool) -> DynamicAllocation | None:
        """Dynamic allocation settings of a driver started here; None when it asks for no executors."""
        if job.dynamic is None:
            return None
        tls, url = self._config.tls, self._url_here if here else self._url
        try:
            jar = (
                str(self.backend_jar(job.spark)) if here else f"{url}/v1/spark/{job.spark}/stoker-backend.jar"
            )
        except BackendJarError as error:
            raise ValueError(str(error)) from error
        bounds = (job.dynamic.min, job.begins_with, job.executors)
        trusted = tls.cert if tls is not None and here else ""
        return DynamicAllocation(url, jar, job.id, launched_key(job.id, launch), bounds, trusted)

    def backend_jar(self, name: str) -> Path:
        """The jar by which the Spark of this name knows our masters, made when it is not there yet.

        ValueError when it is not served, or not on this host; BackendJarError when it cannot be made.
        """
        return backend_jar(self.homes.here(name), self._jar_folders)

    def _driver(self, spec: JobSpec) -> Driver:
        return driver_of(spec, self._config)

    def _endpoint(
        self,
        spec: JobSpec,
        launch: LaunchRecord,
        tasks: Sequence[ExecutorRecord],
        job: Job | None = None,
    ) -> DriverEndpoint:
        driver = self._driver(spec)
        host, ports = self.driver_host, launch.ports
        # Of one on the cluster that may have been started again with more.
        memory_mib = job.driver.memory_mib if job and job.driver else driver.memory
        if driver.on == "cluster":
            task = next((t for t in tasks if t.number is None and not t.ended), None)
            if task is None or len(task.ports) < 3:
                raise ValueError("no three ports are offered for the driver")
            host, ports = task.address, (task.ports[0], task.ports[1], task.ports[2])
        return DriverEndpoint(host, *ports, memory_mib=memory_mib)


def _sizes(job: Job, tasks: Sequence[ExecutorRecord]) -> Sequence[Resources]:
    """Resources of a job's executors; if all have ended, the resources that the job asked for.

    Where the driver asks for executors while it runs, the size of each.
    """
    return (job.size,) if job.dynamic is not None else sizes_of(tasks) or job.asked


def _raised(spec: JobSpec, job: Job) -> JobSpec:
    """The spec with the memory for Python that fits executors of the job's present size."""
    conf = python_raised(spec.conf, spec.memory_mib, job.memory_mib)
    return spec if conf is spec.conf else spec.model_copy(update={"conf": conf})


def _runs(tasks: Sequence[ExecutorRecord], driver: Driver) -> bool:
    """Whether the driver can have identified itself: a driver task that never ran has not."""
    if driver.on != "cluster":
        return True
    return any(task.number is None and not task.ended and task.running_at is not None for task in tasks)


def _host_id(data_dir: Path) -> str:
    """An id that the data folder keeps, with the host's name for people to read."""
    path, draft = data_dir / "host", data_dir / f"host.{os.getpid()}"
    if not path.exists():
        draft.write_text(secrets.token_hex(8))
        with contextlib.suppress(FileExistsError):
            os.link(draft, path)  # another daemon finds all of it or nothing
        draft.unlink()
    return f"{path.read_text().strip()}@{socket.gethostname()}"
