"""Summary at the end of `stoker train`: the evaluation beside greedy's, and the next commands."""

import json
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from conf.policy_text import policy_text

if TYPE_CHECKING:
    from conf.schema.training import DrawnSpec, TrainingSpec

_BESIDE = "greedy"


def what_came(spec: "TrainingSpec", folder: Path) -> Iterator[str]:
    """The first and the best evaluation with their unit, then cost and time beside greedy's of the same."""
    from agents.drl.training.worlds import evaluated_sizes
    from daemon.cli.shared import render

    lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    entries = [json.loads(line) for line in lines]
    first, best = entries[0], min(entries, key=lambda entry: float(entry["loss"]))
    yield (
        f"Evaluation: {first['loss']:.4g} before training, {best['loss']:.4g} at best, of iteration "
        f"{best['iteration']}. It is minus the return per job, in the reward's own unit: less is better."
    )
    seeds = f"seeds {spec.evaluation.first_seed} to {spec.evaluation.first_seed + spec.evaluation.seeds - 1}"
    if spec.drawn is not None:
        for name, vms, beta in evaluated_sizes(spec.drawn):
            told = best["evaluation"][name]
            cost, completion = _of_drawn(spec, spec.drawn, vms, beta)
            yield (
                f"On {name}, {seeds}: {told['cost']:.3f} of the cost under first fit, and "
                f"{told['completion']:.3f} of the completion; "
                f"under {_BESIDE} {cost:.3f} and {completion:.3f}."
            )
        return
    for workload, told in best["evaluation"].items():
        cost, completion = _of(spec, workload)
        yield (
            f"On {workload}, {seeds}: {render.money(told['cost'])}, jobs end after "
            f"{render.duration(told['completion'])} on average; under {_BESIDE} {render.money(cost)} and "
            f"{render.duration(completion)}."
        )


def _of_drawn(spec: "TrainingSpec", drawn: "DrawnSpec", vms: int, beta: float) -> tuple[float, float]:
    """Cost and completion under `_BESIDE` as multiples of those under first fit: means of the seeds.

    Of a world of pools the cost is the bill, with boots and idle VMs, as that of the agent.
    """
    from agents.drl.training.drawn import draw_world, episode_of_world
    from agents.registry import create
    from environment.simulation.options import SimulationOptions
    from environment.simulation.simulator import simulate

    costs, completions = [], []
    for seed in range(spec.evaluation.first_seed, spec.evaluation.first_seed + spec.evaluation.seeds):
        world = draw_world(drawn, vms, seed)
        jobs = episode_of_world(world, spec.observation.unknown_seconds).jobs
        options = SimulationOptions(belief=world.belief).drawn(seed)
        result = simulate(create(_BESIDE, {"beta": beta}), world.workload, world.vms, options=options)
        dollars = result.cost if world.vms[0].terms is None else result.bill.total
        costs.append(dollars / (float(jobs.unit_dollars) * len(jobs.arrival)))
        completions.append(result.average_completion / float(jobs.unit_seconds))
    return fmean(costs), fmean(completions)


def _of(spec: "TrainingSpec", workload: str) -> tuple[float, float]:
    """A workload's cost in dollars and average completion in seconds under `_BESIDE`: means of the seeds."""
    from agents.experiments.comparison import compare, contender
    from environment.simulation.durations.beliefs import Belief
    from environment.simulation.options import SimulationOptions

    seeds = range(spec.evaluation.first_seed, spec.evaluation.first_seed + spec.evaluation.seeds)
    options = SimulationOptions(belief=Belief.read(spec.belief))
    runs = list(compare([contender(_BESIDE)], [workload], spec.cluster, seeds, options=options))
    return fmean(run.result.cost for run in runs), fmean(run.result.average_completion for run in runs)


def left_out(spec: "TrainingSpec") -> Iterator[str]:
    """Jobs and parts of workloads that are not trained on, in words; ConfigError, WorkloadError."""
    from environment.simulation.durations.beliefs import Belief
    from environment.training.episodes import episodes

    for name in spec.workloads if spec.drawn is None else ():
        found = episodes(name, spec.cluster, belief=Belief.read(spec.belief))
        yield from (f"{name}: {lost}" for lost in found.left_out(spec.evaluation.first_seed))


def what_next(spec: "TrainingSpec", folder: Path) -> Iterator[str]:
    """The commands with which one goes on."""
    workloads = ",".join(spec.workloads) or "normal,burst"
    yield "Next, on seeds that it was neither trained nor evaluated on:"
    yield f"  stoker evaluate {folder} --policy ff,{_BESIDE} --workload {workloads} --cluster {spec.cluster}"
    yield "and to have a daemon decide by it, in its config:"
    yield f"  policy: {policy_text(spec.algorithm, {'model': folder})}"
