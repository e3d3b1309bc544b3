"""Logs on agents that do not answer."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from daemon.core.errors import RejectedError
from daemon.disk.log_archive import KeptLogs
from daemon.launch.log_reader import Logs
from environment.model.messages.records import ExecutorRecord
from environment.resources import Resources
from framework.mesos.master_link import MasterLink
from framework.mesos.session import SessionOptions
from tests.daemon.ports import free_port


@pytest.mark.parametrize("known", [True, False])
def test_an_agent_that_does_not_answer_is_asked_again_later(tmp_path: Path, known: bool) -> None:
    """It is a 503 with a time, not a mistake of the daemon."""
    url = f"http://127.0.0.1:{free_port()}" if known else ""
    job: Any = SimpleNamespace(job=SimpleNamespace(id="job-1", driver=None), ended=False)
    task = ExecutorRecord(
        "job-1.0", "job-1", 0, "S1", "vm-1", "m1.large", "10.0.0.1", 0.24, Resources.of(1.0, 1024), (), 1.0
    )
    anything: Any = None
    link = MasterLink(SessionOptions("nowhere"), lambda *_: None, "F")
    link._agents["S1"] = url
    logs = Logs(anything, anything, link.sandbox, KeptLogs(tmp_path))
    with pytest.raises(RejectedError) as error:
        logs.read(job, task, "stdout", 0, 100)
    assert (error.value.status, error.value.headers) == (503, {"Retry-After": "5"})
