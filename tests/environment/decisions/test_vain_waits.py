"""A policy that holds back jobs that fit is stopped in the end; one with its own bound is not watched."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from agents.registry import create
from environment.decisions.decision_round import Verdict, decide_once
from environment.decisions.vain_waits import LEAST, TIMES, HeldBack, bound, watched
from environment.offered import OfferedResources
from environment.policy import CompiledPolicy, bounds_waits
from environment.resource_arrays import ResourceArrays
from environment.resources import Resources
from environment.simulation.simulator import simulate
from environment.types import Decision, Place, PlacementRequest, Wait
from environment.view import ClusterView, RunningJob
from profiles.workloads.workload import Workload, WorkloadJob
from tests.builders import make_job, make_view, make_vms

SESSION = RunningJob(make_job("session"), ("id-vm-1",), 0.0, None)


def seen(at: float, free: Sequence[float] = (0, 4, 4), offered: Sequence[float] = ()) -> ClusterView:
    """Three VMs at some time; a session that never ends runs on the first."""
    view = replace(make_view(make_vms(3, cpus=4.0), free_cpus=free, at=at), running=(SESSION,))
    if not offered:
        return view
    some = ResourceArrays.of([Resources.of(cpus, 16384) for cpus in offered], ())
    return replace(view, offered=OfferedResources(np.ones(3, np.bool_), some, np.full(3, 99)))


def waits(*_: object) -> Decision:
    """Whatever is shown."""
    return Wait("not yet")


def places(_: ClusterView, queue: Sequence[PlacementRequest]) -> Decision:
    """The first, on the last VM."""
    return Place(queue[0].job.id, (2,) * queue[0].count)


def ask(held: HeldBack, at: float, first: str = "a", **shown: Sequence[float]) -> Verdict:
    """The policy that waits, about a job of two executors and one behind it."""
    queue = [PlacementRequest(make_job(job_id, executors=2), 2) for job_id in (first, "behind")]
    return decide_once(waits, seen(at, **shown), queue, fallback=places, held=held)


def test_it_is_for_so_long_at_most() -> None:
    """Half an hour, or four times what the job takes; then at once, until the policy places one itself."""
    assert [bound(make_job(expected_duration=each)) for each in (None, 10.0, 3600.0)] == [
        LEAST,
        LEAST,
        TIMES * 3600.0,
    ]
    held = HeldBack()
    assert not ask(held, 0.1).faults
    assert held.due_at == 0.1 + LEAST
    assert not ask(held, LEAST).faults
    caught = ask(held, held.due_at)
    assert caught.faults == ("it waits although a has fitted for 1,800 s: not yet",)
    assert isinstance(caught.decision, Place)
    assert ask(held, 1801.0, "b").faults == (
        "it waits although b fits, and it held back an earlier job for too long: not yet",
    )
    decide_once(places, seen(1802.0), [PlacementRequest(make_job("c"), 1)], held=held)
    assert not ask(held, 1803.0, "b").faults


def test_a_job_that_fits_no_more_has_its_time_anew() -> None:
    """But not since a master offers less for a moment of what is free."""
    held = HeldBack()
    assert not ask(held, 0.0).faults
    assert not ask(held, 900.0, offered=(0, 0, 1)).faults
    assert ask(held, LEAST, offered=(0, 2, 1)).faults
    held = HeldBack()
    assert not ask(held, 0.0).faults
    assert not ask(held, 900.0, free=(0, 0, 1)).faults
    assert held.due_at == float("inf")
    assert not ask(held, LEAST).faults
    assert held.due_at == 2 * LEAST


def test_one_that_is_back_in_the_queue_has_its_time_anew() -> None:
    """It was placed by somebody else, and stopped."""
    held, job = HeldBack(), make_job("a", submitted_at=0.0)
    assert held.fits(PlacementRequest(job, 1), 1.0) is None
    assert held.fits(PlacementRequest(job, 1, released_at=1700.0), 1900.0) is None
    assert held.fits(PlacementRequest(job, 1, released_at=1700.0), 1900.0 + LEAST) == LEAST


def test_so_many_are_known() -> None:
    """Those that are not the first any more are forgotten in time."""
    held = HeldBack()
    for number in range(3000):
        held.fits(PlacementRequest(make_job(f"job-{number}"), 1), float(number) / 10)
    assert not held.knows(PlacementRequest(make_job("job-0"), 1))
    assert held.knows(PlacementRequest(make_job("job-2999"), 1))


@pytest.mark.parametrize("name", ["ff", "aep", "greedy", "lookahead", "ogasched", "dqn", "reinforce"])
def test_policies_that_bound_their_waits_are_not_watched(name: str) -> None:
    """Those in compiled code among them, where nobody could; unless their options take the bound away."""
    assert watched(create(name)) is None
    if name in ("greedy", "lookahead"):
        assert watched(create(name, {"patience": float("inf")})) is not None


def test_who_does_not_bound_its_waits_is_asked_decision_by_decision() -> None:
    """Else a simulation of many jobs would end otherwise than one of few."""
    policy = create("greedy", {"patience": float("inf")})
    assert isinstance(policy, CompiledPolicy)
    assert not bounds_waits(policy)
    jobs = Workload(tuple(WorkloadJob(f"job-{i}", 0.0, "sort", 1.0, 1024, 1, 60.0) for i in range(3)))
    result = simulate(policy, jobs, make_vms(2), compiled=True)
    assert list(result.decisions) == list(simulate(policy, jobs, make_vms(2), compiled=False).decisions)
    assert type(result.decisions).__name__ == "KeptDecisions"
