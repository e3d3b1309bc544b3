"""Limits in dollars per hour, which depend on where a job is placed, hold up no other job."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from agents.registry import create
from conf.schema.sharing import Criterion
from environment.decisions.decision_round import Verdict, decide_in_turn
from environment.policy import Decide
from environment.queues.ordering import Ordering
from environment.queues.shares import JobHolding
from environment.queues.types import Most, Queue, Queues, Sharing
from environment.resources import Resources
from environment.types import Decision, Place, PlacementRequest, Vm, Wait
from environment.view import ClusterView
from tests.builders import make_job, make_view, make_vm

HALF = Most(dollars_per_hour=0.5)
EQUAL = tuple(make_vm(f"vm-{n}", 8.0, 32768, 1.6) for n in (1, 2))
POLICIES = ["ff", "rr", "aep", "ilp", "greedy", "lookahead", "ff:overtake=best"]


def verdicts(
    decide: Decide, jobs: Sequence[str], vms: Sequence[Vm], queue: Queue, order: Criterion = "fifo"
) -> list[Verdict]:
    """Decisions about jobs of these queues, 1 cpu each ($0.2 on `EQUAL`), while $0.4 are used in queue a."""
    ordering = Ordering(Sharing((order,), queues=Queues((Queue("default"), queue)), half_life=0.0))
    ordering.shares.holds("before", JobHolding("a", "ann", Resources.of(2.0), 0.4), 0.0)
    for number, name in enumerate(jobs):
        job = replace(make_job(f"{name}-{number}", expected_duration=60.0), queue=name, owner="ann")
        ordering.join(PlacementRequest(job, 1), number, 0.0)
    view = make_view(vms)
    return [*decide_in_turn(decide, view, ordering.turns(Resources.of(16.0), 0.0))]


@pytest.mark.parametrize("queue", [Queue("a", most=HALF), Queue("a", most_per_user=HALF)])
@pytest.mark.parametrize("order", ["fifo", "fair"])
@pytest.mark.parametrize("policy", POLICIES)
def test_others_are_placed_beside_a_job_that_would_cross_one(
    policy: str, order: Criterion, queue: Queue
) -> None:
    """It is set aside for the round, which is no fault of the policy; in the end the limit is named."""
    name, _, options = policy.partition(":")
    made = create(name, dict(each.split("=") for each in options.split(":") if each))
    found = verdicts(made.decide, ["a", "default", "default", "a"], EQUAL, queue, order)
    assert [verdict.request.job.id for verdict in found[:2]] == ["default-1", "default-2"]
    assert all(isinstance(verdict.decision, Place) for verdict in found[:2])
    (last,) = found[2:]
    assert isinstance(last.decision, Wait)
    assert "$0.5 per hour at most and costs $0.4; this adds $0.2 at least" in last.decision.reason
    assert not any(verdict.faults for verdict in found)


@pytest.mark.parametrize("policy", POLICIES)
def test_it_is_placed_where_the_limit_allows_it(policy: str) -> None:
    """On the cheap VM, though the policy takes the dear one."""
    name, _, options = policy.partition(":")
    made = create(name, dict(each.split("=") for each in options.split(":") if each))
    vms = (make_vm("dear", 8.0, 32768, 16.0), make_vm("cheap", 8.0, 32768, 0.4))
    (placed,) = verdicts(made.decide, ["a"], vms, Queue("a", most=HALF))
    assert isinstance(placed.decision, Place)
    assert placed.decision.placement == (1,)
    assert not placed.faults


class Counted:
    """First fit, with the number of its decisions."""

    def __init__(self) -> None:
        self.asked, self._policy = 0, create("ff")

    def decide(self, view: ClusterView, queue: Sequence[PlacementRequest]) -> Decision:
        """Count, and decide."""
        self.asked += 1
        return self._policy.decide(view, queue)


def test_many_such_jobs_of_a_user_take_few_decisions() -> None:
    """After some, all of the user's are set aside at once."""
    counted = Counted()
    found = verdicts(counted.decide, [*["a"] * 200, "default", "default"], EQUAL, Queue("a", most=HALF))
    assert [verdict.request.job.id for verdict in found[:2]] == ["default-200", "default-201"]
    assert counted.asked < 20


def test_new_queue_names_make_no_other_users() -> None:
    """Without queues a user with a new name for each job is one user, after some jobs aside as a whole."""
    counted = Counted()
    ordering = Ordering(Sharing(half_life=0.0, most_per_user=Most(dollars_per_hour=0.1)))
    for number in range(200):
        job = replace(make_job(f"job-{number}"), queue=f"queue-{number}", owner="ann")
        ordering.join(PlacementRequest(job, 1), number, 0.0)
    (found,) = decide_in_turn(counted.decide, make_view(EQUAL), ordering.turns(Resources.of(16.0), 0.0))
    assert isinstance(found.decision, Wait)
    assert "may cost $0.1 per hour at most" in found.decision.reason
    assert counted.asked < 20


def test_a_round_about_many_users_over_their_limits_takes_few_decisions() -> None:
    """Each user's further jobs are set aside at once, also those that are not shown, for the whole round."""
    counted = Counted()
    sharing = Sharing(half_life=0.0, most_per_user=Most(dollars_per_hour=0.1), window=20)
    ordering = Ordering(sharing)
    for number in range(400):
        cpus = 0.1 if number > 390 else 1.0
        job = replace(make_job(f"job-{number}", cpus=cpus), owner=f"user-{number % 8}")
        ordering.join(PlacementRequest(job, 1), number, 0.0)
    found = [*decide_in_turn(counted.decide, make_view(EQUAL), ordering.turns(Resources.of(16.0), 0.0))]
    assert isinstance(found[-1].decision, Wait)
    assert counted.asked < 40
