"""A real daemon with misbehaving policies: the queue advances, and the faults are reported."""

import time
from collections.abc import Sequence

from stoker import Stoker

from environment.types import Decision, Place, PlacementRequest, Wait
from environment.view import ClusterView
from tests.daemon.fleet import Starter
from tests.waiting import until


def dawdles(view: ClusterView, queue: Sequence[PlacementRequest]) -> Decision:
    """Takes longer than the test."""
    time.sleep(600)
    raise AssertionError


def overcommits(view: ClusterView, queue: Sequence[PlacementRequest]) -> Decision:
    """Puts everything on the first VM, full or not."""
    return Place(queue[0].job.id, (0,) * queue[0].count, ("it is the first",) * queue[0].count)


def waits(view: ClusterView, queue: Sequence[PlacementRequest]) -> Decision:
    """Waits for ever."""
    return Wait("a better moment will come")


def test_jobs_are_placed_whatever_the_policy_does(fleet: Starter) -> None:
    """One that does not return, then one that overcommits: first fit steps in, live switches lose nothing."""
    name = f"{__name__}:dawdles"
    group = fleet(
        policy={"name": name},
        shadow={"name": "rr"},
        decision_timeout=1.0,
        policies_allowed=[f"{__name__}:overcommits"],
    )
    daemon = group.add()
    until(daemon.leads, daemon.log)
    jobs = [group.submit(daemon, 0.2) for _ in range(3)]
    for job_id in jobs:
        assert group.wait(daemon, job_id, "finished", "failed", "killed")["state"] == "finished"
    with Stoker(daemon.url) as client:
        status = client.policy()
        assert status["faults"] >= 3
        assert status["busy"] > 0
        (why,) = [d for d in client.explain(jobs[0])["explanations"] if d["decision"] == "place"]
        assert (why["policy"], why["faults"]) == ("ff", [f"policy {name} did not decide within 1 s"])
        until(lambda: sum(t["compared"] for t in client.comparison(10)["totals"]) == 3, daemon.log)
        (totals,) = client.comparison(10)["totals"]
        assert (totals["acting"], totals["shadow"], totals["compared"]) == ("ff", "rr", 3)
        assert totals["priced"] == 3
        client.set_policy(f"{__name__}:overcommits", {})
        client.set_shadow(None)
        jobs = [group.submit(daemon, 0.2) for _ in range(12)]
        for each in ("rr", "ff", f"{__name__}:overcommits", "rr"):
            client.set_policy(each, {})
    for job_id in jobs:
        assert group.wait(daemon, job_id, "finished", "failed", "killed")["state"] == "finished"
    assert group.drivers() == 15
    assert "Traceback" not in daemon.log()


def test_a_policy_that_waits_for_ever_starves_nobody(fleet: Starter) -> None:
    """First fit decides whenever nothing runs; /readyz, explain and the job's events say so."""
    group = fleet(policy={"name": f"{__name__}:waits"})
    daemon = group.add()
    until(daemon.leads, daemon.log)
    jobs = [group.submit(daemon, 0.2) for _ in range(4)]
    for job_id in jobs:
        assert group.wait(daemon, job_id, "finished", "failed", "killed")["state"] == "finished"
    fault = f"it waits although nothing runs and {jobs[0]} fits: a better moment will come"
    with Stoker(daemon.url) as client:
        assert client.policy()["faults"] == len(jobs)
        (why,) = [d for d in client.explain(jobs[0])["explanations"] if d["decision"] == "place"]
        assert why["policy"] == "ff"
        assert fault in why["faults"][0]
    ready = daemon.get("/readyz")
    assert ready is not None
    assert ready.status_code == 200
    assert "waits failed 4 times and placed no job since" in ready.json()["checks"]["policy"]
    assert "ff decides instead" in ready.json()["checks"]["policy"]
