"""First fit and round robin in plain Python, in their simplest form: the baseline of benchmarks."""

from collections.abc import Sequence

from environment.types import Job

#: What sums of floats may be off by.
CPU_TOLERANCE = 0.0005


class PlainCluster:
    """Free cpus and memory in lists; one loop over the VMs per executor."""

    def __init__(self, cpus: Sequence[float], memory_mib: Sequence[int]) -> None:
        self.cpus = list(cpus)
        self.memory_mib = list(memory_mib)
        self.last = -1

    def first_fit(self, job: Job) -> list[int] | None:
        """Each executor on the first VM that has room; None, and nothing taken, when they do not all fit."""
        return self._place(job, in_turn=False)

    def round_robin(self, job: Job) -> list[int] | None:
        """Each executor on the next VM in turn that has room; None, and nothing taken, as above."""
        before = self.last
        placement = self._place(job, in_turn=True)
        if placement is None:
            self.last = before
        return placement

    def give_back(self, job: Job, placement: Sequence[int]) -> None:
        """The job is over."""
        for index in placement:
            self.cpus[index] += job.cpus
            self.memory_mib[index] += job.memory_mib

    def _place(self, job: Job, in_turn: bool) -> list[int] | None:
        placement: list[int] = []
        for _ in range(job.executors):
            index = self._find(job, self.last + 1 if in_turn else 0)
            if index is None:
                self.give_back(job, placement)
                return None
            self.cpus[index] -= job.cpus
            self.memory_mib[index] -= job.memory_mib
            placement.append(index)
            if in_turn:
                self.last = index
        return placement

    def _find(self, job: Job, start: int) -> int | None:
        size = len(self.cpus)
        for step in range(size):
            index = (start + step) % size
            if self.cpus[index] + CPU_TOLERANCE >= job.cpus and self.memory_mib[index] >= job.memory_mib:
                return index
        return None
