"""Lookahead and the integer program decide the same on every machine: work bounds them, not time."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from threading import Event, Thread
from typing import Any, Literal

import numpy as np
import pytest

from agents.baselines.ilp import IlpOptions, IntegerProgram, Program, Row, Solver
from agents.lookahead import search
from agents.registry import create
from environment.clusters.cluster_files import load_cluster
from environment.policy import TimedPolicy
from environment.simulation.results.results import Result
from environment.simulation.simulator import simulate
from environment.types import Place, PlacementRequest
from environment.view import ClusterView, RunningJob
from profiles.workloads.generators import load_workload
from tests.builders import make_job, make_view, make_vm

SEARCHING = ("lookahead", "ilp")


def run(name: str, **options: Any) -> Result:
    """A burst under the policy."""
    return simulate(create(name, options), load_workload("burst", 0, 30), load_cluster("paper"))


@contextmanager
def load(threads: int) -> Iterator[None]:
    """So many threads that keep cores busy with programs of their own; HiGHS does not hold the GIL."""
    over = Event()

    def work() -> None:
        policy = IntegerProgram(IlpOptions())
        while not over.is_set():
            for view, queue in situations(3):
                policy.decide(view, queue)

    workers = [Thread(target=work) for _ in range(threads)]
    for worker in workers:
        worker.start()
    try:
        yield
    finally:
        over.set()
        for worker in workers:
            worker.join()


def situations(number: int, at: float = 100.0) -> list[tuple[ClusterView, list[PlacementRequest]]]:
    """Clusters of two dozen different VMs with a few jobs, and jobs that wait; seen at that time."""
    found = []
    for seed in range(number):
        rng = np.random.default_rng(seed)
        prices = rng.uniform(0.1, 0.9, 24).round(3).tolist()
        vms = [make_vm(f"vm-{i}", float(rng.choice([4, 8, 16])), 65536, prices[i]) for i in range(24)]
        view, running = make_view(vms, at=at), []
        for number in range(6):
            job = make_job(f"r-{number}", executors=3, cpus=2.0, expected_duration=400.0)
            placement = tuple(int(i) for i in rng.choice(24, 3, replace=False))
            view = view.with_placement(PlacementRequest(job, 3), placement)
            began = at - float(rng.uniform(0, 300))
            running.append(RunningJob(job, tuple(vms[i].id for i in placement), began, 400.0))
        likes: list[Literal["spread", "consolidate"] | None] = ["spread", "consolidate", None]
        queue = [
            replace(
                make_job(f"q-{i}", executors=6, cpus=1.0, expected_duration=float(rng.uniform(60, 600))),
                prefers=likes[i % 3],
            )
            for i in range(4)
        ]
        view = view.changed(running=tuple(running))
        found.append((view, [PlacementRequest(job, 6) for job in queue]))
    return found


def test_a_slow_clock_changes_no_decision(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where every look at the clock finds it three seconds on, lookahead decides as ever."""
    one = run("lookahead")
    ticks = count(step=3.0)
    monkeypatch.setattr(search, "perf_counter", lambda: next(ticks))
    slow = run("lookahead")
    assert slow == one
    assert slow.cut_short == 0
    assert run("lookahead", time_limit=2.0).cut_short > 0


@pytest.mark.parametrize("name", SEARCHING)
def test_load_changes_no_decision(name: str) -> None:
    """With more threads at work than there are cores, everything is decided as ever."""
    alone = run(name)
    with load(8):
        loaded = run(name)
    assert loaded == alone
    assert alone.cut_short == loaded.cut_short == 0


def test_decisions_at_once_are_those_in_turn() -> None:
    """Programs are solved at the same time by a solver each, or in turn by one."""
    kept = IntegerProgram(IlpOptions())
    in_turn = [kept.decide(view, queue) for view, queue in situations(8)]
    with ThreadPoolExecutor(8) as pool:
        at_once = list(pool.map(lambda seen: IntegerProgram(IlpOptions()).decide(*seen), situations(8)))
    assert at_once == in_turn
    assert kept.cut_short == 0


@pytest.mark.parametrize("at", [0.3, 12345.678, 1.7e9 + 0.1])
@pytest.mark.parametrize("name", SEARCHING)
def test_the_time_of_day_changes_no_decision(name: str, at: float) -> None:
    """Times are rounded differently then, and running jobs are shown in another order."""
    for (view, queue), (same, _) in zip(situations(8), situations(8, at), strict=True):
        policy, other = create(name), create(name)
        turned = same.changed(running=same.running[::-1])
        assert other.decide(turned, queue) == policy.decide(view, queue)
        assert isinstance(policy, TimedPolicy)
        assert policy.cut_short == 0


def test_a_solver_stops_after_so_many_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """It reports whether nodes or time ran out, and so does the policy; its result so far is used."""
    size = 8
    weights = [12223, 12224, 36674, 61119, 85569, 91111, 97003, 103001] * 2
    unlucky = Program(
        costs=np.ones(3 * size + 1),
        most=np.full(3 * size + 1, 1e4),
        rows=[Row(range(2 * size), weights, 89643481, 89643481)],
        kinds=size,
    )
    assert Solver(1, 60.0).solve(unlucky).stopped_by == "nodes"
    (view, queue), *_ = situations(1)
    policy, solve = IntegerProgram(IlpOptions(nodes=7)), Solver.solve
    best = policy.decide(view, queue)
    monkeypatch.setattr(
        Solver, "solve", lambda self, program: solve(self, program)._replace(stopped_by="nodes")
    )
    decision = policy.decide(view, queue)
    assert isinstance(best, Place)
    assert isinstance(decision, Place)
    assert decision.placement == best.placement
    assert decision.why[0].endswith("is part of the best placement found in 7 nodes for beta 0.5")
    assert policy.cut_short == 0
