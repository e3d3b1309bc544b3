"""Tasks, drivers and logs of one term behind one object: started, followed, decommissioned, read."""

from collections.abc import Callable, Sequence
from pathlib import Path

from daemon.core.event_queue import Inbox
from daemon.core.status import WITH_DRIVER
from daemon.disk.log_archive import KeptLogs, skip_lost_jobs
from daemon.launch.decommissioning import Decommissioning
from daemon.launch.host_drivers import HostDrivers
from daemon.launch.launcher import Launcher
from daemon.launch.log_collector import LogKeeper
from daemon.launch.log_reader import Logs
from daemon.launch.memory_uses import MemoryUses
from daemon.store.job_store import Store
from environment.model.cluster_model import ClusterModel
from environment.model.messages.records import ExecutorRecord, JobRecord
from environment.model.vms.job_registry import Changes
from framework.spark import DriverUi
from framework.substrate import Emit, Sandbox, Substrate


class Launching:
    """For the loop's thread, except `ui` and `logs`."""

    def __init__(
        self,
        store: Store,
        launcher: Launcher,
        model: ClusterModel,
        inbox: Inbox,
        *,
        holds_until: Callable[[], float],
        now: Callable[[], float],
        data_dir: Path,
        connect: Callable[[Emit], Substrate],
        requeues: bool,
    ) -> None:
        """`connect` makes the substrate; its events come to the inbox.

        With `requeues`, jobs of lost drivers are queued again.
        """
        self._store, self._model = store, model
        skip_lost_jobs(store.jobs.new.skip, data_dir)
        archive = KeptLogs(data_dir)
        self.launcher = launcher
        self.collector = LogKeeper(archive, launcher, store, self._sandbox, inbox.put)
        self.substrate = connect(self.collector.take)
        self.logs = Logs(launcher, store, self._sandbox, archive)
        self.drivers = HostDrivers(
            launcher,
            store,
            inbox.put,
            model.tasks,
            holds_until,
            now,
            model.retries_left,
            requeue=requeues,
        )
        self._decommissioning = Decommissioning(self.ui, now)
        self.memory = MemoryUses(store, data_dir)

    def _sandbox(self, task: ExecutorRecord) -> Sandbox:
        return self.substrate.sandbox(task)

    def ui(self, job: JobRecord) -> DriverUi | None:
        """Address of the driver's UI; None while there is none."""
        spec = self._store.jobs.spec(job.job.id)
        if spec is None or job.state not in WITH_DRIVER:
            return None
        return self.launcher.ui(job.job.id, spec, self._store.jobs.shown_executors(job.job.id))

    def handed(self, job: JobRecord, key: str) -> tuple[Path, str] | None:
        """The file that this key opens for the job's driver, and its name; None when it opens none."""
        spec = self._store.jobs.spec(job.job.id)
        return None if spec is None or job.ended else self.launcher.handed(job.job.id, spec, key)

    def trouble(self) -> str:
        """How many threads hang at which work; empty when none does. For any thread."""
        works = {
            "drivers": self.drivers.hanging,
            "logs of tasks": self.collector.hanging,
            "drivers' executors that are to go": self._decommissioning.hanging,
        }
        told = [f"{number} at {work}" for work, number in works.items() if number]
        return f"threads that hang: {', '.join(told)}" if told else ""

    def take_up(self, jobs: Sequence[JobRecord], tasks: Sequence[ExecutorRecord]) -> None:
        """Follow the drivers and tasks that an earlier daemon started."""
        self.drivers.take_up(jobs)
        self.memory.begin()
        self._decommissioning.observe(tasks, self._model.job)
        self.forget()

    def forget(self) -> None:
        """Drop drivers of jobs that the model no longer knows; read the memory that such jobs used."""
        self.memory.over(self.drivers.forget(self._model.job))

    def tick(self) -> None:
        """Look at drivers, logs and executors that are to go."""
        self.drivers.tend()
        self.collector.tend()
        if self.substrate.far and self.collector.due():
            self.collector.refresh(self._model.open_tasks())
        self._decommissioning.tend()

    def observe(self, changes: Changes) -> None:
        """Follow stored changes of jobs and executors."""
        self.drivers.over(changes.jobs)
        self.collector.ended(task for task in changes.executors if task.ended)
        self._decommissioning.observe(changes.executors, self._model.job)

    def close(self) -> None:
        """End the threads; drivers go on."""
        self.drivers.close()
        self.collector.close()
        self.memory.close()
        self._decommissioning.close()
