"""The monotonic clock advances evenly, however the wall clock changes."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from conf.schema import Config, JobSpec
from daemon.core.clock import Clock
from daemon.launch.launcher import Launcher
from daemon.scheduler.build import service_of
from daemon.scheduler.foundation import TermInputs
from daemon.store.job_store import Store
from daemon.store.rows.bill import AskedBill
from environment.model.cluster_model import Changes
from environment.model.messages.records import ExecutorRecord, JobRecord
from environment.model.messages.vm_accounts import Account
from environment.resources import Resources
from framework.mesos.master_link import MasterLink
from framework.mesos.session import SessionOptions
from tests.builders import make_job
from tests.daemon.ports import free_port

HOUR = 3600.0


class Machine:
    """The clocks of a machine, by hand."""

    def __init__(self) -> None:
        self.wall, self.boot, self.boot_id = 100_000.0, 50.0, "first"

    def pass_by(self, seconds: float) -> None:
        """Time goes by."""
        self.wall += seconds
        self.boot += seconds

    def clock(self, kept: str = "", shared: float | None = None) -> Clock:
        """A daemon's time, begun now; `shared` is the store's clock."""
        return Clock(
            kept,
            lambda: self.wall if shared is None else shared,
            wall=lambda: self.wall,
            boot=lambda: self.boot,
            boot_id=self.boot_id,
        )


@pytest.fixture
def machine() -> Machine:
    """A machine with settable clocks."""
    return Machine()


def a_job(at: float) -> JobRecord:
    """A job that was submitted then and started ten seconds later."""
    return JobRecord(make_job("job-1", submitted_at=at), state="running", started_at=at + 10)


@pytest.mark.parametrize("jump", [HOUR, -HOUR])
def test_a_jump_changes_no_difference_and_is_told(machine: Machine, jump: float) -> None:
    """An hour forward or back in the midst of a job: its seconds are those that went by."""
    clock = machine.clock()
    began = clock.now()
    assert began == machine.wall
    assert clock.trouble == ""
    machine.pass_by(2.0)
    machine.wall += jump
    assert not clock.look(idle=False)
    assert clock.now() - began == pytest.approx(2.0)
    assert clock.jumps == 1
    assert "3600 s" in clock.trouble
    clock.look(idle=False)
    assert clock.jumps == 1


def test_an_idle_daemon_follows_the_clock_but_never_back(machine: Machine) -> None:
    """Set forward, the time shown is right again as soon as nothing is measured; set back, it waits."""
    clock = machine.clock()
    machine.wall += HOUR
    assert clock.look(idle=True) == pytest.approx(HOUR)
    assert clock.now() == machine.wall
    assert clock.trouble == ""
    machine.wall -= HOUR
    assert not clock.look(idle=True)
    assert clock.now() == machine.wall + HOUR


def test_time_goes_on_over_a_restart(machine: Machine) -> None:
    """On the same boot a jump changes nothing for a job that goes on; without one the clock is followed."""
    clock = machine.clock()
    began, kept = clock.now(), clock.kept
    machine.pass_by(2.0)
    machine.wall -= HOUR
    later = machine.clock(kept)
    later.begin([a_job(began - 30)], [])
    assert later.now() - began == pytest.approx(2.0)
    fresh = machine.clock(kept)
    fresh.begin([], [])
    assert fresh.now() == machine.wall


def test_after_a_reboot_the_stores_clock_tells_and_never_goes_back(machine: Machine) -> None:
    """After a reboot the store's clock decides, and time never goes back.

    This also holds when another host with a slow clock takes a job over: no measured time is negative.
    """
    kept = machine.clock().kept
    machine.boot_id, machine.boot = "second", 3.0
    clock = machine.clock(kept, shared=5000.0)
    clock.begin([a_job(4000.0)], [])
    assert clock.now() == 5000.0
    behind = machine.clock(kept, shared=2000.0)
    ran = {"resources": Resources.of(1.0, 1024), "ports": (), "launched_at": 4010.0, "accrued_until": 4100.0}
    task = ExecutorRecord("job-1-0", "job-1", 0, "v", "v", "t", "127.0.0.1", 1.0, **ran)  # type: ignore[arg-type]  # of all types
    behind.begin([a_job(4000.0)], [task])
    assert behind.now() == 4100.0


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """An empty store."""
    with closing(Store(f"sqlite:///{tmp_path / 'stoker.db'}")) as store:
        yield store


def test_no_job_ends_of_a_jump(store: Store, tmp_path: Path, machine: Machine) -> None:
    """One that may run for ten minutes goes on when an hour is set, not when it goes by; /readyz tells."""
    job = replace(make_job(submitted_at=machine.wall, driver=Resources.of(1.0, 1024)), max_runtime=600.0)
    record, _ = store.jobs.new.add_one(JobSpec(app="/apps/a.py"), lambda _: job, None, machine.wall)
    store.changes.save(Changes((replace(record, state="running", started_at=machine.wall),), ()))
    config = Config(data_dir=str(tmp_path))
    launcher = Launcher(config, tmp_path, "127.0.0.1")
    connect = partial(MasterLink, SessionOptions(master=f"127.0.0.1:{free_port()}"))
    service = service_of(
        TermInputs(config, store, launcher, connect, data_dir=tmp_path, clock=machine.clock())
    )
    service._loop._restore()

    def after(seconds: float) -> str:
        machine.pass_by(seconds)
        service._loop._next_tick = 0.0
        service._loop._turn()
        found = store.jobs.get(record.job.id)
        assert found is not None
        return found.state

    try:
        machine.wall += HOUR
        assert after(590.0) == "running"
        assert service.health().checks["clock"].startswith("the daemon's time is 3600 s behind")
        assert after(11.0) == "failed"
        after(1.0)
        assert "clock" not in service.health().checks, "nothing is measured: the clock is followed"
    finally:
        service.stop()
        service.run()


def test_no_vm_is_paid_for_a_jump(store: Store, tmp_path: Path, machine: Machine) -> None:
    """Setting the clock ahead by an hour charges no VM of 3.6 dollars per hour for that hour."""
    account = Account(
        "general-1.1", "general-1.1", "m1.large", 3.6, machine.wall, machine.wall, pool="general"
    )
    store.changes.save(Changes((), (), accounts=(account,)))
    config, connect = (
        Config(data_dir=str(tmp_path)),
        partial(MasterLink, SessionOptions(master=f"127.0.0.1:{free_port()}")),
    )
    launcher = Launcher(config, tmp_path, "127.0.0.1")
    service = service_of(
        TermInputs(config, store, launcher, connect, data_dir=tmp_path, clock=machine.clock())
    )
    service._loop._restore()
    try:
        for jump in (0.0, HOUR, 0.0):
            machine.pass_by(60.0)
            machine.wall += jump
            service._loop._next_tick = service._parts.timers._next_charge = 0.0
            service._loop._turn()
        assert store.vms.bill(AskedBill()).total.total == pytest.approx(180.0 * 3.6 / HOUR)
        assert "clock" not in service.health().checks
    finally:
        service.stop()
        service.run()


@pytest.mark.parametrize(
    "kept", ["{", "[]", "null", "7", '{"boot":"first"}', '{"boot":"first","offset":null}',
             '{"boot":"first","offset":NaN}', '{"boot":"first","offset":1e999}', "[" * 100_000],
)  # fmt: skip
def test_a_time_that_cannot_be_read_is_read_anew(machine: Machine, kept: str) -> None:
    """A disk may have changed it; the daemon goes on by the store's clock, as after a reboot."""
    assert machine.clock(kept).now() == machine.wall
