"""Simulations played in compiled code: the same to the last bit as asking the policy decision by decision."""

import random
from dataclasses import replace

import numpy as np
import pytest

from agents.registry import create
from conf.schema.workload import WorkloadSpec
from environment.clusters.cluster_files import load_cluster
from environment.decisions.sizing import Sizes
from environment.kernel.arrays import jobs_of
from environment.pools import Terms
from environment.queues.types import Sharing
from environment.resources import Resources
from environment.simulation.compiled_play import MANY
from environment.simulation.durations.beliefs import Belief
from environment.simulation.episode import SimulatedEpisode
from environment.simulation.faults.losses import Loss
from environment.simulation.options import SimulationOptions
from environment.simulation.results.decision_trace import KeptDecisions, ToldDecisions
from environment.simulation.results.results import Result
from environment.simulation.simulator import play, simulate
from environment.simulation.world import World
from environment.types import Place, Vm
from profiles.workloads.generators import generate
from profiles.workloads.workload import Workload
from tests.builders import make_vms

POLICIES = ("ff", "aep", "greedy", "reinforce", "dqn")


def workload(jobs: int, jobs_per_hour: float, seed: int) -> Workload:
    """Jobs of the paper's kinds, Poisson."""
    spec = {"jobs": jobs, "arrivals": {"kind": "poisson", "jobs_per_hour": jobs_per_hour}}
    return generate(WorkloadSpec.model_validate(spec), seed)


def both(policy: str, jobs: Workload, cluster: tuple[Vm, ...], options: SimulationOptions) -> list[Result]:
    """Asked decision by decision, and in compiled code."""
    return [
        simulate(create(policy), jobs, cluster, options=options, compiled=compiled)
        for compiled in (False, True)
    ]


def told(result: Result) -> object:
    """All of a result that does not depend on the machine's speed."""
    summary = {name: value for name, value in result.summary().items() if not name.startswith("decision_")}
    held = result.held
    return (
        result.to_json() | summary | {"decision_p50_us": 0, "decision_p99_us": 0},
        result.vm_seconds,
        [array.tolist() for array in (held.job, held.vm, held.start, held.end)],
        [held.kinds[kind] for kind in held.kind],
    )


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("seed", range(12))
def test_the_same_comes_out(policy: str, seed: int) -> None:
    """Random clusters and loads, from idle to overloaded, under any belief: nothing differs."""
    chance = random.Random(seed)  # noqa: S311  no secrets
    cluster = load_cluster("paper") if seed % 2 else load_cluster("hundred")
    rate = chance.choice([0.3, 1.0, 3.0]) * (10.0 if seed % 2 else 700.0)
    belief = chance.choice([Belief(), Belief("exact"), Belief("sigma", 0.5), Belief("constant")])
    options = SimulationOptions(seed=seed, belief=belief)
    asked, compiled = both(policy, workload(150, rate, seed), cluster, options)
    assert (type(asked.decisions), type(compiled.decisions)) == (KeptDecisions, ToldDecisions)
    assert told(compiled) == told(asked)
    assert compiled == asked


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("seed", range(6))
def test_the_same_comes_out_on_a_machine_that_carries_so_many_jvms(policy: str, seed: int) -> None:
    """Jobs are let in alike: so few that some run alone, one after the other, up to as many as ever run."""
    chance = random.Random(seed)  # noqa: S311  no secrets
    jvms = (1, 5, 9, 16, 40, 10_000)[seed]
    belief = chance.choice([Belief(), Belief("exact"), Belief("sigma", 0.5)])
    options = SimulationOptions(seed=seed, belief=belief, jvms=jvms)
    jobs = workload(150, chance.choice([3.0, 10.0, 30.0]), seed)
    asked, compiled = both(policy, jobs, load_cluster("paper"), options)
    assert (type(asked.decisions), type(compiled.decisions)) == (KeptDecisions, ToldDecisions)
    assert told(compiled) == told(asked)
    free = simulate(create(policy), jobs, load_cluster("paper"), options=replace(options, jvms=None))
    assert (told(free) != told(asked)) if jvms < 10 else (jvms < 10_000 or told(free) == told(asked))


@pytest.mark.parametrize("policy", POLICIES)
def test_jobs_that_come_and_end_at_once_do_so_in_the_same_order(policy: str) -> None:
    """Whole seconds and few sizes, so that much happens at one moment; some jobs fit no VM."""
    jobs = workload(120, 60.0, 3).jobs
    alike = tuple(
        replace(job, submitted_at=float(number // 8 * 60), duration=float(60 * (1 + number % 3)))
        for number, job in enumerate(jobs)
    )
    huge = replace(alike[5], cpus=1000.0)
    found = Workload((*alike[:5], huge, *alike[6:]))
    asked, compiled = both(policy, found, load_cluster("paper"), SimulationOptions())
    assert isinstance(compiled.decisions, ToldDecisions)
    assert huge.name in compiled.refused
    assert told(compiled) == told(asked)


@pytest.mark.parametrize("jvms", [None, 7, 30])
@pytest.mark.parametrize("policy", POLICIES)
def test_what_runs_already_is_played_on_with(policy: str, jvms: int | None) -> None:
    """Jobs that run when it begins, on fewer and smaller executors than they ask for, end in both alike."""
    found, vms = workload(60, 1000.0, 5).jobs, load_cluster("paper")
    options = SimulationOptions(jvms=jvms)
    jobs = jobs_of(Workload(tuple(replace(job, submitted_at=0.0) for job in found)), options.profiles)
    results = []
    for compiled in (False, True):
        world = World(
            SimulatedEpisode([job for job in jobs if job.cpus <= 4 and job.memory_mib <= 8192], vms, options)
        )
        for vm in range(3):
            asked = world.requests[world.head].job
            size = Resources.of(1, asked.memory_mib - 512)
            world.place(world.requests[world.head], Place(asked.id, (vm,), sizes=(size,)))
        results.append(play(world, create(policy), compiled=compiled))
    assert isinstance(results[1].decisions, ToldDecisions)
    assert told(results[1]) == told(results[0])


@pytest.mark.parametrize("options", [{"overtaken_at_most": 2}, {"overtaken_at_most": 0}, {"patience": 30.0}])
def test_greedy_bears_alike(options: dict[str, object]) -> None:
    """Overtaking and holding back, and their limits: the player counts as the policy does."""
    jobs, cluster = workload(120, 30.0, 2), load_cluster("paper")
    asked, compiled = (
        simulate(create("greedy", options), jobs, cluster, compiled=compiled) for compiled in (False, True)
    )
    assert isinstance(compiled.decisions, ToldDecisions)
    assert told(compiled) == told(asked)


@pytest.mark.parametrize(
    "options",
    [
        {"model": "dqn-cost", "patience": 0.0, "idle": 0.0, "wait_limit": 500},
        {"model": "dqn-cost", "patience": 1.0, "idle": 0.2, "wait_limit": 500, "overtaken_at_most": 2},
        {"wait_limit": 1, "overtaken_at_most": 0},
        {"guard": False},
    ],
)
def test_learned_policies_and_their_guard_bear_alike(options: dict[str, object]) -> None:
    """The guard's placements and delays, and passed-over jobs: the same in both, and reported alike."""
    jobs, cluster = workload(90, 30.0, 4), load_cluster("paper")
    asked, compiled = (
        simulate(create("dqn", options), jobs, cluster, compiled=compiled) for compiled in (False, True)
    )
    assert isinstance(compiled.decisions, ToldDecisions)
    assert told(compiled) == told(asked)
    assert compiled.guarded == asked.guarded
    assert (asked.guarded > 0) == ("idle" in options)


def test_learned_policies_with_another_fallback_are_asked() -> None:
    """The guard's other fallbacks are not compiled."""
    jobs, cluster = workload(20, 20.0, 1), load_cluster("paper")
    result = simulate(create("reinforce", {"fallback": "ff"}), jobs, cluster, compiled=True)
    assert isinstance(result.decisions, KeptDecisions)


@pytest.mark.parametrize("policy", POLICIES)
def test_progress_is_told_alike(policy: str) -> None:
    """A bar moves as it does when each decision is asked for."""
    jobs, cluster = workload(450, 20.0, 1), load_cluster("paper")
    seen: list[list[tuple[int, int]]] = [[], []]
    for number, compiled in enumerate((False, True)):

        def progress(placed: int, of: int, number: int = number) -> None:
            seen[number].append((placed, of))

        simulate(create(policy), jobs, cluster, progress=progress, compiled=compiled)
    assert seen[0] == seen[1]
    assert seen[0][-1] == (450, 450)


@pytest.mark.parametrize(
    "options",
    [
        SimulationOptions(sharing=Sharing()),
        SimulationOptions(scores=True),
        SimulationOptions(sizes=Sizes(floor=0.5)),
        SimulationOptions(losses=(Loss(1.0, vm="vm-1"),)),
    ],
    ids=["sharing", "scores", "sizes", "losses"],
)
def test_what_the_kernel_does_not_know_is_asked_for(options: SimulationOptions) -> None:
    """Policies are asked one by one if anything else decides too, even when compiled play is requested."""
    result = simulate(
        create("ff"), workload(20, 20.0, 1), load_cluster("paper"), options=options, compiled=True
    )
    assert isinstance(result.decisions, KeptDecisions)


def test_pools_and_what_jobs_ask_for_besides_are_not_played_there() -> None:
    """VMs that come and go, elastic jobs, jobs after others, other resources: policies are asked."""
    few, paper = workload(20, 20.0, 1), load_cluster("paper")
    pool = tuple(replace(vm, terms=Terms("pool", boot=60.0)) for vm in paper)
    first, *rest = few.jobs
    for changed in ({"min_executors": 1}, {"after": (first.name,)}, {"start_at": 1e5}, {"spot": "never"}):
        last = replace(rest[-1], executors=2, **changed)
        result = simulate(create("ff"), Workload((first, *rest[:-1], last)), paper, compiled=True)
        assert isinstance(result.decisions, KeptDecisions), changed
    assert isinstance(simulate(create("ff"), few, pool, compiled=True).decisions, KeptDecisions)
    assert isinstance(simulate(create("rr"), few, paper, compiled=True).decisions, KeptDecisions)


def test_very_many_jobs_are_played_there_by_themselves() -> None:
    """No request is needed; a result's sums are known without making a value of each job."""
    few = simulate(create("ff"), workload(100, 20.0, 1), load_cluster("paper"))
    many = simulate(create("ff"), workload(MANY, 700.0, 1), load_cluster("hundred"))
    assert (type(few.decisions), type(many.decisions)) == (KeptDecisions, ToldDecisions)
    assert many.good_placements == sum(job.good for job in many.jobs)
    assert many.average_completion == pytest.approx(np.mean([job.completion for job in many.jobs]), rel=1e-12)
    assert len(many.decision_seconds) == len(many.decisions)


@pytest.mark.parametrize("unknown", ["spread", "consolidate"])
def test_aep_places_jobs_that_prefer_nothing_alike(unknown: str) -> None:
    """As its option says, and says so; on VMs that are not in the order of their prices."""
    vms = load_cluster("paper")
    cluster = (*vms[1::2], *vms[::2])
    found = workload(120, 100.0, 4).jobs
    jobs = Workload(tuple(replace(job, type="nobody-knows") if n % 2 else job for n, job in enumerate(found)))
    asked, compiled = (
        simulate(create("aep", {"unknown": unknown}), jobs, cluster, compiled=compiled)
        for compiled in (False, True)
    )
    assert isinstance(compiled.decisions, ToldDecisions)
    assert told(compiled) == told(asked)


def test_greedy_looks_as_far_ahead_for_the_first_as_it_takes() -> None:
    """More than a hundred jobs have to end before a gang has whole VMs: when that will be is told alike."""
    chance = random.Random(3)  # noqa: S311  no secrets
    one = replace(workload(1, 10.0, 1).jobs[0], memory_mib=512)
    small = [
        replace(
            one, name=f"small-{n}", cpus=1.0, executors=1, submitted_at=0.0, duration=chance.uniform(50, 150)
        )
        for n in range(160)
    ]
    gang = replace(one, name="gang", cpus=4.0, executors=8, submitted_at=1.0)
    jobs, cluster = Workload((*small, gang)), make_vms(40, cpus=4)
    options = SimulationOptions(belief=Belief("sigma", 0.5))
    asked, compiled = both("greedy", jobs, cluster, options)
    assert isinstance(compiled.decisions, ToldDecisions)
    assert told(compiled) == told(asked)
    assert compiled == asked
    waits = [done.decision.reason for done in compiled.decisions if not isinstance(done.decision, Place)]
    assert len(waits) > 20
    assert "VMs are expected to have room in" in waits[0]


@pytest.mark.parametrize("seed", range(10))
def test_greedy_is_the_same_on_whatever_vms(seed: int) -> None:
    """VMs of several sizes and prices, some of them alike, and options that affect the search."""
    chance = random.Random(seed)  # noqa: S311  no secrets
    kinds = [
        (
            Resources.of(chance.choice((2, 3, 8, 16)), chance.choice((4096, 15872, 65536))),
            chance.uniform(0.05, 0.9),
        )
        for _ in range(chance.randint(1, 4))
    ]
    vms = tuple(
        replace(vm, resources=resources, price_per_hour=price)
        for vm, (resources, price) in ((vm, chance.choice(kinds)) for vm in make_vms(chance.choice((6, 60))))
    )
    jobs = workload(120, chance.choice((2.0, 6.0, 20.0)) * len(vms), seed)
    options = {
        "patience": chance.choice((0, 30.0, "0.1x", "2x")),
        "window": chance.choice((1, 3, 256)),
        "overtaken_at_most": chance.choice((0, 2, 128)),
        "beta": chance.choice((0.0, 0.2, 0.9, 1.0)),
    }
    belief = chance.choice((Belief(), Belief("exact"), Belief("sigma", 2.0), Belief("constant")))
    asked, compiled = (
        simulate(
            create("greedy", options), jobs, vms, options=SimulationOptions(belief=belief), compiled=compiled
        )
        for compiled in (False, True)
    )
    assert isinstance(compiled.decisions, ToldDecisions)
    assert told(compiled) == told(asked)
    assert compiled == asked
