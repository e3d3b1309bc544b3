"""Queue admission: refusals, effects of a queue on its accepted jobs, and waiting limits."""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conf.loader import build
from conf.schema import Config, Driver, DynamicExecutors, JobSpec, SharingFile
from daemon.core.errors import RejectedError
from daemon.core.identity import NOBODY, Submitter
from daemon.launch.launcher import Launcher
from daemon.store.job_store import Store
from daemon.store.queries.insert_jobs import SubmittedSpec
from daemon.store.rows.database import StoreFullError
from daemon.submission.admission import Intake
from environment.model.vms.max_capacity import MaxCapacity
from environment.pools import SpotTerms, Terms
from environment.queues.shares import ALL_QUEUES
from environment.queues.types import Most, Queues, queues_of
from environment.types import Job
from tests.builders import make_vms

TREE = {
    "prod": {
        "priority": 10,
        "submit": ["ann", "bob"],
        "most": {"cpus": 8, "memory": "8g", "waiting": 3},
        "queues": {
            "etl": {"spot": "never", "most_per_user": {"cpus": 4, "waiting": 2}},
            "ml": {"submit": ["cy"], "priority": -5, "most": {"dollars_per_hour": 0.1}},
        },
    },
    "stopped": {"most": {"running": 0}},
    "dev": {"spot": "only", "most_per_user": {"memory": "2g", "gpus": 0}},
}


class Door:
    """An intake in front of these queues, on VMs of four cpus at $0.24 an hour, some of them spot VMs."""

    def __init__(self, folder: Path, store: Store) -> None:
        self.queues = queues_of(build(SharingFile, {"queues": TREE}, "queues").queues)
        self.store = store
        self.waiting: dict[tuple[str, str | None], int] = {}
        self.arrived: list[Job] = []
        launcher = Launcher(Config(data_dir=str(folder)), folder, "127.0.0.1")
        self.intake = Intake(
            store, launcher, {}, lambda _, job: self.arrived.append(job), lambda: None, 100, time.time,
            queues=lambda: self.queues, over_all=lambda: Most({"cpus": 14.0}),
        )  # fmt: skip
        self.note()

    def note(self, *arrived: str) -> None:
        """Pass the loop's VMs, arrived jobs and waiting counts to the intake."""
        spot = (replace(vm, terms=Terms("spot", spot=SpotTerms(0.2))) for vm in make_vms(8, cpus=4)[4:])
        vms = (*make_vms(4, cpus=4), *spot)
        self.intake.note(0, MaxCapacity(vms), arrived, lambda path, user: self.waiting.get((path, user), 0))

    def __call__(self, queue: str, owner: str = "", submitter: Submitter = NOBODY, **asked: Any) -> Job:
        """Submit a job; return it or raise its refusal."""
        spec = {"app": __file__, "cpus": 1, "memory": 1024, "queue": queue, "owner": owner, **asked}
        each = SubmittedSpec(JobSpec(**spec), submitter=submitter)
        (admission,) = (found[each] for found in self.intake.accept([each]) if found)
        if isinstance(admission, Exception):
            raise admission
        return admission[0].job


@pytest.fixture
def door(tmp_path: Path) -> Iterator[Door]:
    """One that is open."""
    store = Store(f"sqlite:///{tmp_path / 'stoker.db'}")
    yield Door(tmp_path, store)
    store.close()


def refused(call: Callable[[], object]) -> tuple[int, str]:
    """Status and text of a refusal."""
    with pytest.raises(RejectedError) as error:
        call()
    return error.value.status, error.value.detail


@pytest.mark.parametrize(
    ("queue", "owner", "asked", "status", "why"),
    [
        ("prdo", "ann", {}, 422, "there is no queue prdo; jobs can be in prod.ml, prod.etl, default, dev, "),
        ("prod", "ann", {}, 422, "queue prod accepts no jobs itself, those below it do: prod.ml, prod.etl"),
        ("prod.etl", "cy", {}, 403, "cy may not submit to prod.etl; ann, bob may"),
        ("prod.etl", "", {}, 403, "a job without an owner may not be submitted to prod.etl"),
        ("prod.ml", "ann", {}, 403, "ann may not submit to prod.ml; cy may"),
        ("prod.etl", "ann", {"spot": "only"}, 422, "cannot be in prod.etl, whose jobs have spot: never"),
        ("dev", "ann", {"spot": "never"}, 422, "whose jobs have spot: only"),
        ("prod.etl", "ann", {"executors": 5}, 422,
         "each user of queue prod.etl may have 4 cpus at most (most_per_user.cpus), and the job takes 5"),
        ("prod.ml", "cy", {"executors": 5, "memory": "2g"}, 422,
         "queue prod may have 8192 MiB at most (most.memory), and the job takes 10240 MiB"),
        ("prod.ml", "cy", {"cpus": 2}, 422,
         "queue prod.ml may cost $0.1 an hour (most.dollars_per_hour), and it would $0.12"),
        ("prod.ml", "cy", {"driver": Driver(on="cluster", memory=1024)}, 422, "and it would $0.12"),
        ("dev", "ann", {"resources": {"gpus": 1}}, 422, "may have 0 gpus at most (most_per_user.gpus)"),
        ("default", "ann", {"executors": 15}, 422,
         "each user may have 14 cpus at most (sharing.most_per_user.cpus), and the job takes 15"),
        ("stopped", "ann", {}, 422, "0 running at most (most.running), so none of its jobs ever begins"),
    ],
)  # fmt: skip
def test_what_no_queue_takes_is_refused(
    door: Door, queue: str, owner: str, asked: dict[str, Any], status: int, why: str
) -> None:
    """A job that its queue cannot take is refused with a hint at the valid choice, and not stored."""
    found, text = refused(lambda: door(queue, owner, **asked))
    assert (found, why in text) == (status, True), text
    assert not door.store.jobs.page()


def test_what_could_run_is_let_in(door: Door) -> None:
    """A job is accepted when fewer or smaller executors fit its queue.

    A dynamic job may grow to its queue's limit.
    """
    assert door("prod.etl", "ann", executors=4, memory="1g").queue == "prod.etl"
    door("prod.etl", "ann", executors=9, min_executors=4)
    door.note("job-1", "job-2")
    door("prod.etl", "bob", executors=DynamicExecutors(min=1, max=500))
    door("prod.etl", "bob", executors=4, cpus={"min": 1, "max": 4})
    door.note("job-3", "job-4")
    assert door("prod.ml", "cy").priority == -5
    assert door("default").queue == "default"


def test_what_a_queue_says_holds_for_its_jobs(door: Door) -> None:
    """Its priority where they say none, its rule of spot VMs where that is stricter."""
    etl, high = door("prod.etl", "ann"), door("prod.etl", "ann", priority=0, spot="never")
    assert [(job.priority, job.spot) for job in (etl, high)] == [(10, "never"), (0, "never")]
    dev = door("dev", "ann")
    assert (dev.priority, dev.spot, door("dev", "ann", spot="only").spot) == (0, "only", "only")
    assert [job.spot for job in door.arrived] == ["never", "never", "only", "only"]
    kept = door.store.jobs.spec(etl.id)
    assert kept is not None
    assert (kept.spot, kept.priority) == ("allowed", None), "what was submitted is what the user said"


def test_who_is_no_operator_does_not_raise_priorities(door: Door) -> None:
    """A user may not raise a job's priority above its queue's; a lower one is accepted.

    Operators and non-users may ask for any priority.
    """
    found, text = refused(
        lambda: door("prod.etl", "ann", submitter=Submitter("ann", raises=False), priority=11)
    )
    assert (found, "jobs of queue prod.etl have 10 at most; an operator may" in text) == (403, True), text
    for priority in (10, -3):
        job = door("prod.etl", "ann", submitter=Submitter("ann", raises=False), priority=priority)
        assert job.priority == priority
    door.note("job-1", "job-2")
    assert door("prod.etl", "ann", priority=1000).priority == 1000


def test_a_queue_is_full_at_once_and_has_room_again(door: Door) -> None:
    """Those on their way count, those below it count, and every user for himself."""
    for _ in range(2):
        door("prod.etl", "ann")
    status, why = refused(lambda: door("prod.etl", "ann"))
    assert (status, "each user of queue prod.etl may have 2 jobs waiting" in why) == (429, True), why
    door("prod.etl", "bob")
    status, why = refused(lambda: door("prod.ml", "cy"))
    assert (status, "queue prod may have 3 jobs waiting (most.waiting)" in why) == (429, True), why
    door.waiting = {("prod", None): 2, ("prod.etl", "ann"): 1, ("prod.etl", "bob"): 1}
    door.note("job-1", "job-2", "job-3")
    door("prod.etl", "ann")
    with pytest.raises(RejectedError) as full:
        door("prod.etl", "bob")
    assert (full.value.status, full.value.headers) == (429, {"Retry-After": "30"})


def test_what_came_to_nothing_takes_no_room(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that is full, a key that was used before, a job that is there already."""

    def full(*_: object) -> None:
        raise StoreFullError("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(door.store.jobs.new, "add", full)
        for _ in range(5):
            assert refused(lambda: door("prod.etl", "ann"))[0] == 503
    spec = JobSpec(app=__file__, queue="prod.etl", owner="ann", cpus=1, memory=1024)
    for _ in range(5):
        list(door.intake.accept([SubmittedSpec(spec, "key")]))
    door("prod.etl", "ann")
    assert refused(lambda: door("prod.etl", "ann"))[0] == 429
    assert len(door.store.jobs.page()) == 2


def test_a_batch_fills_a_queue_no_further(door: Door) -> None:
    """Many at once are counted one by one; the others of the batch are let in."""
    specs = [
        JobSpec(app=__file__, queue=queue, owner="ann", memory=1024)
        for queue in ("prod.etl", "prod.etl", "prod.etl", "default")
    ]
    submitted = [SubmittedSpec(spec) for spec in specs]
    (found,) = door.intake.accept(submitted)
    assert [isinstance(found[each], RejectedError) for each in submitted] == [False, False, True, False]


def test_without_queues_a_name_means_nothing(door: Door) -> None:
    """As before there were any."""
    door.queues = Queues()
    job = door("whatever it's called", "nobody", executors=9)
    assert (job.queue, job.priority, job.spot) == ("whatever it's called", 0, "allowed")


def test_one_user_leaves_room_in_the_queue_for_others(door: Door) -> None:
    """Each has half of what others leave; operators have all, as everybody has where there are no users."""
    door.queues = Queues()
    ann, bob = (Submitter(name, sees_all=False, raises=False) for name in ("ann", "bob"))
    door("default", "ann", ann, count=40)
    assert refused(lambda: door("default", "ann", ann, count=11)) == (
        429,
        "ann has 40 jobs waiting, and room for 10 more: one user may have half of what others leave of 100 "
        "(max_queued_jobs), and a job counts once more for every ten jobs that it comes after",
    )
    door("default", "ann", ann, count=10)
    door("default", "bob", bob, count=25)
    assert refused(lambda: door("default", "bob", bob))[0] == 429
    door("default", "ann", Submitter("carol"), count=5)
    door("default", "nobody", count=5)
    assert refused(lambda: door("default", "ann", ann))[0] == 429


def test_the_share_of_a_user_is_of_the_jobs_that_wait(door: Door) -> None:
    """Those that have arrived are counted as the loop counts them, and as long as they wait."""
    door.queues = Queues()
    ann = Submitter("ann", sees_all=False, raises=False)
    first = door("default", "ann", ann, count=50)
    door.waiting |= {(ALL_QUEUES, "ann"): 50, (ALL_QUEUES, None): 50}
    door.note(*(job.id for job in door.arrived))
    assert refused(lambda: door("default", "ann", ann))[0] == 429
    door.waiting |= {(ALL_QUEUES, "ann"): 49, (ALL_QUEUES, None): 49}
    door.note()
    assert door("default", "ann", ann).id > first.id


def test_a_job_after_many_others_counts_as_many(door: Door) -> None:
    """The daemon has the names of all of these in memory for each job, while it waits."""
    door.queues = Queues()
    ann = Submitter("ann", sees_all=False, raises=False)
    door("default", "ann", ann, count=30, group="many")
    door("default", "ann", ann, after=["array-1"], count=9)
    after = {"after": [{"group": "many"}], "count": 2}
    door("default", "ann", ann, **after)  # 39 and 2, as far as known, and then 39 and 8
    assert (
        "ann has 47 jobs waiting, and room for 3 more"
        in refused(lambda: door("default", "ann", ann, count=4))[1]
    )
    for job in door.arrived:
        door.note(job.id)
    door("default", "ann", ann, count=50)


def test_without_queues_a_name_is_not_deep(door: Door) -> None:
    """The daemon counts jobs at each level, and there may be as many names as jobs."""
    door.queues = Queues()
    assert door(".".join("a" * 10)).queue == "a.a.a.a.a.a.a.a.a.a"
    assert refused(lambda: door(".".join("a" * 11))) == (
        422,
        "queue: a queue is at most 10 levels deep, with dots between them, found 11",
    )
