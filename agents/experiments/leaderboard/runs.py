"""Runs of the leaderboard: every policy of the registry and those that enter, on the same worlds and seeds.

`report.py` ranks them; the simulator makes each run.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import geometric_mean

import numpy as np

from agents.experiments.comparison import Contender, contender
from agents.experiments.decisions.shifted_cases import case
from agents.experiments.paired import Statistic
from agents.experiments.runner import RunCall, Runner
from agents.experiments.seed_register import SeedRange, refuse_used
from agents.registry import POLICIES, PolicyError, create, is_ours, look_in, looked_in
from conf.policy_text import read_policy
from environment.decisions.sizing import Sizes
from environment.simulation.durations.beliefs import Belief
from environment.simulation.simulator import simulate

#: Worlds of `agents.experiments.decisions.shifted_cases`, none of them made of a file that may be missing.
WORLDS = (
    *("normal", "burst", "burst, all times x 0.05", "busy, durations x 0.3", "one-minute jobs"),
    *("heavy tails", "light", "overload", "executors 1 to 12", "thin jobs", "memory-bound"),
    "5 other VM types",
)
#: Every policy is ranked beside this one, which also decides where a policy fails to.
FIRST = "ff"
BELIEF = Belief("sigma", 0.2)
#: Policies that search for seconds, and about how many times as long they take as others.
_WEIGHTS = {"lookahead": 20, "ilp": 10}


@dataclass(frozen=True, slots=True)
class LeaderboardRun:
    """Results of a policy in a world on a seed: dollars, and mean seconds from submission to end.

    `fallback_share` is the share of decisions that it failed to take, `decision` the median of seconds that a
    decision took.
    """

    policy: str
    world: str
    seed: int
    cost: float
    completion: float
    fallback_share: float
    decision: float


@dataclass(frozen=True, slots=True)
class RankedPolicy:
    """A policy's cost and completion by seed: geometric means over all worlds of its multiples of `FIRST`.

    `dearest` is the world with the largest mean multiple of cost, and that; the rest is as of its runs.
    """

    policy: str
    cost: Statistic
    completion: Statistic
    dearest: tuple[str, float]
    fallback_share: float
    decision: float


def registered() -> tuple[Contender, ...]:
    """Every policy of the registry at its defaults, and with the best next job where it may overtake."""
    best = {"overtake": "best"}
    return tuple(
        each
        for name, listed in POLICIES.items()
        for each in (Contender(name), *([Contender(name, best)] if listed.head_alone else ()))
    )


def entered(texts: Sequence[str]) -> tuple[Contender, ...]:
    """Policies that enter, by their texts; PolicyError for one that cannot be made or takes part already."""
    found: dict[str, Contender] = {each.label: each for each in registered()}
    entries = []
    for text in texts:
        entry = contender(text)
        if entry.label in found:
            raise PolicyError(f"policy {entry.label}: takes part already")
        found[entry.label] = entry
        entries.append(entry)
    return tuple(entries)


def play(
    contenders: Sequence[Contender], seeds: SeedRange, runner: Runner, jobs: int | None = None
) -> list[LeaderboardRun]:
    """Every policy in every world on the same seeds.

    Runs of a policy from outside Stoker are not stored, as its code may change.
    """
    refuse_used(draw for world in WORLDS for seed in seeds for draw in case(world).workload.draws(seed, jobs))
    return runner.run(
        [
            RunCall(
                play_one,
                (each.label, world, seed, jobs, () if is_ours(each.name) else looked_in()),
                f"{each.label}, {world}, seed {seed}",
                _WEIGHTS.get(each.name, 1),
                stored=is_ours(each.name),
            )
            for world in WORLDS
            for seed in seeds
            for each in contenders
        ]
    )


def play_one(
    label: str, world: str, seed: int, jobs: int | None = None, folders: Sequence[str] = ()
) -> LeaderboardRun:
    """One policy in one world on one seed; `folders` may have the module of one from outside Stoker."""
    for folder in folders:
        look_in(folder)
    there = case(world)
    result = simulate(
        create(*read_policy(label)),
        there.workload(seed, jobs),
        there.cluster(),
        options=there.options(BELIEF, seed, Sizes()),
        fallback=create(FIRST),
    )
    return LeaderboardRun(
        label,
        world,
        seed,
        result.cost,
        result.average_completion,
        result.fallback_share,
        float(np.median(result.decision_seconds)) if len(result.decision_seconds) else 0.0,
    )


def ranking(runs: Sequence[LeaderboardRun]) -> list[RankedPolicy]:
    """All policies, the cheapest first."""
    at = {(run.policy, run.world, run.seed): run for run in runs}
    policies, worlds, seeds = (
        tuple(dict.fromkeys(getattr(run, name) for run in runs)) for name in ("policy", "world", "seed")
    )

    def times(policy: str, number: str) -> Mapping[tuple[str, int], float]:
        """How many times that of `FIRST` a number is, by world and seed."""
        return {
            (world, seed): getattr(at[policy, world, seed], number) / getattr(at[FIRST, world, seed], number)
            for world in worlds
            for seed in seeds
        }

    def ranked(policy: str) -> RankedPolicy:
        cost, completion = times(policy, "cost"), times(policy, "completion")
        by_world = {world: math.fsum(cost[world, seed] for seed in seeds) / len(seeds) for world in worlds}
        own = [run for run in runs if run.policy == policy]
        return RankedPolicy(
            policy,
            Statistic({seed: geometric_mean([cost[world, seed] for world in worlds]) for seed in seeds}),
            Statistic(
                {seed: geometric_mean([completion[world, seed] for world in worlds]) for seed in seeds}
            ),
            max(by_world.items(), key=lambda each: each[1]),
            math.fsum(run.fallback_share for run in own) / len(own),
            float(np.median([run.decision for run in own])),
        )

    return sorted(map(ranked, policies), key=lambda each: each.cost.mean)
