"""Simulations with an order: jobs' order, limits that hold, and jobs reported never to run."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from agents.registry import create
from conf.schema.sharing import QueueSpec, SharingSpec
from environment.queues.types import Sharing, sharing_of
from environment.simulation.durations.beliefs import EXACT
from environment.simulation.faults.losses import Loss
from environment.simulation.options import SimulationOptions
from environment.simulation.results.results import Result
from environment.simulation.simulator import simulate
from profiles.workloads.workload import Workload, WorkloadJob
from tests.builders import make_vms

DAY = 86_400.0


def work(name: str, at: float, seconds: float, executors: int = 4, **more: object) -> WorkloadJob:
    """A job of a type without profile; each executor takes a cpu and a GiB."""
    return WorkloadJob(name, at, "other", 1.0, 1024, executors, seconds, **more)  # type: ignore[arg-type]


def sharing(queues: Mapping[str, Mapping[str, object]] | None = None, **said: object) -> Sharing:
    """Sharing as a config defines it."""
    specs = {name: QueueSpec.model_validate(spec) for name, spec in (queues or {}).items()}
    found = sharing_of(SharingSpec.model_validate(said), specs)
    assert found is not None
    return found


def run(jobs: Sequence[WorkloadJob], shared: Sharing | None, policy: str = "ff", **more: object) -> Result:
    """On one VM of four cpus, which cost 0.24 dollars an hour."""
    options = SimulationOptions(belief=EXACT, sharing=shared, **more)  # type: ignore[arg-type]
    return simulate(create(policy), Workload(tuple(jobs)), make_vms(1), options=options)


def started(result: Result) -> dict[str, float]:
    """When each job began."""
    return {job.name: job.started_at for job in result.jobs}


@pytest.mark.parametrize(
    ("order", "first"),
    [("fifo", "old"), ("priority", "urgent"), ("deadline", "due"), ("shortest", "short"), ("fair", "others")],
)
def test_who_goes_first_when_there_is_room(order: str, first: str) -> None:
    """One job runs while five come that differ in ordering fields; without an order, the oldest is first."""
    jobs = [
        work("there", 0, 100, owner="ann"),
        work("old", 1, 50, owner="ann"),
        work("urgent", 2, 50, owner="ann", priority=5),
        work("due", 3, 50, owner="ann", deadline=300.0),
        work("short", 4, 10, owner="ann"),
        work("others", 5, 50, owner="bob"),
    ]
    begun = started(run(jobs, sharing(order=order, half_life=60.0)))
    assert min(begun, key=lambda name: begun[name] or 1e9) == first
    assert started(run(jobs, None))["old"] == 100


@pytest.mark.parametrize("after", [{"start_at": 150.0}, {"after": ("first",)}])
@pytest.mark.parametrize("order", ["fifo", "priority"])
def test_who_was_held_waits_since_it_was_let_go(order: str, after: dict[str, Any]) -> None:
    """Jobs that came meanwhile are before it; it does not starve yet when urgent jobs come."""
    jobs = [
        work("first", 0, 150, 2),
        work("there", 0, 200, 2),
        work("held", 1, 50, **after),
        work("second", 140, 50, 4, priority=5),
        work("third", 180, 50, 4, priority=5),
    ]
    begun = started(run(jobs, sharing(order=order, starves_after=120.0)))
    assert sorted(["held", "second", "third"], key=lambda name: begun[name] or 0.0) == (
        ["second", "held", "third"] if order == "fifo" else ["second", "third", "held"]
    )


def test_limits_hold_and_nobody_waits_behind_who_is_over_one() -> None:
    """A queue of two cpus at most has one job at a time; jobs of others pass by."""
    queues = {"small": {"most": {"cpus": 2}}, "other": {}}
    jobs = [
        *(work(f"small-{n}", 0, 10, 2, queue="small") for n in range(3)),
        work("other", 0, 10, 2, queue="other"),
    ]
    assert started(run(jobs, sharing(queues))) == {"small-0": 0, "small-1": 10, "small-2": 20, "other": 0}


def test_what_never_may_run_is_told_with_its_limit() -> None:
    """It is left aside with its obstacle as the reason, and the others run."""
    jobs = [work("large", 0, 10, 4, queue="small"), work("fits", 0, 10, 2, queue="small")]
    result = run(jobs, sharing({"small": {"most": {"cpus": 2}}}))
    assert started(result) == {"fits": 0}
    assert "queue small may have 2 cpus at most" in result.aside["large"]


def test_a_day_that_is_spent_ends_at_midnight() -> None:
    """0.02 dollars a day pay for the first job; the second begins on the next day."""
    queues = {"poor": {"most": {"dollars_per_day": 0.02}}}
    jobs = [work(f"job-{n}", 0, 360, queue="poor") for n in range(2)]
    assert started(run(jobs, sharing(queues))) == {"job-0": 0, "job-1": DAY}
    # Of what was not charged, no midnight gives anything back.
    result = run([work("never", 0, 10, queue="poor")], sharing({"poor": {"most": {"dollars_per_day": 0}}}))
    assert "per day" in result.aside["never"]


def test_an_elastic_job_is_cut_to_what_its_limit_leaves() -> None:
    """It begins with two of four executors, and grows no further than the limit."""
    job = work("job", 0, 10, 4, queue="small", min_executors=1)
    result = run([job], sharing({"small": {"most": {"cpus": 2}}}))
    (outcome,) = result.jobs
    assert len(outcome.placement) == 2


def test_lost_executors_come_back_first_and_count() -> None:
    """Lost executors are placed again before all others, even against the order."""
    jobs = [work("one", 0, 100, owner="ann"), work("two", 1, 100, 2, owner="bob", priority=9)]
    result = run(jobs, sharing(order="priority"), losses=(Loss(10.0, job="one"),))
    assert started(result)["two"] == 100


def test_without_limits_and_by_fifo_all_is_as_without_an_order() -> None:
    """The same decisions at the same times."""
    jobs = [work(f"job-{n}", 7.0 * n, 20 + n, 1 + n % 4, owner=str(n % 3)) for n in range(20)]
    for policy in ("ff", "greedy"):
        plain, ordered = run(jobs, None, policy), run(jobs, sharing(order="fifo"), policy)
        assert [j.placement for j in plain.jobs] == [j.placement for j in ordered.jobs]
        assert started(plain) == started(ordered)
