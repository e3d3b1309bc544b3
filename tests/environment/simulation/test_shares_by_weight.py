"""Ten users with weights of 1 to 4, and always more work than room: they get shares by weight.

The policies include those that place the first job alone, and those that choose the best fit among many.
"""

import random
from collections.abc import Mapping

import pytest

from agents.registry import create
from conf.schema.sharing import QueueSpec
from environment.queues.types import Sharing, queues_of
from environment.simulation.options import SimulationOptions
from environment.simulation.results.fairness import Fairness, fairness
from environment.simulation.simulator import simulate
from profiles.workloads.workload import Workload, WorkloadJob
from tests.builders import make_vms

WEIGHTS = {f"user-{number}": 1.0 + number % 4 for number in range(10)}
QUEUES = queues_of({"default": QueueSpec(user_weights=WEIGHTS)})
#: Seconds in which even the user with the greatest weight does not run out of jobs.
WINDOW = (0.0, 330.0)


def backlog(jobs: int, executors: list[int]) -> Workload:
    """So many jobs for each unit of weight, all there from the beginning, of half a minute or so."""
    chance = random.Random(3)  # noqa: S311
    names = [
        (f"{user}-{number}", user)
        for number in range(4 * jobs)
        for user, weight in WEIGHTS.items()
        if number < jobs * weight
    ]
    made = []
    for name, user in names:
        memory, count = chance.choice([512, 2048, 4096]), chance.choice(executors)
        seconds = chance.uniform(15.0, 60.0)
        made.append(WorkloadJob(name, 0.0, "other", 1.0, memory, count, seconds, owner=user))
    return Workload(tuple(made))


def shared(policy: str, options: Mapping[str, object], sharing: Sharing, jobs: Workload) -> Fairness:
    """How users fared while all of them had jobs that waited."""
    run = SimulationOptions(sharing=sharing)
    result = simulate(create(policy, options), jobs, make_vms(40), options=run)
    started = {user: max(job.started_at for job in result.jobs if job.owner == user) for user in WEIGHTS}
    assert min(started.values()) > WINDOW[1], started
    return fairness(result, QUEUES, "user", WINDOW)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("policy", "options"),
    [
        ("ff", {"overtake": "first_fit"}),
        ("greedy", {}),
    ],
)
def test_shares_are_those_of_the_weights(policy: str, options: Mapping[str, object]) -> None:
    """Each within five per cent of it, though some policies would rather place others."""
    sharing = Sharing(("fair",), half_life=60.0, queues=QUEUES)
    found = shared(policy, options, sharing, backlog(60, [1, 1, 2]))
    assert found.furthest < 0.05, {party.user: party.normalised for party in found.parties}


def test_a_policy_that_may_choose_from_all_breaks_them() -> None:
    """Which is why jobs of others overtake the first once at most where nothing else is said."""
    free = Sharing(("fair",), half_life=60.0, queues=QUEUES, overtaken_at_most=128)
    assert shared("greedy", {}, free, backlog(30, [1, 2, 4, 8])).furthest > 0.2
