"""Lookahead by draws of jobs' possible durations: the draws, and decisions by them."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from agents.lookahead import plans, rollout
from agents.lookahead.draws import Draws
from agents.lookahead.plans import PlanAim, make_arrays
from agents.lookahead.situation import Situations
from agents.registry import create
from conf.defaults import UNKNOWN_SPREAD
from environment.clusters.cluster_files import load_cluster
from environment.kernel.rule_options import DurationOptions, RewardOptions, rules
from environment.simulation.durations.beliefs import EXACT, Belief
from environment.simulation.options import SimulationOptions
from environment.simulation.simulator import simulate
from environment.types import Decision, Place, PlacementRequest, Wait
from environment.view import ClusterView, RunningJob
from profiles.workloads.generators import load_workload
from tests.builders import make_job, make_view, make_vm

MANY = 4000


def waiting(
    job_id: str, spread: float, seconds: float | None = 100.0, executors: int = 1
) -> PlacementRequest:
    """A job that is believed to take so long, give or take."""
    job = make_job(job_id, 1, expected_duration=seconds)
    return PlacementRequest(replace(job, spread=spread), 1)


def running(job_id: str, spread: float, expected: float | None, vm: str = "vm-1") -> RunningJob:
    """One that started at 0."""
    return RunningJob(waiting(job_id, spread, expected).job, (vm,), 0.0, expected)


@pytest.mark.parametrize("spread", [0.08, 0.5, 1.0])
def test_waiting_jobs_take_what_is_believed_on_average(spread: float) -> None:
    """Mean 1, and the logarithm as wide as is believed, independently of other jobs."""
    factors = Draws(MANY).of_waiting([waiting("a", spread), waiting("b", spread), waiting("c", 0.0)])
    assert factors.shape == (MANY, 3)
    assert factors.mean(axis=0) == pytest.approx(1.0, rel=0.03)
    assert np.log(factors[:, :2]).std(axis=0) == pytest.approx(spread, rel=0.02)
    assert abs(np.corrcoef(factors[:, 0], factors[:, 1])[0, 1]) < 0.05
    assert (factors[:, 2] == 1.0).all()


def test_what_is_drawn_of_a_job_is_the_same_whenever_it_is_asked_for() -> None:
    """In whichever company it waits, and when it has just started; another seed draws others."""
    draws = Draws(8, seed=3)
    alone = draws.of_waiting([waiting("a", 0.4)])[:, 0]
    assert (draws.of_waiting([waiting("b", 0.4), waiting("a", 0.4)])[:, 1] == alone).all()
    assert draws.seconds_left(running("a", 0.4, 100.0), now=0.0) == pytest.approx(tuple(100.0 * alone))
    assert (Draws(8, seed=4).of_waiting([waiting("a", 0.4)])[:, 0] != alone).all()


@pytest.mark.parametrize("now", [10.0, 90.0, 250.0, 3000.0])
def test_what_runs_is_drawn_by_how_long_it_has_run(now: float) -> None:
    """It has not ended yet; on average it ends when the view says."""
    job = running("a", 0.5, 100.0)
    left = np.array(Draws(MANY).seconds_left(job, now))
    assert (left > 0.0).all()
    assert left.mean() == pytest.approx(job.end_assuming(now, 1.0) - now, rel=0.05)


def test_certain_and_unknown_durations() -> None:
    """Certain durations are not drawn; any duration is believed of a job of unknown type."""
    draws = Draws(MANY, unknown=240.0)
    assert set(draws.seconds_left(running("a", 0.0, 100.0), now=30.0)) == {70.0}
    unknown = np.array(draws.seconds_left(running("a", 0.08, None), now=0.0))
    assert unknown.mean() == pytest.approx(240.0, rel=0.1)
    assert np.log(unknown).std() == pytest.approx(UNKNOWN_SPREAD, rel=0.05)
    assert np.log(draws.of_waiting([waiting("b", 0.08, None)])).std() == pytest.approx(
        UNKNOWN_SPREAD, rel=0.05
    )


def decide(spread: float, draws: int) -> Decision:
    """Of a gang that prefers two VMs, which it would have as soon as one of two jobs has ended.

    Both are believed to end at the same time. There is a third VM with room for the gang, where it would take
    1.3 times as long.
    """
    vms = (make_vm("vm-1", 2, 8192), make_vm("vm-2", 2, 8192), make_vm("vm-3", 4, 8192))
    view, found = make_view(vms), []
    for number in (0, 1):
        job = make_job(f"there-{number}", 1, 2.0, expected_duration=60.0)
        request = PlacementRequest(replace(job, spread=spread), 1)
        view = view.with_placement(request, (number,))
        found.append(RunningJob(request.job, (vms[number].id,), 0.0, 60.0))
    view = replace(view.changed(running=tuple(found)), at=20.0)
    gang = make_job("gang", 2, 2.0, expected_duration=95.0)
    gang = replace(gang, prefers="spread", spread=spread)
    return create("lookahead", {"draws": draws, "beta": 0.0}).decide(view, [PlacementRequest(gang, 2)])


def test_the_first_of_two_that_err_ends_sooner_than_each_is_believed_to() -> None:
    """So it pays to wait for it, which beliefs alone do not tell; where nobody errs draws tell nothing."""
    assert isinstance(decide(1.0, 0), Place)
    assert isinstance(decide(1.0, 32), Wait)
    assert decide(0.0, 32) == decide(0.0, 0)


def costs(draws: int, belief: Belief, seeds: range, jobs: int = 40) -> list[float]:
    """Dollars by seed of bursts on the paper's cluster."""
    cluster = load_cluster("paper")
    return [
        simulate(
            create("lookahead", {"draws": draws, "candidates": 40}),
            load_workload("burst", seed, jobs),
            cluster,
            options=SimulationOptions(belief=belief, seed=seed),
        ).cost
        for seed in seeds
    ]


def test_where_nothing_errs_nothing_is_drawn() -> None:
    """Exact beliefs: decisions are those without draws."""
    assert costs(16, EXACT, range(2)) == costs(0, EXACT, range(2))


@pytest.mark.parametrize("draws", [1, 31])
def test_plans_are_played_in_a_draw_as_they_are_on_beliefs(draws: int) -> None:
    """Play starts from the same first step and its resources: draws without errors change no value."""
    cluster, seen = load_cluster("paper"), list[tuple[ClusterView, list[PlacementRequest]]]()

    class Spy:
        """First fit that records the views and queues it saw."""

        policy = create("ff")

        def decide(self, view: ClusterView, queue: Sequence[PlacementRequest]) -> Decision:
            seen.append((view, list(queue)))
            return self.policy.decide(view, queue)

    simulate(Spy(), load_workload("burst", 5, 40), cluster)
    situations = Situations(rules(RewardOptions(), DurationOptions()), 240.0)
    for view, queue in seen[20:60:5]:
        batch = situations.load(view, queue)
        reach = len(queue) - 1
        aim = PlanAim(0.5, 0.5, 0.06, 1.0, plans.NEAR_ILP, may_wait=True, reach=reach, seed=1, fewest=4)
        plain, drawn = (make_arrays(60, len(cluster), 2000, 100) for _ in range(2))
        runs = batch.state.end[0, : batch.state.running[0]]
        drawn = drawn._replace(
            ends=np.tile(runs, (draws, 1)),
            factors=np.ones((draws, len(queue))),
            trial_values=np.zeros(1 + draws),
            best_values=np.zeros(1 + draws),
        )
        for found in (plain, drawn):
            rollout.search(batch, aim, found, 0, plans.PLAN)
            found.plan[:] = found.best  # which is taken up
            rollout.search(batch, aim, found, plans.PLAN, 60)
        assert drawn.values == pytest.approx(plain.values, rel=1e-12, abs=1e-9)
        assert drawn.best_values == pytest.approx(np.full(1 + draws, plain.values.min()))
        if draws == 1:  # of more, the mean of equal values is not rounded alike
            assert (drawn.values == plain.values).all()
            assert (drawn.firsts == plain.firsts).all()


def test_a_number_of_draws_is_checked() -> None:
    """As other options are."""
    with pytest.raises(ValueError, match="draws"):
        create("lookahead", {"draws": -1})
    assert math.isfinite(costs(2, Belief(), range(1), 10)[0])
