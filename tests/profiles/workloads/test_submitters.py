"""Workloads of users: each one's rate, jobs and queue, and descriptions that make no sense."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conf.schema.workload import WorkloadSpec
from profiles.workloads.generators import generate
from profiles.workloads.workload import Workload
from profiles.workloads.workload_files import WorkloadError, read_workload, write_workload

POISSON = {"kind": "poisson", "jobs_per_hour": 100.0}


def made(seed: int = 0, /, **values: Any) -> Workload:
    """The workload of a description of 400 jobs."""
    return generate(WorkloadSpec.model_validate({"jobs": 400, **values}), seed)


def test_users_submit_as_often_as_they_say() -> None:
    """By jobs an hour, all at once, and some of them later; several alike have numbers."""
    users = {
        "ann": {"jobs_per_hour": 60.0, "queue": "prod"},
        "bob": {"jobs_per_hour": 20.0, "count": 2},
        "eve": {"at_once": 50, "after": 3600.0},
    }
    jobs = made(users=users).jobs
    count = Counter(job.owner for job in jobs)
    assert count["eve"] == 50
    assert {job.submitted_at for job in jobs if job.owner == "eve"} == {3600.0}
    assert count["ann"] == pytest.approx(210, abs=40)
    assert count["bob-1"] + count["bob-2"] == pytest.approx(140, abs=35)
    assert {job.queue for job in jobs if job.owner == "ann"} == {"prod"}
    assert {job.queue for job in jobs if job.owner != "ann"} == {"default"}
    assert [job.name for job in jobs] == [f"job-{number}" for number in range(1, 401)]


def test_a_load_in_cores_is_what_the_jobs_take() -> None:
    """The cores that jobs ask for, times how long they take, over the time in which they come."""
    mix = {"cpus": [1, 2], "executors": [1, 4]}
    jobs = made(jobs=4000, users={"ann": {"cores": 12.0, "mix": mix}}).jobs
    load = sum(job.cpus * job.executors * job.duration for job in jobs) / jobs[-1].submitted_at
    assert load == pytest.approx(12.0, rel=0.06)
    assert max(job.cpus for job in jobs) == 2.0


def test_what_one_user_does_changes_nothing_of_the_others() -> None:
    """His jobs and times are drawn from streams of his own."""
    ann, slow = {"jobs_per_hour": 60.0}, {"jobs_per_hour": 30.0}
    quick = {"jobs_per_hour": 90.0, "mix": {"cpus": [1, 1]}}
    first, second = (made(3, jobs=40, users={"ann": ann, "bob": bob}) for bob in (slow, quick))
    hers = [
        [replace(job, name="hers") for job in workload.jobs if job.owner == "ann"]
        for workload in (first, second)
    ]
    fewer = min(map(len, hers))
    assert fewer > 5
    assert hers[0][:fewer] == hers[1][:fewer]
    assert made(3, users={"ann": ann}) != made(4, users={"ann": ann})


def test_given_arrivals_are_shared() -> None:
    """The times stay those of the arrivals; each one's submitter is drawn by shares."""
    users = {"ann": {"share": 3.0, "queue": "prod"}, "bob": {"mix": {"executors": [1, 1]}}}
    plain, shared = made(arrivals=POISSON).jobs, made(arrivals=POISSON, users=users).jobs
    assert [job.submitted_at for job in shared] == [job.submitted_at for job in plain]
    count = Counter((job.owner, job.queue) for job in shared)
    assert count["ann", "prod"] == pytest.approx(300, abs=40)
    assert count["bob", "default"] == 400 - count["ann", "prod"]
    assert {job.executors for job in shared if job.owner == "bob"} == {1}


def test_a_trace_is_split_by_a_hash_of_names(tmp_path: Path) -> None:
    """The same job is the same user's, for any seed; nothing else of it changes."""
    path = tmp_path / "recorded.csv"
    write_workload(made(arrivals=POISSON), path)
    source: dict[str, Any] = {"recorded": {"path": str(path)}}
    plain, split = made(**source), made(**source, users={"ann": {"share": 3.0}, "bob": {"queue": "night"}})
    assert tuple(replace(job, owner="", queue="default") for job in split.jobs) == plain.jobs
    assert Counter(job.owner for job in split.jobs)["ann"] == pytest.approx(300, abs=40)
    again = made(7, **source, users={"ann": {"share": 3.0}, "bob": {"queue": "night"}})
    assert [job.owner for job in again.jobs] == [job.owner for job in split.jobs]


def test_priorities_and_deadlines_are_drawn(tmp_path: Path) -> None:
    """By weight, and so many times the duration; they change nothing else, and a file keeps them."""
    mix = {"priorities": {0: 3.0, 10: 1.0}, "deadlines": {"slack": [2, 4], "share": 0.5}}
    plain, drawn = made(arrivals=POISSON), made(arrivals=POISSON, mix=mix)
    assert tuple(replace(job, priority=None, deadline=None) for job in drawn.jobs) == plain.jobs
    assert Counter(job.priority for job in drawn.jobs)[10] == pytest.approx(100, abs=30)
    slack = [job.deadline / job.duration for job in drawn.jobs if job.deadline is not None]
    assert len(slack) == pytest.approx(200, abs=35)
    assert 2 <= min(slack) < 2.1
    assert 3.9 < max(slack) <= 4
    write_workload(drawn, tmp_path / "w.csv")
    assert read_workload(tmp_path / "w.csv") == drawn


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({}, "either arrivals .* or users"),
        ({"users": {"ann": {}}}, "users: ann: should have one of jobs_per_hour, cores, at_once"),
        ({"users": {"ann": {"share": 1.0}}}, "users: ann: should have one of jobs_per_hour"),
        ({"users": {"ann": {"cores": 1.0, "at_once": 3}}}, "found cores and at_once"),
        ({"arrivals": POISSON, "users": {"ann": {"cores": 1.0}}}, "users: ann: cores: needs arrivals"),
        ({"arrivals": POISSON, "users": {"ann": {"after": 1.0}}}, "users: ann: after: needs arrivals"),
        ({"recorded": {"path": "x.csv"}, "users": {"ann": {"mix": {}}}}, "users: ann: mix: the jobs of a"),
        ({"users": {"ann": {"cores": 1.0, "mix": {"owners": {"bob": 1}}}}}, "mix: owners and queues"),
        (
            {"arrivals": POISSON, "mix": {"queues": {"a": 1}}, "users": {"ann": {}}},
            "mix: owners and queues: leave them out",
        ),
        ({"arrivals": POISSON, "mix": {"priorities": {2000: 1.0}}}, "less than or equal to 1000"),
        ({"arrivals": POISSON, "mix": {"deadlines": {"slack": [4, 2]}}}, "lowest, highest"),
    ],
)
def test_descriptions_that_make_no_sense(values: dict[str, Any], complaint: str) -> None:
    """Each is told by its key."""
    with pytest.raises(ValueError, match=complaint):
        made(**values)


def test_users_who_submit_too_little() -> None:
    """Fewer jobs than are asked for are an error, as in a trace."""
    with pytest.raises(WorkloadError, match="submit 5 jobs, 400 are asked for"):
        made(users={"ann": {"at_once": 5}})
