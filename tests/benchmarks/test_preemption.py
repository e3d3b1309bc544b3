"""How long it takes to find who gives way on a cluster of 1,000 VMs with 8 executors on each."""

from typing import Any

import numpy as np
import pytest

from environment.sharing.holders import Holders
from environment.sharing.preemption import Plan, Taker, plan
from tests.builders import make_vms
from tests.environment.sharing.holding import asks, holder, job, sharing, view_of

#: A gang of so many executors of so many cpus; the first finds room among elastic jobs alone.
CASES = {"elastic, 8 of 4 cpus": (8, 4.0), "whole, 8 of 8 cpus": (8, 8.0), "whole, 64 of 8 cpus": (64, 8.0)}


@pytest.mark.parametrize("case", CASES)
def test_who_gives_way(benchmark: Any, case: str) -> None:
    """Half of the jobs are elastic; three priorities."""
    count, cpus = CASES[case]
    rng, vms = np.random.default_rng(1), make_vms(1000, cpus=8.0)
    holders = [
        holder(
            job(f"job-{n}", 8, min_executors=2 if n % 2 else None, priority=n % 3),
            [(n * 8 + k * 37) % 1000 for k in range(8)],
            since=float(rng.integers(0, 100)),
        )
        for n in range(1000)
    ]
    view, arrays = view_of(vms, holders), Holders.of_jobs(holders)
    waits = Taker(asks(job("urgent", count, cpus, priority=5)))
    found = benchmark(lambda: plan(view, waits, arrays, sharing("priority")))
    assert isinstance(found, Plan)
