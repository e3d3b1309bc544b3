"""Submissions of one term behind one object: admission, and drivers that request executors themselves."""

from collections.abc import Callable, Mapping, Sequence

from conf.schema import Config
from daemon.core.clock import Clock
from daemon.core.event_queue import Inbox
from daemon.launch.launcher import Launcher
from daemon.queues.queues import DaemonQueues
from daemon.store.job_store import Store
from daemon.submission.admission import Intake
from daemon.submission.applications import Applications
from environment.decisions.sizing import Sizes
from environment.model.cluster_model import ClusterModel
from environment.model.messages import events as ev
from environment.model.messages.records import JobRecord
from environment.model.vms.job_registry import Changes
from environment.types import Job
from profiles.job_profile import JobProfile

#: Seconds for which a submission that fits no known VM waits until others were asked for.
_LOOK_SECONDS = 3.0


class JobSubmissions:
    """`intake` and `applications` are for any thread, the methods for the loop's."""

    def __init__(
        self,
        config: Config,
        store: Store,
        launcher: Launcher,
        profiles: Mapping[str, JobProfile],
        inbox: Inbox,
        queues: DaemonQueues,
        measure: Callable[[float], bool],
        clock: Clock,
    ) -> None:
        """`measure` is that of the substrate."""
        self._inbox, self._measure, self._queues, self._now = inbox, measure, queues, clock.now
        self.intake = Intake(
            store,
            launcher,
            profiles,
            self._arrive,
            self._look_for_vms,
            config.max_queued_jobs,
            clock.now,
            Sizes.configured(config.sizes),
            queues.live.queues,
            queues.live.over_all,
        )
        self.applications = Applications(
            store,
            launcher,
            self.intake,
            inbox.put,
            inbox.put_and_wait,
            clock.now,
            config.spark.driver_timeout,
        )

    def _arrive(self, at: float, job: Job) -> None:
        self._inbox.put(ev.JobSubmitted(at, job))

    def _look_for_vms(self) -> None:
        """Have the model learn of VMs that are there by now; called by the submitting thread."""
        if self._measure(_LOOK_SECONDS):
            self._inbox.put_and_wait(ev.Tick(self._now()), _LOOK_SECONDS)

    def note(self, model: ClusterModel, arrived: set[str]) -> None:
        """Count the jobs that wait, after a batch in which these arrived."""
        self._queues.waiting.note(job for job_id in arrived if (job := model.job(job_id)) is not None)
        waiting = model.waiting + len(model.held())
        self.intake.note(waiting, model.reach(), arrived, self._queues.waiting.waiting)

    def take_up(self, jobs: Sequence[JobRecord]) -> None:
        """Follow applications that an earlier daemon admitted."""
        self.applications.take_up(jobs)

    def tick(self) -> None:
        """Give up applications that were silent for too long."""
        self.applications.tend()

    def observe(self, changes: Changes) -> None:
        """Report stored changes to the drivers that asked for them."""
        self.applications.observe(changes.jobs, changes.executors)
