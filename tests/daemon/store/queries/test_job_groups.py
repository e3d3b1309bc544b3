"""Names that jobs come after, arrays, groups and labels, as the job store has them."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conf.schema import JobSpec
from conf.schema.users import Role
from daemon.auth.permits import Permit
from daemon.core.identity import NOBODY, Person, Submitter
from daemon.store.job_store import Store
from daemon.store.queries import dependencies
from daemon.store.queries.dependencies import UnknownDependencyError
from daemon.store.queries.insert_jobs import IdempotencyConflictError, SubmittedSpec
from environment.dependencies import After
from environment.model.cluster_model import Changes
from environment.model.messages.records import JobRecord
from environment.types import Job
from tests.builders import make_job


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """An empty one."""
    with closing(Store(f"sqlite:///{tmp_path / 'stoker.db'}")) as made:
        yield made


def submit(
    store: Store, key: str | None = None, *, submitter: Submitter = NOBODY, **fields: Any
) -> JobRecord:
    """Have a job, or an array, in the store: the record of the first."""
    spec = JobSpec.model_validate({"app": "/apps/a.py", "owner": "ann", **fields})

    def job(job_id: str, _: SubmittedSpec) -> Job:
        labels = tuple(sorted(spec.labels.items()))
        made = make_job(job_id, submitted_at=5.0)
        return replace(
            made, name=spec.label, owner=spec.owner, group=spec.group, count=spec.count, labels=labels
        )

    (outcome,) = store.jobs.new.add([SubmittedSpec(spec, key, submitter=submitter)], job, 5.0)
    if isinstance(outcome, Exception):
        raise outcome
    return outcome[0]


def end(store: Store, state: str, *job_ids: str) -> None:
    """These jobs are over."""
    for number, job_id in enumerate(job_ids):
        record = store.jobs.get(job_id)
        assert record is not None
        over = replace(record, state=state, finished_at=50.0 + number, cost=0.5, reason="it broke")  # type: ignore[arg-type]
        store.changes.save(Changes((over,), ()))


def test_names_become_ids(store: Store) -> None:
    """The latest job of that name and owner, however it does; ids as they are; each once."""
    submit(store, name="load")
    submit(store, name="load")
    submit(store, name="load", owner="bob")
    end(store, "failed", "job-2")
    found = submit(store, after=["load", {"job": "job-1", "when": "any"}, "job-1"])
    assert found.job.after == (After("job-2", name="load", ended="failed"), After("job-1"))
    assert store.jobs.get("job-4") == found


@pytest.mark.parametrize("after", ["job-9", "array-9", "job", {"group": "job"}, "me"])
def test_what_is_not_there_is_said(store: Store, after: object) -> None:
    """And nothing is kept."""
    with pytest.raises(UnknownDependencyError, match=r"^after: (there is|ann has) no "):
        submit(store, name="me", after=after)
    assert store.jobs.page() == []
    with pytest.raises(UnknownDependencyError, match="but this one, which cannot come after itself"):
        submit(store, name="me", after="me")


@pytest.mark.parametrize(("person", "sees_all"), [("submit", False), ("submit", True), ("operate", False)])
def test_what_one_may_not_see_is_not_there_to_come_after(store: Store, person: Role, sees_all: bool) -> None:
    """A predecessor that a user may not see is refused as an unknown id.

    Users find their own jobs, and users that see all jobs find any job.
    """
    submit(store, owner="bob")
    submit(store, owner="bob", count=2)
    submit(store, owner="ann", count=2)
    permit = Permit(Person("ann", person), sees_all=sees_all)
    spec, submitter = permit.admit(JobSpec.model_validate({"app": "/apps/a.py"}))
    for name in ("job-1", "job-3", "array-2"):
        if permit.limited:
            unknown = name.split("-")[0] + " " + name
            with pytest.raises(UnknownDependencyError, match=f"^after: there is no {unknown}$"):
                submit(store, submitter=submitter, owner=spec.owner, after=name)
        else:
            assert submit(store, submitter=submitter, owner=spec.owner, after=name).job.after
    for name in ("job-5", "array-4"):
        assert submit(store, submitter=submitter, owner=spec.owner, after=name).job.after[0].job == name


def test_an_array_is_one_submission(store: Store) -> None:
    """Numbers one behind the other, one key, variables and arguments of each."""
    spec_of: dict[str, Any] = {"count": 3, "args": ["--part", "{index}"], "name": "parts"}
    first = submit(store, "k", **spec_of)
    assert (first.job.id, first.job.array, first.job.index) == ("job-1", "array-1", 0)
    assert [job.job.index for job in store.jobs.page(group="array-1")] == [2, 1, 0]
    spec = store.jobs.spec("job-3")
    assert spec is not None
    assert (spec.args, spec.env) == (("--part", "2"), {"STOKER_INDEX": "2", "STOKER_COUNT": "3"})
    assert submit(store, "k", **spec_of) == first
    with pytest.raises(IdempotencyConflictError):
        submit(store, "k", count=4)
    assert len(store.jobs.page()) == 3
    assert submit(store, after=["parts"]).job.after == (After("array-1", name="parts", members=3),)
    end(store, "finished", "job-1", "job-2", "job-3")
    assert submit(store, after=["array-1"]).job.after == (After("array-1", members=3, ended="finished"),)


def test_a_jobs_dependencies_are_bounded_with_those_of_its_array(store: Store) -> None:
    """The loop notes each of each job. What is named twice is looked up once."""
    submit(store, count=50, group="many")
    names = [f"job-{number}" for number in range(1, 51)]
    told = "each job of this array may come after no more than 20: the jobs"
    for named in (names, {"group": "many"}, ["array-1", *names[:20]]):
        with pytest.raises(UnknownDependencyError, match=told):
            submit(store, count=1000, after=named)
    assert len(submit(store, count=1000, after=names[:20]).job.after) == 20
    assert len(submit(store, after=[{"group": "many"}, *names] * 10).job.after) == 50
    submit(store, count=1000, group="more")
    with pytest.raises(UnknownDependencyError, match="a job may come after no more than 1,000: the jobs"):
        submit(store, after=[{"group": "many"}, {"group": "more"}])


def test_a_dependency_that_is_named_often_is_looked_up_once(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All submissions are stored one after the other, so that others would wait for a thousand look-ups."""
    submit(store, count=3, group="many")
    looked, look = list[Any](), dependencies._looked_up

    def noted(*of: Any) -> list[After]:
        looked.append(of)
        return look(*of)

    monkeypatch.setattr(dependencies, "_looked_up", noted)
    submit(store, after=[{"group": "many"}, "array-1", "job-1"] * 300)
    assert len(looked) == 3


def test_a_group_is_looked_at_as_one(store: Store) -> None:
    """A group has states, a bill and a first failure; a job after it waits for all unended ones."""
    for _ in range(3):
        submit(store, group="nightly")
    submit(store, group="nightly", owner="bob")
    found = store.jobs.group("nightly")
    assert found is not None
    assert (found.state, found.states, found.finished_at) == ("queued", {"queued": 4}, None)
    end(store, "finished", "job-1")
    after = submit(store, after=[{"group": "nightly"}]).job.after
    assert after == (After("job-2", name="nightly"), After("job-3", name="nightly"))
    end(store, "failed", "job-3", "job-2")
    found = store.jobs.group("nightly", ["ann"])
    assert found is not None
    assert (found.state, found.cost, found.finished_at) == ("failed", 1.5, 51.0)
    assert found.failure is not None
    assert found.failure.job.id == "job-3"
    assert submit(store, after="nightly").job.after[0].ended == "failed"
    assert store.jobs.group("weekly") is None
    assert store.jobs.ends_of(["job-1", "job-3", "job-4", "job-99"]) == {
        "job-1": "finished",
        "job-3": "failed",
    }


def test_jobs_are_found_by_labels(store: Store) -> None:
    """By all that are asked for, with states and owners; and no more when they are pruned."""
    submit(store, labels={"team": "a", "stage": "load"})
    submit(store, labels={"team": "a"})
    submit(store, labels={"team": "b"})
    submit(store, labels={"team": "a"}, owner="bob")

    def found(**wanted: object) -> list[str]:
        return [record.job.id for record in store.jobs.page(**wanted)]  # type: ignore[arg-type]

    assert found(labels={"team": "a"}) == ["job-4", "job-2", "job-1"]
    assert found(labels={"team": "a"}, limit=1, before="job-4") == ["job-2"]
    assert found(labels={"team": "a", "stage": "load"}) == ["job-1"]
    assert found(labels={"team": "a"}, owners=("bob",), states=("queued",)) == ["job-4"]
    end(store, "finished", "job-1")
    assert store.jobs.ended.prune(["job-1"]) == 1
    assert found(labels={"stage": "load"}) == []


def test_no_circle_of_jobs_can_be_made(store: Store) -> None:
    """A job only comes after existing ones, even when both are submitted at once."""

    def job(job_id: str, given: SubmittedSpec) -> Job:
        return replace(make_job(job_id, submitted_at=5.0), name=given.spec.label, owner="ann")

    circle = [
        SubmittedSpec(
            JobSpec.model_validate({"app": "/apps/a.py", "owner": "ann", "name": name, "after": after})
        )
        for name, after in (("load", ["clean"]), ("clean", ["load"]))
    ]
    for outcome in store.jobs.new.add(circle, job, 5.0):
        assert isinstance(outcome, UnknownDependencyError)
        assert str(outcome).startswith("after: ann has no job or group ")
    assert store.jobs.page() == []
    submit(store, name="load")
    assert submit(store, name="clean", after="load").job.after == (After("job-1", name="load"),)
    # That of the name which is there: another one than this.
    assert submit(store, name="load", after="clean").job.after == (After("job-2", name="clean"),)
