"""Shares of queues and users in a run: by hand, and against a division that is made step by step."""

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.registry import create
from conf.schema.sharing import QueueSpec
from environment.queues.types import Queues, queues_of
from environment.simulation.durations.beliefs import EXACT
from environment.simulation.faults.losses import Loss
from environment.simulation.options import SimulationOptions
from environment.simulation.results.fair_division import divided
from environment.simulation.results.fairness import fairness, jain, shares_over_time
from environment.simulation.results.results import Result
from environment.simulation.simulator import simulate
from profiles.workloads.workload import Workload, WorkloadJob
from tests.builders import make_vms


def work(name: str, at: float, seconds: float, executors: int = 1, **more: object) -> WorkloadJob:
    """A job of a type without profile; each executor takes a cpu and a GiB."""
    return WorkloadJob(name, at, "other", 1.0, 1024, executors, seconds, **more)  # type: ignore[arg-type]


def run(jobs: Sequence[WorkloadJob], vms: int = 1, losses: tuple[Loss, ...] = ()) -> Result:
    """First come, first served on VMs of four cpus."""
    options = SimulationOptions(belief=EXACT, losses=losses)
    return simulate(create("ff"), Workload(tuple(jobs)), make_vms(vms), options=options)


def tree(specs: Mapping[str, Mapping[str, object]]) -> Queues:
    """Queues as a config has them."""
    return queues_of({name: QueueSpec.model_validate(spec) for name, spec in specs.items()})


def test_two_queues_by_hand() -> None:
    """One has the cluster for ten seconds while the other waits, then the other has it alone."""
    found = fairness(
        run(
            [
                work("first", 0, 10, executors=4, queue="a", deadline=10.0),
                work("second", 0, 10, executors=4, queue="b", deadline=19.0),
            ]
        )
    )
    a, b = found.parties
    # Half of the first ten seconds would have been b's; when a is over, all is fair.
    assert (a.share, a.fair, a.demand) == pytest.approx((1.0, 0.5, 10.0))
    assert (b.share, b.fair, b.demand) == pytest.approx((0.5, 0.75, 20.0))
    assert (a.normalised, b.normalised) == pytest.approx((2.0, 2 / 3))
    assert found.jain == pytest.approx((2 + 2 / 3) ** 2 / (2 * (4 + 4 / 9)))
    assert found.furthest == pytest.approx(1.0)
    assert (a.slowdown, b.slowdown, b.longest_wait) == pytest.approx((1.0, 2.0, 10.0))
    assert (a.in_time, a.late, b.in_time, b.late, found.in_time, found.late) == (1, 0, 0, 1, 1, 1)
    assert a.cost + b.cost == pytest.approx(20 / 3600 * 0.24)


def test_nobody_is_due_more_than_he_asked_for() -> None:
    """A queue that asks for a quarter gets it at any weight; the rest is divided by weight."""
    jobs = [
        work("small", 0, 10, executors=1, queue="small"),
        work("x", 0, 10, executors=2, queue="x"),
        work("y", 0, 10, executors=4, queue="y"),
    ]
    found = fairness(run(jobs), tree({"small": {"weight": 50}, "x": {}, "y": {"weight": 3}}), between=(0, 10))
    fair = {party.queue: party.fair for party in found.parties}
    # Three executors run; of the two that are not the small one's, the weights leave x a half.
    assert fair == pytest.approx({"small": 0.25, "x": 0.125, "y": 0.375})


def test_a_tree_divides_between_branches_first() -> None:
    """Three leaves of a branch share the amount of one leaf beside it; users share within a leaf."""
    queues = tree({"prod": {"queues": {"a": {}, "b": {}, "c": {"user_weights": {"ann": 3}}}}, "science": {}})
    jobs = [
        work(f"{queue}-{user}", 0, 10, executors=12, queue=queue, owner=user)
        for queue in ("prod.a", "prod.b", "prod.c", "science")
        for user in ("ann", "bob")
    ]
    found = fairness(run(jobs, vms=3), queues, between=(0, 10))
    assert [party.queue for party in found.parties] == ["prod.a", "prod.b", "prod.c", "science"]
    assert [party.fair for party in found.parties] == pytest.approx([1 / 6, 1 / 6, 1 / 6, 1 / 2])
    users = fairness(run(jobs, vms=3), queues, "user", between=(0, 10))
    fair = {party.name: party.fair for party in users.parties}
    assert fair["ann in prod.c"] == pytest.approx(1 / 8)
    assert fair["bob in science"] == pytest.approx(1 / 4)
    assert {party.weight for party in users.parties} == {1.0, 3.0}


def test_dominant_is_what_is_scarcest_to_each() -> None:
    """A job with half of the memory and a quarter of the cpus has half of the cluster."""
    job = WorkloadJob("wide", 0, "other", 1.0, 8192, 1, 10.0, queue="a")
    (party,) = fairness(run([job])).parties
    assert party.share == pytest.approx(0.5)


def test_what_is_lost_is_not_held() -> None:
    """An executor that is missing for 30 seconds holds nothing meanwhile, though its job goes on."""
    found = fairness(run([work("one", 0, 100, executors=4)], losses=(Loss(10.0, job="one"),)))
    (party,) = found.parties
    assert party.demand == pytest.approx(100.0)
    assert 0.75 < party.share < 1.0


def test_jobs_of_nobody_share_as_one_user() -> None:
    """Where no owner is named, the jobs are one user's."""
    found = fairness(run([work("one", 0, 10), work("two", 0, 10, owner="ann")]), by="user")
    assert [party.name for party in found.parties] == ["nobody in default", "ann in default"]
    assert found.jain == pytest.approx(1.0)


def test_guarantees_and_limits_count_for_what_is_fair() -> None:
    """A queue that is sure of three cpus, one that may have one, and one without bounds; of one weight."""
    names = ("sure", "bound", "free")
    queues = tree({"sure": {"guaranteed": {"cpus": 3}}, "bound": {"most": {"cpus": 1}}, "free": {}})
    jobs = [work(f"of {name}", 0, 10, executors=4, queue=name) for name in names]
    # Of twelve cpus each gets what it asks for, but for who may have one.
    found = fairness(run(jobs, vms=3), queues)
    assert [party.fair for party in found.parties] == pytest.approx([4 / 12, 1 / 12, 4 / 12])
    # Of four, while all three want them: three, and a half of the one that is left.
    sure = next(party for party in fairness(run(jobs), queues).parties if party.queue == "sure")
    assert (sure.demand, sure.share, sure.fair) == pytest.approx((10.0, 1.0, 3 / 4))


def test_bounds_of_queues_hold_for_all_below_them_and_of_users_for_each() -> None:
    """Two queues below one that may have two cpus, of which one is sure of both; and users of one each."""
    above = {"queues": {"x": {"guaranteed": {"cpus": 2}}, "y": {}}, "most": {"cpus": 2}, "weight": 5}
    queues = tree({"a": above, "b": {"most_per_user": {"cpus": 1}}})
    jobs = [work(f"of {name}", 0, 10, executors=4, queue=name, owner="ann") for name in ("a.x", "a.y", "b")]
    found = fairness(run(jobs, vms=3), queues)
    assert [party.fair for party in found.parties] == pytest.approx([2 / 12, 0.0, 4 / 12])
    found = fairness(run(jobs, vms=3), queues, by="user")
    assert [party.fair for party in found.parties] == pytest.approx([2 / 12, 0.0, 1 / 12])


def test_shares_over_time() -> None:
    """The means of parts of a run: the whole run adds up to the held resources."""
    jobs = [work(f"of {name}", 0, 10, executors=4, queue=name) for name in "ab"]
    result = run(jobs)
    found = shares_over_time(result, parts=3)
    assert found.names == ("a", "b")
    assert found.held == pytest.approx(np.array([[1, 0], [0.5, 0.5], [0, 1]]))
    assert found.fair == pytest.approx(np.array([[0.5, 0.5], [0.25, 0.75], [0, 1]]))


def test_jain() -> None:
    """The index of equal shares, of one that has all, and of nobody."""
    assert jain([0.3, 0.3]) == pytest.approx(1.0)
    assert jain([1.0, 0.0, 0.0, 0.0]) == pytest.approx(0.25)
    assert jain([]) == 1.0


@given(
    st.floats(0, 10),
    st.lists(st.tuples(st.floats(0, 3), st.floats(0.1, 5), st.floats(0, 2)), min_size=1, max_size=6),
)
def test_the_division_is_that_of_water_that_rises(
    amount: float, parties: list[tuple[float, float, float]]
) -> None:
    """Unsatisfied parties get amounts by weight until none is left, and none gets less than its floor."""
    wanted, weights, floors = (np.array(column) for column in zip(*parties, strict=True))
    without = divided(np.array([amount]), wanted[None], weights)[0]
    for least, found in (
        (np.zeros_like(wanted), without),
        (np.minimum(floors, wanted), divided(np.array([amount]), wanted[None], weights, floors[None])[0]),
    ):
        assert found.sum() == pytest.approx(min(amount, wanted.sum()))
        assert (found <= wanted + 1e-9).all()
        least *= amount / least.sum() if least.sum() > amount else 1.0
        assert (found >= least - 1e-9).all()
        hungry, above = found < wanted - 1e-9, found > least + 1e-9
        level = found / weights
        # Who did not get all that he wants has no less by weight than anybody who has more than his floor.
        assert not (hungry.any() and above.any()) or level[hungry].min() >= level[above].max() - 1e-7
