"""Queues' held resources, compared with a sum over all running jobs."""

import random
from dataclasses import replace

import pytest

from environment.queues.preemption import is_in
from environment.queues.running_usage import Holder, Holders, RunningExecutor
from tests.environment.queues.holding import job

PATHS = ("a", "a.b", "a.b.c", "a.bc", "ab", "default", "gone.x")


@pytest.mark.parametrize("seed", range(20))
def test_what_queues_hold(seed: int) -> None:
    """Child queues count with their parents, executors told to stop do not, and names are compared whole."""
    chance = random.Random(seed)  # noqa: S311
    given = []
    for number in range(chance.choice([0, 1, 12])):
        of = replace(job(f"job-{number}", cpus=chance.choice([0.5, 3.0])), queue=chance.choice(PATHS))
        held = tuple(
            RunningExecutor(n, n, 0.0, of.size, chance.random() < 0.3)
            for n in range(chance.choice([0, 1, 4]))
        )
        given.append(Holder(of, 0.0, None, held))
    holders = Holders.of_jobs(given)
    for path in (*PATHS, "gone", "nobody"):
        inside = [is_in(each.queue, path) for each in holders.jobs]
        members = holders.members(path)
        assert (None if members is None else members.tolist()) == (inside if any(inside) else None)
        for name in ("cpus", "mem", "gpus"):
            sizes = [
                held.size.get(name)
                for holder in given
                if is_in(holder.job.queue, path)
                for held in holder.held
                if not held.going
            ]
            assert holders.held_in(path, name) == sum(sizes)
