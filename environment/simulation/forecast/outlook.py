"""Results of playing a queue forward, as plain values; `play_forward` plays it.

These need nothing compiled, so that a daemon, which plays in processes of its own, can report them without
the kernel.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class JobOutlook:
    """Start and end of a job, seconds from now on, and dollars: its share of the VMs' cost (eq. 4)."""

    start: float
    end: float
    cost: float


@dataclass(frozen=True, slots=True)
class FollowedJobs:
    """Combined outlook of the followed jobs, and the immediate placement of the first of them.

    That is the VMs of its executors, by id, which cost `dollars_per_hour`: its shares of their prices; or
    `why` it has to wait. `before` counts the waiting jobs that are placed before it.
    """

    ahead: JobOutlook
    vms: tuple[str, ...] = ()
    dollars_per_hour: float = 0.0
    why: str = ""
    before: int = 0


@dataclass(frozen=True, slots=True)
class PlayedDraw:
    """Outcome of the queue in one draw: by waiting job, and for all.

    `dollars` are for all VMs until all jobs that wait or run now are over, after `seconds`. `never` has the
    reason, by job, why it would not run at all. `followed` are those that were. `fallback_share` is the
    share of the policy's decisions that failed.
    """

    jobs: Mapping[str, JobOutlook]
    dollars: float
    seconds: float
    never: Mapping[str, str] = field(default_factory=dict)
    followed: FollowedJobs | None = None
    fallback_share: float = 0.0
