"""The card of a policy: what it was trained on, and how good it was then, in Markdown."""

from collections.abc import Mapping
from typing import Any

from conf.training import ObjectiveSpec, TrainingSpec

_TITLES = {"cost": "cost ($)", "duration": "duration (s)", "completion": "completion (s)", "waits": "waits"}
_DIGITS = {"cost": 3, "duration": 0, "completion": 0, "waits": 1}


def card_of(spec: TrainingSpec, best: Mapping[str, Any], last: Mapping[str, Any], seconds: float) -> str:
    """The card of a policy of which the best evaluation is given, and the run's last one."""
    goal, seeds = spec.objective, spec.evaluation
    drawn = ", ".join(f"{name} ({weight:g})" for name, weight in spec.workloads.items())
    learned = f"first by imitating {spec.imitation.teacher}, then " if spec.imitation else ""
    learned += f"with the weights of {spec.start} to begin with, " if spec.start else ""
    averaged = f", averaged over iterations ({spec.averaging:g} stays)" if spec.averaging else ""
    deployed = spec.as_deployed()
    lines = [
        f"# A policy learned by {spec.algorithm.upper()}",
        "",
        f"- Learned {learned}from {last['steps']:,} steps in {last['iteration']:,} iterations, "
        f"{seconds / 60:.1f} minutes; this is what it was at iteration {best['iteration']:,}{averaged}.",
        f"- Workloads (with how often each was drawn): {drawn}; a fresh seed every time. "
        f"Cluster: {spec.cluster}. Belief of durations: {spec.belief}.",
        f"- Objective: {_objective(goal)}. Rewards: {spec.rewards}; discount {spec.discount:g}.",
        f"- Network: {spec.network.kind}, {spec.network.hidden} hidden units. "
        f"Observation: {spec.observation.name}. Actions against the rules are "
        f"{'masked' if spec.mask else 'not masked'}.",
        f"- Looks at {_jobs(spec.considered)} when it learns, "
        f"and {_jobs(deployed.considered)} when it decides.",
        f"- Seed: {spec.seed}.",
        "",
        f"## On workloads that it was not trained on (seeds {seeds.first_seed} to "
        f"{seeds.first_seed + seeds.seeds - 1})",
        "",
        "The run's best iteration was chosen by these, so a comparison needs others. Truth profile; "
        f"belief {spec.belief}.",
        "",
        "| workload | " + " | ".join(_TITLES.values()) + " |",
        "|---|" + "---:|" * len(_TITLES),
    ]
    for name, of in best["evaluation"].items():
        cells = " | ".join(f"{of[metric]:.{_DIGITS[metric]}f}" for metric in _TITLES)
        lines.append(f"| {name} | {cells} |")
    return "\n".join([*lines, ""])


def _objective(goal: ObjectiveSpec) -> str:
    """What counts how much."""
    completion = (1 - goal.beta) * goal.completion
    parts = {
        "cost": goal.beta,
        "completion, from submission on": completion + goal.waiting,
        "duration, from the start on": 1 - goal.beta - completion,
    }
    return ", ".join(f"{part:.3g} of {name}" for name, part in parts.items() if part > 1e-9)


def _jobs(considered: int) -> str:
    return "the first job of the queue" if considered == 1 else f"{considered} jobs of the queue"
