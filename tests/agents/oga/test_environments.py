"""Environments have the requested properties, are the same again, and survive a file."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agents.oga.bipartite import UTILITIES, ModelError, Request
from agents.oga.environments import (
    EnvironmentOptions,
    from_alibaba,
    generate,
    load_environment,
    save_environment,
)
from tests.arrays import same
from tests.profiles.workloads.test_traces import ALIBABA, PODS, needs_traces

SMALL = EnvironmentOptions(types=6, instances=40, resources=4, slots=200)


def test_generated_environments_follow_their_options() -> None:
    """Sizes, ranges, density, arrivals and contention; a seed gives the same twice."""
    made, again, other = (generate(replace(SMALL, seed=seed, density=2.5)) for seed in (1, 1, 2))
    model = made.model
    assert (len(model.ports), len(model.instances), model.shape[0]) == (6, 40, 4)
    assert 2 <= model.density <= 3
    assert made.arrivals.mean() == pytest.approx(0.7, abs=0.05)
    assert 1.0 <= model.graph.alphas.min() <= model.graph.alphas.max() <= 1.5
    assert 0.3 <= model.graph.beta.min() <= model.graph.beta.max() <= 0.5
    assert set(model.graph.kinds.ravel()) == set(range(len(UTILITIES)))
    assert same(model.graph, again.model.graph)
    assert (made.arrivals == again.arrivals).all()
    assert not (made.arrivals == other.arrivals).all()
    twice = generate(replace(SMALL, seed=1, density=2.5, contention=20.0)).model
    assert twice.graph.bounds == pytest.approx(2 * model.graph.bounds)
    assert generate(replace(SMALL, density=0.0)).model.density == 6
    assert set(generate(replace(SMALL, utility="poly")).model.graph.kinds.ravel()) == {3}
    assert generate(replace(SMALL, resources=1)).model.shape[0] == 1


def test_several_jobs_of_a_type_come_in_a_slot() -> None:
    """Each by its own coin: as many as a binomial of them; and each is a port (Zhao 2023, 3.4)."""
    plain, made = (generate(replace(SMALL, jobs_per_type=several)) for several in (1, 3))
    assert set(np.unique(made.counts)) == {0, 1, 2, 3}
    assert made.counts.mean() == pytest.approx(3 * 0.7, abs=0.1)
    assert made.arrivals.shape == (200, 18)
    assert (made.arrivals.reshape(200, 6, 3).sum(axis=2) == made.counts).all()
    assert (made.model.graph.bounds == np.repeat(plain.model.graph.bounds, 3, axis=1)).all()
    assert made.model.density == pytest.approx(3 * plain.model.density)


def test_tasks_share_a_job_s_request_and_come_together() -> None:
    """A port for each task, an equal part of the request each; all must start unless a gang is smaller."""
    plain, made = (generate(replace(SMALL, tasks=count)) for count in (1, 4))
    assert (plain.counts == made.counts).all()
    assert (made.arrivals.reshape(200, 6, 4) == made.counts[..., None]).all()
    assert made.model.jobs == 6
    assert made.model.graph.bounds == pytest.approx(np.repeat(plain.model.graph.bounds / 4, 4, axis=1))
    assert made.jobs.minimum.tolist() == [4] * 6
    assert plain.jobs.minimum.tolist() == [0] * 6
    assert generate(replace(SMALL, tasks=4, gang=3)).jobs.minimum.tolist() == [3] * 6
    assert generate(replace(SMALL, tasks=4, gang=0)).jobs.minimum.tolist() == [0] * 6


@pytest.mark.parametrize("request_", ["per_channel", "total"])
@pytest.mark.parametrize("change", [{}, {"jobs_per_type": 2, "tasks": 3, "gang": 2, "floor": 0.7}])
def test_environments_survive_a_file(tmp_path: Path, request_: Request, change: dict[str, Any]) -> None:
    """One npz file holds all."""
    made = generate(replace(SMALL, request=request_, **change))
    save_environment(made, tmp_path / "e.npz")
    loaded = load_environment(tmp_path / "e.npz")
    assert (loaded.name, loaded.model.request) == (made.name, request_)
    assert same(loaded.model.graph, made.model.graph)
    assert (loaded.counts == made.counts).all()
    for name in ("type", "position", "minimum"):
        assert (getattr(loaded.jobs, name) == getattr(made.jobs, name)).all()
    assert loaded.jobs.floor == made.jobs.floor


def test_files_without_jobs_have_one_for_each_type(tmp_path: Path) -> None:
    """Such as were saved before several jobs and gangs could be."""
    made = generate(SMALL)
    save_environment(made, tmp_path / "e.npz")
    arrays = dict(np.load(tmp_path / "e.npz"))
    for name in ("types", "positions", "minimum", "floor"):
        del arrays[name]
    np.savez(tmp_path / "old.npz", **arrays)
    loaded = load_environment(tmp_path / "old.npz")
    assert (loaded.arrivals == made.arrivals).all()
    assert not loaded.jobs.minimum.any()


def test_bad_files_are_named(tmp_path: Path) -> None:
    """Not there, no archive, not an environment, arrivals that do not fit."""
    good = tmp_path / "good.npz"
    save_environment(generate(SMALL), good)
    arrays = dict(np.load(good))
    (tmp_path / "text.npz").write_text("hello")
    np.savez(tmp_path / "other.npz", a=np.zeros(3))
    np.savez(tmp_path / "short.npz", **{**arrays, "arrivals": arrays["arrivals"][:, :2]})
    np.savez(tmp_path / "floor.npz", **{**arrays, "floor": np.array(0.0)})
    np.savez(tmp_path / "minimum.npz", **{**arrays, "minimum": arrays["minimum"] + 2})
    np.savez(tmp_path / "owners.npz", **{**arrays, "jobs": arrays["jobs"][::-1]})
    for name, complaint in (
        ("none", "No such file"),
        ("text", "text.npz"),
        ("other", "not an environment: edges"),
        ("short", "arrivals: slots of small numbers for 6 types"),
        ("floor", "floor: more than 0 and at most 1 expected, found 0"),
        ("minimum", "minimum: between 0 and a job's 1 task expected, found 2"),
        ("owners", "jobs: types, positions and minima of jobs whose ports are in their order"),
    ):
        with pytest.raises(ModelError, match=complaint):
            load_environment(tmp_path / f"{name}.npz")


@pytest.mark.parametrize(
    "change",
    [
        {"types": 0},
        {"arrival": 1.5},
        {"contention": 0.0},
        {"density": 7.0},
        {"utility": "cubic"},
        {"jobs_per_type": 0},
        {"jobs_per_type": 256},
        {"tasks": 0},
        {"gang": 2},
        {"gang": -1, "tasks": 2},
        {"floor": 0.0},
        {"floor": 1.1},
    ],
)
def test_bad_options_are_refused(change: dict[str, object]) -> None:
    """The message names the option."""
    with pytest.raises(ValueError, match=next(iter(change))):
        replace(SMALL, **change)  # type: ignore[arg-type]


def test_alibaba_files_make_an_environment(tmp_path: Path) -> None:
    """Ports are the kinds of task that occur most, with a job when a task of theirs is there."""
    (tmp_path / "openb_node_list_all_node.csv").write_text(
        "sn,cpu_milli,memory_mib,gpu,model\nn0,32000,262144,2,T4\nn1,64000,65536,0,\n"
    )
    tasks = "".join(f"a{i},4000,8192,1,1000,,LS,Running,{10 * i},{10 * i + 5.5},\n" for i in range(11))
    (tmp_path / "openb_pod_list_default.csv").write_text(
        PODS + tasks + "b,1000,16384,0,0,,LS,Running,0,99,0\n"
    )
    options = EnvironmentOptions(
        types=2, instances=2, slots=10, arrival=1.0, contention=2.0, density=0.0, request="total"
    )
    made = from_alibaba(tmp_path, options)
    assert sorted(made.model.graph.capacity.T.tolist()) == [[32, 32, 2], [64, 8, 0]]
    assert made.model.graph.bounds.T.tolist() == [[8, 2, 2], [2, 4, 0]]
    assert made.arrivals[:, 1].tolist() == [1] * 10
    assert 0 < made.arrivals[:, 0].sum() < 10
    several = from_alibaba(tmp_path, replace(options, jobs_per_type=2))
    assert several.counts[:, 1].tolist() == [1] * 10, "no more than there are"
    with pytest.raises(ValueError, match="instances: the trace has 2 machines, 3 asked for"):
        from_alibaba(tmp_path, replace(options, instances=3))
    with pytest.raises(ValueError, match="types: the trace has 2 kinds of task, 3 asked for"):
        from_alibaba(tmp_path, replace(options, types=3))


@needs_traces
def test_the_real_alibaba_files() -> None:
    """A hundred machines and ten kinds of task, most of them there at some time."""
    made = from_alibaba(ALIBABA, EnvironmentOptions(instances=100, slots=300))
    assert made.model.resources == ("0", "1", "2")
    assert len(made.model.instances) == 100
    assert made.arrivals.any(axis=0).sum() >= 8
