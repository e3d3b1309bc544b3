"""What is kept on VMs for jobs that wait for others of their VMs to be up.

A job that is placed on a VM that is not up yet is launched when all its VMs are: until then what it takes is
kept for it on all of them, and no other is given it. Which VMs come and when is in `fleet.py`; the launch in
`decisions.py`.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

from environment.model.moment import Reserved
from environment.model.roster import Roster
from environment.offered import DRIVER_PORTS, EXECUTOR_PORTS
from environment.resources import NOTHING, Resources, total
from environment.types import IntArray, Vm
from environment.view import RunningJob


class Reservations:
    """By job: on which VMs what is kept, in the order in which it was placed.

    Invariant: `held` of a VM is the sum of what is kept there for all jobs.
    """

    def __init__(self) -> None:
        self._of: dict[str, Reserved] = {}
        #: What is kept by VM and job.
        self._on: dict[str, dict[str, Resources]] = {}
        #: VMs where something changed, until somebody looks.
        self.touched: dict[str, None] = {}

    def __len__(self) -> int:
        return len(self._of)

    def __contains__(self, job_id: str) -> bool:
        return job_id in self._of

    def __iter__(self) -> Iterator[Reserved]:
        return iter(self._of.values())

    def state(self) -> tuple[Reserved, ...]:
        """All of them."""
        return tuple(self._of.values())

    def resume(self, state: Iterable[Reserved]) -> None:
        """Go on from there."""
        for reserved in state:
            self.hold(reserved)

    def hold(self, reserved: Reserved) -> None:
        """Keep this for its job, which has nothing kept so far."""
        self._of[reserved.job_id] = reserved
        for vm_id, amount in _demand(reserved).items():
            self._on.setdefault(vm_id, {})[reserved.job_id] = amount
            self.touched[vm_id] = None

    def release(self, job_id: str) -> Reserved | None:
        """Keep nothing for the job any more; what was kept, if anything."""
        reserved = self._of.pop(job_id, None)
        if reserved is not None:
            for vm_id in dict.fromkeys(reserved.all_vms):
                held = self._on[vm_id]
                del held[job_id]
                if not held:
                    del self._on[vm_id]
                self.touched[vm_id] = None
        return reserved

    def replace(self, reserved: Reserved) -> None:
        """Keep this instead of what was kept for its job, in its place."""
        order = list(self._of)
        self.release(reserved.job_id)
        self.hold(reserved)
        self._of = {job_id: self._of[job_id] for job_id in order}

    def moved(self, old: str, new: str) -> None:
        """The VM has another id from now on."""
        if old not in self._on:
            return
        held = self._on[new] = self._on.pop(old)
        self.touched[new] = None
        for job_id in held:
            self._of[job_id] = _moved(self._of[job_id], old, new)

    def jobs_on(self, vm_id: str) -> tuple[str, ...]:
        """The jobs for which something is kept on the VM."""
        return tuple(self._on.get(vm_id, ()))

    def held(self, vm_id: str, but_for: str = "") -> Resources:
        """What is kept on the VM, but for one job."""
        held = self._on.get(vm_id)
        if held is None:
            return NOTHING
        return total(amount for job_id, amount in held.items() if job_id != but_for)

    def executors(self, vm_id: str) -> int:
        """For how many executors, and drivers, something is kept on the VM."""
        return sum(self._of[job_id].all_vms.count(vm_id) for job_id in self._on.get(vm_id, ()))

    def ports(self, vm_id: str, but_for: str = "") -> int:
        """How many ports are kept on the VM."""
        jobs = [self._of[job_id] for job_id in self._on.get(vm_id, ()) if job_id != but_for]
        executors = sum(reserved.vm_ids.count(vm_id) for reserved in jobs)
        return executors * EXECUTOR_PORTS + DRIVER_PORTS * sum(r.driver_vm_id == vm_id for r in jobs)

    def take_out(
        self,
        vms: Sequence[Vm],
        free: list[Resources],
        offered: list[Resources],
        executors: list[int],
        ports: IntArray,
    ) -> None:
        """Take what is kept out of what is free and offered of these VMs, and count for whom it is kept."""
        for i, vm in enumerate(vms):
            if vm.id in self._on:
                held = self.held(vm.id)
                free[i], offered[i] = (free[i] - held).positive, (offered[i] - held).positive
                executors[i] += self.executors(vm.id)
                ports[i] -= self.ports(vm.id)


def _demand(reserved: Reserved) -> dict[str, Resources]:
    wanted: dict[str, list[Resources]] = {}
    for vm_id, size in zip(reserved.vm_ids, reserved.sizes, strict=True):
        wanted.setdefault(vm_id, []).append(size)
    if reserved.driver_vm_id is not None:
        wanted.setdefault(reserved.driver_vm_id, []).append(reserved.driver)
    return {vm_id: total(sizes) for vm_id, sizes in wanted.items()}


def _moved(reserved: Reserved, old: str, new: str) -> Reserved:
    return reserved._replace(
        vm_ids=tuple(new if vm_id == old else vm_id for vm_id in reserved.vm_ids),
        driver_vm_id=new if reserved.driver_vm_id == old else reserved.driver_vm_id,
    )


def with_reserved(
    running: Sequence[RunningJob],
    reservations: Reservations,
    roster: Roster,
    starts_at: Callable[[Reserved], float],
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
