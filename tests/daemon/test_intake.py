"""What is refused because it fits no cluster, and what may fit soon."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from conf.schema import Config, Driver, DynamicExecutors, JobSpec
from daemon import intake as intake_module
from daemon.contract import RejectedError
from daemon.intake import Intake
from daemon.launcher import Launcher
from daemon.store import Store
from environment.model.reach import Reach
from environment.types import Dynamic, PlacementRequest, Vm
from tests.builders import make_vms

APP = __file__  # any file that is there


class Door:
    """An intake with VMs as told, and others that are found when it looks."""

    def __init__(self, folder: Path, store: Store) -> None:
        self.found: tuple[Vm, ...] | None = None
        self.store = store
        self.looks = 0
        launcher = Launcher(Config(data_dir=str(folder)), folder, "127.0.0.1")
        self.intake = Intake(store, launcher, {}, lambda *_: None, self._look, 10, time.time)

    def _look(self) -> None:
        self.looks += 1
        if self.found is not None:
            self.intake.note(0, Reach(self.found), set())

    def submit(self, cpus: float, **asked: float) -> None:
        """A job of one executor."""
        self.intake.accept(JobSpec(app=APP, cpus=cpus, memory=1024, resources=asked), None)


@pytest.fixture
def door(tmp_path: Path) -> Iterator[Door]:
    """One with two VMs of four cpus."""
    store = Store(f"sqlite:///{tmp_path / 'stoker.db'}")
    door = Door(tmp_path, store)
    door.intake.note(0, Reach(make_vms(2, cpus=4)), set())
    yield door
    store.close()


def test_policies_see_owner_and_queue(door: Door) -> None:
    """What was submitted is what arrives."""
    door.found = make_vms(1)
    record, _ = door.intake.accept(JobSpec(app=APP, owner="alice", queue="night"), None)
    assert (record.job.owner, record.job.queue) == ("alice", "night")
    assert PlacementRequest(record.job, 1).job.owner == "alice"


def test_bounds_are_what_the_driver_may_ask_for(door: Door) -> None:
    """A job that could begin is accepted, whatever it may want later; the store gives it back as it was."""
    bounds = DynamicExecutors(min=2, max=500, initial=3)
    record, _ = door.intake.accept(JobSpec(app=APP, executors=bounds), None)
    job = record.job
    assert (job.executors, job.fewest, job.begins_with, job.dynamic) == (500, 2, 3, Dynamic(2, 3))
    assert door.store.job(job.id) == record
    spec = door.store.spec(job.id)
    assert spec is not None
    assert spec.executors == bounds
    with pytest.raises(RejectedError, match="9 are needed at least"):
        door.intake.accept(JobSpec(app=APP, executors=DynamicExecutors(min=9, max=500)), None)
    with pytest.raises(RejectedError, match="fits no VM"):
        door.intake.accept(JobSpec(app=APP, cpus=64, executors=DynamicExecutors(max=5, initial=0)), None)


def test_the_master_is_asked_before_a_job_is_refused(door: Door) -> None:
    """An agent may have joined while nothing was offered; a job that fits what is known asks nobody."""
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
    door.intake.note(0, Reach(many), set())
    door.intake.note(0, Reach(few), set())
    door.submit(8)
    monkeypatch.setattr(intake_module, "OF_LATE", 0.0)
    door.intake.note(0, Reach(make_vms(1, cpus=4)), set())
    with pytest.raises(RejectedError, match="fits no VM"):
        door.submit(8)


def test_what_no_quota_lets_us_have_is_refused(door: Door) -> None:
    """All of it counts, fewer executors where they are enough; what is less than the limit may wait."""
    door.intake.note(0, Reach(make_vms(9, cpus=4), quota={"cpus": 8.0, "mem": 6144.0}), set())
    said = "the master's quota lets our roles have 8 cpus in all, and it takes 9 cpus"
    with pytest.raises(RejectedError, match=said) as refused:
        door.intake.accept(JobSpec(app=APP, cpus=3, memory=1024, executors=3), None)
    assert (refused.value.status, refused.value.title) == (422, "The job is over the quota")
    with pytest.raises(RejectedError, match="have 6144 MiB in all, and it takes 7168 MiB"):
        door.intake.accept(JobSpec(app=APP, cpus=1, memory=1024, executors=7), None)
    door.intake.accept(JobSpec(app=APP, cpus=4, memory=1024, executors=2), None)
    door.intake.accept(JobSpec(app=APP, cpus=3, memory=1024, executors=3, min_executors=2), None)
    assert door.looks == 2, "it was asked whether the quota is another by now"


def test_a_driver_of_its_users_is_no_job_file(door: Door) -> None:
    """Who wants executors for a driver of their own asks by another way, which the refusal names."""
    spec = JobSpec(app="", driver=Driver(on="client"))
    with pytest.raises(RejectedError, match="by POST /v1/applications"):
        door.intake.accept(spec, None)
