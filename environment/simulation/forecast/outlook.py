"""What comes of a queue that is played forward, in words: `ahead` plays it.

These need nothing compiled, so that a daemon, whose own processes play, can tell of it without the kernel.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class JobOutlook:
    """When a job starts and ends, seconds from now on, and dollars: its share of what VMs cost (eq. 4)."""

    start: float
    end: float
    cost: float


@dataclass(frozen=True, slots=True)
class FollowedJobs:
    """What comes of jobs that are followed, as one, and what is made of the first of them at once.

    That is the VMs of its executors, by id, which cost `dollars_per_hour`: its shares of their prices; or
    `why` it has to wait. So many of those that wait are placed `before` it.
    """

    ahead: JobOutlook
    vms: tuple[str, ...] = ()
    dollars_per_hour: float = 0.0
    why: str = ""
    before: int = 0


@dataclass(frozen=True, slots=True)
class PlayedDraw:
    """What comes of the queue in one draw: of each job that waits, and of all.

    `dollars` are for all VMs until all that waits or runs now is over, which is after so many `seconds`.
    `never` says, by job, why it would not run at all. `followed` are those that were. `fallback_share`
    is the share of the policy's decisions that failed.
    """

    jobs: Mapping[str, JobOutlook]
    dollars: float
    seconds: float
    never: Mapping[str, str] = field(default_factory=dict)
    followed: FollowedJobs | None = None
    fallback_share: float = 0.0
