"""Sizes that are left to Stoker: first runs, the model's choice by ended jobs, bounds, and explanations."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from conf.schema import Config, JobSpec
from daemon.cli.jobs import submit
from daemon.cli.jobs.explanation_tables import explanation
from daemon.cli.shared.errors import CommandError
from daemon.core.errors import RejectedError
from daemon.core.identity import NOBODY, Submitter
from daemon.launch.launcher import Launcher
from daemon.schemas.explanations import explanation_body
from daemon.schemas.job_bodies import job_body
from daemon.store.job_store import Store
from daemon.store.queries.insert_jobs import SubmittedSpec
from daemon.submission.admission import Intake
from environment.decisions.sizing import Sizes
from environment.model.messages.records import Attempt, JobRecord, MemoryUse, MoreMemory
from environment.model.vms.max_capacity import MaxCapacity
from environment.pools import SpotTerms, Terms
from environment.resources import Resources
from environment.types import Job
from profiles.job_profile import load_profiles
from profiles.memory_peaks import MemoryPeak
from profiles.shapes.law import Law
from profiles.shapes.runs import JobShape
from tests.builders import make_vms

APP = __file__
_LAW = Law(0.002, 0.002, 3.0, 1.0, 0.02, 3.0)
_AUTO: dict[str, Any] = {"executors": "auto", "cpus": "auto", "memory": "auto"}


class Shop:
    """An intake over a cluster of eight VMs of 8 cpus and 32 GiB; jobs end as the law says."""

    def __init__(self, folder: Path) -> None:
        self.store = Store(f"sqlite:///{folder / 'stoker.db'}")
        launcher = Launcher(Config(data_dir=str(folder)), folder, "127.0.0.1")
        self.intake = Intake(
            self.store, launcher, load_profiles(), lambda *_: None, lambda: None, 1000, time.time
        )
        self.intake.note(0, MaxCapacity(make_vms(8, cpus=8, memory_mib=32 * 1024)), set())

    def admit(self, submitter: Submitter = NOBODY, **asked: Any) -> JobRecord:
        """A job of type etl, admitted; raises its refusal."""
        each = SubmittedSpec(JobSpec(**{"app": APP, "type": "etl", **asked}), submitter=submitter)
        (admission,) = (found[each] for found in self.intake.accept([each]) if found)
        if isinstance(admission, Exception):
            raise admission
        return admission[0]

    def end(self, record: JobRecord, seconds: float | None = None, **fields: Any) -> None:
        """The job has run, for as long as the law says."""
        job = record.job
        if seconds is None:
            shape = JobShape("", job.executors, job.cpus, job.memory_mib / 1024, 1.0)
            seconds = 50 * float(_LAW.seconds(shape, 20.0))
        at = {"placed_at": 1.0, "started_at": 10.0, "finished_at": 10.0 + seconds}
        self.store.jobs.open  # noqa: B018
        saved = replace(record, **{"state": "finished", **at, **fields})
        self.store._access.write(self.store.jobs.saving([saved], [], []))

    def run(self, **asked: Any) -> Job:
        """A job that was admitted and has ended."""
        record = self.admit(**asked)
        self.end(record)
        return record.job


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    """One without any ended job."""
    shop = Shop(tmp_path)
    yield shop
    shop.store.close()


def _sizes(job: Job) -> tuple[int, float, int]:
    return job.executors, job.cpus, job.memory_mib


def test_a_type_learns_from_its_first_runs(shop: Shop) -> None:
    """The default, then twice the memory, then the model's choice; each is told with the job."""
    first = shop.run(**_AUTO)
    assert _sizes(first) == (2, 2, 4096)
    assert first.shape is not None
    assert "no run of its type is known" in first.shape.told
    second = shop.run(**_AUTO)
    assert _sizes(second) == (2, 2, 8192)
    assert second.shape is not None
    assert "1 run of its type on 1 shape, too few to choose by" in second.shape.told
    third = shop.admit(**_AUTO).job
    assert third.shape is not None
    assert third.shape.learned
    taken = third.shape.taken
    assert taken is not None
    assert (taken.executors, taken.cpus, taken.memory_mib) == _sizes(third)
    assert taken.least < taken.seconds < taken.most
    assert "by 2 runs of its type on 2 shapes" in third.shape.told


def test_what_is_chosen_is_as_fast_as_is_told(shop: Shop) -> None:
    """After some runs by one law, the truth is within the interval, and no size was set by the user."""
    for _ in range(6):
        shop.run(**_AUTO)
    record = shop.admit(**_AUTO)
    shape = record.job.shape
    assert shape is not None
    assert shape.taken is not None
    truth = JobShape("", record.job.executors, record.job.cpus, record.job.memory_mib / 1024, 1.0)
    assert shape.taken.least <= 50 * float(_LAW.seconds(truth, 20.0)) <= shape.taken.most


def test_the_next_smaller_and_larger_are_told_where_the_api_is_read(shop: Shop) -> None:
    """With seconds and dollars, in the job and in its explanation; the store keeps them."""
    shop.run(**_AUTO)
    shop.run(**_AUTO)
    record = shop.admit(cpus=2, memory="8g", executors="auto")
    kept = shop.store.jobs.get(record.job.id)
    assert kept is not None
    assert kept.job.shape == record.job.shape
    shown = job_body(kept).shape
    assert shown is not None
    assert shown == explanation_body(kept, "", []).shape
    assert shown.fields == ["executors"]
    assert shown.taken is not None
    assert shown.smaller is not None
    assert shown.smaller.executors < shown.taken.executors
    assert shown.smaller.seconds > shown.taken.seconds
    assert shown.taken.dollars_between[0] < shown.taken.dollars < shown.taken.dollars_between[1]
    assert "the next smaller, " in shown.told
    assert (kept.job.cpus, kept.job.memory_mib) == (2, 8192)


def test_bounds_are_kept(shop: Shop) -> None:
    """Of each amount, by first runs and by the model."""
    asked: dict[str, Any] = {"executors": "auto:3-5", "cpus": "auto:-1", "memory": "auto:6g-"}
    for _ in range(4):
        job = shop.run(**asked)
        assert 3 <= job.executors <= 5
        assert job.cpus == 1
        assert job.memory_mib >= 6 * 1024
    assert shop.admit(**{**asked, "min_executors": 4}).job.executors >= 4


def test_what_users_set_is_not_touched(shop: Shop) -> None:
    """A job without auto has no choice, and reads no history."""
    job = shop.admit(executors=3, cpus=2, memory="2g").job
    assert (*_sizes(job), job.shape) == (3, 2, 2048, None)
    assert job_body(JobRecord(job)).shape is None


def test_runs_that_were_disturbed_teach_nothing(shop: Shop) -> None:
    """Nor do jobs that failed, or that name no type."""
    for fields in ({"losses": 1}, {"retried": 1}, {"state": "failed"}, {"started_at": None}):
        record = shop.admit(executors=4, cpus=2, memory="8g")
        shop.end(record, **fields)
    shop.run(type="unknown", **_AUTO)
    assert _sizes(shop.admit(**_AUTO).job) == (2, 2, 4096)
    assert _sizes(shop.admit(**{**_AUTO, "type": "unknown"}).job) == (2, 2, 4096)


def _too_little(record: JobRecord) -> dict[str, Any]:
    """Fields of a job that failed for memory."""
    why = "java.lang.OutOfMemoryError: Java heap space (executor 1 on vm-1 ended: Command exited)"
    return {"attempts": (Attempt(10.0, 20.0, "memory", why),), "state": "failed"}


def _raised(record: JobRecord) -> dict[str, Any]:
    """Fields of one that finished after a restart with twice the memory."""
    before = record.job.memory_mib
    size = Resources.of(record.job.cpus, 2 * before)
    more = MoreMemory(20.0, "executor", before, 2 * before)
    fields = {**_too_little(record), "more_memory": more, "job": replace(record.job, size=size), "losses": 4}
    return {**fields, "state": "finished"}


@pytest.mark.parametrize(
    ("ends", "needed", "memory_mib"),
    [
        ([_too_little], 4096, 8192),
        ([_raised], 8192, 8192),
        ([_too_little, _too_little], 8192, 16384),  # the second had 8 GiB
    ],
)
def test_auto_has_more_than_what_failed(shop: Shop, ends: list[Any], needed: int, memory_mib: int) -> None:
    """At least as much as succeeded after that; the job tells why."""
    for end in ends:
        record = shop.admit(**_AUTO)
        shop.end(record, **end(record))
    job = shop.admit(**_AUTO).job
    assert job.memory_mib == memory_mib
    assert job.shape is not None
    assert f"no less than {needed / 1024:g} GiB each, since" in job.shape.told
    kept = shop.store.jobs.get(job.id)
    assert kept is not None
    assert kept.job.shape == job.shape
    # Bounds of its user are kept, and so is memory that the user set.
    assert shop.admit(**{**_AUTO, "memory": "auto:-4g"}).job.memory_mib == 4096
    assert shop.admit(**{**_AUTO, "memory": "2g"}).job.memory_mib == 2048
    assert shop.admit(**{**_AUTO, "type": "other"}).job.memory_mib == 4096


def test_a_newer_run_with_less_memory_voids_what_failed(shop: Shop) -> None:
    """Its input may be smaller now."""
    record = shop.admit(**_AUTO, name="failed")
    shop.end(record, **_too_little(record))
    record = shop.admit(executors=2, cpus=2, memory="2g")
    shop.end(record, 10_000.0)
    assert shop.admit(**_AUTO).job.memory_mib == 4096


def test_jobs_restart_with_more_memory_where_their_users_expect_it(shop: Shop) -> None:
    """With retries, or memory left to Stoker; as the job says; never where the config forbids."""
    expected: list[tuple[dict[str, Any], bool]] = [
        ({}, False),
        ({"retries": 1}, True),
        ({"memory": "auto"}, True),
        ({"memory": "auto", "restartable": False}, False),
        ({"memory_retry": True}, True),
        ({"retries": 1, "memory_retry": False}, False),
    ]
    for asked, may in expected:
        assert shop.admit(**asked).job.memory_retry == may
    shop.intake.jobs._sizes = Sizes(memory_retry=False)
    for asked, _ in expected:
        assert not shop.admit(**asked).job.memory_retry


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"cpus": "auto:9-"}, "no pool or VM type has room for 1 x 9 cpus and 1 GiB; there are 8 x"),
        ({"memory": "auto:64g-"}, "no pool or VM type has room for 1 x 1 cpu and 64 GiB"),
        ({"executors": "auto:65-"}, "no pool or VM type has room for 65 x 1 cpu"),
        ({"cpus": 16, "executors": "auto"}, "no pool or VM type has room for 1 x 16 cpus"),
    ],
)
def test_a_shape_that_no_vm_has_is_refused(shop: Shop, asked: dict[str, Any], told: str) -> None:
    """With the VMs that there are."""
    with pytest.raises(RejectedError) as refused:
        shop.admit(**asked)
    assert refused.value.status == 422
    assert told in refused.value.detail


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"executors": "auto:5-3"}, "the minimum is above the maximum in 'auto:5-3'"),
        ({"memory": "auto:8g-2g"}, "the minimum is above the maximum in 'auto:8g-2g'"),
        ({"cpus": "auto:2"}, "should be auto, auto:MIN-MAX, auto:MIN- or auto:-MAX"),
        ({"cpus": "automatic"}, "number"),
        ({"executors": "auto:000001999999999-"}, "should be a number of executors from 1 to 10000"),
        ({"executors": f"auto:-000001{'9' * 400}"}, "should be a number of executors from 1 to 10000"),
        ({"executors": "auto:-3", "min_executors": 4}, "min_executors should be at most the maximum"),
        ({"executors": {"max": 4}, "memory": "auto"}, "memory: auto goes without dynamic allocation"),
    ],
)
def test_a_wrong_auto_is_an_error(asked: dict[str, Any], told: str) -> None:
    """It names the mistake and the right form."""
    with pytest.raises(ValidationError, match=told):
        JobSpec(app=APP, **asked)


def test_the_same_key_is_the_same_job_though_more_is_known_since(shop: Shop) -> None:
    """Sizes that were chosen are no part of what a user asked for."""
    spec = JobSpec(app=APP, type="etl", **_AUTO)
    answers: list[Any] = []
    for _ in range(2):
        (found,) = (each for each in shop.intake.accept([SubmittedSpec(spec, "a key")]) if each)
        answers += found.values()
        shop.run(**_AUTO)
    assert [new for _, new in answers] == [True, False]


def test_what_a_queue_allows_is_chosen(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """The best shape that is not over its limits."""
    shop.run(**_AUTO)
    shop.run(**_AUTO)
    best = shop.admit(**_AUTO).job
    misfit, most = shop.intake._fit.misfit, best.executors * best.cpus - 1

    def limited(spec: JobSpec) -> RejectedError | None:
        over = spec.most_executors * spec.most_cpus > most
        return RejectedError(422, "over", "over") if over else misfit(spec)

    monkeypatch.setattr(shop.intake._fit, "misfit", limited)
    job = shop.admit(**_AUTO).job
    assert job.executors * job.cpus <= most


def test_spot_vms_count_where_the_job_may_be_there(shop: Shop) -> None:
    """A job that may not sees the others alone."""
    fixed = make_vms(1, cpus=2, memory_mib=8192)
    spot = replace(make_vms(2, cpus=16)[1], terms=Terms("cheap", 60.0, spot=SpotTerms(0.1, notice=60.0)))
    shop.intake.note(0, MaxCapacity((*fixed, spot)), set())
    shop.intake._fit._late.clear()
    with pytest.raises(RejectedError, match="no pool or VM type has room"):
        shop.admit(cpus="auto:4-", spot="never")
    assert shop.admit(cpus="auto:4-").job.cpus >= 4


def test_without_a_known_vm_the_default_is_taken(tmp_path: Path) -> None:
    """Its bounds hold; whether it fits is seen when there are VMs."""
    shop = Shop(tmp_path)
    shop.intake.note(0, MaxCapacity(()), set())
    shop.intake._fit._late.clear()
    assert _sizes(shop.admit(**{**_AUTO, "memory": "auto:6g-8g"}).job) == (2, 2, 6144)
    shop.store.close()


def test_flags_and_tables_of_the_command_line(shop: Shop) -> None:
    """`stoker submit --executors auto:2-8 --cpus auto`, and the lines of `stoker job` about the choice."""
    assert submit._executors("auto:2-8", None, None) == {"executors": "auto:2-8", "min_executors": None}
    assert submit._cpus("auto", None) == "auto"
    assert submit._cpus("1.5", None) == 1.5
    assert submit._cpus("4", 1.0) == {"min": 1.0, "max": 4.0}
    with pytest.raises(CommandError, match="--cpus: should be a number or auto, found 'some'"):
        submit._cpus("some", None)
    with pytest.raises(CommandError, match="--min-cpus goes without --cpus auto"):
        submit._cpus("auto", 1.0)
    record = shop.admit(**_AUTO)
    assert record.job.shape is not None
    assert record.job.shape.told in str(list(explanation(explanation_body(record, "", []).model_dump())))


def test_nobody_learns_from_jobs_that_they_may_not_see(shop: Shop) -> None:
    """With `users.see: own` they tell neither number nor seconds, and set no size; operators see all."""
    for memory in ("4g", "8g", "16g"):
        for name in ("etl", "other"):
            shop.run(executors=2, memory=memory, owner="ann", type=name)
    bob, operator = Submitter("bob", sees_all=False), Submitter("olga")
    shape = shop.admit(bob, **_AUTO, owner="bob").job.shape
    assert shape is not None
    assert "no run of its type is known" in shape.told
    own = shop.admit(bob, **_AUTO, owner="bob")
    shop.end(own)
    told = shop.admit(bob, **_AUTO, owner="bob").job.shape
    assert told is not None
    assert told.runs == 1
    for_bob = shop.admit(operator, **_AUTO, owner="bob").job.shape
    assert for_bob is not None
    assert for_bob.runs == 4
    seen = {key: len(known._here) for key, (_, known) in shop.intake._shapes._others._known.items()}
    assert seen == {("etl",): 1, ("etl", "bob"): 0}


def test_a_size_that_is_left_open_holds_up_no_other_submission(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What goes together in a batch: a job with its size is stored before any choice is made."""
    stored: list[int] = []
    chosen = shop.intake._shapes.sized

    def sized(*given: Any) -> SubmittedSpec:
        stored.append(len(shop.store.jobs.page()))
        return chosen(*given)

    monkeypatch.setattr(shop.intake._shapes, "sized", sized)
    open_, plain = (SubmittedSpec(JobSpec(app=APP, type="etl", **asked)) for asked in (_AUTO, {"cpus": 2}))
    admissions = [each for found in shop.intake.accept([open_, plain]) for each in found]
    assert (admissions, stored) == ([plain, open_], [1])


def test_choices_are_made_one_at_a_time(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many at once are refused, so that they take neither memory nor threads that others need."""
    going, most, lock = 0, 0, threading.Lock()

    def sized(submitted: SubmittedSpec, *_: Any) -> SubmittedSpec:
        nonlocal going, most
        with lock:
            going += 1
            most = max(most, going)
        time.sleep(0.02)
        going -= 1
        return submitted

    monkeypatch.setattr(shop.intake._shapes, "_sized", sized)

    def ask(_: int) -> str:
        try:
            shop.intake._shapes.sized(SubmittedSpec(JobSpec(app=APP, **_AUTO)), (), lambda _: True)
        except RejectedError as error:
            return error.detail
        return ""

    with ThreadPoolExecutor(40) as pool:
        told = list(pool.map(ask, range(40)))
    assert most == 1
    assert {*told} == {"", "8 of your requests are being answered, or wait"}


def test_auto_shrinks_to_the_peaks_of_finished_jobs(shop: Shop) -> None:
    """With a margin, within bounds, never to what failed; the job tells why."""
    use = MemoryUse(MemoryPeak(1500, 100, 0), 2048.0, 1.0, 1.0, 1.0)
    for executors in (2, 4):
        record = shop.admit(executors=executors, cpus=2, memory="8g")
        shop.end(record, memory_use=use)
    job = shop.admit(**{**_AUTO, "cpus": 2}).job
    assert job.memory_mib == 3968
    assert job.shape is not None
    why = "no less than 3.875 GiB each, since executors of its type were full with 2 GiB at their peak"
    assert f"{why}: a margin of 94%" in job.shape.told
    kept = shop.store.jobs.get(job.id)
    assert kept is not None
    assert kept.job.shape == job.shape
    assert shop.admit(**{**_AUTO, "cpus": 2, "memory": "auto:4g-"}).job.memory_mib == 4096
    # What failed was a peak that samples saw a part of.
    record = shop.admit(executors=2, cpus=2, memory="3968m")
    shop.end(record, **_too_little(record))
    job = shop.admit(**{**_AUTO, "cpus": 2}).job
    assert job.memory_mib == 4992
    assert job.shape is not None
    assert "a margin of 144%" in job.shape.told


def test_a_peak_without_that_of_python_shrinks_nothing(shop: Shop) -> None:
    """Its workers are beside the heap; jobs of auto memory have Spark look at processes, unless they say."""
    use = MemoryUse(MemoryPeak(200, 100), None, 1.0, 1.0, 1.0)
    record = shop.admit(executors=2, cpus=2, memory="8g")
    shop.end(record, memory_use=use)
    job = shop.admit(executors=2, cpus=2, memory="auto").job
    assert job.memory_mib == 16384
    setting = "spark.executor.processTreeMetrics.enabled"
    spec = shop.store.jobs.spec(job.id)
    assert spec is not None
    assert spec.conf == {setting: "true"}
    other = shop.admit(memory="auto", conf={setting: "false"}).job
    spec = shop.store.jobs.spec(other.id)
    assert spec is not None
    assert spec.conf == {setting: "false"}
    spec = shop.store.jobs.spec(record.job.id)
    assert spec is not None
    assert not spec.conf
