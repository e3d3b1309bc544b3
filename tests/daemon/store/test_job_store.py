"""The job store: durable, returns the stored records, and has one owner."""

import contextlib
import multiprocessing
import os
import resource
import signal
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy.exc import OperationalError

from conf.schema import Driver, JobSpec
from daemon.core.shadow_comparison import Comparison, Outcome
from daemon.store.job_store import Store
from daemon.store.migrations import SCHEMA_VERSION
from daemon.store.queries.insert_jobs import IdempotencyConflictError, SubmittedSpec
from daemon.store.rows import tables
from daemon.store.rows.database import StoreBusyError, StoreError, StoreFullError, _Writer
from environment.decisions.explain import CandidateVm, Choice, Explanation
from environment.model.cluster_model import Changes
from environment.model.messages.records import ExecutorRecord, ExecutorRequest, JobRecord
from environment.resources import Resources
from environment.types import Dynamic, Job

SPEC = JobSpec(app="count.py", args=("a", "b"), env={"A": "1"}, driver=Driver(on="cluster"))


def url_of(folder: Path) -> str:
    """A store's URL in a folder."""
    return f"sqlite:///{folder / 'stoker.db'}"


def make_job(job_id: str, **given: Any) -> Job:
    """A job, valid by default."""
    return replace(Job(job_id, "sort", Resources.of(1.0, 1024), 2, 5.0), **given)


def make_task(job_id: str, number: int, **given: Any) -> ExecutorRecord:
    """An executor's record, valid by default."""
    task = ExecutorRecord(
        f"{job_id}.{number}",
        job_id,
        number,
        "S1",
        "vm-1",
        "m1.large",
        "10.0.0.1",
        0.25,
        Resources.of(1.0, 1024),
        (31000,),
        6.0,
    )
    return replace(task, **given)


def make_explanation(job_id: str, decision: str = "place", at: float = 7.0) -> Explanation:
    """An explanation with one choice among two VMs."""
    seen = (
        CandidateVm("vm-1", "m1.large", {"cpus": 4.0, "mem": 16384}, (), 1.0, True),
        CandidateVm(
            "vm-2",
            "m1.xlarge",
            {"cpus": 0.0, "mem": 0},
            ("vm-2 has 0 cpus free, 1 needed",),
            float("-inf"),
            False,
        ),
    )
    return Explanation(
        at, job_id, "ff", decision, "because", ("fault",), (Choice(0, "vm-1", "first", seen, 3),)
    )


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a database that is empty."""
    if request.param == "sqlite":
        return url_of(tmp_path)
    found: str = request.getfixturevalue("postgresql_url")
    return found


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    """A new store."""
    store = Store(url, at=1.0)
    yield store
    store.close()


@pytest.fixture
def file_store(tmp_path: Path) -> Iterator[Store]:
    """A new store in a file."""
    store = Store(url_of(tmp_path), at=1.0)
    yield store
    store.close()


def submit(store: Store, key: str | None = None, spec: JobSpec = SPEC) -> JobRecord:
    """Submit one job."""
    return store.jobs.new.add_one(spec, make_job, key, 5.0)[0]


def test_of_very_many_executors_the_last_are_shown(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that have not ended among them; a driver may ask for others and others, without end."""
    monkeypatch.setattr("daemon.store.queries.stored_jobs.MOST_TASKS", 3)
    submit(store)
    tasks = [
        make_task("job-1", n, task_id=f"job-1.{n}", launched_at=float(n), state="killed") for n in range(9)
    ]
    tasks[1] = replace(tasks[1], state="running")
    store.jobs._access.write(store.jobs.saving([], tasks, []))
    assert [task.number for task in store.jobs.shown_executors("job-1")] == [1, 7, 8]
    assert len(store.jobs.executors("job-1")) == 9
    assert store.jobs.shown_executors("job-2") == store.jobs.shown_executors("nonsense") == []


def test_of_very_many_decisions_the_last_are_shown(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each executor that a driver asks for may be a decision of its own."""
    monkeypatch.setattr("daemon.store.queries.stored_jobs.MOST_EXPLAINED", 3)
    submit(store)
    store.changes.save(Changes((), ()), [make_explanation("job-1", at=float(n)) for n in range(9)])
    assert [each.at for each in store.jobs.shown_explanations("job-1")] == [6.0, 7.0, 8.0]
    assert [each.at for each in store.jobs.explanations("job-1")] == [float(n) for n in range(9)]


def test_ids_count_up_and_records_come_back(store: Store) -> None:
    """Jobs are numbered in order of submission and are found by id, with their spec."""
    first, second = submit(store), submit(store)
    assert [first.job.id, second.job.id] == ["job-1", "job-2"]
    assert store.jobs.get("job-2") == second == JobRecord(make_job("job-2"))
    assert store.jobs.spec("job-1") == SPEC


@pytest.mark.parametrize(
    "unknown", ["job-9", "job-0", "job-01", "nonsense", "", "job-\x00", "job-" + "9" * 99]
)
def test_unknown_ids_find_nothing(store: Store, unknown: str) -> None:
    """A text that is no known job's id leads to nothing, and to no error."""
    submit(store)
    assert store.jobs.get(unknown) is None
    assert store.jobs.spec(unknown) is None
    assert store.jobs.executors(unknown) == []
    assert store.jobs.explanations(unknown) == []


def test_an_idempotency_key_is_one_job(store: Store) -> None:
    """The same key gives the first record again, as it is now; with another spec it is a conflict."""
    record, new = store.jobs.new.add_one(SPEC, make_job, "k", 5.0)
    assert new
    store.changes.save(Changes((replace(record, state="killed"),), ()))
    again, new = store.jobs.new.add_one(SPEC, make_job, "k", 6.0)
    assert (again.state, new) == ("killed", False)
    with pytest.raises(IdempotencyConflictError, match="job-1"):
        store.jobs.new.add_one(JobSpec(app="other.py"), make_job, "k", 7.0)
    assert store.jobs.new.add_one(SPEC, make_job, "other", 7.0)[0].job.id == "job-2"


def test_everything_is_there_after_a_restart(url: str) -> None:
    """A store that is opened again has jobs, executors, explanations and facts as they were."""
    store = Store(url)
    record, task = submit(store), make_task("job-1", 0)
    store.changes.save(Changes((replace(record, cost=1.5),), (task,)), [make_explanation("job-1")])
    store.facts.put("framework_id", "F-1")
    store.close()
    store = Store(url)
    assert store.jobs.get("job-1") == replace(record, cost=1.5)
    assert store.jobs.executors("job-1") == [task]
    assert store.jobs.explanations("job-1") == [make_explanation("job-1")]
    assert (store.facts.get("framework_id"), store.facts.get("else")) == ("F-1", None)
    assert submit(store).job.id == "job-2"
    store.close()


def test_saving_twice_replaces(store: Store) -> None:
    """A record that is saved again takes the place of the one before; spec and key stay."""
    record = submit(store, "k")
    for state in ("placing", "running"):
        task = make_task("job-1", 0, message=state)
        store.changes.save(Changes((replace(record, state=state),), (task,)))
    assert store.jobs.page() == [replace(record, state="running")]
    assert [task.message for task in store.jobs.executors("job-1")] == ["running"]
    assert store.jobs.spec("job-1") == SPEC
    assert not store.jobs.new.add_one(SPEC, make_job, "k", 9.0)[1]


def test_a_save_is_all_or_none(store: Store) -> None:
    """When one part of a save cannot be kept, no other part is."""
    record = submit(store)
    orphan = make_task("job-77", 0)
    with pytest.raises(StoreError, match=r"(?i)foreign key"):
        store.changes.save(Changes((replace(record, state="failed"),), (orphan,)))
    assert store.jobs.get("job-1") == record
    with pytest.raises(ValueError, match="not an id"):
        store.changes.save(Changes((), (make_task("mine", 0),)))


def test_one_waiting_explanation_is_kept(store: Store) -> None:
    """Placements are all kept, of the reasons to wait only the last."""
    submit(store)
    nothing = Changes((), ())
    store.changes.save(
        nothing, [make_explanation("job-1", "wait", 1.0), make_explanation("job-1", "wait", 2.0)]
    )
    store.changes.save(nothing, [make_explanation("job-1", "place", 3.0)])
    store.changes.save(nothing, [make_explanation("job-1", "wait", 4.0)])
    store.changes.save(nothing, [make_explanation("job-1", "place", 5.0)])
    assert [(e.decision, e.at) for e in store.jobs.explanations("job-1")] == [
        ("place", 3.0),
        ("wait", 4.0),
        ("place", 5.0),
    ]


def test_comparisons_come_back_newest_first_and_the_oldest_go(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each with its job; no more are kept than somebody may read."""
    monkeypatch.setattr("daemon.store.rows.comparisons.MOST_KEPT", 3)
    submit(store)
    sides = Outcome("ff", {"vm-1": 2}, "", 0.24), Outcome("rr", None, "full \ud83d", 0.0)
    made = [Comparison(float(at), "job-1", *sides) for at in range(5)]
    store.comparisons.add(made[:2])
    store.comparisons.add(made[2:])
    store.comparisons.add([])
    assert store.comparisons.kept() == [(made[i], JobRecord(make_job("job-1"))) for i in (4, 3, 2)]


def test_a_store_from_before_a_table_gets_it(file_store: Store, tmp_path: Path) -> None:
    """A store that an earlier Stoker made is completed when it is opened."""
    file_store.close()
    with contextlib.closing(sqlite3.connect(tmp_path / "stoker.db")) as connection:
        connection.execute("DROP TABLE comparisons")
    with contextlib.closing(Store(url_of(tmp_path))) as store:
        assert store.comparisons.kept() == []


def test_pages_of_jobs(store: Store) -> None:
    """Pages follow each other in either order without gap or repetition, for chosen states too."""
    records = [submit(store) for _ in range(7)]
    store.changes.save(Changes(tuple(replace(record, state="finished") for record in records[::2]), ()))

    def pages(**query: Any) -> list[str]:
        seen: list[str] = []
        while page := store.jobs.page(limit=2, before=seen[-1] if seen else None, **query):
            seen += [record.job.id for record in page]
        return seen

    assert pages() == [f"job-{n}" for n in (7, 6, 5, 4, 3, 2, 1)]
    assert pages(newest_first=False) == [f"job-{n}" for n in (1, 2, 3, 4, 5, 6, 7)]
    assert pages(states=("queued",)) == ["job-6", "job-4", "job-2"]
    assert pages(states={"queued", "finished"}, newest_first=False) == pages(newest_first=False)


def test_jobs_of_owners_and_queues(store: Store) -> None:
    """Any of the owners, in any of the queues, in any of the states; in order, page by page."""
    whose = [("alice", "night"), ("", "default"), ("bob", "night"), ("alice", "default"), ("alice", "night")]
    for owner, queue in whose:
        spec = JobSpec(app="a.py", owner=owner, queue=queue)
        store.jobs.new.add_one(spec, lambda i: make_job(i, owner=spec.owner, queue=spec.queue), None, 5.0)  # noqa: B023
    first = store.jobs.get("job-1")
    assert first is not None
    assert (first.job.owner, first.job.queue) == ("alice", "night")
    store.changes.save(Changes((replace(first, state="finished"),), ()))

    def found(**query: Any) -> list[int]:
        seen: list[str] = []
        while page := store.jobs.page(limit=1, before=seen[-1] if seen else None, **query):
            seen += [record.job.id for record in page]
        return [int(job_id[4:]) for job_id in seen]

    assert found(owners=("alice",)) == [5, 4, 1]
    assert found(owners=("alice", "", "nobody")) == [5, 4, 2, 1]
    assert found(queues=("night",), newest_first=False) == [1, 3, 5]
    assert found(owners=("alice", "bob"), queues=("night",)) == [5, 3, 1]
    assert found(owners=("alice",), queues=("night",), states=("finished",)) == [1]
    assert found(queues=("night", "default"), states=("queued", "finished")) == [5, 4, 3, 2, 1]


def test_jobs_of_types(store: Store) -> None:
    """Any of the types, beside owners, queues, states and labels; in order, page by page."""
    for kind, owner, queue in (
        ("sort", "ann", "night"),
        ("count", "ann", "night"),
        ("sort", "bob", "day"),
        ("rank", "ann", "day"),
        ("sort", "ann", "day"),
    ):
        spec = JobSpec(app="a.py", type=kind, owner=owner, queue=queue)
        job = make_job("job-1", type=kind, owner=owner, queue=queue, labels=(("team", "a"),))
        store.jobs.new.add_one(spec, lambda i: replace(job, id=i), None, 5.0)  # noqa: B023
    first = store.jobs.get("job-1")
    assert first is not None
    store.changes.save(Changes((replace(first, state="finished"),), ()))

    def found(**query: Any) -> list[int]:
        seen: list[str] = []
        while page := store.jobs.page(limit=1, before=seen[-1] if seen else None, **query):
            seen += [record.job.id for record in page]
        return [int(job_id[4:]) for job_id in seen]

    assert found(types=("sort",)) == [5, 3, 1]
    assert found(types=("sort", "rank", "nosuch"), newest_first=False) == [1, 3, 4, 5]
    assert found(types=("sort",), states=("queued",)) == [5, 3]
    assert found(types=("sort",), owners=("ann",)) == [5, 1]
    assert found(types=("sort",), queues=("day",)) == [5, 3]
    assert found(types=("sort", "count"), queues=("night",), owners=("ann",), states=("queued",)) == [2]
    assert found(types=("sort",), labels={"team": "a"}, owners=("bob",)) == [3]
    assert found(types=("nosuch",)) == []


def test_counts_head_and_positions(store: Store) -> None:
    """The queue is counted in order of submission; money and tasks are summed."""
    assert (store.jobs.head(), store.jobs.count_by_state(), store.jobs.totals().cost) == (None, {}, 0.0)
    records = [submit(store) for _ in range(4)]
    running = replace(records[0], state="running", cost=0.5)
    store.changes.save(
        Changes((running, replace(records[2], cost=0.25)), (make_task("job-1", 0), make_task("job-1", 1)))
    )
    assert store.jobs.head() == records[1]
    assert store.jobs.positions([f"job-{n}" for n in (4, 2, 3)]) == [2, 0, 1]
    assert store.jobs.count_by_state() == {"queued": 3, "running": 1}
    assert store.jobs.totals().cost == 0.75
    assert store.jobs.totals().executors == {"launching": 2}


def test_unfinished_is_what_a_daemon_must_take_up(store: Store) -> None:
    """Jobs that are not over come back, and ended ones with open tasks, each with all its tasks."""
    one, two, three, _ = (submit(store) for _ in range(4))
    store.changes.save(
        Changes(
            (replace(one, state="finished"), replace(two, state="killed"), replace(three, state="running")),
            (
                make_task("job-1", 0, state="finished"),
                make_task("job-2", 0, state="running"),
                make_task("job-3", 10, state="running"),
                make_task("job-3", 9, state="lost"),
            ),
        )
    )
    jobs, tasks = store.jobs.open.unfinished()
    assert [job.job.id for job in jobs] == ["job-2", "job-3", "job-4"]
    assert [task.task_id for task in tasks] == ["job-2.0", "job-3.9", "job-3.10"]


def test_a_failing_submission_spoils_no_other(store: Store) -> None:
    """Writers that share a commit are kept or refused each on its own."""

    def refuse(_: str) -> Job:
        raise LookupError("no such job")

    outcomes: list[str] = []

    def work(n: int) -> None:
        try:
            outcomes.append(
                store.jobs.new.add_one(SPEC, refuse if n % 3 == 0 else make_job, f"key {n}", 1.0)[0].job.id
            )
        except LookupError:
            outcomes.append("refused")

    threads = [threading.Thread(target=work, args=(n,)) for n in range(30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == sorted([f"job-{n}" for n in range(1, 21)] + ["refused"] * 10)
    assert store.jobs.count_by_state() == {"queued": 20}


def test_writers_who_wait_share_a_commit(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Writers arriving during a commit share the next commit."""
    commits: list[int] = []
    commit = _Writer._commit

    def counting(self: _Writer, writes: list[Any]) -> None:
        commits.append(len(writes))
        deadline = time.monotonic() + 200.0
        while len(commits) == 1 and len(self._waiting) < 99 and time.monotonic() < deadline:
            time.sleep(0.01)
        commit(self, writes)

    monkeypatch.setattr(_Writer, "_commit", counting)
    threads = [threading.Thread(target=store.facts.put, args=(f"fact {n}", "")) for n in range(100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(commits) == [1, 99]
    assert all(store.facts.get(f"fact {n}") == "" for n in range(100))


def test_a_key_that_comes_twice_at_once_is_one_job(store: Store) -> None:
    """In one batch, with the same job and with another one; numbers go on where the last batch ended."""
    other = SPEC.model_copy(update={"executors": 7})
    pairs = [(SPEC, "k"), (SPEC, "k"), (other, "k"), (other, None), (SPEC, "l")]
    found = store.jobs.new.add([SubmittedSpec(*each) for each in pairs], lambda i, _: make_job(i), 1.0)
    assert isinstance(found[2], IdempotencyConflictError)
    kept = [each for each in found if not isinstance(each, Exception)]
    assert [(record.job.id, new) for record, new in kept] == [
        ("job-1", True),
        ("job-1", False),
        ("job-2", True),
        ("job-3", True),
    ]
    again = store.jobs.new.add([SubmittedSpec(SPEC, "l"), SubmittedSpec(SPEC)], lambda i, _: make_job(i), 1.0)
    assert [(each[0].job.id, each[1]) for each in again if isinstance(each, tuple)] == [
        ("job-3", False),
        ("job-4", True),
    ]
    assert [store.jobs.spec(f"job-{n}") for n in (1, 2, 3)] == [SPEC, other, SPEC]


def test_the_same_key_from_many_threads_is_one_job(store: Store) -> None:
    """However many submit one key at once, one of them makes the job."""
    outcomes: list[tuple[JobRecord, bool]] = []
    threads = [
        threading.Thread(target=lambda: outcomes.append(store.jobs.new.add_one(SPEC, make_job, "k", 1.0)))
        for _ in range(20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [record.job.id for record, _ in outcomes] == ["job-1"] * 20
    assert sum(new for _, new in outcomes) == 1


def test_a_second_daemon_is_told_who_is_there(tmp_path: Path) -> None:
    """One daemon holds the lock; the next one hears its pid, and gets it when the first is gone."""
    url = url_of(tmp_path)
    first, second = Store(url), Store(url)
    first.database.lock()
    first.database.lock()
    with pytest.raises(StoreBusyError, match=f"pid {os.getpid()} on "):
        second.database.lock()
    first.close()
    second.database.lock()
    second.close()


def hold(url: str, ready: "multiprocessing.synchronize.Event") -> None:
    """Take the lock, submit for as long as this process lives."""
    store = Store(url)
    store.database.lock()
    for n in range(10**9):
        store.jobs.new.add_one(SPEC, make_job, f"k{n}", 1.0)
        if n == 20:
            ready.set()


def lock_soon(store: Store) -> None:
    """Take the lock as soon as the server has noticed that the last holder is gone."""
    while True:
        try:
            return store.database.lock()
        except StoreBusyError:
            time.sleep(0.05)


def test_a_killed_daemon_leaves_a_good_store(url: str) -> None:
    """After kill -9 in the middle of writing, the lock is free and every job kept is whole."""
    context = multiprocessing.get_context("spawn")
    ready = context.Event()
    process = context.Process(target=hold, args=(url, ready))
    process.start()
    try:
        assert ready.wait(600)
    finally:
        process.kill()
        process.join()
        process.close()
    store = Store(url)
    lock_soon(store)
    jobs = store.jobs.page(limit=10**6, newest_first=False)
    assert len(jobs) > 20
    assert [job.job.id for job in jobs] == [f"job-{n}" for n in range(1, len(jobs) + 1)]
    store.close()


def test_the_file_is_private(file_store: Store, tmp_path: Path) -> None:
    """Jobs may carry secrets in their environment: nobody but the owner reads the file_store."""
    submit(file_store)
    assert {path.stat().st_mode & 0o077 for path in tmp_path.iterdir()} == {0}


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("mysql://host/db", "should be sqlite or postgresql, found mysql"),
        ("not a url", "URL should be like sqlite"),
        ("sqlite://", "should be a file"),
        ("sqlite:////no/such/folder/s.db", "No such file or directory"),
        ("sqlite:////", "not a regular file"),
        ("postgresql://u:hidden@127.0.0.1:1/db", "127.0.0.1:1"),
    ],
)
def test_urls_that_cannot_be_a_store(url: str, says: str) -> None:
    """An invalid URL is refused with the reason and without its password."""
    with pytest.raises(StoreError, match=says) as error:
        Store(url)
    assert "hidden" not in str(error.value)


def test_a_file_that_is_no_store(tmp_path: Path) -> None:
    """A file of another kind is refused, and left as it was."""
    (tmp_path / "stoker.db").write_text("hello " * 1000)
    with pytest.raises(StoreError, match="corrupt, or no SQLite file"):
        Store(url_of(tmp_path))
    assert (tmp_path / "stoker.db").read_text() == "hello " * 1000


def test_a_damaged_store_is_refused(tmp_path: Path) -> None:
    """Pages overwritten with rubbish are found when the store is opened."""
    store = Store(url_of(tmp_path))
    for _ in range(100):
        submit(store)
    store.close()
    with (tmp_path / "stoker.db").open("r+b") as file:
        file.seek(2 * 4096)
        file.write(b"\xff" * 8 * 4096)
    with pytest.raises(StoreError, match="corrupt"):
        Store(url_of(tmp_path))


def test_a_newer_schema_is_refused(url: str) -> None:
    """A store that a newer program wrote is left alone, and both versions are named."""
    store = Store(url)
    store.facts.put("schema", str(SCHEMA_VERSION + 1))
    store.close()
    with pytest.raises(StoreError, match=f"has schema {SCHEMA_VERSION + 1}, this program knows schemas 1 to"):
        Store(url)


@contextmanager
def full_disk(size: int) -> Iterator[None]:
    """Let no file of this process grow over `size` bytes, as on a disk that is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)


def test_nothing_is_accepted_on_a_full_disk(file_store: Store) -> None:
    """When the disk takes no more, submissions and /readyz's check fail clearly, and go on once it does."""
    submit(file_store)
    with full_disk(1024):
        with pytest.raises(StoreError, match="disk"):
            submit(file_store)
        with pytest.raises(StoreError, match="disk"):
            file_store.check()
        assert file_store.jobs.get("job-1") is not None
    assert submit(file_store).job.id == "job-2"
    file_store.check()


def test_a_disk_without_files_is_full(file_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have bytes left: SQLite cannot make its journal, and says that it cannot open the store."""
    database, seen = file_store.database, os.statvfs("/")
    for left, kind in ((0, StoreFullError), (5, StoreError)):
        found = os.statvfs_result((*seen[:5], 100, left, left, *seen[8:10]))
        monkeypatch.setattr(os, "statvfs", lambda _, found=found: found)
        with pytest.raises(StoreError) as raised, database._errors():
            raise OperationalError("", None, sqlite3.OperationalError("unable to open database file"))
        assert type(raised.value) is kind


def test_a_store_whose_file_went_away_accepts_nothing(file_store: Store, tmp_path: Path) -> None:
    """A file that was removed or replaced under the daemon's feet would lose every further job."""
    submit(file_store)
    (tmp_path / "stoker.db").rename(tmp_path / "moved.db")
    with pytest.raises(StoreError, match="is gone"):
        submit(file_store)
    (tmp_path / "stoker.db").touch()
    with pytest.raises(StoreError, match="was replaced"):
        file_store.check()


def test_another_writer_is_waited_for(file_store: Store, tmp_path: Path) -> None:
    """A transaction of another program delays a submission and does not fail it."""
    other = sqlite3.connect(tmp_path / "stoker.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    done = threading.Thread(target=submit, args=(file_store,))
    done.start()
    time.sleep(0.05)
    assert file_store.jobs.page() == []
    other.execute("ROLLBACK")
    other.close()
    done.join()
    assert len(file_store.jobs.page()) == 1


texts = st.text(st.characters(categories=None), max_size=20)
#: What has a column of its own, such as a name: no job is accepted with one that cannot stand there.
words = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)
numbers = st.floats(allow_nan=False)
whole = st.integers(0, 2**31)
maybe = st.none() | numbers
some_texts = st.lists(texts, max_size=2).map(tuple)
some = st.integers(1, 10**9).map(lambda thousandths: thousandths / 1000)
amounts = st.builds(Resources.of, some, whole, st.dictionaries(texts, some, max_size=2))
free = st.fixed_dictionaries({"cpus": some, "mem": whole})
job_records = st.builds(
    JobRecord,
    job=st.builds(
        Job, id=st.just("job-1"), type=words, size=amounts, executors=whole, name=words,
        submitted_at=numbers, expected_duration=maybe, prefers=st.sampled_from(["spread", None]),
        driver=st.none() | amounts, dynamic=st.none() | st.builds(Dynamic, whole, whole),
    ),
    wanted=st.lists(st.builds(ExecutorRequest, whole, amounts, whole), max_size=2).map(tuple), capped=texts,
    state=st.sampled_from([*tables.OPEN_JOB, "finished", "failed", "killed"]), reason=texts, placed_at=maybe,
    started_at=maybe, finished_at=maybe, exit_code=st.none() | st.integers(-255, 255), next_executor=whole,
    losses=whole, cost=numbers, aborting=st.booleans(),
)  # fmt: skip
executor_records = st.builds(
    ExecutorRecord, task_id=st.just("job-1.0"), job_id=st.just("job-1"), number=st.none() | whole,
    vm_id=texts, vm_name=texts, vm_type=texts, address=texts, price_per_hour=numbers,
    resources=amounts, ports=st.lists(st.integers(0, 65535), max_size=3).map(tuple), launched_at=numbers,
    state=st.sampled_from([*tables.OPEN_EXECUTOR, "lost"]), running_at=maybe, ended_at=maybe, message=texts,
    cost=numbers, accrued_until=numbers, killed_at=maybe, replaced=st.booleans(),
    profile=whole, released=st.booleans(), decommissioned_at=maybe,
)  # fmt: skip
candidates = st.builds(
    CandidateVm, vm=texts, type=texts, free=free, lacks=some_texts, score=maybe,
    chosen=st.booleans(),
)  # fmt: skip
choices = st.builds(
    Choice, executor=st.none() | whole, vm=st.none() | texts, why=texts, candidates_left_out=whole,
    size=st.none() | amounts,
    candidates=st.lists(candidates, max_size=2).map(tuple),
)  # fmt: skip
given_explanations = st.builds(
    Explanation, at=numbers, job_id=st.just("job-1"), policy=texts, reason=texts, faults=some_texts,
    decision=st.sampled_from(["place", "wait"]), choices=st.lists(choices, max_size=2).map(tuple),
)  # fmt: skip


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(job_records, executor_records, given_explanations)
def test_records_come_back_as_they_were(
    store: Store, job: JobRecord, task: ExecutorRecord, explanation: Explanation
) -> None:
    """Any record passes through the database unchanged, with any text and number."""
    store.changes.save(Changes((job,), (task,)), [explanation])
    assert store.jobs.get("job-1") == job
    assert store.jobs.executors("job-1") == [task]
    assert store.jobs.explanations("job-1")[-1] == explanation


def test_numpy_scores_are_kept(store: Store) -> None:
    """A policy's scores may be numpy's numbers."""
    submit(store)
    score: Any = np.float32(0.5)
    seen = (CandidateVm("vm-1", "t", {"cpus": 1.0, "mem": 1}, (), score, True),)
    choice = Choice(0, "vm-1", "", seen, 0)
    store.changes.save(Changes((), ()), [replace(make_explanation("job-1"), choices=(choice,))])
    assert store.jobs.explanations("job-1")[0].choices[0].candidates[0].score == 0.5


@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_a_text_that_cannot_be_stored_is_mended(
    tmp_path: Path, request: pytest.FixtureRequest, database: str
) -> None:
    """The loop, which repeats a write until it succeeds, would end over it, or hang."""
    url = url_of(tmp_path) if database == "sqlite" else request.getfixturevalue("postgresql_url")
    store = Store(url)
    try:
        store.facts.put("what", "a\ud800b\0c\u00e9")
        assert store.facts.get("what") == "a\ufffdb\ufffdc\u00e9"
    finally:
        store.close()
