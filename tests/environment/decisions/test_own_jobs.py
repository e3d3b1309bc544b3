"""A job that lacks what jobs of its own user hold, and nothing else, holds up no other user."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from agents.registry import create
from conf.schema.sharing import Criterion
from environment.decisions.decision_round import Verdict, WaitingRequests, decide_in_turn
from environment.decisions.jvm_limit import carried
from environment.decisions.own_jobs import waits_for_own
from environment.queues.ordering import Ordering
from environment.queues.types import Sharing
from environment.resources import Resources
from environment.types import Job, Place, PlacementRequest, Wait
from environment.view import ClusterView, RunningJob
from tests.builders import make_job, make_view, make_vms

VMS = make_vms(3, cpus=4.0)
ORDERS: list[tuple[Criterion, ...] | None] = [None, ("fifo",), ("fair",), ("priority", "fair")]


def owned(name: str, owner: str, executors: int = 1, cpus: float = 1.0) -> Job:
    """A job of that user."""
    return replace(make_job(name, executors, cpus, expected_duration=60.0), owner=owner)


def view_with(*running: Job) -> ClusterView:
    """The first VMs carry an executor of each of these jobs."""
    free = [4.0 - job.cpus for job in running] + [4.0] * (len(VMS) - len(running))
    view = make_view(VMS, free, executors=[number < len(running) for number in range(len(VMS))])
    on = (RunningJob(job, (vm.id,), 0.0, None) for job, vm in zip(running, VMS, strict=False))
    return replace(view, running=tuple(on))


def verdicts(
    policy: str,
    jobs: Sequence[Job],
    view: ClusterView,
    order: tuple[Criterion, ...] | None,
    window: int = 256,
) -> list[Verdict]:
    """Decisions about these jobs, in one order or as they came."""
    queue: WaitingRequests
    if order is None:
        queue = WaitingRequests([PlacementRequest(job, job.executors) for job in jobs])
    else:
        ordering = Ordering(Sharing(order, half_life=0.0, window=window))
        for number, job in enumerate(jobs):
            ordering.join(PlacementRequest(job, job.executors), number, 0.0)
        queue = ordering.turns(Resources.of(12.0), 0.0)
    return [*decide_in_turn(create(policy).decide, view, queue)]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("policy", ["ff", "rr", "aep", "ilp"])
def test_others_go_before_a_job_that_its_own_users_jobs_hold_up(
    policy: str, order: tuple[Criterion, ...] | None
) -> None:
    """Jobs of the same user stay behind it, so that it comes to its turn when the others have ended."""
    jobs = [owned("wide", "cleo", 3, 4.0), owned("more", "cleo"), owned("one", "bob"), owned("two", "bob")]
    found = verdicts(policy, jobs, view_with(owned("small", "cleo", cpus=0.1)), order)
    assert [verdict.request.job.id for verdict in found[:2]] == ["one", "two"]
    assert all(isinstance(verdict.decision, Place) for verdict in found[:2])
    assert not any(verdict.faults for verdict in found)
    for verdict in found[2:]:
        assert isinstance(verdict.decision, Wait)
        assert "of 3 executors" in verdict.decision.reason, "where nobody else waits, the policy tells why"


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    ("owner", "holders"), [("cleo", ("cleo", "bob")), ("cleo", ("bob", "bob")), ("", ("", ""))]
)
def test_it_has_its_turn_where_others_hold_its_room(
    owner: str, holders: Sequence[str], order: tuple[Criterion, ...] | None
) -> None:
    """As any first job has: also where nobody has a name, so that all are one user's."""
    jobs = [owned("wide", owner, 2, 4.0), owned("one", "bob")]
    small = [owned(f"small-{number}", holder, cpus=0.1) for number, holder in enumerate(holders)]
    (verdict,) = verdicts("ff", jobs, view_with(*small), order)
    assert isinstance(verdict.decision, Wait)
    assert verdict.request.job.id == "wide"
    assert "its user" not in verdict.decision.reason


@pytest.mark.parametrize("order", ORDERS[1:])
def test_no_job_of_the_user_goes_before_it_from_beyond_the_window(order: tuple[Criterion, ...]) -> None:
    """A policy is shown two jobs, of the twelve that the user has."""
    more = [owned(f"more-{number}", "cleo") for number in range(11)]
    jobs = [owned("wide", "cleo", 3, 4.0), *more, owned("one", "bob"), owned("two", "bob")]
    found = verdicts("ff", jobs, view_with(owned("small", "cleo", cpus=0.1)), order, window=2)
    placed = [each.request.job.id for each in found if isinstance(each.decision, Place)]
    assert placed == ["one", "two"]


@pytest.mark.parametrize("users", [9, 20])
def test_others_go_before_the_wide_jobs_of_many_users(users: int) -> None:
    """Every user has a small job on the cluster."""
    small = [owned(f"small-{number}", f"user-{number}", cpus=0.1) for number in range(users)]
    wide = [owned(f"wide-{number}", f"user-{number}", 3, 4.0) for number in range(users)]
    view = view_with(owned("first", "user-0", cpus=0.1))
    more = [RunningJob(job, (VMS[1].id,), 0.0, None) for job in small]
    found = verdicts("ff", [*wide, owned("one", "bob")], replace(view, running=tuple(more)), ("fifo",))
    assert [verdict.request.job.id for verdict in found if isinstance(verdict.decision, Place)] == ["one"]


@pytest.mark.parametrize("order", ORDERS)
def test_a_driver_on_the_cluster_counts(order: tuple[Criterion, ...] | None) -> None:
    """What it needs beside executors, and what it holds."""
    wide = replace(owned("wide", "cleo", 2, 4.0), driver=Resources.of(4.0, 1024))
    found = verdicts("ff", [wide, owned("one", "bob")], view_with(owned("small", "cleo", cpus=0.1)), order)
    assert [verdict.request.job.id for verdict in found if isinstance(verdict.decision, Place)] == ["one"]
    holder = replace(owned("small", "cleo", cpus=0.1), driver=Resources.of(1.0, 1024))
    held = replace(
        view_with(owned("x", "cleo", cpus=0.1)),
        running=(RunningJob(holder, (VMS[0].id, VMS[1].id), 0.0, None),),
    )
    assert waits_for_own(held, PlacementRequest(owned("wide", "cleo", 2, 4.0), 2))


def test_lost_executors_whose_room_its_user_took_keep_no_other_waiting() -> None:
    """They stand before all new jobs."""
    again = PlacementRequest(owned("a", "ann", cpus=4.0), 1, again=True)
    view = view_with(*(owned(f"c{number}", "ann", cpus=2.0) for number in range(3)))
    queue = WaitingRequests([again, PlacementRequest(owned("one", "bob"), 1)])
    found = [*decide_in_turn(create("ff").decide, view, queue)]
    assert [verdict.request.job.id for verdict in found if isinstance(verdict.decision, Place)] == ["one"]


def test_a_job_that_lacks_jvms_of_its_own_user_keeps_nobody_waiting() -> None:
    """Of a machine that carries so many; one that lacks others' has its turn."""
    wide, one = PlacementRequest(owned("wide", "ann", 5), 5), PlacementRequest(owned("one", "bob"), 1)
    more = PlacementRequest(owned("more", "ann"), 1)
    assert [each.job.id for each in carried([wide, more, one], 6, {"ann": 2})] == ["one"]
    assert [each.job.id for each in carried([wide, more, one], 6, {"bob": 2})] == []
    assert [each.job.id for each in carried([wide, more, one], 6, {"": 2})] == []
    assert [each.job.id for each in carried([wide, one], 6, {})] == ["wide"]
