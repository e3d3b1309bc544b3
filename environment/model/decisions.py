"""A round's verdicts as the event that the model is told. Who decides is in `environment.rounds`."""

from collections.abc import Iterable

from environment.model.events import Decided, Placement, Waiting
from environment.rounds import Verdict
from environment.types import Place


def decided(verdicts: Iterable[Verdict], at: float) -> Decided:
    """The event that tells the cluster model of a round, whose verdicts are gone through once."""
    placements, waiting, view_at = [], None, None
    for verdict in verdicts:
        view_at = verdict.view.at
        job_id = verdict.request.job.id
        if isinstance(verdict.decision, Place):
            vms = verdict.view.vms
            driver = None if verdict.driver_vm is None else vms[verdict.driver_vm].id
            vm_ids = tuple(vms[i].id for i in verdict.decision.placement)
            placements.append(Placement(job_id, vm_ids, driver, verdict.decision.sizes))
        else:
            waiting = Waiting(job_id, verdict.decision.reason)
    return Decided(at, tuple(placements), waiting, view_at)
