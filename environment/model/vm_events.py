"""Effects on jobs and tasks when VMs of pools come, do not come, are taken away, or are gone.

It also completes transfers of resources between jobs, see `preemption.py`. `fleet.py` detects the changes
of VMs.
"""

from environment.model.jobs.job_parts import JobParts
from environment.model.preemption import PreemptionState
from environment.model.tasks.task_parts import TaskParts
from environment.model.vms.vm_parts import VmParts


class VmEvents:
    """Applies the changes of VMs before and after each event."""

    def __init__(self, vms: VmParts, jobs: JobParts, tasks: TaskParts, preempting: PreemptionState) -> None:
        self._fleet = vms.fleet
        self._reservations = vms.reservations
        self._decisions = tasks.decisions
        self._tasks = tasks.reports
        self._setbacks = jobs.setbacks
        self._supply = vms.supply
        self._preempting = preempting

    def wake(self) -> None:
        """Before an event: pauses of pools are over by now, or the patience of jobs that wait for offers."""
        self._preempting.wake()
        if self._reservations.any_ready:
            self._decisions.wake()  # first: a pause of a pool that begins here may be over, too
        if (woken := self._fleet.wake()) is not None:
            self._supply.reconsider(woken)

    def settle(self) -> None:
        """After it: jobs that waited for VMs, or ran there, are decided again or launched."""
        for vm_id, why in self._fleet.gone():
            self._decisions.undo(vm_id, why)
            self._tasks.lose(vm_id, why)
            self._setbacks.forget_vm(vm_id)
        for vm_id, why in self._fleet.drained():
            self._decisions.undo(vm_id, why)
            self._tasks.drain(vm_id, why)
        self._preempting.settle()
        if self._reservations:
            self._decisions.launch_reserved()
            self._preempting.settle()
        self._fleet.idling.look()
