"""Losses in a simulation: where lost executors go, when, and which jobs pay."""

from dataclasses import replace

import pytest

from agents.registry import create
from environment.model.messages.options import RELAUNCH_GRACE
from environment.simulation.faults.losses import Loss
from environment.simulation.options import SimulationOptions
from environment.simulation.results.decision_trace import KeptDecisions
from environment.simulation.results.results import Result
from environment.simulation.simulator import simulate
from environment.types import Place
from profiles.workloads.workload import Workload, WorkloadJob
from tests.builders import make_vms

VMS = make_vms(3)


def job(name: str, at: float, executors: int, seconds: float, cpus: float = 1.0) -> WorkloadJob:
    """A job of a type that likes every placement alike."""
    return WorkloadJob(name, at, "plain", cpus, 1024, executors, seconds)


def run(jobs: list[WorkloadJob], *losses: Loss) -> Result:
    """First fit, while this is lost."""
    options = SimulationOptions(losses=losses)
    return simulate(create("ff"), Workload(tuple(jobs)), VMS, options=options)


def test_a_lost_executor_is_placed_again_and_its_job_goes_on() -> None:
    """After the grace of the daemon, before new jobs; the job takes as long as it would have."""
    jobs = [job("a", 0, 4, 100), job("b", 10, 2, 50)]
    result = run(jobs, Loss(20, job="a"), Loss(20.5, job="a", executor=1))
    placed = [(t.at, t.job, t.decision.placement) for t in result.decisions if isinstance(t.decision, Place)]
    assert placed == [(0, "a", (0, 0, 0, 0)), (10, "b", (1, 1)), (20 + RELAUNCH_GRACE, "a", (0, 0))]
    assert [(j.name, j.started_at, j.ended_at, j.placement) for j in result.jobs] == [
        ("a", 0, 100, (0, 0, 0, 0)),
        ("b", 10, 60, (1, 1)),
    ]
    assert result.vm_seconds == (100, 50, 0)


def test_a_lost_vm_is_left_and_not_seen_again() -> None:
    """Its executors move to the remaining VMs, as do new jobs; the bill is of where they were."""
    jobs = [job("a", 0, 2, 100), job("b", 10, 3, 50), job("c", 40, 3, 10)]
    result = run(jobs, Loss(30, vm="id-vm-1"))
    placed = [(t.at, t.job, t.decision.placement) for t in result.decisions if isinstance(t.decision, Place)]
    # b had two executors on the first VM. From then on the second is the first that is left.
    assert placed == [
        (0, "a", (0, 0)),
        (10, "b", (0, 0, 1)),
        (30 + RELAUNCH_GRACE, "a", (0, 0)),
        (30 + RELAUNCH_GRACE, "b", (0, 1)),
        (40, "c", (1, 1, 1)),
    ]
    assert [j.ended_at - j.started_at for j in result.jobs] == [100, 50, 10]
    assert result.vm_seconds[0] == 30
    assert sum(j.cost for j in result.jobs) == pytest.approx(result.cost)
    assert result.cost == pytest.approx(sum(result.vm_seconds) * 0.24 / 3600)


def test_what_is_not_there_is_not_lost() -> None:
    """A job that is over or has no such executor, a VM that nobody knows, one that is gone."""
    jobs = [job("a", 0, 2, 100), job("b", 10, 1, 200)]
    nothing = (Loss(150, job="a"), Loss(20, job="b", executor=1), Loss(20, vm="id-vm-9"), Loss(999, job="b"))
    assert replace(run(jobs, *nothing), decisions=KeptDecisions(())) == replace(
        run(jobs), decisions=KeptDecisions(())
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"at": -1, "vm": "x"}, "should be at 0 seconds or later"),
        ({"at": float("nan"), "vm": "x"}, "should be at 0 seconds or later"),
        ({"at": 1}, "of a vm or of a job's executor"),
        ({"at": 1, "vm": "x", "job": "y"}, "of a vm or of a job's executor"),
        ({"at": 1, "job": "y", "executor": -1}, "executor: should be 0 or more"),
    ],
)
def test_losses_are_checked(options: dict[str, object], message: str) -> None:
    """The error includes the correct form."""
    with pytest.raises(ValueError, match=message):
        Loss(**options)  # type: ignore[arg-type]
