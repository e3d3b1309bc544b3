"""Agents' observations: worked by hand, and the same from a cluster view as from the kernel's episode."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from agents.registry import create
from environment.clusters.cluster_files import load_cluster
from environment.kernel.arrays import checked_vms, episode_of, jobs_of
from environment.kernel.expected_end import expected_end
from environment.kernel.observation import observation_length, observe, split, write_mask
from environment.kernel.rule_options import DurationOptions, ObservationOptions, RewardOptions, rules
from environment.kernel.rules import reset, step_episode
from environment.kernel.state import Batch, make_batch
from environment.simulation.durations.beliefs import Belief
from environment.simulation.options import SimulationOptions, believed
from environment.simulation.simulator import simulate
from environment.training.view_encoding import mask, observation, put, scene_of
from environment.types import Decision, Job, Place, PlacementRequest
from environment.view import ClusterView, RunningJob
from profiles.job_profile import load_profiles
from profiles.workloads.generators import load_workload
from profiles.workloads.workload import Workload
from tests.builders import make_job, make_view, make_vms

RICH = ObservationOptions("rich", ("sort", "wordcount"), upcoming=2, unknown_seconds=100.0)
PAPER = ObservationOptions()
NATURAL = ObservationOptions("natural", unknown_seconds=100.0)


def episode(jobs: Sequence[Job], types: tuple[str, ...] = RICH.types) -> Batch:
    """The jobs on two VMs of 4 cpus and 16 GiB for 0.24 dollars an hour; nothing has happened."""
    batch = make_batch([episode_of(jobs, make_vms(2), types)], rules(RewardOptions(), DurationOptions()))
    reset(batch, 0)
    return batch


def rich(batch: Batch) -> tuple[list[list[float]], list[float], list[list[float]]]:
    """The table of the VMs, the numbers behind it, and those of each of the two next jobs."""
    out = np.full(observation_length(2, RICH.layout), np.nan, np.float32)
    observe(batch, 0, RICH.layout, out)
    table, rest = split(out, 2, RICH.layout)
    return table.tolist(), rest[:10].tolist(), rest[10:].reshape(2, 6).tolist()


def test_the_rich_observation_by_hand() -> None:
    """Job 1 runs on VM 1 for 240 s; of job 2 (two executors of 2 cpus, 4 GiB) one is on VM 2 already."""
    first = replace(make_job("a", 1, 2, 4096, expected_duration=240.0), type="sort")
    second = replace(first, id="b", executors=2, type="wordcount")
    later = replace(first, id="c", submitted_at=1000.0)
    batch = episode([first, second, later])
    step_episode(batch, 0, 1)
    step_episode(batch, 0, 2)
    table, rest, upcoming = rich(batch)
    size = [4 / 16, 16 / 64, 0.24]
    held = [2 / 16, 12 / 64, *size, 1 / 8, 1]
    assert table[0] == pytest.approx([*held, 240 / (240 + 240), 1 / 8, 1, 0])
    assert table[1] == pytest.approx([*held, 0, 1 / 8, 1, 1 / 8])
    # 1 of 2 VMs' worth of jobs waits, and as much runs: 0.5 / (0.5 + 1).
    assert rest == pytest.approx([2 / 16, 4 / 64, 2 / 8, 1 / 8, 0, 1 / 3, 1 / 3, 0.5, 0, 1])
    assert upcoming == [[0] * 6] * 2  # job 3 has not arrived


def test_waiting_shows() -> None:
    """After 60 s job 3 has waited for 60 s, and so has job 4 behind it; a type that is not known has no 1."""
    jobs = [make_job(name, 2, 4, 16384, expected_duration=60.0) for name in "ab"]
    jobs[1] = replace(jobs[1], type="other")
    batch = episode([*jobs, jobs[0]])
    for action in (1, 2, 0):
        step_episode(batch, 0, action)
    table, rest, upcoming = rich(batch)
    assert [row[5:9] for row in table] == [[0, 0, 0, 1 / 8]] * 2
    assert [row[9] for row in table] == [0.5, 0.5]
    assert rest == pytest.approx([4 / 16, 16 / 64, 2 / 8, 2 / 8, 60 / 300, 0.5, 0, 0, 0, 0])
    assert upcoming == [pytest.approx([1, 0, 1, 4 / 16, 16 / 64, 2 / 8]), [0] * 6]


def test_nothing_is_seen_of_a_head_that_is_not_there() -> None:
    """When the episode is over, all about job and queue is 0, and the VMs are free."""
    batch = episode([make_job("a", 1, expected_duration=60.0)])
    step_episode(batch, 0, 1)
    table, rest, upcoming = rich(batch)
    assert rest == [0] * 10
    assert upcoming == [[0] * 6] * 2
    assert table == [pytest.approx([4 / 16, 16 / 64, 4 / 16, 16 / 64, 0.24, 0, 0, 0, 0, 0, 0])] * 2


class Recorder:
    """A policy that records its inputs and decisions when it placed a job."""

    def __init__(self, name: str) -> None:
        self.policy = create(name)
        self.asked: list[tuple[ClusterView, list[PlacementRequest], Place]] = []

    def decide(self, view: ClusterView, queue: Sequence[PlacementRequest]) -> Decision:
        """As the policy does."""
        decision = self.policy.decide(view, queue)
        if isinstance(decision, Place):
            self.asked.append((view, list(queue), decision))
        return decision


@pytest.mark.parametrize("options", [PAPER, RICH, NATURAL])
@pytest.mark.parametrize("belief", ["exact", "spread", 0.5, "constant"])
@pytest.mark.parametrize(("name", "seed"), [("rr", 1), ("ff", 2), ("best_fit", 3)])
def test_a_view_looks_like_the_episode(
    name: str, seed: int, belief: str | float, options: ObservationOptions
) -> None:
    """Bit by bit, before every executor of a run over a burst; masks too; for any belief about ends."""
    drawn, vms = load_workload("burst", seed, jobs=40).jobs, load_cluster("paper")
    # Of some types nobody knows anything, and the jobs outlast what is assumed of them.
    new = tuple(replace(job, type="new", duration=3 * job.duration) for job in drawn)
    workload = Workload(tuple(new[i] if i % 4 == 1 else job for i, job in enumerate(drawn)))
    recorder, simulated = Recorder(name), SimulationOptions(belief=Belief.read(belief), seed=seed)
    simulate(recorder, workload, vms, options=simulated)
    jobs, vms = jobs_of(workload, load_profiles()), checked_vms(vms)
    told = None if belief == "exact" else believed(jobs, simulated)
    episode = episode_of(jobs, vms, options.types, told, options.unknown_seconds)
    batch = make_batch([episode], rules(RewardOptions(), DurationOptions()))
    reset(batch, 0)
    seen = np.zeros(observation_length(len(vms), options.layout), np.float32)
    legal = np.zeros(len(vms) + 1, np.bool_)
    for number, (view, queue, place) in enumerate(recorder.asked):
        while batch.state.clock[0] < view.at:
            step_episode(batch, 0, 0)
        scene = scene_of(view, queue, options, number)
        for vm in place.placement:
            observe(batch, 0, options.layout, seen)
            assert observation(scene, options).tolist() == seen.tolist()
            for whole in (False, True):
                write_mask(batch, 0, whole, legal)
                assert mask(scene, whole=whole).tolist() == legal.tolist()
            step_episode(batch, 0, vm + 1)
            scene = put(scene, vm)
        if options is not PAPER:
            assert 0 <= seen.min() <= seen.max() <= 1.5
    assert len(recorder.asked) == 40


def test_a_real_cluster_is_seen_with_what_is_not_known() -> None:
    """A VM that is held until nobody knows when, and a job that ends then, last for as long as is said."""
    vms = make_vms(2)
    view = make_view(vms, free_cpus=[1.0, 4.0], executors=[2, 0], at=100.0)
    running = RunningJob(make_job("old"), (vms[0].id,), 90.0, None)
    view = view.changed(running=(running,))
    left = expected_end(100.0, 90.0, 60.0, running.job.spread) - 100.0
    assert 50 <= left < 60
    lost = PlacementRequest(make_job("new", 4, submitted_at=40.0), 2, (vms[0].id, vms[0].id), again=True)
    behind = PlacementRequest(replace(lost.job, id="next", type="unheard-of", executors=1), 1)
    scene = scene_of(view, [lost, behind], replace(RICH, unknown_seconds=60.0))
    table, rest = split(observation(scene, RICH), 2, RICH.layout)
    assert table[:, 7].tolist() == pytest.approx([left / (left + 240), 0])
    assert table[:, 10].tolist() == [2 / 8, 0]
    head = [1 / 16, 1 / 64, 4 / 8, 2 / 8, 60 / 300, 0.5, 1 / 3, left / (left + 240), 0, 1]
    assert rest.tolist() == pytest.approx([*head, 1, 0, 0, 1 / 16, 1 / 64, 1 / 8, *[0] * 6])
    assert mask(scene).tolist() == [True, True, True]


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"name": "all"}, "observation: should be paper or rich or natural, found 'all'"),
        ({"types": ("sort",)}, "types: only the rich observation tells job types apart"),
        ({"name": "rich", "types": ("sort", "sort")}, "types: should differ, found sort, sort"),
        ({"upcoming": -1}, "upcoming: should be 0 or more jobs, found -1"),
        ({"unknown_seconds": 0.0}, "unknown_seconds: should be more than 0, found 0.0"),
    ],
)
def test_bad_options_are_told(values: dict[str, str], complaint: str) -> None:
    """The option, what is right and what was found."""
    with pytest.raises(ValueError, match=complaint):
        ObservationOptions(**values)  # type: ignore[arg-type]
