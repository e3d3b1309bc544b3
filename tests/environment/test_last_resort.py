"""VMs with unneeded resources are a job's last resort, by price; reserved VMs are no place."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest

from agents.registry import create
from conf.loader import ConfigError
from environment import last_resort
from environment.clusters.cluster_files import load_cluster
from environment.decisions.decision_round import decide_once, room_for_driver
from environment.decisions.feasibility import check, shortage
from environment.kernel.arrays import refusals
from environment.last_resort import OpensAt, opens_at
from environment.model.vms.max_capacity import MaxCapacity
from environment.pools import IdleTimeout, Openings, Terms
from environment.resources import Resources
from environment.simulation.options import SimulationOptions
from environment.simulation.results.results import Result
from environment.simulation.simulator import simulate
from environment.types import Place, PlacementRequest, Vm
from environment.view import ClusterView
from profiles.workloads.workload import Workload, WorkloadJob
from tests.builders import make_job, make_view, make_vm

CLUSTER = """
pools:
- {name: cpu, type: m, cpus: 4, memory: 16g, price_per_hour: 0.24, max: 2, boot: 60s}
- {name: gpu, type: g, cpus: 4, memory: 16g, price_per_hour: %s, max: 2, boot: 60s, resources: {gpus: 1}%s}
"""
POLICIES = ["ff", "rr", "best_fit", "aep", "greedy", "karpenter", "lookahead", "ilp", "random", "drf"]


def work(name: str, at: float = 0.0, gpus: float = 0.0, duration: float = 600.0) -> WorkloadJob:
    """A job that fills a VM."""
    resources = {"gpus": gpus} if gpus else {}
    return WorkloadJob(name, at, "sort", 4.0, 4096, 1, duration, resources=resources)


def run(
    tmp_path: Path, jobs: Sequence[WorkloadJob], policy: str = "ff", price: float = 3.0, more: str = ""
) -> Result:
    """These jobs on two CPU VMs and two GPU VMs that would be opened."""
    path = tmp_path / "cluster.yaml"
    path.write_text(CLUSTER % (price, more))
    options = SimulationOptions(keeping=IdleTimeout("none"))
    return simulate(create(policy), Workload(tuple(jobs)), load_cluster(path), options=options)


def where(result: Result) -> dict[str, str]:
    """The pool of each job."""
    return {job.name: result.vms[job.placement[0]].name[:3] for job in result.jobs}


@pytest.mark.parametrize("policy", POLICIES)
def test_a_job_waits_for_a_vm_without_what_it_does_not_need(tmp_path: Path, policy: str) -> None:
    """Rather than open one at twelve times the price; a job that needs it has it at once."""
    result = run(tmp_path, [work("a"), work("b", 1.0), work("d", 2.0, gpus=1), work("c", 3.0)], policy)
    assert where(result) == {"a": "cpu", "b": "cpu", "c": "cpu", "d": "gpu"}
    assert not result.violations
    assert result.jobs[2].started_at == 62.0


def test_it_is_opened_when_the_wait_is_worth_its_price(tmp_path: Path) -> None:
    """A quarter dearer: after a quarter of the job's time; as dear or less: at once, like any other."""
    jobs = [work("a"), work("b", 1.0), work("c", 2.0)]
    result = run(tmp_path, jobs, price=0.30)
    assert where(result)["c"] == "gpu"
    expected = result.jobs[2].started_at - 60.0 - 2.0
    assert 100.0 < expected < 200.0, "0.25 times what is believed of 600 s"
    result = run(tmp_path, jobs, price=0.24)
    assert [job.started_at for job in result.jobs] == [60.0, 61.0, 62.0]


def test_where_nothing_else_could_hold_it_it_is_no_last_resort(tmp_path: Path) -> None:
    """A job of three such executors needs a VM of the dear pool beside both others, and no more of them."""
    whole = replace(work("a"), executors=3)
    result = run(tmp_path, [whole])
    assert result.jobs[0].started_at == 60.0
    assert sorted(result.vms[vm].name for vm in result.jobs[0].placement) == ["cpu-1", "cpu-2", "gpu-1"]


def test_what_is_there_anyway_is_used_last(tmp_path: Path) -> None:
    """No job on a fixed cluster waits if VMs are free; the cheapest of the dearer ones goes first."""
    vms = tuple(
        replace(make_vm(name, 4, 16384, price), resources=Resources.of(4, 16384, extra))
        for name, price, extra in (
            ("dear", 3.0, {"gpus": 1.0}),
            ("less", 1.0, {"gpus": 1.0}),
            ("plain", 0.2, {}),
            ("cheap", 0.1, {"licences": 2.0}),
        )
    )
    view = make_view(vms, free_resources={"gpus": [1, 1, 0, 0]})
    request = PlacementRequest(make_job(executors=10), 10)
    assert view.room_for(request).tolist() == [0, 2, 4, 4]
    assert view.room_for(PlacementRequest(make_job(executors=8), 8)).tolist() == [0, 0, 4, 4]
    with_gpu = PlacementRequest(make_job(executors=2, gpus=1), 2)
    assert view.room_for(with_gpu).tolist() == [1, 1, 0, 0]
    assert check(view, request, Place("job-1", (0,) * 4 + (1,) * 4 + (2,) * 2)) == (), "advice, no rule"


def views(at: float, entered: float = 0.0) -> tuple[ClusterView, PlacementRequest]:
    """A CPU VM that is full and a GPU VM of a pool, ten times as dear, at some time."""
    terms = Terms("pool", 60.0)
    vms = (
        replace(make_vm("c", 4, 16384, 0.3), terms=terms),
        replace(make_vm("g", 4, 16384, 3.0), terms=terms, resources=Resources.of(4, 16384, {"gpus": 1.0})),
    )
    view = make_view(vms, free_cpus=[0, 4], at=at)
    return view, PlacementRequest(make_job(expected_duration=100.0, submitted_at=entered), 1)


def test_when_it_comes() -> None:
    """Nine times its time after it came; simulations ask again just then, a daemon every few seconds."""
    view, request = views(899.0)
    assert opens_at(view, request) == pytest.approx(900.0)
    assert "g costs more for its gpus, which job-1 does not need: the last resort" in shortage(view, request)
    view, request = views(900.5)
    assert opens_at(view, request) == float("inf")
    assert view.room_for(request).tolist() == [0, 1]
    lost = replace(request, again=True)
    assert views(1.0)[0].room_for(lost).tolist() == [0, 1], "what is lost is replaced at once"


def test_the_first_time_of_a_queue_is_that_of_its_requests() -> None:
    """Bit for bit, while time goes on and the queue and prices change; and each is computed once."""
    random = Random(7)  # noqa: S311 - no secret hangs on it
    terms = Terms("pool", 60.0)
    size = Resources.of(4, 16384, {"gpus": 1.0})
    opens, queue, at = OpensAt(), [], 0.0
    for turn in range(300):
        if turn % 60 == 0:
            prices = [random.uniform(0.1, 3.0) for _ in range(6)]
            vms: tuple[Vm, ...] = tuple(
                replace(vm, resources=size) if n > 2 else vm
                for n, vm in enumerate(make_vm(f"vm-{n}", 4, 16384, price) for n, price in enumerate(prices))
            )
            vms = tuple(replace(vm, terms=terms) if n != 4 else vm for n, vm in enumerate(vms))
        at += random.expovariate(0.02)
        job = make_job(
            f"job-{turn}",
            random.choice((1, 3, 14)),
            cpus=random.choice((1.0, 2.0)),
            gpus=random.choice((0, 0, 1)),
            expected_duration=random.choice((None, random.uniform(10.0, 900.0))),
            submitted_at=at,
        )
        queue.append(PlacementRequest(job, job.executors, again=turn % 11 == 0))
        queue = [request for request in queue if random.random() < 0.97]
        view = make_view(vms, at=at)
        assert opens.next_at(view, queue) == min((opens_at(view, each) for each in queue), default=math.inf)


def test_it_is_computed_once_for_each_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """And not at each event: a long queue takes no longer for each of its jobs than a short one."""
    computed = []
    monkeypatch.setattr(last_resort, "_steps", lambda view, request: computed.append(request))
    opens, view = OpensAt(), views(0.0)[0]
    queue = [PlacementRequest(make_job(f"job-{n}", submitted_at=float(n)), 1) for n in range(2000)]
    for turn in range(10):
        assert opens.next_at(replace(view, at=float(turn)), queue[turn:]) == math.inf
    assert len(computed) == 1, "they ask for the same"
    opens.next_at(view, queue[-1:])
    assert len(opens._known) == 1, "who waits no more is forgotten"


@pytest.mark.parametrize("policy", POLICIES)
def test_a_reserved_pool_is_for_those_who_ask(tmp_path: Path, policy: str) -> None:
    """The reservation holds at any price, even with all other VMs full."""
    jobs = [work("a"), work("b", 1.0), work("c", 2.0), work("d", 3.0, gpus=1)]
    result = run(tmp_path, jobs, policy, 0.1, ", reserved_for: gpus")
    assert where(result) == {"a": "cpu", "b": "cpu", "c": "cpu", "d": "gpu"}
    assert not result.violations
    large = replace(work("e"), executors=3)
    why = run(tmp_path, [large], policy, 0.1, ", reserved_for: [gpus]").refused["e"]
    assert why.startswith("the empty cluster has room for 2 executors")


def test_what_is_said_of_a_reserved_vm() -> None:
    """Check, reason to wait and list of jobs that never fit report it; its driver goes elsewhere, too."""
    terms = Terms("gpu", reserved_for=("gpus",))
    size = Resources.of(4, 16384, {"gpus": 1.0})
    vms: tuple[Vm, ...] = (make_vm("vm-1"), replace(make_vm("vm-2"), resources=size, terms=terms))
    job = make_job(driver=Resources.of(1, 1024))
    request, view = PlacementRequest(job, 1), make_view(vms)
    why = "vm-2 is reserved for jobs that ask for gpus, and job-1 does not"
    assert check(view, request, Place("job-1", (1,))) == (why,)
    assert view.room_for(request)[1] == 0
    assert view.room_for_driver(job).tolist() == [True, False]
    assert refusals([job], vms[1:]) == {"job-1": f"there is no VM that it may use (spot: allowed); {why}"}
    assert why in MaxCapacity(vms[1:], known=True).beyond_vms(request)
    verdict = decide_once(create("ff").decide, view, [request])
    assert isinstance(verdict.decision, Place)
    assert verdict.decision.placement == (0,)
    full = make_view(vms, free_cpus=[0, 4])
    assert why in shortage(full, request)


@pytest.mark.parametrize("gpu", ["gpu", "a-gpu"])
def test_a_driver_opens_no_vm_for_what_it_does_not_need(gpu: str) -> None:
    """It goes to the cheapest, in whichever order VMs are; where others hold that, it waits for it first."""
    cheap, dear = Terms("cpu", boot=60.0), Terms(gpu, boot=60.0)
    vms = [replace(make_vm(f"cpu-{n}", 4.0, 16384, 0.24), terms=cheap) for n in (1, 2)]
    size = Resources.of(4, 16384, {"gpus": 1.0})
    vms = sorted([*vms, replace(make_vm(f"{gpu}-1", 4.0, 16384, 3.0), resources=size, terms=dear)], key=str)
    job = make_job(cpus=4.0, expected_duration=100.0, driver=Resources.of(1, 1024))
    index = {vm.name: number for number, vm in enumerate(vms)}
    place = Place("job-1", (index["cpu-1"],))

    def room(at: float, held: str, *is_open: str) -> str | None:
        """The VM of the driver, or why it waits, with another job on the VM that is `held`."""
        free = [0.0 if vm.name == held else 4.0 for vm in vms]
        view = make_view(vms, free, executors=[int(vm.name == held) for vm in vms], at=at)
        there = np.array([vm.name in (held, *is_open) for vm in vms])
        view = replace(view, openings=Openings(there, np.where(there, at, at + 60.0)))
        found = room_for_driver(view, PlacementRequest(job, 1), place)
        return vms[found].name if isinstance(found, int) else found

    assert room(0.0, "") == "cpu-2"
    assert room(0.0, "", f"{gpu}-1") == "cpu-2"
    why = room(0.0, "cpu-2")
    assert why is not None
    assert why.endswith(f"; {gpu}-1 costs more for its gpus, which job-1 does not need: the last resort")
    assert room(1149.0, "cpu-2") == why
    assert room(1151.0, "cpu-2") == f"{gpu}-1"  # 11.5 times as dear, of 100 s


def test_a_driver_goes_where_it_costs_nothing_more() -> None:
    """Beside its executors, then where something runs, then on an open VM before one that boots."""
    terms = Terms("cpu", boot=60.0)
    vms = [replace(make_vm(f"cpu-{n}", 4.0, 16384), terms=terms) for n in range(4)]
    job = make_job(cpus=4.0, driver=Resources.of(1, 1024))
    for used, is_open, expected in ([2], [1, 2], 2), ([], [3], 3), ([], [], 1):
        view = make_view(vms, executors=[int(n in used) for n in range(4)])
        there = np.array([n in is_open for n in range(4)])
        view = replace(view, openings=Openings(there, np.where(there, 0.0, 60.0)))
        assert room_for_driver(view, PlacementRequest(job, 1), Place("job-1", (0,))) == expected
    assert room_for_driver(view, PlacementRequest(make_job(driver=job.driver), 1), Place("job-1", (3,))) == 3


def test_a_pool_is_reserved_for_what_it_has(tmp_path: Path) -> None:
    """Any other resource is a mistake; the error includes the correct form."""
    path = tmp_path / "cluster.yaml"
    path.write_text(CLUSTER % (3.0, ", reserved_for: licences"))
    with pytest.raises(ConfigError, match="its VMs have no licences; name one of its resources"):
        load_cluster(path)
    path.write_text(CLUSTER % (3.0, ", reserved_for: gpus"))
    assert {vm.bars.reserved_for for vm in load_cluster(path)} == {(), ("gpus",)}


@pytest.mark.parametrize("policy", POLICIES)
def test_where_all_vms_have_more_than_it_needs_the_dearest_come_last(tmp_path: Path, policy: str) -> None:
    """No VM is without licences: a job that needs none waits for one that costs no GPU, too."""
    path = tmp_path / "cluster.yaml"
    path.write_text(
        "pools:\n"
        "- {name: lic, type: l, cpus: 4, memory: 16g, price_per_hour: 1.0, max: 2, boot: 60s,"
        " resources: {licences: 4}}\n"
        "- {name: all, type: a, cpus: 4, memory: 16g, price_per_hour: 5.0, max: 2, boot: 60s,"
        " resources: {licences: 4, gpus: 1}}\n"
    )
    jobs = (work("a"), work("b", 1.0), work("c", 2.0))
    options = SimulationOptions(keeping=IdleTimeout("none"))
    result = simulate(create(policy), Workload(jobs), load_cluster(path), options=options)
    assert where(result) == {"a": "lic", "b": "lic", "c": "lic"}
