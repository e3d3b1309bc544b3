"""Dynamic allocation on real Spark: requested executors come, within bounds, and go when idle."""

import math
from pathlib import Path

import pytest

from tests.real_daemon import QUICK_JAVA, Daemon

#: Asks for more than it may have, works on what comes, waits until it is told to, and works again, on larger
#: executors.
_APP = """
import sys, time
from pathlib import Path
from pyspark.resource import ExecutorResourceRequests, ResourceProfileBuilder, TaskResourceRequests
from pyspark import SparkContext

context = SparkContext()
context._jsc.sc().requestExecutors(10)

def slowly(x):
    time.sleep(0.5)
    return x * x

print("SUM", context.parallelize(range(60), 60).map(slowly).sum(), flush=True)
while not Path(sys.argv[1]).exists():
    time.sleep(0.1)
larger = ExecutorResourceRequests().cores(1).memory("600m")
profile = ResourceProfileBuilder().require(larger).require(TaskResourceRequests().cpus(1)).build
print("SUM", context.parallelize(range(4), 2).map(slowly).withResources(profile).sum(), flush=True)
"""
_SETTINGS = {
    **QUICK_JAVA,
    "spark.dynamicAllocation.executorIdleTimeout": "1s",
    "spark.dynamicAllocation.schedulerBacklogTimeout": "1s",
    "spark.dynamicAllocation.sustainedSchedulerBacklogTimeout": "1s",
}


@pytest.mark.slow
def test_a_bursty_application_grows_and_shrinks(daemon: Daemon, tmp_path: Path) -> None:
    """From none to its max and back, twice; one executor is decommissioned; the result is right."""
    folder = daemon.new_folder()
    app, go = folder / "bursty.py", folder / "go"
    app.write_text(_APP)
    spec = {"app": str(app), "args": [str(go)], "executors": {"max": 3, "initial": 0}, "cpus": 1.0}
    job_id = daemon.client.submit_spec({**spec, "conf": _SETTINGS})["id"]
    job = daemon.client.job(job_id)
    assert (job["executors"], job["min_executors"]) == (3, 0)

    job = daemon.wait(job_id, lambda job: len(_running(job)) == 3)
    number = _running(job)[0]["number"]
    answer = daemon.stoker("decommission", job_id, str(number), "--reason", "a test", "-o", "json")
    assert answer["id"] == job_id
    job = daemon.wait(job_id, lambda job: job["tasks"][number]["ended_at"] is not None)
    assert job["tasks"][number]["message"] == "decommissioned"

    job = daemon.wait(job_id, lambda job: "SUM" in daemon.printed(job_id) and not _open(job))
    assert (job["state"], job["wanted_executors"]) == ("running", 0)
    assert job["reason"] == "runs on 0 executors"
    held = [vm["name"] for vm in daemon.client.cluster()["vms"] if any(job_id in t for t in vm["executors"])]
    assert held == []
    cost = job["cost"]
    assert math.isclose(cost, sum(task["cost"] for task in job["tasks"]), abs_tol=1e-9)
    assert daemon.client.job(job_id)["cost"] == cost  # a driver on the host holds no VM

    go.touch()
    job = daemon.ended(job_id)
    assert (job["state"], job["losses"]) == ("finished", 0), job["reason"]
    assert daemon.printed(job_id).splitlines() == [f"SUM {sum(x * x for x in range(n))}" for n in (60, 4)]
    assert "and its max is 3: it gets no more" in daemon.printed(job_id, stream="stderr")
    assert _most_at_once(job) == 3
    # The last stage has a resource profile of its own: a heap of 600 MiB, and what Spark adds to it.
    assert {task["memory_mib"] for task in job["tasks"] if task["profile"]} == {600 + 384}
    explained = daemon.client.explain(job_id)
    assert any("more executors placed" in decision["reason"] for decision in explained["explanations"])


def _open(job: dict[str, list[dict[str, object]]]) -> list[dict[str, object]]:
    return [task for task in job["tasks"] if task["ended_at"] is None]


def _running(job: dict[str, list[dict[str, object]]]) -> list[dict[str, object]]:
    return [task for task in _open(job) if task["state"] == "running"]


def _most_at_once(job: dict[str, list[dict[str, float]]]) -> int:
    """How many executors were there at the same time, without those that were to go already."""
    times = [(task["launched_at"], 1) for task in job["tasks"]]
    times += [(task["decommissioned_at"] or task["ended_at"], -1) for task in job["tasks"]]
    number = most = 0
    for _, change in sorted(times):
        number += change
        most = max(most, number)
    return most
