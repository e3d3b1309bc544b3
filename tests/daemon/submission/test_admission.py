"""Admission: refusals of jobs that fit no cluster, and acceptance of those that may soon."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from conf.schema import Config, Driver, DynamicExecutors, JobSpec
from conf.schema.job import CpuBounds
from daemon.core.errors import RejectedError
from daemon.launch.launcher import Launcher
from daemon.store.job_store import Store
from daemon.store.queries.insert_jobs import Admission, SubmittedSpec
from daemon.store.rows import job_rows
from daemon.store.rows.database import StoreError, StoreFullError
from daemon.submission import cluster_fit
from daemon.submission.admission import Intake
from environment.model.messages.records import JobRecord
from environment.model.vms.max_capacity import MaxCapacity
from environment.pools import SpotTerms, Terms
from environment.types import Dynamic, PlacementRequest, Vm
from framework.spark.submit_properties import job_properties
from profiles.job_profile import load_profiles
from tests.builders import make_vms

APP = __file__  # any file that is there


class Door:
    """An intake with VMs as told, and others that are found when it looks."""

    def __init__(self, folder: Path, store: Store) -> None:
        self.found: tuple[Vm, ...] | None = None
        self.store = store
        self.looks = 0
        self.launcher = Launcher(Config(data_dir=str(folder)), folder, "127.0.0.1")
        self.intake = Intake(
            store, self.launcher, load_profiles(), lambda *_: None, self._look, 10, time.time
        )

    def _look(self) -> None:
        self.looks += 1
        if self.found is not None:
            self.intake.note(0, MaxCapacity(self.found), set())

    def submit(self, cpus: float, **asked: Any) -> JobRecord:
        """A job of one executor."""
        return self.admit(JobSpec(**{"app": APP, "cpus": cpus, "memory": 1024, **asked}))

    def admit(self, spec: JobSpec) -> JobRecord:
        """Admit any job; raise its refusal."""
        each = SubmittedSpec(spec)
        (admission,) = (found[each] for found in self.intake.accept([each]) if found)
        if isinstance(admission, Exception):
            raise admission
        return admission[0]


@pytest.fixture
def door(tmp_path: Path) -> Iterator[Door]:
    """One with two VMs of four cpus."""
    store = Store(f"sqlite:///{tmp_path / 'stoker.db'}")
    door = Door(tmp_path, store)
    door.intake.note(0, MaxCapacity(make_vms(2, cpus=4)), set())
    yield door
    store.close()


def test_a_job_that_never_ends_on_spot_is_kept_off_it(door: Door) -> None:
    """A job that repeats all work after an interruption, by its profile, is barred from spot.

    It is refused where it may run nowhere else.
    """
    fixed = make_vms(2, cpus=4)
    spot = replace(fixed[0], terms=Terms("cheap", 60.0, spot=SpotTerms(120.0, notice=0.0)))
    door.intake.note(0, MaxCapacity((spot, fixed[1])), set())
    job = door.submit(1, type="wordcount").job
    assert job.unending_on == ("cheap",)
    assert "never ends on spot at this rate (120 interruptions an hour)" in job.barred(spot)
    assert not job.barred(fixed[1])
    kept = door.store.jobs.get(job.id)
    assert kept is not None
    assert kept.job == job
    with pytest.raises(RejectedError, match="the job never ends on spot at this rate"):
        door.submit(1, type="wordcount", spot="only")
    seldom = replace(spot, terms=Terms("cheap", 60.0, spot=SpotTerms(0.2, notice=0.0)))
    door.intake.note(0, MaxCapacity((seldom, fixed[1])), set())
    assert door.submit(1, type="wordcount", spot="only").job.unending_on == ()


def test_policies_see_owner_and_queue(door: Door) -> None:
    """Owner and queue reach the policy unchanged."""
    door.found = make_vms(1)
    record = door.submit(1, owner="alice", queue="night")
    assert (record.job.owner, record.job.queue) == ("alice", "night")
    assert PlacementRequest(record.job, 1).job.owner == "alice"


@pytest.mark.parametrize(
    ("deadline", "due"), [("2h", 7200.0), (90, 90.0), ("1970-01-01T01:00+01:00", None), (None, None)]
)
def test_a_deadline_is_a_point_in_time(door: Door, deadline: object, due: float | None) -> None:
    """One that is told from submission on, and one that is told by the calendar."""
    job = door.submit(1, priority=7, deadline=deadline).job
    assert job.priority == 7
    if due is not None:
        assert job.deadline == job.submitted_at + due
    else:
        assert job.deadline == (None if deadline is None else 0.0)


def test_bounds_are_what_the_driver_may_ask_for(door: Door) -> None:
    """A job that could begin is accepted with any upper bound; the store returns it unchanged."""
    bounds = DynamicExecutors(min=2, max=500, initial=3)
    record = door.admit(JobSpec(app=APP, executors=bounds))
    job = record.job
    assert (job.executors, job.fewest, job.begins_with, job.dynamic) == (500, 2, 3, Dynamic(2, 3))
    assert door.store.jobs.get(job.id) == record
    spec = door.store.jobs.spec(job.id)
    assert spec is not None
    assert spec.executors == bounds
    with pytest.raises(RejectedError, match="9 are needed at least"):
        door.admit(JobSpec(app=APP, executors=DynamicExecutors(min=9, max=500)))
    with pytest.raises(RejectedError, match="fits no VM"):
        door.admit(JobSpec(app=APP, cpus=64, executors=DynamicExecutors(max=5, initial=0)))


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({"spark.mesos.gpus.max": "2", "spark.mesos.executor.gpus": "1"}, "gpus"),
        ({"spark.executor.resource.gpu.amount": "1"}, "gpus"),
        ({"spark.executor.resource.fpga.amount": "1", "spark.task.resource.fpga.amount": "1"}, "fpga"),
        ({"spark.executor.extraJavaOptions": "-Xss1m -Xmx2g"}, "not allowed to specify max heap memory"),
        ({"spark.driver.defaultJavaOptions": "-Xmx2g"}, "not allowed to specify max heap memory"),
        ({"spark.executor.extraJavaOptions": "-XX:MaxHeapSize=9g"}, "not allowed to specify max heap memory"),
        ({"spark.executor.extraJavaOptions": "-Xss1m -Xms900g"}, "starts the heap with 900g, but it has"),
        ({"spark.driver.extraJavaOptions": "-XX:InitialHeapSize=900g"}, "starts the heap with 900g"),
        ({"spark.driver.extraJavaOptions": "-ms900g"}, "starts the heap with 900g"),
        ({"spark.executor.extraJavaOptions": "-XX:MinHeapSize=900g"}, "starts the heap with 900g"),
        ({"spark.executorEnv.JAVA_TOOL_OPTIONS": "-Xms900g"}, "starts the heap with 900g"),
    ],
)
def test_what_executors_could_never_have_is_refused(
    door: Door, properties: dict[str, str], words: str
) -> None:
    """Spark's properties are checked at once: resources that no VM has, and heaps."""
    with pytest.raises(RejectedError, match=words):
        door.admit(JobSpec.model_validate({"app": APP, **job_properties(properties).fields}))


def test_variables_with_options_of_java_start_no_heap_above_the_limit(door: Door) -> None:
    """The JVM reads its options from three variables, too, and does not start with such a heap."""
    for name in ("JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS"):
        with pytest.raises(RejectedError, match=f"environment: {name} starts the heap with 900g"):
            door.submit(1, env={name: "-Xms900g"})


def test_resources_by_sparks_settings_are_taken_from_vms(door: Door) -> None:
    """Resources of Spark's settings must be the job's own; a mismatch is refused with the right form."""
    conf = {"spark.executor.resource.gpu.amount": "2"}
    for resources in ({}, {"gpus": 1.0}):
        with pytest.raises(RejectedError, match=r"set resources: \{gpus: 2\}"):
            door.submit(1, conf=conf, resources=resources)


@pytest.mark.parametrize("cpus", [2.0, 2.9, CpuBounds(min=2, max=8)])
def test_a_task_takes_no_more_cores_than_any_executor_may_have(door: Door, cpus: float | CpuBounds) -> None:
    """By conf as by spark-submit: else no task would ever run, while the executors stay."""
    door.launcher.check(JobSpec(app=APP, cpus=cpus, conf={"spark.task.cpus": "2"}))
    with pytest.raises(ValueError, match=r"spark\.task\.cpus=3 is more than the 2 cores of an executor"):
        door.launcher.check(JobSpec(app=APP, cpus=cpus, conf={"spark.task.cpus": "3"}))


def test_a_tasks_part_of_a_unit_is_one_that_its_spark_takes(door: Door) -> None:
    """Spark 3.5 ends with the application's start where a task has more than half of a unit and not all."""

    def check(spark: str, amount: str) -> None:
        conf = {"spark.executor.resource.fpga.amount": "1", "spark.task.resource.fpga.amount": amount}
        door.launcher.check(JobSpec(app=APP, spark=spark, conf=conf, resources={"fpga": 1.0}))

    check("3.5", "0.5")
    check("3.5", "1")
    check("4.3", "0.6")
    with pytest.raises(
        ValueError, match=r"amount=0\.6: should be at most 0\.5, or a whole number, for Spark 3"
    ):
        check("3.5", "0.6")


def test_settings_count_by_their_older_names(door: Door) -> None:
    """In a job file as elsewhere."""
    spec = JobSpec(app=APP, memory=4096, conf={"spark.yarn.executor.memoryOverhead": "2g"})
    door.launcher.check(spec)
    assert door.launcher.heap_mib(spec) == 2048
    with pytest.raises(ValueError, match=r"leaves a heap of 96 MiB after Spark's overhead of 4000 MiB"):
        door.launcher.check(
            JobSpec(app=APP, memory=4096, conf={"spark.yarn.executor.memoryOverhead": "4000"})
        )


def test_the_least_that_a_job_may_have_must_fit(door: Door) -> None:
    """Bounds of cpus are a choice for Stoker, so a VM that fits the minimum suffices."""
    assert door.admit(JobSpec(app=APP, cpus=CpuBounds(min=2, max=64))).job.min_cpus == 2
    with pytest.raises(RejectedError, match=r"8 cpus.* fits no VM"):
        door.admit(JobSpec(app=APP, cpus=CpuBounds(min=8, max=64)))


def test_the_master_is_asked_before_a_job_is_refused(door: Door) -> None:
    """An agent may join without an offer, so the master is asked; a job that fits needs no query."""
    door.submit(4)
    assert door.looks == 0
    with pytest.raises(RejectedError, match="fits no VM"):
        door.submit(8)
    door.found = (*make_vms(2, cpus=4), *make_vms(3, cpus=8)[2:])
    door.submit(8)
    assert door.looks == 2


def test_a_job_may_wait_for_a_vm_that_was_there_of_late(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its agent reboots: a script must not lose its job for that. For ever gone is gone."""
    few, many = make_vms(2, cpus=4), make_vms(3, cpus=8)
    door.intake.note(0, MaxCapacity(many), set())
    door.intake.note(0, MaxCapacity(few), set())
    door.submit(8)
    monkeypatch.setattr(cluster_fit, "OF_LATE", 0.0)
    door.intake.note(0, MaxCapacity(make_vms(1, cpus=4)), set())
    with pytest.raises(RejectedError, match="fits no VM"):
        door.submit(8)


def test_what_no_quota_lets_us_have_is_refused(door: Door) -> None:
    """The whole job counts against the quota, or its minimum of executors; a job below the limit may wait."""
    door.intake.note(0, MaxCapacity(make_vms(9, cpus=4), quota={"cpus": 8.0, "mem": 6144.0}), set())
    said = "the master's quota grants our roles 8 cpus in all, but it needs 9 cpus"
    with pytest.raises(RejectedError, match=said) as refused:
        door.submit(3, executors=3)
    assert (refused.value.status, refused.value.title) == (422, "The job is over the quota")
    with pytest.raises(RejectedError, match="our roles 6144 MiB in all, but it needs 7168 MiB"):
        door.submit(1, executors=7)
    door.submit(4, executors=2)
    door.submit(3, executors=3, min_executors=2)
    assert door.looks == 2, "it was asked whether the quota is another by now"


def test_what_a_job_leaves_open_is_kept_of_it(door: Door) -> None:
    """Its bounds, and the curve by which a size is chosen between them."""
    asked = {"executors": 4, "min_executors": 2, "cpus": {"min": 1, "max": 3}, "type": "sort"}
    record = door.admit(JobSpec.model_validate({"app": APP, **asked}))
    assert (record.job.fewest, record.job.cpus, record.job.min_cpus) == (2, 3.0, 1.0)
    assert record.job.curve == load_profiles()["sort"].curve
    assert job_rows.read_job(job_rows.job_row(record)["record"], 1).job == record.job


def test_a_driver_of_its_users_is_no_job_file(door: Door) -> None:
    """A driver run by its user is requested in another way, which the refusal names."""
    spec = JobSpec(app="", driver=Driver(on="client"))
    with pytest.raises(RejectedError, match="by POST /v1/applications"):
        door.admit(spec)


def asked_for(*cpus: float, **more: Any) -> list[SubmittedSpec]:
    """Jobs of so many cpus."""
    return [SubmittedSpec(JobSpec(app=APP, cpus=each, memory=1024, **more)) for each in cpus]


def test_those_that_fit_do_not_wait_for_a_look_at_the_vms(door: Door) -> None:
    """They are on disk and answered before the master is asked about the others, once for all of them."""
    submitted = asked_for(1, 8, 2, 9)
    found = door.intake.accept(submitted)
    first = next(found)
    assert (door.looks, set(first)) == (0, {submitted[0], submitted[2]})
    assert [record.job.size.cpus for record in door.store.jobs.page(newest_first=False)] == [1, 2]
    (second,) = found
    assert (door.looks, set(second)) == (1, {submitted[1], submitted[3]})


def test_what_is_wrong_with_one_stops_no_other(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither in its check, nor when it becomes a job, nor in the database."""
    submitted = [*asked_for(1), *asked_for(2, name="bad"), *asked_for(3)]
    check, job = door.launcher.check, door.intake._job

    def told(found: Mapping[SubmittedSpec, Admission]) -> list[str]:
        names = (type(each).__name__ for each in (found[one] for one in submitted))
        return [name.replace("tuple", "kept") for name in names]

    def failing(error: Exception, work: Callable[..., Any]) -> Callable[..., Any]:
        def work_on(*given: Any) -> Any:
            if any(getattr(getattr(each, "spec", each), "name", "") == "bad" for each in given):
                raise error
            return work(*given)

        return work_on

    monkeypatch.setattr(door.launcher, "check", failing(RuntimeError("nobody knows"), check))
    (found,) = door.intake.accept(submitted)
    assert told(found) == ["kept", "RuntimeError", "kept"]
    monkeypatch.setattr(door.launcher, "check", check)
    for error, name in ((RuntimeError("no id"), "RuntimeError"), (StoreError("a NUL"), "RejectedError")):
        monkeypatch.setattr(door.intake, "_job", failing(error, job))
        (found,) = door.intake.accept(submitted)
        assert told(found) == ["kept", name, "kept"]
    assert door.store.jobs.count_by_state() == {"queued": 6}
    monkeypatch.setattr(door.intake, "_sized", failing(RuntimeError("no number"), door.intake._sized))
    answers = [found for found in door.intake.accept(submitted) if found]
    assert told({each: of for found in answers for each, of in found.items()}) == [
        "kept",
        "RuntimeError",
        "kept",
    ]


def test_a_full_disk_is_tried_once_for_all(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    """They all hear of it."""
    tries = []

    def full(*_: object) -> None:
        tries.append(1)
        raise StoreFullError("the disk is full")

    monkeypatch.setattr(door.store.jobs.new, "add", full)
    (found,) = door.intake.accept(asked_for(1, 2, 3))
    assert [each.status for each in found.values() if isinstance(each, RejectedError)] == [503] * 3
    assert len(tries) == 1


def test_of_many_the_last_find_the_queue_full(door: Door) -> None:
    """Ten may wait."""
    submitted = asked_for(*[1] * 12)
    (found,) = door.intake.accept(submitted)
    refused = {one: each.status for one, each in found.items() if isinstance(each, RejectedError)}
    assert refused == dict.fromkeys(submitted[10:], 429)
    assert door.store.jobs.count_by_state() == {"queued": 10}


def test_as_many_executors_as_are_worth_having(door: Door) -> None:
    """By the curve of its type, and on one of them at least; the store has the numbers."""
    record = door.admit(JobSpec(app=APP, type="pagerank", executors="auto"))
    most = load_profiles()["pagerank"].curve.worth_having(1.0, 1024)
    assert most > 1
    assert (record.job.executors, record.job.fewest) == (most, 1)
    spec = door.store.jobs.spec(record.job.id)
    assert spec is not None
    assert (spec.executors, spec.min_executors) == (most, 1)
    assert door.admit(JobSpec(app=APP, type="pagerank", executors="auto", min_executors=3)).job.fewest == 3
    bounded = door.admit(JobSpec(app=APP, type="pagerank", executors="auto:2-3")).job
    assert (bounded.executors, bounded.fewest) == (3, 2)


def test_what_is_worth_having_may_change_between_two_tries(door: Door, tmp_path: Path) -> None:
    """Another daemon that knows the type better takes a submission that comes again for the same one."""
    auto = JobSpec(app=APP, type="pagerank", executors="auto")
    (first,) = (
        each for found in door.intake.accept([SubmittedSpec(auto, "a key")]) for each in found.values()
    )
    assert not isinstance(first, Exception)
    later = Door(tmp_path, door.store)
    profiles = load_profiles()
    later.intake._profiles = {**profiles, "pagerank": profiles["wordcount"]}
    most = profiles["wordcount"].curve.worth_having(1.0, 1024)
    assert most != first[0].job.executors
    again = [SubmittedSpec(auto, "a key"), SubmittedSpec(auto.model_copy(update={"memory": 2048}), "a key")]
    (found,) = later.intake.accept(again)
    assert found[again[0]] == (first[0], False)
    other = found[again[1]]
    assert isinstance(other, RejectedError)
    assert other.status == 409


def test_no_job_begins_on_more_executors_than_one_may_have() -> None:
    """The limit of executors also applies where no number of executors is checked."""
    with pytest.raises(ValidationError, match="min_executors"):
        JobSpec(app=APP, type="pagerank", executors="auto", min_executors=1_000_000_000)


def test_a_type_that_nobody_has_measured_is_told(door: Door) -> None:
    """With those that are known, and the one that was meant; where none is named, nothing is missing."""
    known = ", ".join(sorted(load_profiles()))
    (told,) = door.intake.jobs.warnings("wordcuont")
    assert told == (
        f"type: wordcuont: no job of its type was measured (measured are {known}), so its duration is "
        "guessed; did you mean wordcount?"
    )
    (other,) = door.intake.jobs.warnings("nosuchtype")
    assert other.endswith("its duration is guessed")
    assert door.intake.jobs.warnings("wordcount") == door.intake.jobs.warnings(JobSpec(app=APP).type) == []


def test_the_jobs_of_an_array_are_no_larger_than_can_be_stored(door: Door) -> None:
    """Each has its specification in the store: a request of a megabyte would become a gigabyte there."""
    with pytest.raises(RejectedError, match="the specifications of an array of 10 have 9,"):
        door.submit(1, args=["x" * 30_000] * 31, count=10)
    assert not door.store.jobs.page()
    door.submit(1, args=["x" * 30_000] * 31)
    assert door.submit(1, args=["x" * 30_000] * 20, count=9).job.array


def test_large_arrays_are_stored_one_by_one(door: Door) -> None:
    """Many at once would hold as much memory, and the store for as long, as one that is refused."""
    large = asked_for(1, 1, args=("x" * 30_000,) * 12, count=3)
    small = asked_for(1, 1)
    told = [set(found) for found in door.intake.accept([*large, *small]) if found]
    assert told == [set(small), {large[0]}, {large[1]}]
