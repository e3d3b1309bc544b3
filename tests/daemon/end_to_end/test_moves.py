"""A VM of a pool that is emptied while a real Spark job goes on, on a VM that another job has left."""

from pathlib import Path

import pytest

from tests.real_daemon import QUICK_JAVA, real_daemon

POOL = """
pools:
  - {name: general, type: m1.large, cpus: 2, memory: 8g, price_per_hour: 0.24, max: 2, boot: 1s,
     billing: {granularity: 1s, minimum: 1s}}
"""
#: Stores results of its first tasks, which move to another executor, and reads them again at the end.
KEPT = """
import sys, time
from pyspark import SparkContext

context, tasks = SparkContext(), int(sys.argv[1])
squares = context.range(100, numSlices=4).map(lambda x: (x % 7, x * x))
kept = squares.reduceByKey(lambda a, b: a + b, 4).cache()
print("FIRST", sum(value for _, value in kept.collect()), flush=True)
print("TASKS", context.range(tasks, numSlices=tasks).map(lambda _: time.sleep(0.5) or 1).sum(), flush=True)
print("SECOND", sum(value for _, value in kept.collect()), flush=True)
"""


@pytest.mark.slow
def test_a_job_goes_on_while_one_of_its_vms_is_emptied(tmp_path: Path) -> None:
    """The first job's end leaves room; no task is lost, and the VM closes before the second job ends."""
    (tmp_path / "cluster.yaml").write_text(POOL)
    with real_daemon(
        tmp_path,
        cluster=str(tmp_path / "cluster.yaml"),
        provider={"name": "embedded"},
        keep={"name": "none"},
        moves={"rule": "fitting"},
    ) as daemon:
        first = daemon.submit(1, 10.0, executors=1)
        daemon.wait(first, lambda job: job["state"] == "running")
        path = daemon.new_folder() / "kept.py"
        path.write_text(KEPT)
        spec = {"app": str(path), "args": ["160"], "executors": 2, "cpus": 1.0, "conf": dict(QUICK_JAVA)}
        second = str(daemon.client.submit_spec(spec)["id"])
        daemon.wait(second, lambda job: job["state"] == "running")
        assert len({task["vm"] for task in daemon.client.job(second)["tasks"]}) == 2
        assert daemon.ended(first)["state"] == "finished"
        reason = "once its blocks are elsewhere: its VM is being emptied, which saves $0.24 an hour"
        daemon.wait(second, lambda job: any(reason in task["message"] for task in job["tasks"]))
        daemon.wait(second, lambda _: len(daemon.client.cluster()["vms"]) == 1)
        job = daemon.ended(second)
        assert (job["state"], job["losses"]) == ("finished", 0), job
        printed = daemon.printed(second)
        assert [line for line in ("FIRST 328350", "TASKS 160", "SECOND 328350") if line not in printed] == []
