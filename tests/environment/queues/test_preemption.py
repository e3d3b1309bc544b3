"""Preemption: the three questions, the least loss, and jobs that are never preempted."""

from typing import Any

import numpy as np
import pytest

from environment.decisions.feasibility import check
from environment.queues.preemption import HOLD, PreemptionPlan, Taker, plan, takers
from environment.queues.running_usage import Holder, Holders, RunningExecutor
from environment.queues.types import Queue
from environment.resource_arrays import ResourceArrays
from environment.resources import Resources
from environment.types import PlacementRequest
from tests.builders import make_vms
from tests.environment.queues.holding import asks, cluster, guaranteed, holder, job, sharing, taken, view_of

PRIORITY = sharing("priority")


def made(found: PreemptionPlan | str) -> PreemptionPlan:
    """The plan that there has to be."""
    assert isinstance(found, PreemptionPlan), found
    return found


def test_elastic_executors_go_before_whole_jobs() -> None:
    """The oldest job has most to lose; it gives two executors all the same, as it goes on without them."""
    elastic = holder(job("elastic", 6, min_executors=2), [0, 0, 0, 0, 1, 1])
    young = holder(job("young", 2), [1, 1], since=99.0)
    view, holders = cluster([elastic, young])
    found = made(plan(view, Taker(asks(job("urgent", 2, priority=5))), holders, PRIORITY))
    assert taken(found.victims) == {"elastic": 2}
    assert found.by == "priority"
    # A VM of 4 cpus costs 0.24 $ an hour: two executors of one core for 100 s, of which 5 % is done again.
    assert found.lost == pytest.approx(2 * 100 * 0.24 / 4 / 3600 * 0.05)


def test_whole_jobs_of_the_lowest_priority_that_lose_least() -> None:
    """Not the one of priority 1, though it is the youngest; of the others the younger."""
    rows = [
        holder(job("old", 4), [0] * 4, since=0.0),
        holder(job("young", 2), [1, 1], since=90.0),
        holder(job("higher", 2, priority=1), [1, 1], since=99.0),
    ]
    view, holders = cluster(rows)
    found = made(plan(view, Taker(asks(job("urgent", 2, priority=5))), holders, PRIORITY))
    assert taken(found.victims) == {"young": "whole"}
    assert found.lost == pytest.approx(2 * 10 * 0.24 / 4 / 3600)
    assert found.place.placement == (1, 1)


def test_fewest_executors_where_the_loss_is_the_same() -> None:
    """One executor of two cores, and not two of one."""
    rows = [
        holder(job("small", 4, min_executors=1), [0] * 4, since=100.0),
        holder(job("large", 2, 2.0, min_executors=1), [1, 1], since=100.0),
    ]
    view, holders = cluster(rows)
    found = made(plan(view, Taker(asks(job("urgent", 1, 2.0, priority=5))), holders, PRIORITY))
    assert taken(found.victims) == {"large": 1}


@pytest.mark.parametrize(
    ("of", "change", "why"),
    [
        ({"priority": 5}, {}, "no job that may be preempted has a lower priority than 5"),
        ({"priority": 6}, {}, "no job that may be preempted has a lower priority than 5"),
        ({"restartable": False}, {}, "room for 0 of 2"),
        ({}, {"since": -10_000.0}, "room for 0 of 2"),
        ({}, {"ends_at": 110.0, "since": 0.0}, "soon, as victim should end"),
        ({}, {"ends_at": 620.0, "since": -2000.0}, "has a lower priority"),
        ({}, {"rests_until": 101.0}, "has a lower priority"),
    ],
    ids=["equal", "higher", "not restartable", "old", "ends soon", "nearly done", "rests"],
)
def test_who_is_left_alone(of: dict[str, Any], change: dict[str, Any], why: str) -> None:
    """Whole jobs, for one reason each; without it, it is taken."""
    urgent = Taker(asks(job("urgent", 2, priority=5)))
    view, holders = cluster([holder(job("victim", 8, **of), [0] * 4 + [1] * 4, **change)])
    found = plan(view, urgent, holders, PRIORITY)
    assert isinstance(found, str)
    assert why in found
    view, holders = cluster([holder(job("victim", 8), [0] * 4 + [1] * 4)])
    assert taken(made(plan(view, urgent, holders, PRIORITY)).victims) == {"victim": "whole"}


def test_a_gang_gets_all_or_nothing_is_taken() -> None:
    """Two gangs that each need 60 %: the higher stops the lower as a whole, and no gang holds a part.

    If its missing room belongs to a job that does not give way, it takes nothing, and the lower runs on.
    """
    lower = holder(job("lower", 5), [0, 0, 0, 0, 1])
    other = holder(job("other", 3, priority=9), [1, 1, 1])
    view, holders = cluster([lower])
    gang = Taker(asks(job("gang", 5, priority=5)))
    assert taken(made(plan(view, gang, holders, PRIORITY)).victims) == {"lower": "whole"}
    rows = [holder(job("lower", 4), [0] * 4), other, holder(job("else", 1, priority=9), [1])]
    view, holders = cluster(rows)
    found = plan(view, gang, holders, PRIORITY)
    assert isinstance(found, str)
    assert "room for 4 of 5 executors" in found


def test_nothing_is_taken_for_whom_there_is_room() -> None:
    """A job that just gave way takes nothing, nor from a job that it gave to, nor with preemption off."""
    view, holders = cluster([holder(job("victim", 4), [0] * 4)])
    found = plan(view, Taker(asks(job("urgent", 4, priority=5))), holders, PRIORITY)
    assert found == "there is room for it"
    view, holders = cluster([holder(job("victim", 8), [0] * 4 + [1] * 4)])
    urgent = asks(job("urgent", 4, priority=5))
    assert "was preempted" in str(plan(view, Taker(urgent, rests_until=101.0), holders, PRIORITY))
    assert "no job that may be preempted" in str(
        plan(view, Taker(urgent, gave_to=("victim",)), holders, PRIORITY)
    )
    assert plan(view, Taker(urgent), holders, sharing()) == "preemption is off"


def test_a_driver_on_the_cluster_needs_its_place_too() -> None:
    """It takes one more executor of an elastic job, or none where it fits beside."""
    elastic = holder(job("elastic", 8, min_executors=1), [0] * 4 + [1] * 4)
    view, holders = cluster([elastic])
    urgent = job("urgent", 2, priority=5, driver=Resources.of(1.0, 512))
    found = made(plan(view, Taker(asks(urgent)), holders, PRIORITY))
    assert taken(found.victims) == {"elastic": 3}
    assert found.place.driver is not None
    elastic = holder(job("elastic", 7, min_executors=1), [0] * 3 + [1] * 4)
    big = job("urgent", 1, 2.0, priority=5, driver=Resources.of(1.0, 512))
    view, holders = cluster([elastic])
    found = made(plan(view, Taker(asks(big)), holders, PRIORITY))
    assert taken(found.victims) == {"elastic": 2}


def test_what_is_guaranteed_is_taken_back_whatever_the_priorities() -> None:
    """It is taken from queues above their guarantee, down to the guarantee."""
    queues = [guaranteed("prod", 4.0), guaranteed("lab", 2.0), guaranteed("idle", 2.0)]
    lab = holder(job("lab-1", 6, min_executors=1, queue="lab", priority=9), [0] * 4 + [1] * 2)
    prod = holder(job("prod-1", 2, queue="prod"), [1, 1])
    view, holders = cluster([lab, prod])
    terms = sharing("guarantee", queues=queues)
    found = made(plan(view, Taker(asks(job("prod-2", 2, queue="prod"))), holders, terms))
    assert (found.by, taken(found.victims)) == ("guarantee", {"lab-1": 2})
    # More than is guaranteed to itself it does not take, nor is anybody left less than his.
    found_no = plan(view, Taker(asks(job("prod-2", 3, queue="prod"))), holders, terms)
    assert "exceed its guarantee" in str(found_no)
    assert "has no guarantee" in str(plan(view, Taker(asks(job("x", 1, queue="adhoc"))), holders, terms))
    queues = [guaranteed("prod", 8.0), guaranteed("lab", 2.0)]
    found_no = plan(
        view, Taker(asks(job("prod-2", 5, queue="prod"))), holders, sharing("guarantee", queues=queues)
    )
    assert "room for 4 of 5" in str(found_no)


def test_a_higher_priority_does_not_push_a_queue_below_its_guarantee() -> None:
    """It takes within its own queue; from another only resources above the guarantee."""
    queues = [guaranteed("lab", 5.0), guaranteed("prod", 1.0)]
    lab = holder(job("lab-1", 8, min_executors=1, queue="lab"), [0] * 4 + [1] * 4)
    view, holders = cluster([lab])
    terms = sharing("priority", queues=queues)
    three = Taker(asks(job("urgent", 3, queue="prod", priority=5)))
    four = Taker(asks(job("urgent", 4, queue="prod", priority=5)))
    assert taken(made(plan(view, three, holders, terms)).victims) == {"lab-1": 3}
    assert "room for 3 of 4" in str(plan(view, four, holders, terms))
    own = Taker(asks(job("urgent", 4, queue="lab", priority=5)))
    assert taken(made(plan(view, own, holders, terms)).victims) == {"lab-1": 4}


def test_nothing_is_taken_from_a_protected_queue() -> None:
    """An operator's word, for all below it."""
    rows = [holder(job("victim", 8, queue="lab.small", min_executors=1), [0] * 4 + [1] * 4)]
    view, holders = cluster(rows)
    terms = sharing(
        "priority", queues=[guaranteed("lab", protected=True), guaranteed("lab.small", protected=True)]
    )
    assert "no job that may be preempted" in str(
        plan(view, Taker(asks(job("urgent", 1, priority=5))), holders, terms)
    )


def test_a_job_that_grows_takes_what_there_is() -> None:
    """One that asks for four more gets the three that may be had."""
    rows = [
        holder(job("victim", 4, min_executors=1), [0] * 4),
        holder(job("grows", 4, priority=5), [1] * 4, whole=False),
    ]
    view, holders = cluster(rows)
    more = PlacementRequest(rows[1].job, 4, ("id-vm-2",), grows=True)
    found = made(plan(view, Taker(more), holders, PRIORITY))
    assert taken(found.victims) == {"victim": 3}
    assert len(found.place.placement) == 3


def random_case(rng: np.random.Generator) -> tuple[Any, Holders, list[Holder], PlacementRequest, Any]:
    """A random cluster, mostly full, with queues, and a job that waits."""
    vms = make_vms(int(rng.integers(1, 7)), cpus=8.0)
    free, holders = [8] * len(vms), []
    names = ["a", "a.x", "b", "c"]
    for number in range(int(rng.integers(1, 12))):
        cpus, on = int(rng.integers(1, 4)), []
        for _ in range(int(rng.integers(1, 6))):
            places = [vm for vm, left in enumerate(free) if left >= cpus]
            if not places:
                break
            vm = int(rng.choice(places))
            free[vm] -= cpus
            on.append(vm)
        if on:
            least = int(rng.integers(1, len(on) + 1)) if rng.random() < 0.6 else None
            of = job(
                f"job-{number}", len(on), float(cpus), min_executors=least, queue=str(rng.choice(names)),
                priority=int(rng.integers(0, 4)), restartable=bool(rng.random() < 0.8),
            )  # fmt: skip
            since = float(rng.integers(0, 100))
            ends = None if rng.random() < 0.5 else since + float(rng.integers(60, 900))
            holders.append(holder(of, on, since=since, ends_at=ends))
    view = view_of(vms, holders)
    waits = job(
        "waits", int(rng.integers(1, 8)), float(rng.integers(1, 5)), queue=str(rng.choice(names)),
        priority=int(rng.integers(0, 5)), min_executors=1 if rng.random() < 0.3 else None,
        driver=Resources.of(1.0, 1024) if rng.random() < 0.3 else None,
    )  # fmt: skip
    queues = [guaranteed(name, float(rng.integers(0, 20))) for name in names]
    by = [["priority"], ["guarantee"], ["priority", "guarantee"]][int(rng.integers(3))]
    return view, Holders.of_jobs(holders), holders, asks(waits), sharing(*by, queues=queues)


def test_random_plans_hold_what_they_promise() -> None:
    """Plans fit, take only from eligible jobs, respect guarantees, and no job gives in vain."""
    plans = 0
    for seed in range(600):
        view, arrays, holders, request, terms = random_case(np.random.default_rng(seed))
        found = plan(view, Taker(request), arrays, terms)
        if isinstance(found, str):
            assert found
            continue
        plans += 1
        by_id = {each.job.id: each for each in holders}
        left = after(view, by_id, found)
        assert check(left, found.taker, found.place) == ()
        for victim in found.victims:
            of = by_id[victim.job_id]
            assert found.by == "guarantee" or of.job.priority < request.job.priority
            assert victim.whole or 0 < len(victim.numbers) <= of.spare
            assert not victim.whole or (of.job.restartable and len(victim.numbers) == len(of.held))
            assert victim.lost >= 0
        check_guarantees(terms, holders, found, request)
        if request.job.driver is None:
            for victim in found.victims:
                rest = [other for other in found.victims if other is not victim]
                fewer = after(view, by_id, PreemptionPlan(found.taker, found.by, tuple(rest), found.place))
                room = int(np.minimum(fewer.room_for(request), request.count).sum())
                assert room < request.fewest, f"{victim} gives in vain (seed {seed})"
    assert plans > 100


def after(view: Any, by_id: dict[str, Holder], found: PreemptionPlan) -> Any:
    """The view when the victims have given way."""
    gone = [
        held
        for victim in found.victims
        for held in by_id[victim.job_id].held
        if victim.whole or held.number in victim.numbers
    ]
    if not gone:
        return view
    vms = np.array([held.vm for held in gone], np.int64)
    back = ResourceArrays.taken(len(view.vms), vms, tuple(held.size for held in gone))
    names = view.free.thousandths
    return view.changed(free=ResourceArrays({n: view.free.get(n) + back.get(n) for n in names}))


def check_guarantees(
    terms: Any, holders: list[Holder], found: PreemptionPlan, request: PlacementRequest
) -> None:
    """Nobody but the taker's own queues has less than is guaranteed to him, if he had all of it."""
    for queue in terms.queues:
        if not queue.guaranteed or (request.job.queue + ".").startswith(queue.path + "."):
            continue
        of = [each for each in holders if (each.job.queue + ".").startswith(queue.path + ".")]
        had = sum(each.job.cpus * len(each.held) for each in of)
        ids = {each.job.id: each.job.cpus for each in of}
        gave = sum(ids[v.job_id] * len(v.numbers) for v in found.victims if v.job_id in ids)
        assert not gave or had - gave >= queue.guaranteed.cpus


def test_a_driver_is_never_taken_alone() -> None:
    """An elastic job gives executors; its driver on the cluster goes with the whole job only."""
    of = job("victim", 3, min_executors=3, driver=Resources.of(1.0, 512))
    held = (
        *(RunningExecutor(n, 0, 0.0, of.size) for n in range(3)),
        RunningExecutor(None, 0, 0.0, Resources.of(1.0, 512)),
    )
    rows = [Holder(of, 0.0, None, held, spare=0, whole=True)]
    view, holders = cluster(rows, vms=1)
    found = made(plan(view, Taker(asks(job("urgent", 1, priority=5))), holders, PRIORITY))
    assert taken(found.victims) == {"victim": "whole"}
    assert found.victims[0].numbers == (0, 1, 2)


def test_for_whom_it_is_looked() -> None:
    """The first, and of the others the first of each queue with a guarantee, its own or that of one above."""
    queues = [guaranteed("prod", 2.0), Queue("prod.ml"), guaranteed("etl", 2.0), Queue("lab")]
    names = ["lab", "lab", "prod.ml", "prod", "lab", "etl", "etl", "prod.ml"]
    waiting = [asks(job(f"{queue}-{number}", queue=queue)) for number, queue in enumerate(names)]

    def found(*by: str, now: float = HOLD) -> list[str]:
        return [request.job.id for request in takers(waiting, sharing(*by, queues=queues), now)]

    assert found("priority", "guarantee") == ["lab-0", "prod.ml-2", "etl-5"]
    assert found("priority") == ["lab-0"]
    assert found("priority", "guarantee", now=HOLD / 2) == []
