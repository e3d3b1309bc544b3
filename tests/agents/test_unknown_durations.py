"""Jobs of unknown duration: most end soon, a few hold their VMs for very long."""

import math
from dataclasses import replace
from statistics import fmean
from typing import Any

import numpy as np
import pytest

from agents.experiments.decisions.shifted_cases import ShiftedCase, cases
from agents.greedy import forms
from agents.registry import create
from conf.defaults import UNKNOWN_SPREAD
from environment.simulation.durations.beliefs import Belief
from environment.simulation.options import SimulationOptions
from environment.simulation.simulator import simulate
from environment.types import Place, PlacementRequest
from tests.builders import make_job, make_view, make_vm

#: No constant was chosen on these: neither on these seeds nor on these windows of Alibaba's tasks.
SEEDS = range(7016, 7019)
WINDOWS = (6400, 6600, 6200)


def costs(case: ShiftedCase, policy: str, **options: Any) -> list[float]:
    """Dollars of the policy by seed, where no type of job has a profile."""
    found = []
    for seed in SEEDS:
        drawn, settings = case.workload(seed, None), SimulationOptions(belief=Belief("sigma", 0.2), seed=seed)
        jobs = replace(drawn, jobs=tuple(replace(job, type=f"new-{job.type}") for job in drawn.jobs))
        found.append(simulate(create(policy, options), jobs, case.cluster(), options=settings).cost)
    return found


@pytest.mark.parametrize("name", ["heavy tails", "Alibaba"])
def test_ignorance_costs_no_more_than_first_fit(name: str) -> None:
    """Whichever duration is assumed of what is not known.

    Elsewhere it may: in the 200 tasks from number 4,400 on lookahead with 40 candidates pays 1.67 of it.
    """
    case = next((case for case in cases() if case.name == name), None)
    if case is None:
        pytest.skip("the trace is not there")
    if name == "Alibaba":
        case = replace(case, workload=replace(case.workload, windows=WINDOWS))
    first_fit = costs(case, "ff")
    for policy, options in (
        ("greedy", {}),
        ("greedy", {"unknown_duration": 20.0}),
        ("greedy", {"unknown_duration": 5000.0}),
        ("lookahead", {"candidates": 40}),
    ):
        pairs = zip(costs(case, policy, **options), first_fit, strict=True)
        ratios = [mine / theirs for mine, theirs in pairs]
        assert fmean(ratios) <= 1.05
        assert max(ratios) <= 1.3


@pytest.mark.parametrize(("known", "vm"), [(240.0, 1), (None, 0)])
def test_a_job_that_may_take_long_does_not_hold_a_large_vm(known: float | None, vm: int) -> None:
    """One of 240 s adds least to a large VM that is held for 230 s; of an unknown one most may come later."""
    view = make_view([make_vm("small", 2, 8192, 0.5), make_vm("large", 32, 65536, 8.0)])
    runs = replace(make_job("runs", 2, expected_duration=230.0), spread=0.0)
    view = view.with_placement(PlacementRequest(runs, 2), [1, 1])
    job = make_job("a", 1, cpus=2.0, expected_duration=known)
    for policy in ("greedy", "lookahead"):
        decision = create(policy, {"beta": 0.9}).decide(view, [PlacementRequest(job, 1)])
        assert isinstance(decision, Place), decision
        if policy == "greedy" or known is None:
            assert decision.placement == (vm,), policy


def test_seconds_within_those_that_are_held_are_expected_ones() -> None:
    """Of log-normal durations, E[min(X, held)]; certain ones are as they are."""
    shared = forms.shared_seconds
    deviations = np.random.default_rng(1).standard_normal(10**6)
    drawn = 240.0 * np.exp(UNKNOWN_SPREAD * deviations - UNKNOWN_SPREAD**2 / 2)
    for held in (1.0, 60.0, 240.0, 5000.0):
        assert shared(UNKNOWN_SPREAD, held, 240.0) == pytest.approx(np.minimum(drawn, held).mean(), rel=0.01)
        assert shared(0.0, held, 240.0) == min(held, 240.0)
    assert shared(UNKNOWN_SPREAD, 0.0, 240.0) == 0.0
    assert shared(UNKNOWN_SPREAD, math.inf, 240.0) == 240.0
