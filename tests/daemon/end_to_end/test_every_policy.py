"""Every policy in a real daemon, switched on by its name, decides about jobs that then run."""

from stoker import Stoker

from agents.registry import POLICIES
from tests.daemon.fleet import Starter
from tests.waiting import until

OVER = ("finished", "failed", "killed")


def test_every_policy_places_a_job_that_runs(fleet: Starter) -> None:
    """Without a fault and with a reason; the jobs run side by side, while the next policies decide."""
    # What a policy computes with may have to be compiled first.
    group = fleet(decision_timeout=120.0)
    daemon = group.add()
    until(daemon.leads, daemon.log)
    jobs = {}
    with Stoker(daemon.url) as client:
        for name in POLICIES:
            client.set_policy(name, {})
            jobs[name] = job_id = group.submit(daemon, 0.2)
            group.wait(daemon, job_id, "launching", "running", *OVER)
        for name, job_id in jobs.items():
            assert group.wait(daemon, job_id, *OVER)["state"] == "finished", name
            (decision,) = client.explain(job_id)["explanations"]
            assert (decision["policy"], decision["faults"]) == (name, []), decision
            assert decision["choices"], name
    assert group.drivers() == len(POLICIES)
