"""Effects of sharing on waits: in simulations, by the words of users' requests."""

from dataclasses import replace
from typing import Any

import pytest

from agents.registry import create
from conf.schema.sharing import SharingFile
from environment.model.messages import events as ev
from environment.queues.ordering import Ordering
from environment.queues.shares import JobHolding
from environment.queues.types import Sharing, sharing_of
from environment.resources import NOTHING, Resources
from environment.simulation.options import SimulationOptions
from environment.simulation.results.results import Result
from environment.simulation.simulator import simulate
from environment.types import Job, PlacementRequest
from profiles.workloads.workload import WorkloadJob, workload_of
from tests.builders import make_job, make_vms
from tests.environment.two_worlds.world import World


def shared(queues: dict[str, Any] | None = None, **sharing: Any) -> Sharing:
    """Sharing as a file with these sections defines it."""
    file = SharingFile.model_validate({"queues": queues or {}, "sharing": sharing})
    found = sharing_of(file.sharing, file.queues)
    assert found is not None
    return found


def job(name: str, at: float, executors: int, seconds: float = 100.0, **others: Any) -> WorkloadJob:
    """A job of executors of one cpu."""
    return WorkloadJob(name, at, "sort", 1.0, 1024, executors, seconds, **others)


def _with(job: Job, **others: Any) -> Job:
    return replace(job, **others)


def run(
    sharing: Sharing | None, *jobs: WorkloadJob, vms: int = 1, cpus: float = 4.0, policy: str = "ff"
) -> Result:
    """On VMs of so many cpus."""
    options = SimulationOptions(sharing=sharing)
    return simulate(create(policy), workload_of(jobs), make_vms(vms, cpus, 65536), options=options)


def starts(result: Result) -> dict[str, float]:
    """When which job started."""
    return {each.name: each.started_at for each in result.jobs}


def test_nobody_starves_under_a_constant_load_of_higher_priority() -> None:
    """A job runs after `starves_after`, once the jobs then running end; if far off, after the load."""
    load = [job(f"urgent-{i}", 90.0 * i, 4, priority=9) for i in range(40)]
    low = job("low", 10.0, 4)
    started = starts(run(shared(order="priority", starves_after=500.0), low, *load))["low"]
    assert 510.0 <= started <= 610.0
    assert starts(run(shared(order="priority", starves_after="30d"), low, *load))["low"] >= 4000.0


def test_who_starves_gets_what_a_limit_leaves() -> None:
    """Small jobs of his queue would take it again and again: from then on it is kept for him."""
    small = [job(f"small-{i}", 40.0 * i, 1, queue="a") for i in range(60)]
    large = job("large", 50.0, 3, queue="a")
    other = job("other", 700.0, 1, 10.0)
    queues = {"a": {"most": {"cpus": 3}}}
    found = starts(run(shared(queues, starves_after=400.0), large, other, *small))
    assert 450.0 <= found["large"] <= 560.0
    assert found["other"] == 700.0
    assert starts(run(shared(queues, starves_after="30d"), large, *small))["large"] > 2000.0


@pytest.mark.parametrize("order", ["fifo", "fair"])
def test_who_starves_by_his_own_jobs_keeps_no_other_waiting(order: str) -> None:
    """Others use the room of his queue, while his own further jobs wait; then it is kept for him again."""
    own = [
        job("endless", 0.0, 1, 3000.0, queue="a", owner="ann"),
        job("large", 5.0, 3, queue="a", owner="ann"),
    ]
    later = [job(f"more-{i}", 500.0 + 50 * i, 1, 10.0, queue="a", owner="ann") for i in range(3)]
    others = [job(f"other-{i}", 40.0 * i + 6, 1, queue="a", owner="bob") for i in range(100)]
    sharing = shared({"a": {"most": {"cpus": 3}}}, starves_after=400.0, order=order)
    found = starts(run(sharing, *own, *later, *others))
    assert 3000.0 <= found["large"] <= 3100.0
    assert all(found[each.name] >= found["large"] for each in later)
    between = [each for each in others if 405.0 < found[each.name] < 3000.0]
    assert len(between) > 40


@pytest.mark.parametrize("order", ["fifo", "fair", "priority", "shortest"])
def test_of_two_gangs_that_need_three_fifths_each_one_runs_after_the_other(order: str) -> None:
    """Two gangs that each need 60 %: neither ever holds a part that the other waits for.

    Executors of a job are launched together or not at all, so there is no deadlock of two halves: the first
    of the order runs, the other waits whole until it has ended, and small jobs run beside them.
    """
    gangs = [job("first", 0.0, 6, queue="a"), job("second", 0.0, 6, queue="b")]
    beside = [job(f"small-{i}", 1.0, 1, 30.0, queue="c") for i in range(4)]
    queues: dict[str, Any] = {"a": {}, "b": {}, "c": {}}
    result = run(shared(queues, order=order), *gangs, *beside, vms=5, cpus=2.0, policy="aep")
    found = {each.name: each for each in result.jobs}
    assert len(found) == 6
    one, other = sorted((found["first"], found["second"]), key=lambda each: each.started_at)
    assert other.started_at >= one.ended_at
    assert len(one.placement) == len(other.placement) == 6


def test_who_has_many_jobs_does_not_keep_another_waiting() -> None:
    """A user's one job is next, though a hundred of another's came before it."""
    many = [job(f"many-{i}", 0.0, 1, owner="ann") for i in range(100)]
    one = job("one", 50.0, 1, owner="bob")
    assert starts(run(shared(order="fair"), *many, one))["one"] == 100.0
    assert starts(run(None, *many, one))["one"] == 2500.0


def test_who_is_over_his_quota_keeps_nobody_waiting() -> None:
    """His next jobs wait, wherever they stand, and others go before them; the cluster is not left idle."""
    many = [job(f"many-{i}", 0.0, 1, owner="ann", queue="a") for i in range(20)]
    others = [job(f"other-{i}", 1.0, 1, owner="bob", queue="a") for i in range(4)]
    queues = {"a": {"most_per_user": {"cpus": 2}}}
    found = starts(run(shared(queues), *many, *others))
    assert [found[f"other-{i}"] for i in range(4)] == [1.0, 1.0, 101.0, 101.0]
    assert max(found[f"many-{i}"] for i in range(20)) == 900.0


def test_what_is_idle_of_a_guarantee_is_lent_and_comes_back() -> None:
    """It comes back when the borrower ends; the queue with less for its weight takes it."""
    lent = [job(f"lent-{i}", 0.0, 1, queue="b") for i in range(20)]
    own = [job(f"own-{i}", 150.0, 1, queue="a") for i in range(3)]
    queues = {"a": {"guaranteed": {"cpus": 3}, "weight": 0.01}, "b": {}}
    found = starts(run(shared(queues, order="fair"), *lent, *own))
    assert sum(found[f"lent-{i}"] == 0.0 for i in range(20)) == 4
    assert {found[f"own-{i}"] for i in range(3)} == {200.0}


def test_a_day_may_cost_so_much() -> None:
    """Nothing more is begun on it, and on the next something is."""
    jobs = [job(f"job-{i}", 0.0, 4, 3600.0, queue="a") for i in range(4)]
    found = starts(run(shared({"a": {"most": {"dollars_per_day": 0.4}}}), *jobs))
    assert [found[f"job-{i}"] for i in range(4)] == [0.0, 4680.0, 86400.0, 91080.0]


def test_a_month_may_cost_so_much_and_a_user_over_all_queues() -> None:
    """Nothing more is begun in it; a simulation begins with a month of 31 days."""
    jobs = [job(f"job-{i}", 0.0, 4, 3600.0, queue="aba"[i], owner="ann") for i in range(3)]
    for sharing in (
        shared({"a": {"most": {"dollars_per_month": 0.2}}, "b": {}}),
        shared({"a": {}, "b": {}}, most_per_user={"dollars_per_month": 0.4}),
        shared(most_per_user={"dollars_per_month": 0.4}),
    ):
        found = starts(run(sharing, *jobs))
        assert found["job-2"] == 31 * 86400.0
        assert found["job-0"] == 0.0 < found["job-1"] < 86400.0


def test_deadlines_are_met_by_those_who_can() -> None:
    """Earliest deadline first; a job that can no longer meet its own is behind the others and reports it."""
    jobs = [
        job("late", 1.0, 4, 100.0, deadline=60.0),
        job("soon", 2.0, 4, 100.0, deadline=320.0),
        job("sooner", 3.0, 4, 100.0, deadline=200.0),
    ]
    found = starts(run(shared(order="deadline"), job("before", 0.0, 4, 50.0), *jobs))
    assert sorted(found, key=found.__getitem__) == ["before", "sooner", "soon", "late"]
    model = World(make_vms(1))
    model.send(ev.SharingChanged(0.0, shared(order="deadline")))
    late = make_job("job-1", 1, 1.0, 1024, 0.0, 100.0)
    model.submit(_with(late, deadline=60.0))
    assert "deadline cannot be met: it is due at 60 s and is expected to take 100 s" in model.job().reason


def test_why_somebody_waits_is_told() -> None:
    """The reason names the limit, the number of jobs ahead, and the queue above its share."""
    ordering = Ordering(shared({"a": {"most": {"cpus": 3}}, "b": {}, "c": {}}, order="fair"))
    whole = Resources.of(10.0, 10240)
    for number, (queue, cpus) in enumerate((("a", 4.0), ("b", 1.0), ("c", 1.0), ("c", 1.0)), 1):
        waits = _with(make_job(f"job-{number}", 1, cpus), queue=queue)
        ordering.join(PlacementRequest(waits, 1), number, 0.0)
    ordering.shares.holds("b", JobHolding("b", "", Resources.of(2.0, 1024), 0.0), 0.0)
    ordering.shares.holds("c", JobHolding("c", "", Resources.of(1.0, 512), 0.0), 0.0)
    assert ordering.why_waits("job-1", whole, 0.0) == (
        "queue a may have 3 cpus at most and has 0; this takes 4; jobs behind it do not wait for it"
    )
    assert [request.job.id for request in ordering.turns(whole, 0.0)] == ["job-3", "job-2", "job-4"]
    assert (ordering.place_of("job-3", whole, 0.0), ordering.place_of("job-2", whole, 0.0)) == (0, 1)
    assert ordering.place_of("job-1", whole, 0.0) is None
    assert ordering.why_waits("job-3", whole, 0.0) == ""
    why = "is behind 1 job (order: fair): queue b has had 2.0 times its share by weight"
    assert ordering.why_waits("job-2", whole, 0.0) == why
    ordering.shares.holds("b", JobHolding("b", "", NOTHING, 0.0), 1.0)
    assert ordering.place_of("job-2", whole, 1.0) == 0


def test_the_model_keeps_to_limits_and_says_so() -> None:
    """A decision over a limit is not executed; jobs that wait for one have it in their record."""
    vms = make_vms(2)
    model = World(vms)
    model.subscribe()
    model.send(ev.SharingChanged(0.0, shared({"a": {"most": {"running": 1}}, "b": {}})))
    jobs = [_with(make_job(f"job-{i}", 1), queue=queue) for i, queue in enumerate("aab", 1)]
    model.submit(*jobs)
    model.offer(*vms)
    model.place("job-1", vms[0])
    assert [request.job.id for request in model.model.requests()] == ["job-3"]
    model.place("job-2", vms[1])
    over = "queue a may have 1 running job at most and has 1"
    assert model.job("job-2").reason == f"decided again, since {over}"
    assert not model.model.tasks("job-2")
    model.wait(1.0)
    assert model.job("job-2").reason == f"{over}; jobs behind it do not wait for it"
    restored = World(vms)
    restored.send(model.model.snapshot())
    assert restored.model.snapshot() == model.model.snapshot()
    model.send(ev.SharingChanged(2.0, None))
    assert {request.job.id for request in model.model.requests()} == {"job-2", "job-3"}
