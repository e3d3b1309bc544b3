"""Cost of VMs that come and go to the cluster model: events, views and decisions on a thousand places."""

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import TypeVar

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from agents.registry import create
from environment.decisions.decision_round import Verdict, decide_in_turn
from environment.model.messages import events as ev
from environment.model.tasks.launches import decided
from environment.policy import Decide
from environment.pools import IdleTimeout, Terms
from environment.types import PlacementRequest
from environment.view import ClusterView
from tests.benchmarks.conftest import Show
from tests.benchmarks.measuring import timed
from tests.builders import make_job
from tests.environment.model.walks.elastic_world import ElasticWorld, closes, opens, places

PLACES = 1000
Found = TypeVar("Found")


class Clocked:
    """Seconds of this process by activity."""

    def __init__(self) -> None:
        self.took: dict[str, list[float]] = defaultdict(list)

    def __call__(self, what: str, do: Callable[..., Found], *given: object) -> Found:
        """Do it, and note how long it took."""
        began = time.process_time()
        found = do(*given)
        self.took[what].append(time.process_time() - began)
        return found

    def __str__(self) -> str:
        means = ((what, 1e3 * sum(took) / len(took), 1e3 * max(took)) for what, took in self.took.items())
        return ", ".join(f"{what} {mean:.2f} ms (at most {most:.1f})" for what, mean, most in means)


def rounds(decide: Decide, view: ClusterView, requests: Sequence[PlacementRequest]) -> list[Verdict]:
    """A round of decisions."""
    return [*decide_in_turn(decide, view, requests)]


@pytest.mark.parametrize("policy", ["ff", "karpenter"])
def test_milliseconds_of_a_thousand_vms_that_come_and_go(
    policy: str, benchmark: BenchmarkFixture, show: Show
) -> None:
    """Jobs arrive one by one, each opens VMs; these boot, run, are idle, close, and open again."""
    clocked = timed(benchmark, lambda: come_and_go(policy))
    show(f"{PLACES} VMs that come and go, {policy}: {clocked}")


def come_and_go(policy: str) -> Clocked:
    """Play it; return the seconds by activity."""
    terms = Terms("general", boot=60.0)
    world = ElasticWorld((), places(PLACES, terms), IdleTimeout("timeout", 20.0))
    world.begin()
    decide, clocked = create(policy).decide, Clocked()
    booting: list[str] = []
    running: list[str] = []
    opened = 0
    for number in range(400):
        world.now += 1.0
        clocked("submission", world.submit, make_job(f"job-{number}", 8, 4.0))
        view = clocked("view", world.model.view)
        verdicts = clocked("decision", rounds, decide, view, world.model.requests())
        told = clocked("placement", world.send, decided(verdicts, world.now))
        for lease_id in opens(told):
            opened += 1
            booting.append(lease_id)
            event = ev.LeaseOpened(world.now, lease_id, f"i-{lease_id}", world.now)
            clocked("opened", world.send, event)
        while booting and (lease := world.model.lease(booting[0])) and lease.asked_at + 60.0 <= world.now:
            place = lease.vm.id
            del booting[0]
            clocked("agent", world.boot, place)
        for job_id in [f"job-{number - 75}"] if number >= 75 else []:
            world.tell("running", *world.open_tasks(job_id))
            running.append(job_id)
        if len(running) > 40:
            job_id = running.pop(0)
            world.driver_ends(job_id)
            clocked("end", world.tell, "killed", *world.open_tasks(job_id))
        for lease_id in closes(clocked("tick", world.send, ev.Tick(world.now))):
            clocked("closed", world.send, ev.LeaseClosed(world.now, lease_id))
        world.model.take_changes()
    assert opened > PLACES
    return clocked
