"""Tasks in doubt: launches and kills without an answer, open questions, VMs out of reach.

Messages to the master can be lost, so unanswered ones are followed by a question or repeated.
`cluster_model.py` defines the effect of an answer on its job.
"""

from typing import NamedTuple

from environment.model.jobs.reconcile_backoff import Questions
from environment.model.messages import options as timings
from environment.model.messages.commands import KillTask, Reconcile
from environment.model.messages.event_context import EventContext
from environment.model.messages.options import ModelOptions
from environment.model.messages.records import ExecutorRecord
from environment.model.messages.snapshot import ReconciliationSnapshot
from environment.model.vms.job_registry import JobRegistry
from environment.number_format import clock

#: First words of the reason for a task that cannot be reached.
OUT_OF_REACH = "cannot be reached since"


class OutOfReach(NamedTuple):
    """Since when something cannot be reached, and until when it is waited for, seconds."""

    since: float
    until: float

    @property
    def told(self) -> str:
        """Description of the fault, in words."""
        waits = f"it is waited for until {clock(self.until)}, and then replaced"
        return f"{OUT_OF_REACH} {clock(self.since)}; {waits}"


class Watch:
    """Messages and questions to the master about tasks, and unreachable tasks.

    Invariant: every task that it asks about or knows to be out of reach is open.
    """

    def __init__(self, turn: EventContext, roster: JobRegistry, options: ModelOptions) -> None:
        self._turn = turn
        self._roster = roster
        self._options = options
        self._questions = Questions(timings.RECONCILE)
        #: Since when these tasks cannot be reached.
        self._unreachable_since: dict[str, float] = {}
        #: When the master was last asked about all tasks that it knows.
        self._swept_at = 0.0

    def state(self) -> ReconciliationSnapshot:
        """All that is in doubt."""
        return ReconciliationSnapshot(
            self._questions.state(), tuple(self._unreachable_since.items()), self._swept_at
        )

    def resume(self, state: ReconciliationSnapshot) -> None:
        """Restore the state."""
        self._questions.resume(state.questions)
        self._unreachable_since = dict(state.unreachable_since)
        self._swept_at = state.swept_at

    def kill(self, task: ExecutorRecord) -> None:
        """End a task; the command is repeated until the task's end is told."""
        task.killed_at = self._turn.now
        self._roster.mark_task(task)
        self._turn.command(KillTask, task.task_id, task.vm_id)

    def answered(self, task_id: str) -> None:
        """The master, or the task's agent, told its state."""
        self._questions.answered(task_id)

    def lost_sight(self, task: ExecutorRecord) -> OutOfReach:
        """The task cannot be reached: since when, and until when it is waited for."""
        since = self._unreachable_since.setdefault(task.task_id, self._turn.now)
        return OutOfReach(since, since + self._options.unreachable_timeout)

    def out_of_reach(self) -> dict[str, OutOfReach]:
        """The VMs of which tasks cannot be reached, by id."""
        found: dict[str, OutOfReach] = {}
        for task_id, since in self._unreachable_since.items():
            task = self._roster.task(task_id)
            if task is None or task.ended:
                continue
            until = since + self._options.unreachable_timeout
            known = found.get(task.vm_id, OutOfReach(since, until))
            found[task.vm_id] = OutOfReach(min(known.since, since), max(known.until, until))
        return found

    def seen(self, task: ExecutorRecord) -> None:
        """The task is there."""
        self._unreachable_since.pop(task.task_id, None)

    def ended(self, task: ExecutorRecord) -> None:
        """The task is over: nothing is in doubt any more."""
        self.seen(task)
        self.answered(task.task_id)

    def reconnected(self) -> None:
        """Ask about all open tasks, then all others, and repeat all kills: nothing may have come through."""
        tasks = self._roster.all_open()
        self._unreachable_since = dict.fromkeys(self._unreachable_since, self._turn.now)
        self._ask_about(tasks)
        self._sweep()
        for task in tasks:
            if task.killed_at is not None:
                self.kill(task)

    def given_up(self) -> list[ExecutorRecord]:
        """The tasks that could not be reached for too long."""
        now, limit = self._turn.now, self._options.unreachable_timeout
        late = [self._roster.task(i) for i, since in self._unreachable_since.items() if now - since > limit]
        return [task for task in late if task is not None and not task.ended]

    def chase(self) -> None:
        """Time went by: repeat kills that are late, ask about launches that are, and ask again."""
        late = [task for task in self._roster.all_open() if self._is_late(task)]
        for task in late:
            if task.killed_at is not None:
                self.kill(task)
        self._ask_about([task for task in late if task.killed_at is None])
        due = (self._roster.task(task_id) for task_id in self._questions.due(self._turn.now))
        self._reconcile([task for task in due if task is not None])
        if self._turn.now - self._swept_at > timings.SWEEP:
            self._sweep()

    def _sweep(self) -> None:
        """Ask about all tasks that the master knows: unknown ones are then killed."""
        self._swept_at = self._turn.now
        self._turn.command(Reconcile, ())

    def _is_late(self, task: ExecutorRecord) -> bool:
        if task.killed_at is not None:
            return self._turn.now - task.killed_at > self._options.launch_timeout
        launching = task.state == "launching" and task.task_id not in self._questions
        return launching and self._turn.now - task.launched_at > self._options.launch_timeout

    def _ask_about(self, tasks: list[ExecutorRecord]) -> None:
        self._questions.ask((task.task_id for task in tasks), self._turn.now)
        self._reconcile(tasks)

    def _reconcile(self, tasks: list[ExecutorRecord]) -> None:
        if tasks:
            self._turn.command(Reconcile, tuple((task.task_id, task.vm_id) for task in tasks))
