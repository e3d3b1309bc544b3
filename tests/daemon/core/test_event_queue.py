"""The scheduling loop's inbox: events taken out together."""

import pytest

from daemon.core.event_queue import Inbox
from environment.model.messages import events as ev
from tests.builders import make_job


def submitted(number: int) -> ev.JobSubmitted:
    """A job comes."""
    return ev.JobSubmitted(float(number), make_job(f"job-{number}"))


def test_jobs_that_come_one_after_the_other_are_taken_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """More are waited for only where one came just before, and where one is the first of a batch."""
    box, waits = Inbox(), list[float]()

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        if seconds:
            box.put(submitted(3))

    monkeypatch.setattr("daemon.core.event_queue.time.sleep", sleep)
    monkeypatch.setattr("daemon.core.event_queue.time.monotonic", lambda: 100.0)
    box.put(submitted(1))
    assert [item.event for item in box.take(0.0)] == [submitted(1)]
    box.put(submitted(2))
    assert [item.event for item in box.take(0.0)] == [submitted(2), submitted(3)]
    assert waits == [0.0, pytest.approx(0.02)]
    box.put(ev.Tick(4.0))
    box.put(submitted(5))
    assert [item.event for item in box.take(0.0)] == [ev.Tick(4.0), submitted(5)]
    assert len(waits) == 2
    assert box.take(0.0) == []
