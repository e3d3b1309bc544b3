"""Forecasts from a cluster's present state, compared with a simulation of the same from its beginning."""

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

import numpy as np
import pytest

from agents.registry import create
from environment.clusters.cluster_files import load_cluster
from environment.dependencies import After
from environment.policy import Policy
from environment.pools import Openings, Terms
from environment.simulation.durations.beliefs import Belief
from environment.simulation.forecast.outlook import PlayedDraw
from environment.simulation.forecast.play_forward import play_ahead
from environment.simulation.options import SimulationOptions
from environment.simulation.results.results import Result
from environment.simulation.simulator import play, simulate
from environment.simulation.world import World
from environment.types import Decision, Job, Place, PlacementRequest, Wait
from environment.view import ClusterView, RunningJob
from profiles.workloads.generators import load_workload
from tests.builders import make_job, make_view, make_vms

ONE = make_job("job-1", 4, 2.0, 1024, expected_duration=100.0)
#: A type about which all is known.
SURE = replace(ONE, spread=0.0)


def asked(*jobs: Job) -> list[PlacementRequest]:
    """All of them wait as a whole."""
    return [PlacementRequest(job, job.executors) for job in jobs]


def holding(job: Job, vms: Sequence[str], since: float, at: float) -> ClusterView:
    """A view of two VMs of four cpus, of which these hold one executor each of a running job."""
    running = RunningJob(job, tuple(vms), since, job.expected_duration, (job.size,) * len(vms))
    view = make_view(make_vms(2), at=at)
    numbers = tuple(view.index[vm] for vm in vms)
    view = view.with_placement(PlacementRequest(job, len(vms)), numbers)
    return view.changed(running=(running,))


def test_who_fits_starts_at_once_and_the_next_when_what_runs_is_over() -> None:
    """Seconds count from now; the running job is believed to need 40 more."""
    vms = [vm.id for vm in make_vms(2)]
    view = holding(replace(SURE, id="job-0"), [vms[0], vms[0]], 1000.0, 1060.0)
    first, second = replace(SURE, id="job-1", executors=2), replace(SURE, id="job-2", executors=4)
    played = play_ahead(create("ff"), view, asked(first, second))
    assert (played.jobs["job-1"].start, played.jobs["job-1"].end) == (0.0, 100.0)
    assert played.jobs["job-2"].start == 100.0
    alone = play_ahead(create("ff"), view, asked(second))
    assert alone.jobs["job-2"].start == pytest.approx(40.0)
    assert alone.seconds == pytest.approx(140.0)
    assert play_ahead(create("ff"), view, []).jobs == {}
    assert play_ahead(create("ff"), make_view(make_vms(2)), []) == PlayedDraw({}, 0.0, 0.0)


def test_one_machine_carries_so_many_jvms() -> None:
    """Each job takes two with its driver; jobs without room wait for ends of others, though VMs are free."""
    vms = [vm.id for vm in make_vms(2)]
    view = holding(replace(SURE, id="job-0", executors=1), [vms[0]], 1000.0, 1060.0)
    queue = asked(*(replace(SURE, id=f"job-{n}", executors=1) for n in (1, 2)))
    starts = {
        jvms: [
            job.start
            for job in play_ahead(
                create("ff"), view, queue, options=SimulationOptions(jvms=jvms)
            ).jobs.values()
        ]
        for jvms in (None, 6, 4, 2, 1)
    }
    assert starts == {None: [0.0, 0.0], 6: [0.0, 0.0], 4: [0.0, 40.0], 2: [40.0, 140.0], 1: [40.0, 140.0]}


def test_what_never_fits_says_so() -> None:
    """It is no job that starts at any time."""
    big = replace(ONE, executors=99)
    played = play_ahead(create("ff"), make_view(make_vms(2)), asked(big, replace(ONE, id="job-2")))
    assert "room for 4" in played.never["job-1"]
    assert set(played.jobs) == {"job-2"}


def test_draws_spread_around_what_is_believed() -> None:
    """The seed fixes the draws; running jobs never end before now, however long they have run."""
    vms = [vm.id for vm in make_vms(2)]
    view = holding(replace(ONE, id="job-0", spread=0.3), vms * 2, 0.0, 150.0)
    queue = asked(replace(ONE, id="job-1", spread=0.3))
    drawn = [play_ahead(create("ff"), view, queue, seed=seed) for seed in range(200)]
    assert drawn[3] == play_ahead(create("ff"), view, queue, seed=3)
    starts = [played.jobs["job-1"].start for played in drawn]
    took = [played.jobs["job-1"].end - played.jobs["job-1"].start for played in drawn]
    assert min(starts) > 0.0
    assert len({*starts}) > 150
    assert fmean(took) == pytest.approx(100.0, rel=0.1)
    # Given that it took 150 s already, where 100 were expected: the mean of the rest of such a distribution.
    sample = np.exp(np.random.default_rng(0).normal(np.log(100.0) - 0.045, 0.3, 400_000))
    assert fmean(starts) == pytest.approx(float(sample[sample > 150.0].mean()) - 150.0, rel=0.2)


class Pausing:
    """First fit that records the view it is shown after so many decisions."""

    def __init__(self, after: int) -> None:
        self._after, self._policy = after, create("ff")
        self.seen: tuple[ClusterView, list[PlacementRequest]] | None = None

    def decide(self, view: ClusterView, queue: Sequence[PlacementRequest]) -> Decision:
        """As first fit does."""
        self._after -= 1
        decision = self._policy.decide(view, queue)
        if self.seen is None and self._after < 0 and isinstance(decision, Wait):
            self.seen = view, list(queue)
        return decision


@pytest.mark.parametrize("cluster", ["paper", "elastic"])
def test_it_goes_on_as_the_simulation_it_is_taken_from(cluster: str) -> None:
    """The rest of a run is as it was, from its middle, after all arrivals."""
    workload = load_workload("burst", seed=4)
    jobs = tuple(replace(job, submitted_at=0.0) for job in workload.jobs[:40])
    workload = replace(workload, jobs=jobs)
    options = SimulationOptions(belief=Belief("exact"))
    vms = load_cluster(cluster)[:8]
    pausing = Pausing(12)
    whole = simulate(pausing, workload, vms, options=options)
    assert pausing.seen is not None
    view, queue = pausing.seen
    rest = play_ahead(create("ff"), view, queue, options=options)
    told = {job.name: job for job in whole.jobs}
    assert len(rest.jobs) == len(queue) > 5
    for name, ahead in rest.jobs.items():
        assert (view.at + ahead.start, view.at + ahead.end) == pytest.approx(
            (told[name].started_at, told[name].ended_at)
        )


@pytest.mark.parametrize("name", ["ff", "greedy"])
def test_compiled_code_plays_as_policies_that_are_asked(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Plays agree to the bit, beside running jobs below their largest size, with jobs that come later."""
    vms, small = [vm.id for vm in make_vms(2)], replace(ONE, id="job-0", spread=0.3)
    view = holding(small, [vms[0], vms[1]], 1000.0, 1060.0)
    queue = asked(
        *(
            replace(ONE, id=f"job-{number}", executors=number % 4 + 1, submitted_at=1060.0 + number // 9 * 40)
            for number in range(1, 30)
        )
    )
    compiled, counted = play_ahead(create(name), view, queue, seed=3), list[object]()

    def play_as_asked(world: World, policy: Policy, **options: Any) -> Result:
        counted.append(policy)
        return play(world, policy, **{**options, "compiled": False})

    monkeypatch.setattr("environment.simulation.forecast.play_forward.play", play_as_asked)
    assert compiled == play_ahead(create(name), view, queue, seed=3)
    assert counted


def test_who_comes_after_others_starts_when_they_have_ended() -> None:
    """After one that runs and one that waits; and never, where one of them would never run."""
    vms = [vm.id for vm in make_vms(2)]
    view = holding(replace(SURE, id="job-0", executors=1), [vms[0]], 1000.0, 1060.0)
    first = replace(SURE, id="job-1", executors=1, expected_duration=10.0)
    second = replace(first, id="job-2", after=(After("job-1"),))
    third = replace(first, id="job-3", after=(After("job-0"), After("job-2", "any")))
    huge = replace(first, id="job-4", executors=99)
    fourth = replace(first, id="job-5", after=(After("job-4"),))
    last = replace(first, id="job-6", after=(After("job-5"),))
    played = play_ahead(create("ff"), view, asked(third, first, second, huge, fourth, last))
    assert {name: job.start for name, job in played.jobs.items()} == {
        "job-1": 0.0, "job-2": pytest.approx(10.0), "job-3": pytest.approx(40.0)
    }  # fmt: skip
    assert played.never["job-6"] == "it comes after job-5, which would not run"
    drawn = [
        play_ahead(create("ff"), view, asked(replace(second, after=(After("job-0"),))), seed=seed)
        for seed in range(3)
    ]
    assert all(each.jobs["job-2"].start == pytest.approx(40.0) for each in drawn)  # its spread is none


def test_so_many_of_an_array_run_at_once() -> None:
    """The next goes when one of them has ended, those that run now among them."""
    vms = [vm.id for vm in make_vms(2)]
    of = replace(SURE, array="array-1", count=4, at_most=2, executors=1, expected_duration=10.0)
    runs = replace(of, id="job-1", expected_duration=100.0)
    view = holding(runs, [vms[0]], 1000.0, 1060.0)
    played = play_ahead(create("ff"), view, asked(*(replace(of, id=f"job-{n}") for n in (2, 3, 4))))
    assert [round(played.jobs[f"job-{n}"].start) for n in (2, 3, 4)] == [0, 10, 20]
    fresh = play_ahead(
        create("ff"), make_view(make_vms(2)), asked(*(replace(of, id=f"job-{n}") for n in range(5)))
    )
    assert [round(fresh.jobs[f"job-{n}"].start) for n in range(5)] == [0, 0, 10, 10, 20]


def test_an_idle_vm_of_no_pool_costs_nothing() -> None:
    """It costs the same in every case: only what executors hold is compared, and what comes and goes."""
    pooled = replace(make_vms(2)[0], terms=Terms("general"))
    view = make_view([pooled, make_vms(2)[1]])
    view = replace(view, openings=Openings(np.array([False, True]), np.array([0.0, 0.0])))
    job = make_job(executors=4, expected_duration=3600.0)
    for vm, dollars in (("vm-1", 0.24), ("vm-2", 0.24)):
        found = play_ahead(OnVm(vm), view, asked(job))
        assert found.dollars == pytest.approx(dollars, rel=0.01)


class OnVm:
    """Places all executors of each job on one VM."""

    def __init__(self, name: str) -> None:
        self._name = name

    def decide(self, view: ClusterView, queue: Sequence[PlacementRequest]) -> Decision:
        """See the class."""
        index = next(n for n, vm in enumerate(view.vms) if vm.name == self._name)
        return Place(queue[0].job.id, (index,) * queue[0].count)
