"""Dependencies of a job: reason texts shared by simulation and daemon.

`model/releases.py` releases held jobs in the daemon, `simulation/arrivals.py` in a simulation.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

#: Which end of a job is waited for: that it finished, or any.
End = Literal["success", "any"]

_ARRAY, _JOB = "array-", "job-"


class After(NamedTuple):
    """A job, or an array of jobs, at the end of which another may begin.

    `job` is its id, such as job-7; that of an array, such as array-12, has the number of the first of its
    `members` jobs, and the others the numbers behind. `name` is the name that its user gave, if not its id.
    `ended` is how it had ended when it was looked up: finished, failed or killed; empty where it had not.
    """

    job: str
    when: End = "success"
    name: str = ""
    members: int = 1
    ended: str = ""

    @property
    def jobs(self) -> Sequence[str]:
        """The ids of all that have to end."""
        return array_jobs(self.job, self.members) if self.job.startswith(_ARRAY) else (self.job,)

    def __str__(self) -> str:
        return f"{self.job} ({self.name})" if self.name else self.job


def array_of(job_id: str) -> str:
    """The id of the array of which this is the first job: array-12 of job-12."""
    return _ARRAY + job_id.removeprefix(_JOB)


def array_jobs(array_id: str, count: int) -> tuple[str, ...]:
    """The ids of its jobs, in order."""
    first = int(array_id.removeprefix(_ARRAY))
    return tuple(f"{_JOB}{number}" for number in range(first, first + count))
