"""The daemon's time: seconds since the epoch that advance evenly, however the wall clock is changed.

Bills, limits and waits are differences of two times. So the wall clock is read once, and from then on
CLOCK_BOOTTIME counts, also through restarts of the daemon on the same boot of its machine. After a reboot, or
on another machine, the store's clock is read, and time never begins before the last stored time.
"""

import json
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import structlog

from environment.model.messages.records import ExecutorRecord, JobRecord
from environment.model.messages.vm_accounts import Account
from environment.number_format import times

log = structlog.get_logger("clock")

#: Seconds by which two readings may differ without a word: they are not taken at the same moment.
_JUMP = 1.0


def boot_seconds() -> float:
    """Seconds since this machine has started, those in which it slept included."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Clock:
    """`now` for every thread, the rest for the scheduling loop."""

    def __init__(
        self,
        kept: str = "",
        shared: Callable[[], float] = time.time,
        *,
        wall: Callable[[], float] = time.time,
        boot: Callable[[], float] = boot_seconds,
        boot_id: str = "",
    ) -> None:
        """Go on from the state `kept`; where that is from another boot, from the `shared` clock of the store.

        The other arguments are for tests: the machine's clocks and the boot's id.
        """
        self._shared, self._wall, self._boot = shared, wall, boot
        self._boot_id = boot_id or Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        before = _kept_offset(kept, self._boot_id)
        self._offset = shared() - boot() if before is None else before
        self._ahead = self.now() - wall()
        #: How often the wall clock has jumped since this daemon leads.
        self.jumps = 0
        #: Seconds by which this time followed such jumps since then.
        self.followed = 0.0

    @property
    def kept(self) -> str:
        """State from which another clock can go on."""
        return json.dumps({"boot": self._boot_id, "offset": self._offset})

    @property
    def trouble(self) -> str:
        """In words, how far this time is from the wall clock; empty when it is not."""
        if abs(self._ahead) <= _JUMP:
            return ""
        where = "behind" if self._ahead < 0 else "ahead of"
        since = f"; that one jumped {times(self.jumps)}" if self.jumps else ""
        return f"the daemon's time is {abs(self._ahead):.0f} s {where} this machine's clock{since}"

    def now(self) -> float:
        """The time, seconds since the epoch."""
        return self._boot() + self._offset

    def lived(self) -> float:
        """The time without the jumps that it followed: by this one data ages that is removed for good.

        A clock that jumps ahead by mistake, and is set right again, ages nothing.
        """
        return self.now() - self.followed

    def begin(
        self,
        jobs: Sequence[JobRecord],
        tasks: Sequence[ExecutorRecord],
        accounts: Sequence[Account] = (),
    ) -> None:
        """A term begins with these jobs and tasks that are not over: it is later than all that befell them.

        And than when VMs were charged for last.

        Without any, nothing is measured yet, and the shared clock may be followed.
        """
        if not jobs and not tasks:
            self._offset = self._shared() - self._boot()
        happened = [at for job in jobs for at in (job.job.submitted_at, job.placed_at, job.started_at)]
        happened += [at for task in tasks for at in (task.launched_at, task.running_at, task.accrued_until)]
        happened += [account.until for account in accounts]
        latest = max((at for at in happened if at is not None), default=0.0)
        self._offset = max(self._offset, latest - self._boot())
        self._ahead = self.now() - self._wall()

    def look(self, *, idle: bool) -> float:
        """Check for a jump of the wall clock; follow it while no job is measured, but never back.

        Return by how many seconds this moved the time, which the caller then stores; VMs are not charged for
        them.
        """
        ahead = self.now() - self._wall()
        if abs(ahead - self._ahead) > _JUMP:
            self.jumps += 1
            seconds = round(self._ahead - ahead, 1)
            log.warning("the wall clock jumped; durations and costs continue evenly", seconds=seconds)
        self._ahead = ahead
        if not idle or ahead > -_JUMP:
            return 0.0
        self._offset -= ahead
        self.followed -= ahead
        self._ahead = 0.0
        return -ahead


def _kept_offset(kept: str, boot_id: str) -> float | None:
    """The offset in a clock's state; None where that is of another boot, or cannot be read any more."""
    try:
        before = json.loads(kept or "{}")
        offset = float(before["offset"]) if before.get("boot") == boot_id else None
        if offset is None or math.isfinite(offset):
            return offset
        why = "it is no number"
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        why = f"{type(error).__name__}: {error}"
    log.error("the stored time cannot be read; the wall clock is read anew", why=why)
    return None
