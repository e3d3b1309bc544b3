"""A store that has lost its last jobs: their folders, with how their drivers ended, are no new job's."""

import json
import os
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from daemon.disk.job_folders import Folders
from daemon.store.job_store import Store
from framework.spark import DriverPlace, ProcessSpec, driver_status, start_driver
from tests.daemon.scheduler.test_service import keep, make_service
from tests.waiting import until


def test_a_new_job_is_not_taken_for_a_lost_one(store: Store, tmp_path: Path) -> None:
    """An older copy of a store, or a server that lost writes, knows fewer jobs than there are folders.

    The driver of the lost one has ended well: a job of its number would be finished without having run.
    """
    keep(store, "finished")
    records = tmp_path / "records" / "job-2"
    place = DriverPlace(tmp_path / "jobs/job-2/driver", records / "driver")
    start_driver(ProcessSpec(("true",), {}, {}), place, os.environ, grace_seconds=1.0)
    until(lambda: driver_status(records / "driver").state == "ended")
    (records / "launch.json").write_text(json.dumps({"secret": "s", "ports": [1, 2, 3]}))
    with capture_logs() as told:
        make_service(store, tmp_path)
    (line,) = [line for line in told if "newest_folder" in line]
    assert (line["newest_in_store"], line["newest_folder"]) == (1, 2)
    assert keep(store, "queued").job.id == "job-3"
    with capture_logs() as told:
        make_service(store, tmp_path)
    assert not [line for line in told if "newest_folder" in line], "it is told once"
    assert keep(store, "queued").job.id == "job-4"


@pytest.mark.parametrize("name", ["job-x", "job-0", "job-999999999999999999", "other", "job-1000000000001"])
def test_a_folder_that_is_no_jobs_takes_no_number(tmp_path: Path, name: str) -> None:
    """Else there would be none left."""
    (tmp_path / "jobs" / name).mkdir(parents=True)
    (tmp_path / "records" / "job-7").mkdir(parents=True)
    assert Folders(tmp_path).highest() == 7
