"""The card of a policy in Markdown: its training data, and its quality at that time."""

from collections.abc import Mapping
from typing import Any

from conf.schema.training import DrawnSpec, ObjectiveSpec, TrainingSpec
from conf.util.counted import counted

_TITLES = {"cost": "cost ($)", "duration": "duration (s)", "completion": "completion (s)", "waits": "waits"}
_DIGITS = {"cost": 3, "duration": 0, "completion": 0, "waits": 1}
#: Of drawn worlds cost and completion are given as multiples of first fit's in the same.
_OF_DRAWN = {**_TITLES, "cost": "cost / ff", "completion": "completion / ff"}
_DIGITS_OF_DRAWN = {**_DIGITS, "completion": 3}


def card_of(spec: TrainingSpec, best: Mapping[str, Any], last: Mapping[str, Any], seconds: float) -> str:
    """The card of a policy, from its best evaluation and the run's last one."""
    goal, seeds = spec.objective, spec.evaluation
    of_drawn = spec.drawn is not None
    told = _objective(goal) if spec.drawn is None else _drawn_objective(spec.drawn)
    titles, digits = (_OF_DRAWN, _DIGITS_OF_DRAWN) if of_drawn else (_TITLES, _DIGITS)
    learned = f"first by imitating {spec.imitation.teacher}, then " if spec.imitation else ""
    learned += f"with the weights of {spec.start} to begin with, " if spec.start else ""
    averaged = f", averaged over iterations ({spec.averaging:g} stays)" if spec.averaging else ""
    deployed = spec.as_deployed()
    lines = [
        f"# A policy learned by {spec.algorithm.upper()}",
        "",
        f"- Learned {learned}from {counted(last['steps'], 'step')} in "
        f"{counted(last['iteration'], 'iteration')}, "
        f"{seconds / 60:.1f} minutes; this is what it was at iteration {best['iteration']:,}{averaged}.",
        _worlds(spec),
        f"- Objective: {told}. Rewards: {spec.rewards}; discount {spec.discount:g}.",
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
        f"belief {'drawn' if of_drawn else spec.belief}.",
        "",
        f"| {'worlds' if of_drawn else 'workload'} | " + " | ".join(titles.values()) + " |",
        "|---|" + "---:|" * len(titles),
    ]
    for name, of in best["evaluation"].items():
        cells = " | ".join(f"{of[metric]:.{digits[metric]}f}" for metric in titles)
        lines.append(f"| {name} | {cells} |")
    return "\n".join([*lines, ""])


def _worlds(spec: TrainingSpec) -> str:
    """Description of the training data."""
    if (drawn := spec.drawn) is None:
        workloads = ", ".join(f"{name} ({weight:g})" for name, weight in spec.workloads.items())
        return (
            f"- Workloads (with how often each was drawn): {workloads}; a fresh seed every time. "
            f"Cluster: {spec.cluster}. Belief of durations: {spec.belief}."
        )
    return (
        f"- Worlds, drawn anew: clusters of {min(drawn.vms)} to "
        f"{counted(max(drawn.vms), 'VM')} of 1 to 5 types, "
        f"{drawn.pools:.0%} pools; {drawn.jobs[0]} to {counted(drawn.jobs[1], 'job')} of 1 to 16 "
        "executors, from light load to overload, in even, bursty and wavy arrivals; beliefs exact, "
        "as far off as was measured, or 5 to 50 % off."
    )


def _drawn_objective(drawn: DrawnSpec) -> str:
    low, high = drawn.betas
    return (
        f"beta, which is drawn from {low:g} to {high:g} and seen, of cost, the rest of completion, from "
        "submission on, both as parts of what first fit comes to"
    )


def _objective(goal: ObjectiveSpec) -> str:
    """Description of the objective's weights."""
    completion = (1 - goal.beta) * goal.completion
    parts = {
        "cost": goal.beta,
        "completion, from submission on": completion + goal.waiting,
        "duration, from the start on": 1 - goal.beta - completion,
    }
    return ", ".join(f"{part:.3g} of {name}" for name, part in parts.items() if part > 1e-9)


def _jobs(considered: int) -> str:
    return "the first job of the queue" if considered == 1 else f"{considered} jobs of the queue"
