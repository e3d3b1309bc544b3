"""Random trees of queues under random loads: no limit is ever crossed, and every job that could run does.

Waiting jobs have true reasons. STOKER_TREES=500 tries more trees than the few of every run.
"""

import os
import random
from collections.abc import Iterator
from dataclasses import replace

import pytest

from agents.registry import create
from conf.schema.sharing import Criterion
from environment.queues.types import Most, Queue, Queues, Sharing
from environment.resources import NOTHING, Resources
from environment.simulation.options import SimulationOptions
from environment.simulation.results.results import Result
from environment.simulation.simulator import simulate
from environment.types import Wait
from profiles.workloads.workload import WorkloadJob, workload_of
from tests.builders import make_vms
from tests.environment.simulation.reasons import USERS, Reasons, Watched

TREES = int(os.environ.get("STOKER_TREES", "40"))
PATHS = ("default", "prod", "prod.etl", "prod.adhoc", "test", "test.a", "test.b", "test.b.x")
LEAVES = ("default", "prod.etl", "prod.adhoc", "test.a", "test.b.x")
#: Who has waited for so long starves: little enough for some to do so in every tree that is tried.
STARVES_S = 50.0
ORDERS: tuple[tuple[Criterion, ...], ...] = (
    ("fifo",), ("fair",), ("priority", "fair"), ("deadline",), ("fair", "shortest"), ("shortest",),
)  # fmt: skip
POLICIES: tuple[tuple[str, dict[str, object]], ...] = (
    ("ff", {}),
    ("greedy", {}),
    ("ff", {"overtake": "first_fit"}),
    ("aep", {"overtake": "easy"}),
)


def some_most(chance: random.Random) -> Most:
    """A limit of something, more often none."""
    return Most(
        {"cpus": chance.choice([2.0, 5.0, 8.0])} if chance.random() < 0.4 else {},
        running=chance.choice([1, 2, 4]) if chance.random() < 0.25 else None,
    )


def some_sharing(chance: random.Random) -> Sharing:
    """A tree with guarantees and limits here and there, in any order."""
    queues = tuple(
        Queue(
            path,
            chance.choice([0.5, 1.0, 3.0]),
            Resources.of(2, 2048) if chance.random() < 0.3 else NOTHING,
            some_most(chance),
            some_most(chance) if chance.random() < 0.3 else Most(),
        )
        for path in PATHS
    )
    return Sharing(
        chance.choice(ORDERS),
        half_life=chance.choice([0.0, 100.0, 3600.0]),
        starves_after=chance.choice([200.0, 1e6]),
        window=chance.choice([2, 256]),
        overtaken_at_most=chance.choice([None, 0, 3]),
        queues=Queues(queues),
    )


def some_jobs(chance: random.Random) -> Iterator[WorkloadJob]:
    """Forty jobs of three users in all queues, some elastic, some with deadlines."""
    for number in range(40):
        executors = chance.choice([1, 1, 2, 4, 8])
        yield WorkloadJob(
            f"job-{number}",
            chance.uniform(0.0, 300.0),
            "other",
            float(chance.choice([1, 2])),
            chance.choice([512, 2048]),
            executors,
            chance.uniform(5.0, 80.0),
            min_executors=1 if executors > 1 and chance.random() < 0.3 else None,
            owner=chance.choice(USERS),
            queue=chance.choice(LEAVES),
            priority=chance.choice([None, 0, 5]),
            deadline=chance.choice([None, 100.0]),
        )


def crossed(result: Result, queues: Queues) -> list[str]:
    """Which limits were crossed, at any moment."""
    held, found = result.held, []
    bounds: list[tuple[Queue, str | None, Most]] = [(queue, None, queue.most) for queue in queues]
    bounds += [(queue, user, queue.most_per_user) for queue in queues for user in USERS]
    for queue, user, most in bounds:
        within = {
            number
            for number, job in enumerate(result.jobs)
            if queue in queues.line(job.queue) and user in (None, job.owner)
        }
        changes = [(job.started_at, 1, 0, 1) for n, job in enumerate(result.jobs) if n in within]
        changes += [(job.ended_at, 0, 0, -1) for n, job in enumerate(result.jobs) if n in within]
        rows = zip(held.job.tolist(), held.start.tolist(), held.end.tolist(), held.kind.tolist(), strict=True)
        for job, start, end, kind in rows:
            if job in within:
                cpus = held.kinds[kind].get("cpus")
                changes += [(start, 1, cpus, 0), (end, 0, -cpus, 0)]
        cpus = running = 0
        most_running = 1e9 if most.running is None else most.running
        for at, _, more_cpus, more_jobs in sorted(changes):  # at one moment, what ends first
            cpus, running = cpus + more_cpus, running + more_jobs
            if cpus > 1000 * most.resources.get("cpus", 1e9) or running > most_running:
                found.append(f"{queue.path}, {user or 'all'} at {at:g} s: {cpus} of {most}")
    return found


@pytest.mark.parametrize("seed", range(TREES))
def test_limits_hold_and_nobody_is_left_who_could_run(seed: int) -> None:
    """Each job left waiting at the end alone exceeds a limit; waiting jobs have the reason."""
    chance = random.Random(seed)  # noqa: S311
    sharing, jobs = some_sharing(chance), workload_of(some_jobs(chance))
    policy, options = chance.choice(POLICIES)
    run = SimulationOptions(sharing=sharing, seed=seed)
    watched, vms = Watched(create(policy, options)), make_vms(4)
    result = simulate(watched, jobs, vms, options=run)
    assert not crossed(result, sharing.queues)
    assert result.violations == 0
    assert len(result.jobs) + len(result.aside) + len(result.refused) == len(jobs)
    of_name = {job.name: job for job in jobs.jobs}
    for name in result.aside:
        job = of_name[name]
        least = job.cpus * (job.min_executors or job.executors)
        line = sharing.queues.line(job.queue)
        mosts = [most for queue in line for most in (queue.most, queue.most_per_user)]
        limits = [most.resources.get("cpus", 1e9) for most in mosts]
        assert least > min(limits), (name, result.aside[name])
    assert all(traced.decision.reason for traced in result.decisions if isinstance(traced.decision, Wait))
    overtakes, patient = policy == "greedy" or "overtake" in options, policy == "greedy"
    reasons = Reasons(jobs.jobs, vms, sharing, result, overtakes, patient)
    assert not list(reasons.unexplained(watched.moments))
    assert reasons.found.total(), "nobody waited"
    alone = simulate(create(policy, options), jobs, vms, options=run)
    assert alone.decisions == result.decisions, "being watched changes what is decided"


@pytest.mark.parametrize("seed", range(TREES // 5))
def test_the_longest_wait_is_bounded(seed: int) -> None:
    """A starving job waits for jobs running then and for older ones: no younger job goes before it.

    Jobs of others do while one of its own user runs, as that may be all that is in its way.
    """
    chance = random.Random(seed)  # noqa: S311
    drawn = some_sharing(chance)
    free = (replace(queue, most=Most(), most_per_user=Most()) for queue in drawn.queues)
    sharing = replace(drawn, starves_after=STARVES_S, queues=Queues(tuple(free)))
    result = simulate(
        create("ff"), workload_of(some_jobs(chance)), make_vms(4), options=SimulationOptions(sharing=sharing)
    )
    starved = [job for job in result.jobs if job.started_at > job.submitted_at + STARVES_S]
    assert starved, "nobody waited for long"
    bounded = 0
    for job in starved:
        since, before = job.submitted_at + STARVES_S, []
        own = [other for other in result.jobs if other.owner == job.owner and other is not job]
        for other in result.jobs:
            if since < other.started_at < job.started_at and other.submitted_at > job.submitted_at:
                held_up = [
                    each.ended_at for each in own if each.started_at <= other.started_at < each.ended_at
                ]
                assert other.owner != job.owner, (job.name, other.name)
                assert held_up, (job.name, other.name)
                before += held_up
        since = max([since, *before])
        between = [other for other in result.jobs if since < other.started_at < job.started_at]
        running = [other.ended_at - since for other in result.jobs if other.started_at <= since]
        later = sum(other.ended_at - other.started_at for other in between)
        assert job.started_at <= since + max(0.0, *running) + later, job.name
        bounded += not before
    assert bounded, "nobody waited for others alone"
