"""Builds the parts of the cluster model that know VMs, and the registry of jobs and tasks."""

import numpy as np

from environment.clusters.commitments import active_at
from environment.clusters.covered_prices import CoveredShares
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
from environment.view import ClusterView


class VmParts:
    """Offers, pools, leases, reservations and costs; also the event context that all parts share."""

    def __init__(self, options: ModelOptions) -> None:
        self.turn = EventContext()
        self.roster = JobRegistry()
        self.ledger = Ledger(self._job)
        self.accounts = self.ledger.accounts
        self.accounts.commitments = self._commitments = options.commitments
        self._covered = CoveredShares()
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

    def with_covered(self, view: ClusterView) -> ClusterView:
        """The view with the shares of VMs that commitments of the day pay anyway."""
        if not (active := active_at(view.at, self._commitments)):
            return view
        opened_at = np.fromiter(map(self._opened_at, view.vms), np.float64, len(view.vms))
        left_out = np.fromiter((vm.id in view.left_out for vm in view.vms), np.bool_, len(view.vms))
        opened_at[left_out & np.isinf(opened_at)] = np.nan
        return view.changed(covered=self._covered.of(view.vms, opened_at, active))

    def _opened_at(self, vm: Vm) -> float:
        lease = self.places.at(vm.id)
        if lease is None:
            return self.accounts.opened_at(vm.id)
        return lease.asked_at if lease.opened_at is None else lease.opened_at

    def still_waits(self, reserved: ReservedJob) -> bool:
        """Whether a job that waited for VMs to boot does, and all of these are there or come."""
        job, places = self.roster.job(reserved.job_id), self.places
        come = all(places.is_up(vm_id) or places.at(vm_id) is not None for vm_id in reserved.all_vms)
        return bool(places) and job is not None and not job.ended and come

    def _job(self, job_id: str) -> Job | None:
        record = self.roster.job(job_id)
        return None if record is None else record.job
