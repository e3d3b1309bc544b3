"""Summary at the end of `stoker train`: the evaluation beside greedy's, and the next commands."""

import json
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from conf.policy_text import policy_text

if TYPE_CHECKING:
    from conf.schema.training import TrainingSpec

_BESIDE = "greedy"


def what_came(spec: "TrainingSpec", folder: Path) -> Iterator[str]:
    """The first and the best evaluation with their unit, then cost and time beside greedy's of the same."""
    from daemon.cli.shared import render

    lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    entries = [json.loads(line) for line in lines]
    first, best = entries[0], min(entries, key=lambda entry: float(entry["loss"]))
    yield (
        f"Evaluation: {first['loss']:.4g} before training, {best['loss']:.4g} at best, of iteration "
        f"{best['iteration']}. It is minus the return per job, in the reward's own unit: less is better."
    )
    for workload, told in best["evaluation"].items():
        if workload not in spec.workloads or spec.drawn is not None:
            continue
        cost, completion = _of(_BESIDE, spec, workload)
        seeds = spec.evaluation.first_seed, spec.evaluation.first_seed + spec.evaluation.seeds - 1
        yield (
            f"On {workload}, seeds {seeds[0]} to {seeds[1]}: {render.money(told['cost'])}, jobs end after "
            f"{render.duration(told['completion'])} on average; under {_BESIDE} {render.money(cost)} and "
            f"{render.duration(completion)}."
        )


def _of(policy: str, spec: "TrainingSpec", workload: str) -> tuple[float, float]:
    """A workload's cost in dollars and average completion in seconds under a policy: means of the seeds."""
    from agents.experiments.comparison import compare, contender
    from environment.simulation.durations.beliefs import Belief
    from environment.simulation.options import SimulationOptions

    seeds = range(spec.evaluation.first_seed, spec.evaluation.first_seed + spec.evaluation.seeds)
    options = SimulationOptions(belief=Belief.read(spec.belief))
    runs = list(compare([contender(policy)], [workload], spec.cluster, seeds, options=options))
    return fmean(run.result.cost for run in runs), fmean(run.result.average_completion for run in runs)


def what_next(spec: "TrainingSpec", folder: Path) -> Iterator[str]:
    """The commands with which one goes on."""
    workloads = ",".join(spec.workloads) or "normal,burst"
    yield "Next, on seeds that it was neither trained nor evaluated on:"
    yield f"  stoker evaluate {folder} --policy ff,{_BESIDE} --workload {workloads} --cluster {spec.cluster}"
    yield "and to have a daemon decide by it, in its config:"
    yield f"  policy: {policy_text(spec.algorithm, {'model': folder})}"
