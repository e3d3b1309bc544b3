"""Reasons of waiting jobs: why nothing is placed for them now.

`waiting_queue.py` defines which jobs wait, and in which order.
"""

from collections.abc import Callable, Mapping

from environment.model.jobs.scale_up import ScaleUp
from environment.model.messages.events import Waiting
from environment.model.messages.records import WAITS_ITS_TURN, JobRecord
from environment.model.vms.job_registry import JobRegistry
from environment.types import PlacementRequest

#: First words of the reason of a job that waits aside, and its reason when it does not any more.
ASIDE, BACK = "it could not run now even alone", WAITS_ITS_TURN
#: How the reason of a running job begins that waits for more executors.
MORE = "asks for more executors than it has"


class WaitingReasons:
    """Sets the reasons of waiting jobs, the most informative one for each.

    Invariant: a policy's reason for the job `told` is not replaced by why nothing could be decided.
    """

    def __init__(self, roster: JobRegistry, growing: ScaleUp) -> None:
        self._roster = roster
        self._growing = growing
        #: The job that a policy told to wait, by id.
        self.told: str | None = None
        #: Of jobs that wait, why nothing is taken from others for them.
        self.not_taken: Mapping[str, str] = {}
        #: Jobs whose reason is a limit of a queue.
        self._kept_back: set[str] = set()

    def say(self, job: JobRecord, reason: str) -> None:
        """Set the reason why the job waits; a job of fixed size that runs and might grow gets none."""
        if job.job.id in self._growing and job.job.dynamic is None:
            return
        if job.job.id in self._growing:
            reason = "; ".join(filter(None, (f"{MORE}: {reason}", job.capped)))
        if job.state == "queued" and job.gave and job.gave[-1].whole:
            reason = f"{reason}; {job.gave[-1].told}"
        if why := self.not_taken.get(job.job.id):
            reason = f"{reason}; no job is preempted for it: {why}"
        if reason != job.reason:
            self._roster.explain(job, reason)

    def tell(
        self, waiting: Waiting | None, waits: Callable[[JobRecord], bool], now: float, patience: float
    ) -> bool:
        """A policy told this job to wait, or none; one that does not wait any more is not told.

        Returns whether the job has let others go before it: one that grows and was first for that long.
        """
        self.told = None
        job = self._roster.job(waiting.job_id) if waiting else None
        if waiting is None or job is None or not waits(job):
            return False
        self.say(job, waiting.reason)
        if job.job.id in self._growing and self._growing.yields(job.job.id, now, patience):
            return True
        self.told = job.job.id
        return False

    def silence(self, first: PlacementRequest, why: Callable[[PlacementRequest], str]) -> None:
        """Nothing can be decided for this reason: the first says so, unless a policy told it another."""
        job = self._roster.job(first.job.id)
        if job is not None and job.job.id != self.told:
            self.say(job, why(first))

    def no_room(self, request: PlacementRequest, why: str) -> None:
        """There is no room for this one."""
        job = self._roster.job(request.job.id)
        if job is not None:
            self.say(job, why)

    def limits(self, found: Mapping[str, str], waits: Callable[[str], bool]) -> None:
        """Jobs that a limit of their queue keeps back say so, and that it does not any more.

        Of those (by id) that wait as a whole and not aside: others have another reason.
        """
        for job_id in {*found, *self._kept_back}:
            job, why = self._roster.job(job_id), found.get(job_id, "")
            if job is None or not waits(job_id):
                continue
            self.say(job, f"{why}; jobs behind it do not wait for it" if why else BACK)
        self._kept_back = set(found)
