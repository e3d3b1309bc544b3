"""Worker threads where the machine has no room for them."""

import threading

import pytest

from daemon.core.job_workers import JobWorkers
from tests.framework.host.test_user_files import no_room


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
