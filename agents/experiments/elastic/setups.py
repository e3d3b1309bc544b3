"""Setups of the comparison on elastic VMs: partners at their best, and policies with each idle policy.

docs/elastic.md lists the settings of partners and where each is documented.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from agents.experiments.comparison import Contender
from environment.pools import BREAK_EVEN, NO_MOVES, Consolidation, IdleTimeout
from environment.simulation.durations.beliefs import Belief

#: Believed durations err by 20 %.
BELIEF = Belief("sigma", 0.2)


@dataclass(frozen=True, slots=True)
class Setup:
    """A policy and an idle policy; `fixed` VMs are always there: for the peak, or for the mean."""

    label: str
    policy: Contender
    keep: IdleTimeout = BREAK_EVEN
    fixed: str = ""
    #: When running executors are moved.
    moves: Consolidation = NO_MOVES


_AT_ONCE, _TEN_MINUTES = IdleTimeout("none"), IdleTimeout("timeout", 600.0)


def karpenter(overtake: str) -> tuple[Setup, ...]:
    """Karpenter with each rule of consolidation; a Kubernetes scheduler goes on with the next that fits."""
    contender = Contender("karpenter", {"overtake": overtake})
    rules = ("none", "underutilized", "underutilized:after=60", "balanced", "believed")
    return tuple(
        Setup(f"like Karpenter, {overtake}, {rule}", contender, _AT_ONCE, moves=Consolidation.read(rule))
        for rule in rules
    )


def autoscaler(overtake: str) -> tuple[Setup, ...]:
    """Cluster Autoscaler with each expander, under schedulers that spread and that pack."""
    return tuple(
        Setup(
            f"like Cluster Autoscaler, {overtake}, {scoring}, {expander}",
            Contender("cluster_autoscaler", {"overtake": overtake, "scoring": scoring, "expander": expander}),
            _TEN_MINUTES,
        )
        for scoring in ("spread", "pack")
        for expander in ("least_waste", "priority")
    )


_FIXED = (
    Setup("fixed, for the peak", Contender("ff"), fixed="peak"),
    Setup("fixed, for the mean", Contender("ff"), fixed="mean"),
)
#: At documented defaults and beside them, with the next job that fits, the shortest and the best first.
KARPENTER = (
    *(setup for way in ("first_fit", "shortest", "best") for setup in karpenter(way)),
    Setup("like Karpenter, first_fit, kept", Contender("karpenter", {"overtake": "first_fit"})),
)
CLUSTER_AUTOSCALER = tuple(setup for way in ("first_fit", "shortest", "best") for setup in autoscaler(way))
PARTNERS = (*_FIXED, *CLUSTER_AUTOSCALER, *KARPENTER)
KEEPERS = (IdleTimeout("none"), BREAK_EVEN, IdleTimeout("forecast"), IdleTimeout("planned"))
#: Policies that are each tried with each keeper.
EVERY_POLICY = (
    *("rr", "random", "ff", "rrc", "best_fit", "aep", "drf", "ilp", "ogasched", "dqn", "reinforce"),
    *("greedy", "lookahead"),
)
EVERY_KEEPER = (IdleTimeout("none"), IdleTimeout("timeout", 600.0), *KEEPERS[1:])


def kept(policy: str, keepers: Sequence[IdleTimeout] = KEEPERS, **options: object) -> tuple[Setup, ...]:
    """A policy with each of the keepers."""
    contender = Contender(policy, options)
    return tuple(Setup(f"{contender.label}, {keeper}", contender, keeper) for keeper in keepers)


def moving(policy: str, keeper: IdleTimeout) -> tuple[Setup, ...]:
    """A policy with executors that stay, and with those that fit elsewhere moved."""
    (stays,) = kept(policy, (keeper,))
    rule = Consolidation("fitting")
    return stays, replace(stays, label=f"{stays.label}, {rule}", moves=rule)


def at_best(policies: Sequence[str]) -> tuple[Setup, ...]:
    """Baselines at their best: with the shortest and the best placed job first, and VMs closed at once."""
    return tuple(
        setup
        for name in policies
        for way in ("shortest", "best")
        for setup in kept(name, (_AT_ONCE,), overtake=way)
    )
