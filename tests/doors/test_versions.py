"""Which Spark runs a job, with real ones: driver and executors of one version, wherever the driver is."""

from typing import Any

import pytest
from stoker import Stoker, StokerError

from tests.real_daemon import QUICK_JAVA, Daemon

APP = """
from pyspark import SparkContext, __version__

context = SparkContext()
java = context._jvm.System.getProperty("java.specification.version")

def seen(_):
    import pyspark
    return pyspark.__version__

executors = context.parallelize(range(1), 1).map(seen).collect()
print("SEEN", __version__, context.version, java, *executors, flush=True)
context.stop()
"""


@pytest.mark.slow
def test_a_job_runs_on_the_spark_that_it_names(daemon: Daemon) -> None:
    """Its driver in Java and in Python, and its executors, which would not understand another one's.

    One asks for executors itself, by our part of Spark, compiled for the older Spark and its Scala.
    """
    app = daemon.new_folder() / "version.py"
    app.write_text(APP)
    old, current = ("3.5", "3.5.9 3.5.9 17 3.5.9"), ("4.3", "4.3.0 4.3.0 21 4.3.0")
    kinds: list[tuple[tuple[str, str], dict[str, Any]]] = [
        (old, {"spark": "3.5", "executors": {"max": 1}}),
        (old, {"spark": 3.5, "driver": {"on": "cluster"}}),
        (current, {}),
    ]
    spec = {"app": str(app), "executors": 1, "conf": QUICK_JAVA}
    jobs = {daemon.client.submit_spec({**spec, **more})["id"]: right for right, more in kinds}
    for job_id, (name, seen) in jobs.items():
        job = daemon.ended(job_id)
        assert job["state"] == "finished", (job["reason"], daemon.printed(job_id, stream="stderr")[-2000:])
        assert (job["spark"], daemon.printed(job_id).strip()) == (name, f"SEEN {seen}")


def test_a_spark_that_is_not_served_is_refused_at_the_door(daemon: Daemon) -> None:
    """With those that are."""
    with Stoker(daemon.stage.url) as client, pytest.raises(StokerError) as refused:
        client.submit_spec({"app": str(daemon.app), "spark": "4.9"})
    assert "spark: 4.9 is not available here; available are 4.3 (the default), 3.5" in str(refused.value)
