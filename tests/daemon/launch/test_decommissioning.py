"""Drivers are told which executors are to leave: recipients, repetitions and answers."""

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from conf.util.backoff import Backoff
from daemon.launch import decommissioning
from daemon.launch.decommissioning import Decommissioning
from environment.model.messages.records import ExecutorRecord, JobRecord
from environment.types import Dynamic
from framework.spark import DriverUi
from tests.builders import make_job
from tests.waiting import PATIENCE

_JOB = JobRecord(make_job(executors=3), "running")


@dataclass
class Driver:
    """A driver's page, with the messages it received and its answers to come."""

    ui: DriverUi
    answers: list[int] = field(default_factory=list)
    told: list[tuple[str | None, str]] = field(default_factory=list)


@pytest.fixture
def driver() -> Iterator[Driver]:
    """A driver that can be told."""

    class Page(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            found.told.append((self.headers["Authorization"], self.path))
            self.send_response(found.answers.pop(0) if found.answers else 204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Page) as server:
        found = Driver(DriverUi("127.0.0.1", server.server_port, "the-key"))
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield found
        server.shutdown()
        thread.join()


@pytest.fixture
def told(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> Iterator[Decommissioning]:
    """Tells that driver, without pauses."""
    monkeypatch.setattr(decommissioning, "_AGAIN", 0.0)
    monkeypatch.setattr(decommissioning, "_BACKOFF", Backoff(first=0.0))
    made = Decommissioning(lambda _: driver.ui, lambda: 200.0)
    yield made
    made.close()


def _task(number: int, at: float | None = 100.0) -> ExecutorRecord:
    size = _JOB.job.size
    task = ExecutorRecord(
        f"job-1.{number}", "job-1", number, "v", "vm-1", "t", "127.0.0.1", 1.0, size, (), 1.0
    )
    return replace(task, decommissioned_at=at)


def _until(told: Decommissioning, driver: Driver, times: int) -> None:
    deadline = time.monotonic() + PATIENCE
    while len(driver.told) < times:
        assert time.monotonic() < deadline
        told.tend()
        time.sleep(0.01)


def _until_idle(told: Decommissioning) -> None:
    """Wait for messages in flight."""
    deadline = time.monotonic() + PATIENCE
    while told._crew._busy or told._crew._ready:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_driver_is_told_until_its_executors_are_gone(told: Decommissioning, driver: Driver) -> None:
    """With its key; also when it answers with an error, or that nobody is there to take their blocks."""
    driver.answers = [503, 409]
    told.observe([_task(2), _task(0), _task(1, None)], lambda _: _JOB)
    _until(told, driver, 4)
    assert set(driver.told) == {("Bearer the-key", "/stoker/decommission?executors=0%2C2")}
    told.observe([replace(_task(2), state="finished"), replace(_task(0), state="lost")], lambda _: _JOB)
    _until_idle(told)
    there = len(driver.told)
    told.tend()
    _until_idle(told)
    assert len(driver.told) == there


def test_executors_that_waited_long_enough_go_alone(told: Decommissioning, driver: Driver) -> None:
    """Where none comes to which their blocks could move."""
    told.observe([_task(0, at=79.0)], lambda _: _JOB)
    _until(told, driver, 1)
    assert driver.told[0][1] == "/stoker/decommission?executors=0&alone=true"


@pytest.mark.parametrize("job", [{"dynamic": Dynamic(0, 1)}, {"client_driver": "laptop"}])
def test_drivers_that_ask_by_themselves_are_not_told_here(
    told: Decommissioning, driver: Driver, job: dict[str, object]
) -> None:
    """Nor is that of a job that is over."""
    asks = replace(_JOB, job=replace(_JOB.job, **job))  # type: ignore[arg-type]  # of all types
    told.observe([_task(0)], lambda _: asks)
    told.tend()
    over = replace(_JOB)
    told.observe([_task(1)], lambda _: over)
    over.state = "failed"
    told.tend()
    _until_idle(told)
    assert not driver.told


def test_a_driver_that_does_not_answer_is_asked_less_and_less(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pause after each try is twice the one before; without a UI it is no other."""
    tries: list[float] = []
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now)
    told = Decommissioning(lambda _: tries.append(now), lambda: 200.0)
    monkeypatch.setattr(told._crew, "hand", lambda _, work: work())
    told.observe([_task(0)], lambda _: _JOB)
    for _ in range(150):
        told.tend()
        now += 0.1
    begin = tries[0]
    assert [round(at - begin) for at in tries] == [0, 1, 3, 7]
