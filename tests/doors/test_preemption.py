"""Jobs that give way to others on real Spark: executors that are drained, and a driver that begins anew."""

from pathlib import Path
from typing import Any

import pytest

from tests.real_daemon import QUICK_JAVA, Daemon, real_daemon

#: Sums numbers again and again until it is told to stop, and then once more.
_APP = """
import sys, time
from pathlib import Path
from pyspark import SparkContext

context = SparkContext()
numbers = context.parallelize(range(1000), 4)
while True:
    told = Path(sys.argv[1]).exists()
    total = numbers.map(lambda x: x * x).sum()
    if told:
        break
    time.sleep(0.1)
print("SUM", total, flush=True)
"""


@pytest.mark.slow
def test_executors_and_whole_jobs_give_way_and_all_end_right(tmp_path: Path) -> None:
    """An elastic job gives one of two executors, then all of itself, and ends as if nothing had been."""
    (tmp_path / "cluster.yaml").write_text(
        "vms:\n  - {type: m1.large, cpus: 2, memory: 8g, price_per_hour: 0.24}\n"
    )
    sharing = {"order": ["priority", "fifo"], "preemption": {"by": ["priority"], "pause": "1s"}}
    with real_daemon(tmp_path, cluster=str(tmp_path / "cluster.yaml"), sharing=sharing) as daemon:
        app = tmp_path / "sums.py"
        app.write_text(_APP)

        def submit(name: str, **more: Any) -> str:
            spec = {"app": str(app), "args": [str(tmp_path / name)], "cpus": 1.0, "conf": QUICK_JAVA}
            return str(daemon.client.submit_spec({**spec, "name": name, **more})["id"])

        low = submit("low", executors=2, min_executors=1)
        daemon.wait(low, lambda job: job["state"] == "running" and job["reason"] == "its driver runs")
        high = submit("high", executors=1, priority=10)
        daemon.wait(high, lambda job: job["state"] == "running")
        job = daemon.client.job(low)
        assert f"gave 1 executor to {high} of queue default (priority 10), which cost" in job["reason"]
        assert [(gave["to"], gave["executors"], gave["whole"]) for gave in job["gave"]] == [(high, 1, False)]
        assert [task["message"] for task in job["tasks"] if task["ended_at"]] == ["decommissioned"]
        (tmp_path / "high").touch()
        assert_right(daemon, high)
        highest = submit("highest", executors=1, cpus=2.0, priority=20)
        daemon.wait(low, lambda job: job["state"] == "queued")
        daemon.wait(highest, lambda job: job["state"] == "running")
        assert daemon.client.job(low)["reason"].count(f"was stopped for {highest} of queue") == 1
        assert [took["of"] for took in daemon.client.job(highest)["took"]] == [low]
        assert f"of {low}" in daemon.stoker("job", highest)
        (tmp_path / "low").touch()
        (tmp_path / "highest").touch()
        assert_right(daemon, highest)
        job = assert_right(daemon, low)
        assert (job["retried"], job["losses"], len(job["gave"])) == (0, 0, 2)
        bill = daemon.stoker("bill", "-o", "json")["total"]
        assert 0 < bill["lost"] < bill["used"]


def assert_right(daemon: Daemon, job_id: str) -> Any:
    """It ends with the right sum; the job."""
    job = daemon.ended(job_id)
    assert job["state"] == "finished", job["reason"]
    assert daemon.printed(job_id).splitlines()[-1] == f"SUM {sum(x * x for x in range(1000))}"
    return job
