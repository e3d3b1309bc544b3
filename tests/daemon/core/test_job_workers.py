"""Worker threads where the machine has no room for them, and where they hang."""

import threading
from functools import partial

import pytest

from daemon.core.job_workers import MOST_HANGING, JobWorkers
from tests.framework.host.test_user_files import no_room
from tests.waiting import until


def test_work_that_found_no_thread_is_done_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs had taken all of the machine's threads: the loop that hands work over goes on."""
    workers, done = JobWorkers(1, 60.0), threading.Event()
    with monkeypatch.context() as full:
        full.setattr(threading.Thread, "start", no_room)
        workers.hand("job-1", done.set)
        assert workers.overdue() == []
    assert workers.overdue() == []
    assert done.wait(10.0)
    workers.close(1.0)


def hang(begun: threading.Event, end: threading.Event) -> None:
    """Work that goes on until the end."""
    begun.set()
    end.wait(600.0)


def test_threads_that_hang_are_replaced_up_to_a_number() -> None:
    """They are counted until they return; then the work that waited for one of them is done."""
    workers, end, done = JobWorkers(1, 0.0), threading.Event(), threading.Event()
    for number in range(MOST_HANGING + 1):
        begun = threading.Event()
        workers.hand(f"job-{number}", partial(hang, begun, end))
        assert begun.wait(10.0)
        assert workers.hanging == number
        assert workers.overdue() == [f"job-{number}"]
        if workers.hanging > MOST_HANGING:
            break
    workers.hand("last", done.set)
    assert not done.wait(0.1)
    end.set()
    assert done.wait(10.0)
    until(lambda: workers.hanging == 0)
    workers.close(1.0)
