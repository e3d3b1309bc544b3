"""Generated workloads: seeded, within bounds, of the density that was asked for."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from conf.loader import ConfigError, build, load
from conf.schema.workload import WorkloadSpec
from profiles.job_profile import load_profiles
from profiles.workloads.generators import generate, load_workload
from profiles.workloads.workload import Workload, WorkloadJob
from profiles.workloads.workload_files import WorkloadError, write_workload


def spec(**values: object) -> WorkloadSpec:
    """A hundred jobs an hour."""
    arrivals = {"kind": "poisson", "jobs_per_hour": 100.0}
    return WorkloadSpec.model_validate({"jobs": 20, "arrivals": arrivals, **values})


def test_the_same_seed_gives_the_same_workload() -> None:
    """And another seed another one; the seed of the call goes before the description's."""
    assert generate(spec(seed=3)) == generate(spec(seed=3)) == generate(spec(), 3)
    assert generate(spec(seed=3)) != generate(spec(seed=4))


def test_arrivals_do_not_change_the_jobs() -> None:
    """Two densities with one seed have the same jobs at other times."""
    slow = generate(spec(seed=1))
    fast = generate(spec(seed=1, arrivals={"kind": "poisson", "jobs_per_hour": 6000.0}))
    assert [(j.type, j.cpus, j.duration) for j in slow.jobs] == [
        (j.type, j.cpus, j.duration) for j in fast.jobs
    ]
    assert slow.jobs[-1].submitted_at == pytest.approx(60 * fast.jobs[-1].submitted_at)


def test_owners_and_queues_are_drawn_by_weight() -> None:
    """And change nothing else of the jobs; without them jobs are nobody's, in the default queue."""
    plain = generate(spec(jobs=1000, seed=1)).jobs
    assert {(job.owner, job.queue) for job in plain} == {("", "default")}
    mix = {"owners": {"alice": 3.0, "bob": 1.0}, "queues": {"night": 1.0, "never": 0.0}}
    drawn = generate(spec(jobs=1000, seed=1, mix=mix)).jobs
    assert tuple(replace(job, owner="", queue="default") for job in drawn) == plain
    assert sum(job.owner == "alice" for job in drawn) == pytest.approx(750, abs=50)
    assert {job.queue for job in drawn} == {"night"}
    with pytest.raises(ValueError, match="owners: one of the weights should be more than 0"):
        spec(mix={"owners": {"alice": 0.0}})


def test_the_papers_mix_is_uniform() -> None:
    """In many jobs every type and size of Islam 2022, 7.1 occurs about equally often, and no other."""
    jobs = load_workload("normal", seed=0, jobs=20_000).jobs
    for column, values in (
        ([job.cpus for job in jobs], range(1, 7)),
        ([job.memory_mib // 1024 for job in jobs], range(1, 11)),
        ([job.executors for job in jobs], range(1, 9)),
        ([job.type for job in jobs], ("wordcount", "pagerank", "sort")),
    ):
        found, counts = np.unique(column, return_counts=True)
        assert sorted(found.tolist()) == sorted(values)
        assert counts.min() > 0.9 * len(jobs) / len(counts)


@pytest.mark.parametrize(("name", "jobs_per_hour"), [("normal", 50), ("burst", 600)])
def test_shipped_workloads_have_the_papers_densities(name: str, jobs_per_hour: float) -> None:
    """Arrivals are Poisson: the gaps' mean and spread are both one over the rate."""
    times = np.array([job.submitted_at for job in load_workload(name, seed=0, jobs=20_000).jobs])
    gaps = np.diff(times) * jobs_per_hour / 3600
    assert gaps.mean() == pytest.approx(1, rel=0.03)
    assert gaps.std() == pytest.approx(1, rel=0.03)


def test_durations_come_from_the_profiles() -> None:
    """Every job takes its type's profile duration for its size."""
    profiles = load_profiles()
    for job in load_workload("burst").jobs:
        assert job.duration == profiles[job.type].duration(job.cpus, job.memory_mib, job.executors)


def test_every_shipped_description_loads() -> None:
    """All of conf/workloads are valid, with a comment that describes them."""
    for path in (Path(__file__).parents[3] / "conf/workloads").glob("*.yaml"):
        assert load(path, WorkloadSpec).jobs >= 50
        assert path.read_text().startswith("# ")


def test_a_file_is_a_workload_too(tmp_path: Path) -> None:
    """A CSV file by its path, whole or its first jobs."""
    workload = generate(spec())
    write_workload(workload, tmp_path / "mine.csv")
    assert load_workload(tmp_path / "mine.csv") == workload
    assert load_workload(str(tmp_path / "mine.csv"), jobs=5) == workload.first(5)
    with pytest.raises(WorkloadError, match="holds 20 jobs, 21 are asked for"):
        load_workload(tmp_path / "mine.csv", jobs=21)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("jobs: 5\n", "either arrivals"),
        ("jobs: 5\narrivals: {kind: poisson, jobs_per_hour: 1}\nalibaba: {}\n", "either arrivals"),
        ("jobs: 5\narrivals: {kind: poisson, jobs_per_hour: 0}\n", r":2: arrivals.jobs_per_hour: .*found 0"),
        (
            "jobs: 5\narrivals: {kind: poisson, jobs_per_hour: 1}\nmix: {cpus: [6, 1]}\n",
            r":3: mix.cpus: should be \[lowest, highest\]",
        ),
        (
            "jobs: 5\narrivals: {kind: poisson, jobs_per_hour: 1}\nmix: {types: {grep: 1}}\n",
            "no profile of grep in profiles/data/paper.yaml; there are wordcount, pagerank, sort",
        ),
    ],
)
def test_bad_descriptions_are_told(text: str, complaint: str, tmp_path: Path) -> None:
    """The error states the fault, with the line where there is one."""
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=complaint):
        load_workload(path)


def test_an_unknown_workload_lists_the_known() -> None:
    """The error helps with the names there are."""
    with pytest.raises(ConfigError, match=r"steady: no such workload; known are .*burst.*normal"):
        load_workload("steady")


def test_workloads_are_in_order() -> None:
    """A workload cannot be made with jobs out of order, or with two of one name."""
    early, late = (WorkloadJob(f"job-{at}", at, "sort", 1.0, 1, 1, 1.0) for at in (1.0, 2.0))
    with pytest.raises(ValueError, match=r"job-1.0 arrives before job-2.0"):
        Workload((late, early))
    with pytest.raises(ValueError, match=r"two jobs are called job-1.0"):
        Workload((early, early))


def test_recorded_jobs_are_drawn_again(tmp_path: Path) -> None:
    """Types, sizes and durations are those of the file, so are the gaps, and a seed gives the same jobs."""
    path = tmp_path / "recorded.csv"
    path.write_text(
        "submitted_at,type,cpus,memory_mib,executors,duration,name,input_mib\n"
        "0,sort,1,1024,2,20,a,8\n10,sql,2,2048,3,30,b,16\n16,sort,1,1024,4,40,c,8\n"
    )
    recorded = build(WorkloadSpec, {"jobs": 200, "recorded": {"path": str(path), "speedup": 2.0}}, "x")
    found = generate(recorded, 5)
    assert found == generate(recorded, 5) != generate(recorded, 6)
    assert {(job.type, job.executors, job.duration, job.input_mib) for job in found.jobs} == {
        ("sort", 2, 20.0, 8.0), ("sql", 3, 30.0, 16.0), ("sort", 4, 40.0, 8.0),
    }  # fmt: skip
    times = [job.submitted_at for job in found.jobs]
    assert {round(b - a, 6) for a, b in pairwise(times)} == {5.0, 3.0}
    assert found.left_out == ()
    path.write_text(
        "submitted_at,type,cpus,memory_mib,executors,duration,name,after\n"
        "0,sort,1,1024,2,20,a,\n10,sql,2,2048,3,30,b,a\n16,sort,1,1024,4,40,c,a;b\n"
    )
    alone = generate(recorded, 5)
    assert all(job.after == () for job in alone.jobs)
    assert alone.left_out == (f"{path}: dependencies and start times of 2 jobs, as each is drawn alone",)
    with pytest.raises(ConfigError, match="the jobs of recorded have sizes of their own"):
        build(WorkloadSpec, {"jobs": 1, "recorded": {"path": "x"}, "mix": {}}, "spec")
