"""Cost of VMs divided among the tasks that hold them.

A VM costs its price while it holds at least one task (Islam 2022, eq. 4). While several tasks share it,
each is charged in proportion to its dominant share (Ghodsi 2011), the largest fraction that it takes of any
resource of the VM, so that the charges of all jobs add up to that cost.
`vm_accounts.py` has the cost of VMs from opened to closed, held or not.
"""

import math
from collections.abc import Callable, Iterable, Iterator

from conf.units import SECONDS_PER_HOUR
from environment.model.messages.records import ExecutorRecord
from environment.model.messages.vm_accounts import Accounts
from environment.resources import Resources, total
from environment.types import Job


class Ledger:
    """Open tasks by VM, with their cost so far. Changes a record's `cost` and `accrued_until` only."""

    def __init__(self, job: Callable[[str], Job | None] = lambda _: None) -> None:
        """`job` has a job by its id, as long as it is there."""
        self._holders: dict[str, dict[str, ExecutorRecord]] = {}
        #: Jobs of which a task was opened or closed since the last reading; None without a reader.
        self.watched: dict[str, None] | None = None
        self.accounts = Accounts(lambda vm_id: self._holders.get(vm_id, {}).values(), job)

    def open(self, task: ExecutorRecord) -> list[tuple[ExecutorRecord, float]]:
        """Add a task to its VM at `launched_at`; return the charges due at that moment, by task."""
        due = list(self._accrue(task.vm_id, task.launched_at))
        self.accounts.used(task.vm_id)
        task.accrued_until = task.launched_at
        self.reopen(task)
        return due

    def reopen(self, task: ExecutorRecord) -> None:
        """Restore a task that was open before; it goes on from its `accrued_until`."""
        self._holders.setdefault(task.vm_id, {})[task.task_id] = task
        if self.watched is not None:
            self.watched[task.job_id] = None

    def close(self, task: ExecutorRecord, at: float) -> list[tuple[ExecutorRecord, float]]:
        """Remove a task from its VM; return the charges due until then, by task in dollars."""
        due = list(self._accrue(task.vm_id, at))
        holders = self._holders.get(task.vm_id, {})
        holders.pop(task.task_id, None)
        if self.watched is not None:
            self.watched[task.job_id] = None
        if not holders:
            self._holders.pop(task.vm_id, None)
        self.accounts.released(task.vm_id, at)
        return due

    def count(self, vm_id: str) -> int:
        """Number of tasks that hold the VM."""
        return len(self._holders.get(vm_id, ()))

    def task_ids(self, vm_id: str) -> tuple[str, ...]:
        """The tasks that hold the VM."""
        return tuple(self._holders.get(vm_id, ()))

    def held(self, vm_id: str) -> Resources:
        """Resources of the VM that tasks hold."""
        return total(task.resources for task in self._holders.get(vm_id, {}).values())

    def due(self, at: float) -> Iterator[tuple[ExecutorRecord, float]]:
        """Cost of each open task up to that time beyond its `cost`, in dollars; changes nothing."""
        for vm_id in self._holders:
            yield from self._due(vm_id, at)

    def due_of(self, tasks: Iterable[ExecutorRecord], at: float) -> float:
        """Cost of these tasks up to that time beyond their `cost`, in dollars; changes nothing."""
        by_vm: dict[str, set[str]] = {}
        for task in tasks:
            by_vm.setdefault(task.vm_id, set()).add(task.task_id)
        due = ((task, cost) for vm_id in by_vm for task, cost in self._due(vm_id, at))
        return math.fsum(cost for task, cost in due if task.task_id in by_vm[task.vm_id])

    def _accrue(self, vm_id: str, until: float) -> Iterator[tuple[ExecutorRecord, float]]:
        self.accounts.charge(vm_id, until)
        for task, cost in self._due(vm_id, until):
            task.cost += cost
            task.accrued_until = max(task.accrued_until, until)
            yield task, cost

    def _due(self, vm_id: str, at: float) -> Iterator[tuple[ExecutorRecord, float]]:
        holders = self._holders.get(vm_id, {})
        shares = math.fsum(task.share for task in holders.values())
        for task in holders.values():
            seconds = max(at - task.accrued_until, 0.0)
            yield task, task.price_per_hour / SECONDS_PER_HOUR * seconds * task.share / shares
