"""Spark's history server on the event logs of real jobs, by the command `history`."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from tests.doors.page import commands
from tests.real_daemon import PATIENCE, Daemon


@pytest.mark.slow
def test_the_history_server_shows_what_is_over(daemon: Daemon) -> None:
    """Those of drivers here, as another user where root runs this, and on the cluster; then it is gone."""
    driver = {"on": "cluster", "cpus": 0.5, "memory": 1024}
    jobs = [
        daemon.submit(1, 0.0, executors=1),
        daemon.submit(1, 0.0, executors=1, spark="3.5", driver=driver),
    ]
    for job_id in jobs:
        job = daemon.ended(job_id)
        assert job["state"] == "finished", (job, daemon.printed(job_id, stream="stderr")[-3000:])
    records = daemon.folder / "data/records"
    deadline = time.monotonic() + PATIENCE
    while not list((records / jobs[1] / "logs").glob("*/events")):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    (shown_command,) = (words for words in commands("After it ran") if words[0] == "history")
    command = [sys.executable, "-m", "daemon.cli", *shown_command[:-1], "--port", "0", "-o", "json"]
    command += ["--config", str(daemon.stage.config_file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        shown = {entry["job"]: entry for entry in told["applications"]}
        assert set(jobs) <= set(shown)
        wanted = {shown[job_id]["application"] for job_id in jobs}
        with httpx.Client(trust_env=False, timeout=300.0) as client:
            while not wanted <= (
                found := {one["id"] for one in client.get(f"{told['url']}/api/v1/applications").json()}
            ):
                assert time.monotonic() < deadline, found
                time.sleep(0.5)
            for job_id in jobs:
                page = client.get(shown[job_id]["url"] + "jobs/", follow_redirects=True)
                assert "Completed Jobs" in page.text, page.text[:1000]
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 130
    with httpx.Client(trust_env=False) as client:
        try:
            client.get(told["url"])
        except httpx.ConnectError:
            return
    raise AssertionError("the history server is still there")


def test_a_job_without_an_event_log_says_so(daemon: Daemon, tmp_path: Path) -> None:
    """And what names no job is looked for nowhere else."""
    config = ["--config", str(daemon.stage.config_file)]
    assert "there is no event log of job-999" in daemon.stoker("history", "job-999", *config, code=2)
    assert "there is no job" in daemon.stoker("history", "../..", *config, code=2)
    assert "holds no jobs" in daemon.stoker("history", "--set", f"data_dir={tmp_path}", code=2)
    assert "no such folder" in daemon.stoker("history", "--set", f"data_dir={tmp_path}/nowhere", code=2)
