"""Time to plan a preemption on a cluster of 1,000 VMs with 8 executors on each."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from environment.queues.preemption import PreemptionPlan, Taker, plan
from environment.queues.running_usage import Holders
from environment.queues.types import Queue, Queues
from environment.resources import NOTHING, Resources
from tests.builders import make_vms
from tests.environment.queues.holding import asks, holder, job, sharing, view_of

#: A gang of so many executors of so many cpus; the first finds room among elastic jobs alone.
CASES = {"elastic, 8 of 4 cpus": (8, 4.0), "whole, 8 of 8 cpus": (8, 8.0), "whole, 64 of 8 cpus": (64, 8.0)}


@pytest.mark.parametrize("guaranteed", [0, 200])
@pytest.mark.parametrize("case", CASES)
def test_who_gives_way(benchmark: Any, case: str, guaranteed: int) -> None:
    """Half of the jobs are elastic; three priorities; so many queues must retain their guarantee."""
    count, cpus = CASES[case]
    rng, vms = np.random.default_rng(1), make_vms(1000, cpus=8.0)
    holders = [
        holder(
            replace(
                job(f"job-{n}", 8, min_executors=2 if n % 2 else None, priority=n % 3), queue=f"q{n % 200}"
            ),
            [(n * 8 + k * 37) % 1000 for k in range(8)],
            since=float(rng.integers(0, 100)),
        )
        for n in range(1000)
    ]
    view, arrays = view_of(vms, holders), Holders.of_jobs(holders)
    waits = Taker(asks(job("urgent", count, cpus, priority=5)))
    least = Resources.of(5.0) if guaranteed else NOTHING
    queues = Queues((Queue("default"), *(Queue(f"q{n}", guaranteed=least) for n in range(200))))
    shared = replace(sharing("priority"), queues=queues)
    found = benchmark(lambda: plan(view, waits, arrays, shared))
    assert isinstance(found, PreemptionPlan)
