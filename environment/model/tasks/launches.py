"""Decisions turned into launches: validity of each, its tasks, and their ports.

It also builds the event `Decided` of a round. `agents` has the policies;
`environment.decisions.decision_round` has the round itself and the check at its time.
"""

from collections.abc import Iterable, Iterator
from itertools import islice

from environment.decisions.decision_round import Verdict
from environment.model.jobs.backoff import LaunchBackoff
from environment.model.jobs.scale_up import lacks
from environment.model.messages.commands import Launch
from environment.model.messages.event_context import EventContext
from environment.model.messages.events import Decided, Placement, Waiting
from environment.model.messages.records import ExecutorRecord, JobRecord
from environment.model.vms.job_registry import JobRegistry
from environment.model.vms.offers import Offers
from environment.model.vms.reservations import Reservations
from environment.model.vms.usage_ledger import Ledger
from environment.offered import DRIVER_PORTS, EXECUTOR_PORTS
from environment.resources import NOTHING, Resources, total
from environment.types import Place

TAKEN_BACK = "the master rescinded the offers that it was to run on"
NO_PORTS = "the VM where it was to run has too few ports"
#: The same of a VM.
_LACKS = {TAKEN_BACK: "not enough of it is offered", NO_PORTS: "it has too few ports"}


def decided(verdicts: Iterable[Verdict], at: float) -> Decided:
    """Event with the outcome of a round for the cluster model; iterates the verdicts once."""
    placements, waiting, view_at = [], None, None
    for verdict in verdicts:
        view_at, job_id, decision = verdict.view.at, verdict.request.job.id, verdict.decision
        if isinstance(decision, Place):
            vms = verdict.view.vms
            driver = None if decision.driver is None else vms[decision.driver].id
            vm_ids = tuple(vms[i].id for i in decision.placement)
            profile = verdict.request.profile
            placements.append(Placement(job_id, vm_ids, driver, decision.sizes, profile))
        else:
            keeps = tuple((verdict.view.vms[vm].id, until) for vm, until in decision.keeps)
            waiting = Waiting(job_id, decision.reason, keeps)
    return Decided(at, tuple(placements), waiting, view_at)


class Launches:
    """The launches of one round of decisions.

    Invariant: the tasks that were added take no more of a VM than was offered of it, and no port twice.
    """

    def __init__(
        self,
        turn: EventContext,
        roster: JobRegistry,
        book: Offers,
        ledger: Ledger,
        setbacks: LaunchBackoff,
        reservations: Reservations,
    ) -> None:
        self._turn = turn
        self._roster = roster
        self._book = book
        self._ledger = ledger
        self._setbacks = setbacks
        self._reservations = reservations
        self._tasks: dict[str, list[ExecutorRecord]] = {}
        self._ports: dict[str, Iterator[int]] = {}

    def refusal(self, job: JobRecord, placement: Placement, *, new: bool) -> str | None:
        """Return why a placement no longer holds after events during its decision; None when it does.

        `new` means that the whole job is to be placed, and not only its lost executors, or more.
        """
        grows = not new and (job.job.dynamic is not None or not self._roster.missing(job))
        most = len(self._asked(job, placement, new=new))
        least = min(job.job.fewest, most) if new else min(most, 1) if grows else most
        if not most:
            return "it needs no more executors now"
        if not least <= len(placement.vm_ids) <= most:
            needed = f"{most}" if least == most else f"{least} to {most}"
            return f"{needed} of its executors are to be placed and not {len(placement.vm_ids)}"
        if bool(placement.driver_vm_id) != (new and job.job.driver is not None):
            return "its driver was forgotten" if new and job.job.driver else "its driver has a place"
        sizes = self.sizes(job, placement, new=new)
        for vm_id, wanted in _demand(job, placement, sizes).items():
            if why := self._setbacks.why_not(vm_id, job.job.id):
                return f"{self._book.vm(vm_id).name} {why}"
            if lack := self._lack(job.job.id, placement, vm_id, wanted):
                return lack
        return None

    def lacking(
        self, job: JobRecord, placement: Placement, sizes: tuple[Resources, ...]
    ) -> Iterator[tuple[str, str]]:
        """VMs, by id, with too little on offer for a placement of these sizes, and the reason."""
        for vm_id, wanted in _demand(job, placement, sizes).items():
            if lack := self._lack(job.job.id, placement, vm_id, wanted):
                yield vm_id, _LACKS[lack]

    def _lack(self, job_id: str, placement: Placement, vm_id: str, wanted: Resources) -> str | None:
        """Why the VM's offers, less other reservations and added tasks, do not suffice; None if they do."""
        taken = total(task.resources for task in self._tasks.get(vm_id, ()))
        kept = self._reservations.held(vm_id, job_id) if self._reservations else NOTHING
        if not self._book.offered(vm_id).contains(taken + wanted + kept):
            return TAKEN_BACK
        ports = self._book.ports_offered(vm_id)
        ports -= sum(len(task.ports) for task in self._tasks.get(vm_id, ()))
        ports -= self._reservations.ports(vm_id, job_id) if self._reservations else 0
        return NO_PORTS if _ports(placement, vm_id) > ports else None

    def add(self, job: JobRecord, placement: Placement, *, new: bool) -> None:
        """Make the tasks of a placement that was not refused; they hold their VMs from now on."""
        for vm_id, size in zip(placement.vm_ids, self.sizes(job, placement, new=new), strict=True):
            self._add(job, vm_id, size, driver=False, profile=placement.profile)
        if placement.driver_vm_id and (driver := job.job.driver):
            self._add(job, placement.driver_vm_id, driver, driver=True)

    def command(self) -> None:
        """Command the launches, one for each VM."""
        for vm_id, tasks in self._tasks.items():
            vm, held = self._book.use(vm_id)
            self._turn.command(Launch, vm, held, tuple(task.task_id for task in tasks))

    def sizes(self, job: JobRecord, placement: Placement, *, new: bool) -> tuple[Resources, ...]:
        """Size of each executor of the placement."""
        return placement.sizes or self._asked(job, placement, new=new)[: len(placement.vm_ids)]

    def _asked(self, job: JobRecord, placement: Placement, *, new: bool) -> tuple[Resources, ...]:
        """Requested size of each executor that the placement may have."""
        if new:
            return job.job.asked[: job.job.begins_with]
        if job.job.dynamic is None and (lost := self._roster.lost_sizes(job)):
            return lost
        short = (lack for lack in lacks(job, self._roster) if lack.profile == placement.profile)
        return next(((lack.size,) * lack.missing for lack in short), ())

    def _add(self, job: JobRecord, vm_id: str, size: Resources, *, driver: bool, profile: int = 0) -> None:
        task = self._record(job, vm_id, size, driver=driver)
        task.profile = profile
        self._roster.add_task(task)
        self._roster.mark_task(task)
        self._roster.charge(self._ledger.open(task))
        self._book.changed(vm_id)
        self._setbacks.launched(vm_id, job.job.id)
        self._tasks.setdefault(vm_id, []).append(task)

    def _record(self, job: JobRecord, vm_id: str, size: Resources, *, driver: bool) -> ExecutorRecord:
        number, job.next_executor = job.next_executor, job.next_executor + 1
        ports = self._ports.setdefault(vm_id, self._book.ports(vm_id))
        before = (task for task in self._roster.tasks(job.job.id) if task.vm_id == vm_id)
        failed = {port for task in before if task.state == "failed" for port in task.ports}
        if failed:  # perhaps because another process has one of them
            ports = self._ports[vm_id] = iter(sorted(ports, key=failed.__contains__))
        vm = self._book.vm(vm_id)
        return ExecutorRecord(
            task_id=f"{job.job.id}.driver-{number}" if driver else f"{job.job.id}.{number}",
            job_id=job.job.id,
            number=None if driver else number,
            vm_id=vm_id,
            vm_name=vm.name,
            vm_type=vm.type,
            address=vm.address,
            price_per_hour=vm.price_per_hour,
            resources=size,
            ports=tuple(islice(ports, DRIVER_PORTS if driver else EXECUTOR_PORTS)),
            launched_at=self._turn.now,
            share=min(size.share_of(vm.resources), 1.0),
        )


def _ports(placement: Placement, vm_id: str) -> int:
    """Number of ports of a VM that a placement takes."""
    return placement.vm_ids.count(vm_id) * EXECUTOR_PORTS + (placement.driver_vm_id == vm_id) * DRIVER_PORTS


def _demand(job: JobRecord, placement: Placement, sizes: tuple[Resources, ...]) -> dict[str, Resources]:
    """Resources that a placement takes, by VM."""
    wanted: dict[str, list[Resources]] = {}
    for vm_id, size in zip(placement.vm_ids, sizes, strict=True):
        wanted.setdefault(vm_id, []).append(size)
    if job.job.driver and placement.driver_vm_id:
        wanted.setdefault(placement.driver_vm_id, []).append(job.job.driver)
    return {vm_id: total(sizes) for vm_id, sizes in wanted.items()}
