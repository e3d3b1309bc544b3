"""An executor that is to go, on real Spark: its blocks move to its successor, and nothing is done twice."""

import json
from typing import Any

import pytest

from tests.real_daemon import QUICK_JAVA, Daemon

#: Leaves the files of a shuffle on its executors, waits until it is told to go on, and reads them.
_APP = """
import sys, time
from operator import add
from pathlib import Path
from pyspark import SparkContext

context = SparkContext()
sums = context.parallelize(range(1000), 4).map(lambda x: (x % 10, x)).reduceByKey(add, 3)
print("KEYS", sums.count(), flush=True)
while not Path(sys.argv[1]).exists():
    time.sleep(0.1)
print("SUM", sums.values().sum(), flush=True)
"""


@pytest.mark.slow
def test_the_blocks_of_an_executor_move_before_it_goes(daemon: Daemon) -> None:
    """The only one of a fixed job, with its driver on the cluster: its successor reads its blocks."""
    folder = daemon.new_folder()
    app, go = folder / "shuffle.py", folder / "go-on"
    app.write_text(_APP)
    spec = {"app": str(app), "args": [str(go)], "executors": 1, "cpus": 1.0, "driver": {"on": "cluster"}}
    job_id = daemon.client.submit_spec({**spec, "conf": QUICK_JAVA})["id"]
    daemon.wait(job_id, lambda job: job["state"] == "running" and "KEYS 10" in daemon.printed(job_id))
    daemon.stoker("decommission", job_id, "0", "--reason", "a test", "-o", "json")
    job = daemon.wait(job_id, lambda job: _executors(job)[0]["ended_at"] is not None)
    first, second = _executors(job)
    assert (first["message"], second["state"]) == ("decommissioned", "running")
    go.touch()
    job = daemon.ended(job_id)
    assert (job["state"], job["losses"]) == ("finished", 0), job["reason"]
    assert daemon.printed(job_id).splitlines()[-1] == f"SUM {sum(range(1000))}"
    events = [json.loads(line) for line in _event_log(daemon, job_id).splitlines()]
    stages = [event["Stage Info"] for event in events if event["Event"] == "SparkListenerStageSubmitted"]
    assert [stage["Stage Attempt ID"] for stage in stages] == [0, 0, 0], "the first stage ran again"
    last = [event for event in events if event["Event"] == "SparkListenerTaskEnd"][-3:]
    assert {event["Task Info"]["Executor ID"] for event in last} == {str(second["number"])}


def _executors(job: Any) -> list[Any]:
    return [task for task in job["tasks"] if task["number"] is not None]


def _event_log(daemon: Daemon, job_id: str) -> str:
    (path,) = daemon.folder.glob(f"**/records/{job_id}/logs/*/events/*")
    return path.read_text()
