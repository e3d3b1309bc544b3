"""Preemption: jobs that give way to others, reservations for the takers meanwhile, and the outcome.

`environment.queues.preemption` finds the jobs that give way; `model/jobs/lifecycle.py` has the steps of a
job's life, `reservations.py` the reservations.
"""

from collections.abc import Iterable, Iterator, Sequence

from environment.kernel.expected_end import expected_end
from environment.model.jobs.job_parts import JobParts
from environment.model.messages.events import Placement
from environment.model.messages.records import ExecutorRecord, JobRecord, PreemptionGain, PreemptionLoss
from environment.model.messages.snapshot import PendingTransfer
from environment.model.tasks.task_parts import TaskParts
from environment.model.vms.vm_parts import VmParts
from environment.queues.preemption import (
    LOOK,
    TAKING_PATIENCE,
    THERE_IS_ROOM,
    PreemptionPlan,
    Taker,
    Victim,
    plan,
    refused,
    takers,
)
from environment.queues.running_usage import Holder, Holders, RunningExecutor
from environment.queues.types import Sharing
from environment.resources import NOTHING, Resources, total
from environment.types import PlacementRequest
from environment.view import ClusterView

#: Number of a job's losses that are remembered, the last of them.
_REMEMBERED = 100


class PreemptionState:
    """Takes executors from jobs for others, and reserves them until the taker has them, or gave up.

    Invariants: a job has at most one transfer under way, and then a reservation; resources reserved for one
    job go to no other.
    """

    def __init__(self, vms: VmParts, jobs: JobParts, tasks: TaskParts) -> None:
        self._turn = vms.turn
        self._roster = vms.roster
        self._line = jobs.line
        self._lives = jobs.lives
        self._drivers = tasks.drivers
        self._decisions = tasks.decisions
        self._reservations = vms.reservations
        self._places = vms.places
        self._accounts = vms.accounts
        #: How the cluster is shared.
        self.sharing: Sharing | None = None
        self._takings: dict[str, PendingTransfer] = {}
        #: Why each of them waits: shared with `Decisions`, which launches none of these.
        self._waits: dict[str, str] = {}
        self._sought_at = 0.0
        self._decisions.wait_for(self._waits)

    def __bool__(self) -> bool:
        return bool(self._takings)

    def state(self) -> tuple[tuple[PendingTransfer, ...], float, tuple[tuple[str, str], ...]]:
        """Transfers under way, the time of the last search, and why nothing was taken, by job id."""
        return tuple(self._takings.values()), self._sought_at, tuple(self._line.reasons.not_taken.items())

    def resume(
        self, takings: Sequence[PendingTransfer], sought_at: float, not_taken: Iterable[tuple[str, str]]
    ) -> None:
        """Restore the state."""
        self._line.reasons.not_taken = dict(not_taken)
        for taking in takings:
            self._takings[taking.taker] = taking
            if self._open(taking):
                self._waits[taking.taker] = taking.why
        self._sought_at = sought_at

    # ---- victims -----------------------------------------------------------------------------------------

    def due(self, now: float) -> bool:
        """Whether a search is due, as a job waits: the event `RoomSought` starts it."""
        on = self.sharing is not None and bool(self.sharing.preemption.by)
        return on and now >= self._sought_at + LOOK and len(self._line) > 0

    def seek(self, view: ClusterView) -> None:
        """Search for jobs to give way to the first waiting one, or to one of a queue below its guarantee."""
        self._sought_at = self._turn.now
        if self.sharing is None:
            return
        holders: Holders | None = None
        not_taken: dict[str, str] = {}
        requests = self._line.requests(self._turn.now)
        for request in takers(requests, self.sharing, self._turn.now):
            job = self._roster.job(request.job.id)
            if job is None:
                continue
            if holders is None:
                holders = Holders.of_jobs([*self._holders(view)])
            asked = self._places.asked(request) if self._places else request
            found = plan(view, self._taker(job, asked), holders, self.sharing, self._awaited())
            if isinstance(found, PreemptionPlan) and not refused(requests, view, found):
                self._take(job, found, view)
                return
            why = refused(requests, view, found) if isinstance(found, PreemptionPlan) else found
            if why != THERE_IS_ROOM:
                not_taken[job.job.id] = why
        self._line.reasons.not_taken = not_taken

    def _taker(self, job: JobRecord, request: PlacementRequest) -> Taker:
        return Taker(request, tuple(gave.to for gave in job.gave), self._rests_until(job))

    def _rests_until(self, job: JobRecord) -> float:
        pause = 0.0 if self.sharing is None else self.sharing.preemption.pause
        return job.gave[-1].at + pause if job.gave else 0.0

    def _left_alone_until(self, job: JobRecord) -> float:
        """Time until which nothing is taken from a job that recently gave or received executors."""
        pause = 0.0 if self.sharing is None else self.sharing.preemption.pause
        return max([self._rests_until(job), *(took.at + pause for took in job.took[-1:])])

    def _awaited(self) -> dict[str, Resources]:
        """Reserved resources that jobs do not hold yet, by queue."""
        found: dict[str, Resources] = {}
        for reserved in self._reservations:
            if (job := self._roster.job(reserved.job_id)) is not None:
                queue = job.job.queue
                found[queue] = found.get(queue, NOTHING) + total((*reserved.sizes, reserved.driver))
        return found

    def _holders(self, view: ClusterView) -> Iterator[Holder]:
        """Jobs with their held resources; only running ones may give way."""
        now, index = self._turn.now, view.index
        kept = {task_id for taking in self._takings.values() for task_id in taking.tasks}
        expected = {shown.job.id: shown.expected for shown in view.running}
        for job in self._roster.with_tasks():
            tasks = self._roster.open_tasks(job)
            if not tasks:
                continue
            held = [
                RunningExecutor(
                    task.number,
                    index.get(self._places.place_id(task.vm_id), -1),
                    task.launched_at,
                    task.resources,
                    going=task.task_id in kept or (task.decommissioned_at is not None and not job.ended),
                )
                for task in tasks
            ]
            stays = job.state == "running" and not job.gives_way
            over, began = job.ended or job.aborting or job.gives_way, job.started_at
            seconds = expected.get(job.job.id)
            ends_at = None
            if over:
                ends_at = now
            elif began is not None and seconds is not None:
                ends_at = expected_end(now, began, seconds, job.job.spread)
            yield Holder(
                job.job,
                began if began is not None else job.placed_at or now,
                ends_at,
                held,
                self._spare(job, tasks) if stays else 0,
                stays and job.job.restartable and not job.job.client_driver,
                self._left_alone_until(job) if stays else now + LOOK,
            )

    def _spare(self, job: JobRecord, tasks: Sequence[ExecutorRecord]) -> int:
        """How many executors a job can do without that runs."""
        there = sum(task.number is not None and not task.gone and task.profile == 0 for task in tasks)
        least = job.job.fewest if job.job.dynamic is None else job.job.dynamic.min
        return max(there - least, 0)

    # ---- transfers ---------------------------------------------------------------------------------------

    def _take(self, taker: JobRecord, found: PreemptionPlan, view: ClusterView) -> None:
        """Make the victims give way, and reserve their resources for the taker."""
        now, place = self._turn.now, found.place
        driver = None if place.driver is None else view.vms[place.driver].id
        vm_ids = tuple(view.vms[vm].id for vm in place.placement)
        self._decisions.keep(taker, Placement(taker.job.id, vm_ids, driver, place.sizes, found.taker.profile))
        tasks: list[str] = []
        took = []
        for victim in found.victims:
            job = self._roster.job(victim.job_id)
            if job is not None:
                tasks += self._give(job, victim, taker)
                took.append(
                    PreemptionGain(now, victim.job_id, len(victim.numbers), victim.lost, victim.whole)
                )
        rights = {"priority": "its priority is higher", "guarantee": "its queue has less than is guaranteed"}
        what = ", ".join(each.told for each in took)
        why = f"takes {what}, as {rights[found.by]}; waits until that is released"
        taker.took = (*taker.took, *took)[-_REMEMBERED:]
        self._takings[taker.job.id] = PendingTransfer(
            taker.job.id, tuple(tasks), now, now + TAKING_PATIENCE, why
        )
        self._waits[taker.job.id] = why
        self._roster.explain(taker, why)

    def _give(self, job: JobRecord, victim: Victim, taker: JobRecord) -> list[str]:
        """Make one victim give way; return the ids of its tasks that are to end."""
        to = taker.job
        gave = PreemptionLoss(
            self._turn.now, to.id, to.queue, to.priority, len(victim.numbers), victim.lost, victim.whole
        )
        job.gave = (*job.gave, gave)[-_REMEMBERED:]
        self._lose(job, victim)
        if victim.whole:
            tasks = [task.task_id for task in self._roster.open_tasks(job)]
            self._lives.give_way(job, gave.told)
            return tasks
        given = [task for task in self._roster.executors(job) if task.number in victim.numbers]
        why = f"taken for {to.id} of queue {to.queue} (priority {to.priority})"
        due = 0.0 if job.job.dynamic is None else self._rests_until(job)
        self._drivers.give_away(job, given, why, due)
        return [task.task_id for task in given]

    def _lose(self, job: JobRecord, victim: Victim) -> None:
        """Charge the lost work of the job, in equal parts for its executors."""
        given = [task for task in self._roster.executors(job) if task.number in victim.numbers]
        for task in given:
            self._accounts.lose(task.vm_id, job.job.id, victim.lost / len(given), self._turn.now)

    # ---- ends of transfers -------------------------------------------------------------------------------

    def wake(self) -> None:
        """Before an event: give up transfers past their deadline, as of that deadline."""
        for taking in [one for one in self._takings.values() if one.until <= self._turn.now]:
            if taking.taker in self._waits:
                self._give_up(taking)

    def _give_up(self, taking: PendingTransfer) -> None:
        job, kept = self._roster.job(taking.taker), self._reservations.release(taking.taker)
        why = f"executors promised to it by other jobs were not released within {TAKING_PATIENCE:g} s"
        self._void(taking, why)
        if job is not None and kept is not None:
            self._lives.decided_again(job, why, taking.until)

    def settle(self) -> None:
        """After an event: end transfers of takers that have their resources or do not want them any more."""
        for taking in [*self._takings.values()]:
            if taking.taker not in self._reservations:
                self._end(taking)
            elif taking.taker in self._waits and not self._open(taking):
                del self._waits[taking.taker]
                self._reservations.look_again(taking.taker)

    def _open(self, taking: PendingTransfer) -> bool:
        """Whether a task of the transfer has not ended yet."""
        tasks = (self._roster.task(task_id) for task_id in taking.tasks)
        return any(task is not None and not task.ended for task in tasks)

    def _end(self, taking: PendingTransfer) -> None:
        """Nothing is kept for it any more: it was launched, or is not to be."""
        if any(task.launched_at == self._turn.now for task in self._roster.tasks(taking.taker)):
            self._forget(taking.taker)
            return
        job = self._roster.job(taking.taker)
        self._void(taking, "it does not wait any more" if job is None else job.reason)

    def _void(self, taking: PendingTransfer, why: str) -> None:
        """Record that the taker did not get the resources taken for it."""
        self._forget(taking.taker)
        job = self._roster.job(taking.taker)
        if job is not None:
            of = (
                one._replace(given_up=one.given_up or why) if one.at == taking.at else one for one in job.took
            )
            job.took = tuple(of)
            self._roster.mark(job)

    def _forget(self, taker: str) -> None:
        self._takings.pop(taker, None)
        self._waits.pop(taker, None)
