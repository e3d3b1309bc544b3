"""Builds the parts of the cluster model that know VMs, and the registry of jobs and tasks."""

from environment.model.messages.event_context import EventContext
from environment.model.messages.options import ModelOptions
from environment.model.messages.snapshot import ReservedJob
from environment.model.vms.fleet import Fleet
from environment.model.vms.job_registry import JobRegistry
from environment.model.vms.offer_demand import Supply
from environment.model.vms.offers import Offers
from environment.model.vms.pool_slots import Places
from environment.model.vms.reservations import Reservations
from environment.model.vms.usage_ledger import Ledger
from environment.resources import NOTHING, Resources, total
from environment.types import Job, PlacementRequest, Vm


class VmParts:
    """Offers, pools, leases, reservations and costs; also the event context that all parts share."""

    def __init__(self, options: ModelOptions) -> None:
        self.turn = EventContext()
        self.roster = JobRegistry()
        self.ledger = Ledger(self._job)
        self.accounts = self.ledger.accounts
        self.accounts.commitments = options.commitments
        self.reservations = Reservations()
        self.book = Offers(self.ledger, self.reservations)
        self.places = Places(self.turn, self.book, self.accounts, options.places, options.per_hour)
        self.fleet = Fleet(self.turn, self.places, self.ledger, self.reservations, options)
        self.joining = self.fleet.joining
        self.supply = Supply(self.turn, self.book, self.places)
        self._vms: tuple[Vm, ...] | None = None
        self._has = NOTHING

    def whole(self) -> Resources:
        """Total resources of all VMs, including closed ones of pools."""
        vms = self.book.vms()
        if vms is not self._vms:
            self._vms = vms
            self._has = total(vm.resources for vm in (self.places.as_places(vms) if self.places else vms))
        return self._has

    def asked(self, request: PlacementRequest) -> PlacementRequest:
        """The request with the ids of VMs as views have them."""
        return self.places.asked(request) if self.places else request

    def still_waits(self, reserved: ReservedJob) -> bool:
        """Whether a job that waited for VMs to boot does, and all of these are there or come."""
        job, places = self.roster.job(reserved.job_id), self.places
        come = all(places.is_up(vm_id) or places.at(vm_id) is not None for vm_id in reserved.all_vms)
        return bool(places) and job is not None and not job.ended and come

    def _job(self, job_id: str) -> Job | None:
        record = self.roster.job(job_id)
        return None if record is None else record.job
