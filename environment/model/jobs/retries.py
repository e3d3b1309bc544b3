"""Whether a failed job is retried, and after which pause, depending on the fault.

A fault of the user's program counts as one of the job's retries, with the job's pauses. A fault of its hosts
or VMs does not count, but these retries are limited, too. A job with `retries` of 0 is never retried, as it
may have done half of its work already, unless it may be restarted with more memory (`memory_retry.py`).
"""

from environment.model.jobs.backoff import LaunchBackoff
from environment.model.jobs.memory_retry import MemoryRetries
from environment.model.messages.event_context import EventContext
from environment.model.messages.records import Attempt, Fault, JobRecord
from environment.types import USUAL_PAUSES

#: How often a job is tried again because its hosts or VMs have failed it, and then fails.
MOST_FREE = 20
#: How many launches in a row may come to nothing; then the job fails: nearly two hours later.
MOST_LAUNCHES = 100
#: Number of a job's failures that are remembered.
_KEPT = 20
#: Of why it failed, so much is.
_LONGEST = 500


class Retries:
    """Counts the retries left to jobs; `setbacks` stores the pauses, `memory` gives jobs more."""

    def __init__(self, turn: EventContext, setbacks: LaunchBackoff, memory: MemoryRetries) -> None:
        self.memory = memory
        self._turn = turn
        self._setbacks = setbacks

    def note(self, job: JobRecord, why: str, fault: Fault) -> None:
        """The job has failed; or was stopped, and that was not its fault."""
        attempt = Attempt(job.started_at, self._turn.now, fault, why[:_LONGEST])
        job.attempts = (*job.attempts, attempt)[-_KEPT:]

    def again(self, job: JobRecord, fault: Fault) -> str:
        """Count another try and return its description; empty when no try is left."""
        if not left(job, fault):
            return ""
        if fault == "user":
            job.retried += 1
            pause = job.job.pauses.after(job.retried)
            said = f"retry {job.retried} of {job.job.retries}"
        else:
            job.free_retries += 1
            pause = USUAL_PAUSES.after(job.free_retries)
            said = f"that is not its fault, so free retry {job.free_retries} of {MOST_FREE}"
        self._setbacks.pause(job.job.id, pause)
        return f"{said} follows in {pause:g} s"


def left(job: JobRecord, fault: Fault) -> int:
    """How often a job would be tried again for failures of this kind alone."""
    if fault == "memory":
        return int(job.job.memory_retry and job.more_memory is None)
    if not job.job.retries:
        return 0
    left = job.job.retries - job.retried if fault == "user" else MOST_FREE - job.free_retries
    return max(left, 0)


def tried(job: JobRecord) -> str:
    """How often it was, in words, with a blank before; empty for never."""
    if not (job.retried or job.free_retries or job.more_memory):
        return ""
    said = []
    if job.retried:
        said.append("1 retry" if job.retried == 1 else f"{job.retried} retries")
    if job.free_retries:
        said.append(f"{job.free_retries} free ones" if said else f"{job.free_retries} free retries")
    if job.more_memory:
        said.append("one with more memory" if said else "a retry with more memory")
    return f" (after {' and '.join(said)})"
