"""Few tasks of real Spark run on few executors where idle ones are given back."""

import pytest

from tests.real_daemon import QUICK_JAVA, Daemon

#: Runs one task at a time, then two, until no more executors are left than these need.
_APP = """
import os, time
from pyspark import SparkContext

context = SparkContext()
jvm, gateway = context._jvm, context._gateway

def executors():
    return context._jsc.sc().getExecutorMemoryStatus().size() - 1

def array(of, values):
    found = gateway.new_array(of, len(values))
    for at, value in enumerate(values):
        found[at] = value
    return found

def where(_):
    time.sleep(0.5)
    return os.getppid()  # the process that starts Python for an executor

def run(tasks):
    return context.parallelize(range(tasks), tasks).map(where).collect()

while executors() < 3:
    time.sleep(0.1)
used, deadline = [], time.monotonic() + 120
while executors() > 2 and time.monotonic() < deadline:
    used.append(run(2))
print("TWO", executors(), len({each for of in used for each in of}), all(len(set(of)) == 2 for of in used))
used = []
while executors() > 1 and time.monotonic() < deadline:
    used.append(run(1))
print("ONE", executors(), len({each for of in used for each in of}))

order = jvm.org.apache.spark.scheduler.cluster.stoker.Packing.order
ids, hosts = ["0", "1", "2", "3", "4", "10", "9"], ["a", "b", "b", "c", "b", "d", "d"]
places = order(array(jvm.String, ids), array(jvm.String, hosts), array(jvm.int, [0, 0, 0, 1, 0, 0, 0]))
print("ORDER", *(ids[at] for at in places))
"""
_SETTINGS = {**QUICK_JAVA, "spark.dynamicAllocation.executorIdleTimeout": "3s"}


@pytest.mark.slow
def test_tasks_leave_executors_idle_that_are_not_needed(daemon: Daemon) -> None:
    """Those are given back, the others go on; the last ones in order are alone on their VM."""
    app = daemon.new_folder() / "few.py"
    app.write_text(_APP)
    spec = {"app": str(app), "executors": {"max": 3, "initial": 3}, "cpus": 1.0, "conf": _SETTINGS}
    job = daemon.ended(daemon.client.submit_spec(spec)["id"])
    assert job["state"] == "finished", job["reason"]
    assert daemon.printed(job["id"]).splitlines() == ["TWO 2 2 True", "ONE 1 1", "ORDER 3 1 2 4 9 10 0"]
