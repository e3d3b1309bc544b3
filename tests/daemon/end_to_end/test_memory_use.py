"""Memory that real Spark jobs used: reported, and asked for by the next job of their type."""

from typing import Any

import httpx
import pytest

from tests.real_daemon import QUICK_JAVA, Daemon, real_daemon

#: Holds so many MB in the heap of an executor, and half as many in a Python worker, for some samples.
APP = """
import sys, time
from pyspark.sql import SparkSession

session = SparkSession.builder.getOrCreate()
size = int(sys.argv[1]) * 1000 * 1000
query = f"length(repeat(cast(id as string), {size})) as n"

def held(rows):
    block = bytearray(size // 2)
    block[:] = b"x" * len(block)
    time.sleep(3)
    return [(len(block), [row.n for row in rows])]

print("LENGTH", session.range(1).selectExpr(query).rdd.mapPartitions(held).collect(), flush=True)
"""


def submit(daemon: Daemon, size: int, **more: Any) -> Any:
    """A job that holds so many MB, once it is over and the memory that it used is known."""
    path = daemon.new_folder() / "app.py"
    path.write_text(APP)
    spec = {"app": str(path), "args": [str(size)], "type": f"held {size}", "executors": 1, "cpus": 1.0}
    job = daemon.ended(str(daemon.client.submit_spec({**spec, "conf": dict(QUICK_JAVA), **more})["id"]))
    assert job["state"] == "finished", job
    return daemon.wait(job["id"], lambda job: job["memory_use"] is not None)


@pytest.mark.slow
def test_the_next_job_asks_for_what_the_first_one_used(tmp_path: Any) -> None:
    """A small and a large one of 4 GiB each, on either kind of driver; both finish with less."""
    with real_daemon(tmp_path) as daemon:
        found = []
        for size, on in ((50, "host"), (300, "cluster")):
            first = submit(daemon, size, memory="auto:4g-4g", driver={"on": on})
            assert first["memory_mib"] == 4096
            use = first["memory_use"]
            assert use["heap_mib"] > size
            assert use["python_mib"] > size / 2
            assert use["paid_mib_seconds"] == use["reported_mib_seconds"] > use["used_mib_seconds"] > 0
            second = submit(daemon, size, memory="auto")
            found.append(second["memory_mib"])
            assert second["more_memory"] is None
            assert "at their peak: a margin of" in second["shape"]["told"]
            assert " of 4 GiB (heap " in daemon.stoker("job", first["id"])
        assert 1024 <= found[0] < found[1] < 4096, found
        metrics = httpx.get(f"{daemon.stage.url}/metrics").text
        assert 'stoker_memory_mib_seconds_total{kind="used"}' in metrics
        assert 'stoker_memory_mib_seconds_total{kind="used"} 0.0' not in metrics
