"""Jobs with too little heap, on a real Spark: each is started again once with more."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.real_daemon import QUICK_JAVA, Daemon, real_daemon

#: One value of 700 MB: it fits no heap of 640 MiB, which 1024 MiB leave, and one of 1664 MiB.
LARGE = """
from pyspark.sql import SparkSession

session = SparkSession.builder.getOrCreate()
query = "length(repeat(cast(id as string), 700000000)) as n"
print("LENGTH", session.range(1).selectExpr(query).collect()[0].n, flush=True)
"""

HEAP = "java.lang.OutOfMemoryError: Java heap space"
#: The same for a Python worker with a limit of its own, 400 MiB at first.
PYTHON = """
from pyspark import SparkContext

held = SparkContext().range(1, numSlices=1).map(lambda _: len(bytearray(450 << 20)))
print("LENGTH", held.collect()[0], flush=True)
"""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """The daemon of this module."""
    with real_daemon(tmp_path_factory.mktemp("daemon")) as running:
        yield running


def submit(daemon: Daemon, app: str = LARGE, **more: Any) -> str:
    """A job that needs more heap than it asks for; its id."""
    path = daemon.new_folder() / "app.py"
    path.write_text(app)
    spec = {"app": str(path), "executors": 1, "cpus": 1.0, "memory": 1024, "conf": dict(QUICK_JAVA)}
    return str(daemon.client.submit_spec({**spec, **more})["id"])


@pytest.mark.slow
def test_a_job_with_too_little_heap_succeeds_with_more(daemon: Daemon) -> None:
    """With Spark's own number of failures, and a driver on the cluster; told, counted, billed apart."""
    once = {**QUICK_JAVA, "spark.task.maxFailures": "1"}
    python = {"spark.executor.pyspark.memory": "400m", "spark.executor.memoryOverhead": "512m"}
    jobs = [
        submit(daemon, memory_retry=True),
        submit(daemon, memory_retry=True, driver={"on": "cluster"}, conf=once),
        submit(daemon, PYTHON, memory_retry=True, conf={**once, **python}),
    ]
    refused = submit(daemon, memory_retry=False, retries=0, conf=once)
    for job_id in jobs:
        job = daemon.ended(job_id)
        assert (job["state"], job["memory_mib"], job["retried"]) == ("finished", 2048, 0), job
        assert (job["more_memory"]["before_mib"], job["more_memory"]["lost"] > 0) == (1024, True)
        assert [attempt["fault"] for attempt in job["attempts"]] == ["memory"]
        error, length = ("MemoryError", 450 << 20) if job_id == jobs[-1] else (HEAP, 700_000_000)
        assert job["attempts"][0]["why"].startswith(error), job
        sizes = {task["memory_mib"] for task in job["tasks"] if task["number"] is not None}
        assert sizes == {1024, 2048}
        assert f"LENGTH {length}" in daemon.printed(job_id)
        shown = daemon.stoker("job", job_id)
        assert "each executor has 2 GiB since" in shown
        events = [event["kind"] for event in daemon.client.events(job=job_id)["events"]]
        assert "attempt failed" in events
        assert "retried" in events
    assert daemon.ended(refused)["state"] == "failed"
    metrics = httpx.get(f"{daemon.stage.url}/metrics").text
    assert "stoker_memory_failures_total 4.0" in metrics
    assert "stoker_memory_restarts_total 3.0" in metrics
    bill = daemon.stoker("bill", "--by", "job", "-o", "json")
    assert all(line["memory"] > 0 for line in bill["lines"] if line["key"] in jobs)


@pytest.mark.slow
def test_a_job_that_fails_otherwise_keeps_its_log(daemon: Daemon) -> None:
    """Its launch was put aside for a restart, which it is not given."""
    job = daemon.ended(submit(daemon, "print('HERE', flush=True)\nraise SystemExit(3)", memory_retry=True))
    assert (job["state"], job["exit_code"], job["more_memory"]) == ("failed", 3, None)
    assert "HERE" in daemon.printed(job["id"])
