"""Real Spark jobs on fractional executors: decided by OgaSched, launched, explained, remembered."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from daemon.store.job_store import Store
from tests.real_daemon import Daemon, real_daemon

CLUSTER = "vms: [{type: small, cpus: 2, memory: 2800, price_per_hour: 0.1, resources: {gpus: 3}}]\n"


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    """A daemon on a single VM with the policy OgaSched."""
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text(CLUSTER)
    with real_daemon(tmp_path, "ogasched", str(cluster)) as running:
        yield running
    store = Store(f"sqlite:///{tmp_path / 'data' / 'stoker.db'}")
    assert store.facts.get("learned ogasched"), "what it learned outlives the daemon"
    store.close()


@pytest.mark.slow
def test_a_real_job_runs_on_what_there_is(daemon: Daemon) -> None:
    """The second job asks for two executors of a cpu and a gpu: it gets two on the 1.3 cpus that are free."""
    first = daemon.submit(2, 3.0, executors=1, cpus=0.7, memory=1000, resources={"gpus": 1})
    daemon.wait(first, lambda job: job["state"] != "queued")
    asked = {"executors": 2, "min_executors": 1, "cpus": 1.0, "memory": 900, "resources": {"gpus": 1}}
    second = daemon.submit(4, 0.1, **asked)
    for job_id in (first, second):
        assert daemon.ended(job_id)["state"] == "finished"
    assert daemon.printed(second) == "SUM 14\n"
    tasks = daemon.client.job(second)["tasks"]
    # On a busy machine an executor may give its driver up: placed again, it has the same size.
    assert {(task["cpus"], task["memory_mib"]) for task in tasks} == {(0.65, 900)}
    assert [task["resources"] for task in tasks] == [{"gpus": 1}] * len(tasks)
    (vm,) = daemon.client.cluster()["vms"]
    assert vm["resources"] == {"disk": 10_000, "gpus": 3}
    decision = next(d for d in daemon.client.explain(second)["explanations"] if d["decision"] == "place")
    assert decision["reason"].startswith("2 of 2 executors placed")
    (candidate,) = decision["choices"][0]["candidates"]
    assert {"y cpus", "gradient cpus", "projected cpus", "y gpus"} < set(candidate["details"])
    assert candidate["free_resources"] == {"gpus": 2}
    shown = " ".join(daemon.stoker("explain", second).split())
    assert "Executors 0 to 1 on small-1 (0.65 cpus, 900 MiB, 1 gpu): unknown's allocation has" in shown
    with pytest.raises(Exception, match="none has fpgas"):
        daemon.submit(1, 0.1, resources={"fpgas": 1})
