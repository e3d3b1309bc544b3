"""Reservations on VMs for jobs that wait for others of their VMs to be up.

A job that is placed on a VM that is not up yet is launched when all its VMs are: until then its resources
are reserved on all of them, and go to no other job. `fleet.py` defines which VMs come and when,
`decisions.py` the launch.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from environment.model.messages.snapshot import ReservedJob
from environment.model.vms.job_registry import JobRegistry
from environment.offered import DRIVER_PORTS, EXECUTOR_PORTS
from environment.resources import NOTHING, Resources, total
from environment.types import IntArray, Vm
from environment.view import RunningJob


class _Part(NamedTuple):
    """A job's reservation on one VM: the resources, the number of executors and drivers, and of ports."""

    amount: Resources
    tasks: int
    ports: int


_NONE = _Part(NOTHING, 0, 0)


class Reservations:
    """Reservations by job and VM, in the order of placement.

    Invariant: the sum of a VM is that of its parts.
    """

    def __init__(self) -> None:
        self._of: dict[str, ReservedJob] = {}
        self._changed: dict[str, None] = {}
        #: Reserved resources by VM and job, and in all.
        self._on: dict[str, dict[str, _Part]] = {}
        self._sums: dict[str, _Part] = {}
        #: Jobs whose VMs are all up, and those for which that has to be checked.
        self._ready: dict[str, None] = {}
        self._unseen: dict[str, None] = {}
        #: VMs with changes that no reader has seen yet.
        self.touched: dict[str, None] = {}

    def __len__(self) -> int:
        return len(self._of)

    def __contains__(self, job_id: str) -> bool:
        return job_id in self._of

    def __iter__(self) -> Iterator[ReservedJob]:
        return iter(self._of.values())

    def state(self) -> tuple[ReservedJob, ...]:
        """All of them."""
        return tuple(self._of.values())

    def resume(self, state: Iterable[ReservedJob]) -> None:
        """Restore the state."""
        for reserved in state:
            self.hold(reserved)
        self._changed.clear()

    def take_up(self, kept: Iterable[ReservedJob], stands: Callable[[ReservedJob], bool]) -> None:
        """A daemon has started: go on with those of which that still `stands`.

        How long the others of their VMs are up counts from when it is known again.
        """
        for reserved in kept:
            self._changed[reserved.job_id] = None
            if stands(reserved):
                self.hold(reserved._replace(ready_at=None))

    def take_changes(self) -> dict[str, ReservedJob | None]:
        """Return changes since the last call, by job; None where nothing is reserved any more."""
        changed = {job_id: self._of.get(job_id) for job_id in self._changed}
        self._changed.clear()
        return changed

    def hold(self, reserved: ReservedJob) -> None:
        """Store the reservation of a job that has none so far."""
        self._keep(reserved)
        if reserved.ready_at is not None:
            self._ready[reserved.job_id] = None

    def release(self, job_id: str) -> ReservedJob | None:
        """Release the job's reservation and return it, if there is one."""
        reserved = self._of.pop(job_id, None)
        if reserved is not None:
            self._changed[job_id] = None
            self._ready.pop(job_id, None)
            self._unseen.pop(job_id, None)
            for vm_id in dict.fromkeys(reserved.all_vms):
                del self._on[vm_id][job_id]
                self._sum_up(vm_id)
        return reserved

    def of(self, job_id: str) -> ReservedJob | None:
        """Reservation of the job."""
        return self._of.get(job_id)

    def shrink(self, job_id: str, number: int) -> None:
        """Shrink the job's reservation to at most this number of executors."""
        kept = self._of[job_id]
        if not number:
            self.release(job_id)
        elif number < len(kept.vm_ids):
            for vm_id in dict.fromkeys(kept.all_vms):
                del self._on[vm_id][job_id]
            self._keep(kept._replace(vm_ids=kept.vm_ids[:number], sizes=kept.sizes[:number]), *kept.all_vms)

    def _keep(self, reserved: ReservedJob, *before: str) -> None:
        """Store the reservation of a job that has none, but had one on the VMs `before`."""
        job_id = reserved.job_id
        self._of[job_id] = reserved
        self._changed[job_id] = self._unseen[job_id] = None
        parts = _parts(reserved)
        for vm_id, part in parts.items():
            self._on.setdefault(vm_id, {})[job_id] = part
        for vm_id in dict.fromkeys((*before, *parts)):
            self._sum_up(vm_id)

    def _sum_up(self, vm_id: str) -> None:
        self.touched[vm_id] = None
        if parts := tuple(self._on[vm_id].values()):
            amount = total(part.amount for part in parts) if len(parts) > 1 else parts[0].amount
            self._sums[vm_id] = _Part(amount, sum(p.tasks for p in parts), sum(p.ports for p in parts))
        else:
            del self._on[vm_id], self._sums[vm_id]

    def ready(self, job_id: str, at: float) -> ReservedJob:
        """All VMs of the job are up, since then."""
        reserved = self._of[job_id] = self._of[job_id]._replace(ready_at=at)
        self._ready[job_id] = None
        return reserved

    def moved(self, old: str, new: str) -> None:
        """The VM has another id from now on."""
        if old not in self._on:
            return
        held = self._on[new] = self._on.pop(old)
        self._sums[new] = self._sums.pop(old)
        self.touched[new] = None
        for job_id in held:
            self._of[job_id] = _moved(self._of[job_id], old, new)
            self._changed[job_id] = None
            self._unseen[job_id] = None

    def look_again(self, job_id: str) -> None:
        """Something changed of whether the job may be launched."""
        if job_id in self._of:
            self._unseen[job_id] = None

    def take_due(self) -> list[ReservedJob]:
        """Reservations that may be launched now, in order: all those with every VM up are among them."""
        if not (self._ready or self._unseen):
            return []
        due = {**self._ready, **self._unseen}
        self._unseen.clear()
        return [reserved for job_id, reserved in self._of.items() if job_id in due]

    def take_ready(self, before: float) -> list[ReservedJob]:
        """Release the reservations with every VM up before that time."""
        late = [self._of[job_id] for job_id in self._ready]
        late = [reserved for reserved in late if reserved.ready_at is not None and reserved.ready_at < before]
        for reserved in late:
            self.release(reserved.job_id)
        return late

    @property
    def any_ready(self) -> bool:
        """Whether the VMs of some job are all up."""
        return bool(self._ready)

    def jobs_on(self, vm_id: str) -> tuple[str, ...]:
        """The jobs for which something is kept on the VM."""
        return tuple(self._on.get(vm_id, ()))

    def held(self, vm_id: str, but_for: str = "") -> Resources:
        """Resources reserved on the VM, except for one job."""
        held = self._sums.get(vm_id, _NONE).amount
        own = self._on[vm_id].get(but_for) if vm_id in self._on else None
        return held if own is None else held - own.amount

    def ports(self, vm_id: str, but_for: str = "") -> int:
        """Number of ports reserved on the VM, except for one job."""
        parts = self._on.get(vm_id, {})
        return self._sums.get(vm_id, _NONE).ports - parts.get(but_for, _NONE).ports

    def take_out(
        self,
        vms: Sequence[Vm],
        free: list[Resources],
        offered: list[Resources],
        executors: list[int],
        ports: IntArray,
    ) -> None:
        """Subtract the reservations from free and offered resources of these VMs, and count their tasks."""
        for i, vm in enumerate(vms):
            if (kept := self._sums.get(vm.id)) is not None:
                amount = kept.amount
                same, left = offered[i] == free[i], (free[i] - amount).positive
                free[i], offered[i] = left, left if same else (offered[i] - amount).positive
                executors[i] += kept.tasks
                ports[i] -= kept.ports


def _parts(reserved: ReservedJob) -> dict[str, _Part]:
    """Reservations of a job, by VM."""
    sizes: dict[str, list[Resources]] = {}
    for vm_id, size in zip(reserved.vm_ids, reserved.sizes, strict=True):
        sizes.setdefault(vm_id, []).append(size)
    parts = {
        vm_id: _Part(total(of) if len(of) > 1 else of[0], len(of), len(of) * EXECUTOR_PORTS)
        for vm_id, of in sizes.items()
    }
    if reserved.driver_vm_id is not None:
        part = parts.get(reserved.driver_vm_id, _NONE)
        with_driver = _Part(part.amount + reserved.driver, part.tasks + 1, part.ports + DRIVER_PORTS)
        parts[reserved.driver_vm_id] = with_driver
    return parts


def _moved(reserved: ReservedJob, old: str, new: str) -> ReservedJob:
    return reserved._replace(
        vm_ids=tuple(new if vm_id == old else vm_id for vm_id in reserved.vm_ids),
        driver_vm_id=new if reserved.driver_vm_id == old else reserved.driver_vm_id,
    )


def with_reserved(
    running: Sequence[RunningJob],
    reservations: Reservations,
    roster: JobRegistry,
    starts_at: Callable[[ReservedJob], float],
) -> tuple[RunningJob, ...]:
    """The running jobs, and those that wait for VMs to boot as if they ran, from when these are up."""
    found = {shown.job.id: shown for shown in running}
    for reserved in reservations:
        job = roster.job(reserved.job_id)
        if job is None:
            continue
        if shown := found.get(reserved.job_id):
            found[reserved.job_id] = shown.joined(reserved.vm_ids, reserved.sizes)
            continue
        sizes = () if reserved.sizes == job.job.asked else reserved.sizes
        expected = job.job.expected_on(sizes, len({*reserved.vm_ids}))
        found[reserved.job_id] = RunningJob(job.job, reserved.all_vms, starts_at(reserved), expected, sizes)
    return tuple(found.values())
