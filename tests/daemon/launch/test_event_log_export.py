"""Event logs of jobs: found wherever a driver ran, copied for the history server, with nothing else."""

import json
import os
from pathlib import Path

import pytest

from daemon.launch.event_log_export import copy_event_logs, find_event_logs

APP = "app-20260102030405-0000"


def start_of(application: str) -> str:
    """The line of an event log that names its application."""
    return json.dumps(
        {"Event": "SparkListenerApplicationStart", "App ID": application}, separators=(",", ":")
    )


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """A driver's folder here, one that was kept of a driver on the cluster, one of Spark 4."""
    folder = tmp_path / "data"
    for at, name in enumerate(
        (
            f"jobs/job-1/driver/events/{APP}",
            f"records/job-2/logs/job-2.driver-1/events/{APP}",
            "jobs/job-3/driver/events/eventlog_v2_app-4/events_1_app-4.zstd",
            "jobs/job-3/driver/events/eventlog_v2_app-4/appstatus_app-4",
            "jobs/job-3/driver/events/eventlog_v2_app-4/.appstatus_app-4.crc",
        )
    ):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("" if "appstatus" in name else start_of(path.name) + "\n")
        os.utime(path, (1000.0 - at, 1000.0 - at))
    (folder / "jobs/job-5/driver/events").mkdir(parents=True)
    return folder


def test_event_logs_are_found_wherever_a_driver_ran(data_dir: Path) -> None:
    """The newest first; of one job on request."""
    found = [(log.job_id, log.application, len(log.files)) for log in find_event_logs(data_dir)]
    assert found == [("job-1", APP, 1), ("job-2", APP, 1), ("job-3", "app-4", 2)]
    assert [log.job_id for log in find_event_logs(data_dir, "job-2")] == ["job-2"]
    assert not find_event_logs(data_dir, "job-5")
    assert not find_event_logs(data_dir / "nowhere")


def test_applications_of_one_id_are_told_apart(data_dir: Path, tmp_path: Path) -> None:
    """Two jobs of Spark 3.5 that began in one second are two applications."""
    (tmp_path / "logs").mkdir()
    copied = copy_event_logs(find_event_logs(data_dir), tmp_path / "logs", 1 << 20)
    assert list(copied.logs) == [APP, f"{APP}-job-2", "app-4"]
    assert not copied.left_out
    for shown in (APP, f"{APP}-job-2"):
        assert (tmp_path / "logs" / shown).read_text() == start_of(shown) + "\n"
    names = [path.name for path in (tmp_path / "logs/eventlog_v2_app-4").iterdir()]
    assert sorted(names) == ["appstatus_app-4", "events_1_app-4.zstd"]


def test_what_does_not_fit_is_left_out(data_dir: Path, tmp_path: Path) -> None:
    """The newest are copied first."""
    (tmp_path / "logs").mkdir()
    copied = copy_event_logs(find_event_logs(data_dir), tmp_path / "logs", 100)
    assert [log.job_id for log in copied.logs.values()] == ["job-1"]
    assert [log.job_id for log in copied.left_out] == ["job-2", "job-3"]


def test_nothing_else_of_this_machine_is_copied(data_dir: Path, tmp_path: Path) -> None:
    """Neither by a link in place of a log, nor in place of its folder; a pipe is not waited for."""
    secret = tmp_path / "app-secret"
    secret.write_text("secret")
    events = data_dir / "jobs/job-1/driver/events"
    (events / "app-link").symlink_to(secret)
    os.link(secret, events / "app-hard")
    os.mkfifo(events / "app-pipe")
    (events / "eventlog_v2_app-9").symlink_to(tmp_path)
    (data_dir / "jobs/job-6/driver").mkdir(parents=True)
    (data_dir / "jobs/job-6/driver/events").symlink_to(tmp_path)
    (tmp_path / "logs").mkdir()
    found = find_event_logs(data_dir)
    assert [log.application for log in found if log.job_id in ("job-1", "job-6")] in (
        [APP, "app-hard"],
        ["app-hard", APP],
    )
    copied = copy_event_logs(found, tmp_path / "logs", 1 << 20)
    assert [log.application for log in copied.left_out] == ["app-hard"]
    assert all("secret" not in path.read_text() for path in (tmp_path / "logs").rglob("*") if path.is_file())
