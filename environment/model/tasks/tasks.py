"""Reports on tasks, and the effects of their ends on VMs, bills and offers.

`task_loss.py` and `model/jobs/lifecycle.py` define the effects on a task's job;
`model/jobs/reconciliation.py` sends questions about tasks, and repeated messages.
"""

from dataclasses import replace

from environment.model.jobs.job_parts import JobParts
from environment.model.messages import commands as cmd
from environment.model.messages import events as ev
from environment.model.messages import task_states
from environment.model.messages.records import ExecutorRecord
from environment.model.messages.states import ExecutorState
from environment.model.tasks.drivers import Drivers
from environment.model.tasks.task_loss import TaskLoss
from environment.model.vms.vm_parts import VmParts


class Tasks:
    """Processes reports on tasks from the master and its agents, perhaps late, repeated, or on unknown tasks.

    Invariant: a task ends once, and from then on holds nothing of its VM and costs nothing.
    """

    def __init__(self, vms: VmParts, jobs: JobParts, losing: TaskLoss, drivers: Drivers) -> None:
        self._turn = vms.turn
        self._roster = vms.roster
        self._book = vms.book
        self._ledger = vms.ledger
        self._supply = vms.supply
        self._watch = jobs.watch
        self._lives = jobs.lives
        self._losing = losing
        self._idling = vms.fleet.idling
        self._drivers = drivers

    def changed(self, event: ev.TaskChanged) -> None:
        """The state of a task was told."""
        self._watch.answered(event.task_id)
        task = self._roster.task(event.task_id)
        if task is None or task.ended:
            if event.state not in task_states.ENDED and event.state not in ("unreachable", "unknown"):
                # No job waits for it: an ended task stays ended, even if a lost VM comes back with it.
                vm_id = event.vm_id or (task.vm_id if task else "")
                self._turn.command(cmd.KillTask, event.task_id, vm_id)
            return
        if event.state in task_states.ENDED:
            taken = (
                event.state == "killed"
                and task.killed_at is None
                and event.reason in task_states.CLUSTER_REASONS
            )
            self._end(task, replace(event, state="lost") if taken else event)
        elif event.state in ("unreachable", "unknown"):
            self._lives.lose_sight(task, self._watch.lost_sight(task), event.message)
        else:
            self._watch.seen(task)
            self._book.found(task.vm_id)
            self._lives.task_is_there(task, event.state, event.message)

    def give_up(self) -> None:
        """End the tasks that could not be reached for too long."""
        for task in self._watch.given_up():
            self._watch.kill(task)
            why = f"{task.vm_name} could not be reached for too long"
            self._end(task, ev.TaskChanged(self._turn.now, task.task_id, "lost", task.vm_id, "", why))

    def lose(self, vm_id: str, why: str) -> None:
        """End all tasks on a VM that is certainly gone."""
        for task_id in self._ledger.task_ids(vm_id):
            task = self._roster.task(task_id)
            if task is not None and not task.ended:
                self._end(task, ev.TaskChanged(self._turn.now, task_id, "gone", vm_id, "agent_removed", why))

    def drain(self, vm_id: str, why: str) -> None:
        """Make drivers decommission executors on a VM that is taken away, while their blocks can be moved."""
        found: dict[str, list[ExecutorRecord]] = {}
        for task_id in self._ledger.task_ids(vm_id):
            task = self._roster.task(task_id)
            if task is not None and task.number is not None and not task.ended:
                found.setdefault(task.job_id, []).append(task)
        for tasks in found.values():
            self._drivers.give_up(self._roster.job_of(tasks[0]), tasks, why)

    def _end(self, task: ExecutorRecord, end: ev.TaskChanged) -> None:
        state, message = end.state, end.message or end.reason
        # The master knows its agent, and neither has ever told of the task: its launch got lost.
        never_ran = state in task_states.NEVER_RAN or (state == "gone" and task.state == "launching")
        self._roster.charge(self._ledger.close(task, self._turn.now))
        self._book.released(task.vm_id)
        self._idling.touch(task.vm_id)
        self._watch.ended(task)
        task.ended_at = self._turn.now
        ended: ExecutorState = "lost"
        if state == "finished" or state == "failed" or state == "killed":
            ended = state
        self._roster.move(task, ended, self._losing.taken_along(task) or message or state)
        self._supply.reconsider()
        self._losing.task_ended(task, end, never_ran=never_ran)
