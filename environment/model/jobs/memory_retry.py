"""Restarts of jobs with more memory, after an executor or the driver had too little.

A job is restarted so once, without a pause and without counting as one of its retries (`retries.py`). The
memory is doubled and rounded up to an even part of a VM's memory, as equal executors leave the rest unused;
where no VM has as much, it is the largest that fits. The bill has the cost of the failed attempt apart.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace

from conf.units import SECONDS_PER_HOUR
from environment.model.jobs.end_reasons import short_of_memory
from environment.model.jobs.waiting_queue import WaitingLine
from environment.model.messages.event_context import EventContext
from environment.model.messages.records import JobRecord, MemoryCounts, MoreMemory, ShortOf
from environment.model.messages.vm_accounts import Accounts
from environment.model.vms.job_registry import JobRegistry
from environment.resources import Resources
from environment.types import Job, Vm

#: Factor of the memory, and the least one with which a restart is tried. Chosen: jobs that need a little more
#: succeed with both; each doubling that is not enough costs another run.
FACTOR, LEAST_FACTOR = 2.0, 1.25


class MemoryRetries:
    """Finds failures for memory and the next size; counts both since the daemon's start."""

    def __init__(
        self, turn: EventContext, roster: JobRegistry, line: WaitingLine, accounts: Accounts
    ) -> None:
        self._turn, self._roster, self._line, self._accounts = turn, roster, line, accounts
        self.counts = MemoryCounts()

    def short(self, job: JobRecord, why: str) -> ShortOf | None:
        """Which process of a failed job had too little memory; None where it failed for another reason."""
        of = short_of_memory(why)
        if of is None:
            return None
        self.counts = self.counts._replace(failures=self.counts.failures + 1)
        # A driver may quote only the errors of its executors.
        failed = self._roster.failed_executors(job)
        return "executor" if any(short_of_memory(task.message) for task in failed) else of

    def again(self, job: JobRecord, of: ShortOf) -> str:
        """Give the job more memory; return a description, or why there is no more."""
        size = job.job.size if of == "executor" else job.job.driver
        if size is None:
            return "the memory of a driver on the daemon's host is not raised"
        barred = self._barred(job.job, of)
        vms = [vm.memory_mib for vm in self._line.vms() if not barred(vm)]
        for after_mib in larger(size.memory_mib, vms):
            more = MoreMemory(self._turn.now, of, size.memory_mib, after_mib)
            larger_job = _with(job.job, more)
            if self._line.could_run(larger_job):
                job.job, job.more_memory = larger_job, more
                self.counts = self.counts._replace(restarts=self.counts.restarts + 1)
                return f"it is started again: {more.told}"
        return f"there is no room for {'an executor' if of == 'executor' else 'a driver'} with more memory"

    @staticmethod
    def _barred(job: Job, of: ShortOf) -> Callable[[Vm], object]:
        return job.barred if of == "executor" else lambda vm: job.driver_barred(spot=vm.spot)

    def settle(self, job: JobRecord) -> None:
        """Record the cost of the attempt that failed for memory, as in the bill, once all its tasks ended."""
        more, since = job.more_memory, job.placed_at
        if more is None or since is None or more.at < since:
            return
        lost = 0.0
        for task in self._roster.tasks(job.job.id):
            if task.launched_at >= since and task.ended_at is not None:
                hours = (task.ended_at - task.launched_at) / SECONDS_PER_HOUR
                dollars = min(task.cost, hours * task.price_per_hour * task.share)
                lost += self._accounts.lose(task.vm_id, job.job.id, dollars, self._turn.now, "memory")
        job.more_memory = more._replace(lost=lost)


def larger(memory_mib: int, vms: Iterable[int]) -> list[int]:
    """Larger amounts to try, MiB, given the memory of VMs: the best one first."""
    wanted, least = FACTOR * memory_mib, LEAST_FACTOR * memory_mib
    parts = {int(has // max(has // wanted, 1)) for has in vms}
    enough = sorted(part for part in parts if part >= wanted)
    return [*enough, *sorted((part for part in parts if least <= part < wanted), reverse=True)]


def _with(job: Job, more: MoreMemory) -> Job:
    def sized(size: Resources) -> Resources:
        return size + Resources.of(0.0, more.after_mib - more.before_mib)

    if more.of == "executor" or job.driver is None:
        return replace(job, size=sized(job.size))
    return replace(job, driver=sized(job.driver))
