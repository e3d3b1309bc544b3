"""Effect of a decision round on the model: jobs to launch, to wait for VMs, or to decide again.

`launches.py` turns placements into tasks on VMs, `model/jobs/lifecycle.py` defines their meaning for the
job, `reservations.py` stores reservations of jobs that wait for VMs to boot.
"""

from collections.abc import Mapping
from dataclasses import replace

from environment.model.jobs.job_parts import JobParts
from environment.model.messages import options
from environment.model.messages.events import Decided, Placement
from environment.model.messages.lease import OpenedFor
from environment.model.messages.records import JobRecord
from environment.model.messages.snapshot import ReservedJob
from environment.model.tasks.launches import NO_PORTS, TAKEN_BACK, Launches
from environment.model.vms.vm_parts import VmParts
from environment.resources import NOTHING

#: Reason of a job that waits with all its VMs up, and the reason when that offer does not come.
_OFFERS = "its VMs are up, and it waits for the master to offer the resources reserved for it there"
_NO_OFFERS = f"the resources reserved for it on its VMs were not offered for {options.RESERVED_PATIENCE:g} s"


class Decisions:
    """Executes decisions, as far as they still hold after later events.

    Invariant: a job is launched on all its VMs at once, when all of them are up.
    """

    def __init__(self, vms: VmParts, jobs: JobParts) -> None:
        self._stage = jobs.stage
        self._turn = vms.turn
        self._roster = vms.roster
        self._line = jobs.line
        self._book = vms.book
        self._ledger = vms.ledger
        self._supply = vms.supply
        self._setbacks = jobs.setbacks
        self._lives = jobs.lives
        self._fleet = vms.fleet
        self._places = vms.places
        self._reservations = vms.reservations
        #: Jobs that wait until others have released the resources reserved for them, with the reason.
        self._taken: Mapping[str, str] = {}

    def wait_for(self, taken: Mapping[str, str]) -> None:
        """Set the jobs, by id, that are not launched while they are in this mapping, with the reason."""
        self._taken = taken

    def take(self, event: Decided) -> None:
        """A round is over."""
        outdated = self._supply.decided(event.view_at)
        launches = self._launches()
        if event.placements:
            self._supply.placed()
        for decided in event.placements:
            job = self._roster.job(decided.job_id)
            if job is None or job not in self._line:
                continue  # killed, or placed already
            new, placement = self._line.is_new(job), self._as_called_now(decided)
            sizes = launches.sizes(job, placement, new=new)
            if refusal := (
                self._stage.refusal(job, sizes, new=new) or self._refusal(launches, job, placement, new=new)
            ):
                # Jobs behind it were decided on as if it had been placed, and must not overtake it.
                self._roster.explain(job, f"decided again, since {refusal}")
                self._supply.reconsider()
                break
            if new:
                self._stage.passed(decided.job_id)
            if all(map(self._places.is_up, _vms(placement))):
                self._launch(launches, job, placement, new=new)
            else:
                self._reserve(launches, job, placement, new=new)
        else:
            if self._line.tell(event.waiting, self._turn.now, options.GROWTH_PATIENCE):
                self._supply.reconsider()  # those behind it may be placed now
        launches.command()
        if event.waiting is not None:
            self._fleet.idling.plan(event.waiting.keeps)
        if self._line.reasons.told is not None and not outdated:
            self._supply.unused()

    def launch_reserved(self) -> None:
        """Launch jobs with all VMs up and their reserved resources offered."""
        if not (due := self._reservations.take_due()):
            return
        launches = self._launches()
        for reserved in due:
            job = self._roster.job(reserved.job_id)
            if job is None:
                continue
            if not all(map(self._places.is_up, reserved.all_vms)):
                self._say(job, self._places.why_waits(reserved))
                continue
            if why := self._taken.get(reserved.job_id):
                self._say(job, why)
                continue
            if reserved.ready_at is None:
                reserved = self._reservations.ready(reserved.job_id, self._turn.now)
                self._supply.expect()
            new, placement = job.state == "queued", _placement(reserved)
            refusal = self._refusal(launches, job, placement, new=new)
            if not refusal:
                self._reservations.release(reserved.job_id)
                self._launch(launches, job, placement, new=new)
            elif refusal not in (TAKEN_BACK, NO_PORTS):
                self._reservations.release(reserved.job_id)
                self._lives.decided_again(job, refusal)
            else:
                self._say(job, _OFFERS)
        launches.command()

    def _say(self, job: JobRecord, reason: str) -> None:
        if reason != job.reason:
            self._roster.explain(job, reason)

    def wake(self) -> None:
        """Decide again about jobs with VMs up for so long that their reservations will hardly be offered.

        Done as of the end of that period, so that a log may omit ticks.
        """
        for reserved in self._reservations.take_ready(self._turn.now - options.RESERVED_PATIENCE):
            since, job = reserved.ready_at, self._roster.job(reserved.job_id)
            if since is not None and job is not None:
                until = since + options.RESERVED_PATIENCE
                placement = _placement(reserved)
                for vm_id, lack in self._launches().lacking(job, placement, reserved.sizes):
                    self._fleet.useless(vm_id, f"{lack} for {job.job.id}", since, until)
                self._lives.decided_again(job, _NO_OFFERS, until)

    def undo(self, vm_id: str, why: str) -> None:
        """Decide again about the jobs for which something is kept on this VM."""
        for job_id in self._reservations.jobs_on(vm_id):
            self._reservations.release(job_id)
            if job := self._roster.job(job_id):
                self._lives.decided_again(job, why)

    @property
    def launches_due(self) -> bool:
        """Whether a job has all its VMs up, and waits for their offers."""
        return self._reservations.any_ready

    def _launches(self) -> Launches:
        return Launches(
            self._turn, self._roster, self._book, self._ledger, self._setbacks, self._reservations
        )

    def _refusal(self, launches: Launches, job: JobRecord, placement: Placement, *, new: bool) -> str | None:
        for vm_id in _vms(placement) if self._places else ():
            if why := self._places.why_not(vm_id):
                return f"{self._book.name(vm_id)} {why}"
        if why := self._places.over_hour(_vms(placement)):
            self._line.too_dear(job)
            return f"a VM {why}"
        return launches.refusal(job, placement, new=new)

    def _launch(self, launches: Launches, job: JobRecord, placement: Placement, *, new: bool) -> None:
        launches.add(job, placement, new=new)
        self._lives.placed(job, len(placement.vm_ids), new=new)
        if self._places:
            for vm_id in _vms(placement):
                self._fleet.used(vm_id)

    def keep(self, job: JobRecord, placement: Placement) -> None:
        """Reserve the resources of the placement for the job, until other jobs have released them."""
        new = self._line.is_new(job)
        self._reserve(self._launches(), job, self._as_called_now(placement), new=new)

    def _reserve(self, launches: Launches, job: JobRecord, placement: Placement, *, new: bool) -> None:
        """Reserve resources for the job, and open those of its VMs that are closed."""
        sizes = launches.sizes(job, placement, new=new)
        driver = job.job.driver if placement.driver_vm_id else None
        self._line.leave(job)
        reserved = ReservedJob(
            job.job.id, placement.vm_ids, sizes, self._turn.now, placement.driver_vm_id, driver or NOTHING,
            placement.profile,
        )  # fmt: skip
        self._reservations.hold(reserved)
        for vm_id in _vms(placement):
            self._fleet.open(vm_id, f"for {job.job.id}", OpenedFor.of(job.job))
        self._roster.explain(job, self._places.why_waits(reserved))

    def _as_called_now(self, placement: Placement) -> Placement:
        """The placement, where VMs that have come up since it was decided are called by their agents."""
        if not self._places:
            return placement
        found = {vm_id: self._places.vm_id(vm_id) for vm_id in _vms(placement)}
        driver = placement.driver_vm_id
        return replace(
            placement,
            vm_ids=tuple(found[vm_id] for vm_id in placement.vm_ids),
            driver_vm_id=None if driver is None else found[driver],
        )


def _placement(reserved: ReservedJob) -> Placement:
    """Placement of a job with booting VMs, at the VMs' present ids."""
    return Placement(
        reserved.job_id, reserved.vm_ids, reserved.driver_vm_id, reserved.sizes, reserved.profile
    )


def _vms(placement: Placement) -> tuple[str, ...]:
    """The VMs of a placement, each once."""
    driver = () if placement.driver_vm_id is None else (placement.driver_vm_id,)
    return tuple(dict.fromkeys((*placement.vm_ids, *driver)))
