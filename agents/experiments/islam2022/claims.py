"""Claims of Islam 2022 about its results, and targets for trained policies here; judged by numbers."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agents.experiments.islam2022.runs import PAPER_SETUP, LearningCurve
from agents.experiments.paired import PairedDifference, Statistic, difference, every
from conf.util.counted import counted

#: policy -> metric -> statistic.
Policies = Mapping[str, Mapping[str, Statistic]]
Found = Mapping[str, Policies]

_COST, _DURATION, _COMPLETION = "cost", "average_duration", "average_completion"
#: The paper's baselines, and best fit.
_BASELINES = ("rr", "rrc", "ff", "ilp", "aep", "best_fit")
_LEARNED = ("dqn", "reinforce")
_FOR_COST = "reinforce:beta=1.0"
#: The paper's figures of how agents learn, by algorithm and pattern.
_FIGURES = {
    ("dqn", "normal"): "4a",
    ("dqn", "burst"): "4b",
    ("reinforce", "normal"): "5a",
    ("reinforce", "burst"): "5b",
}


@dataclass(frozen=True, slots=True)
class JudgedClaim:
    """A statement, the finding about it, and whether the finding supports it; None: it leaves that open."""

    statement: str
    found: str
    holds: bool | None


def claims(found: Found) -> list[JudgedClaim]:
    """The paper's claims (7.2 to 7.6) about policies, judged by the runs at both densities."""
    normal, burst = found["normal"], found["burst"]
    judged = [
        _cheaper_in_burst(burst),
        _mixed_is_cheapest(burst),
        _aep_is_cheapest(normal),
        _reinforce_beside_aep(normal),
        _rr_is_shortest(normal),
        _dqn_beside_rr(normal),
        _reinforce_beside_rr(burst),
        _dqn_is_mediocre(burst),
    ]
    judged += [_good_falls(found, name) for name in _LEARNED]
    judged += [_good_by_pattern(normal, burst)]
    return judged + [_beta_trades(found, name) for name in _LEARNED]


def learning_claims(curves: Sequence[LearningCurve]) -> list[JudgedClaim]:
    """The paper's claims of how agents learn the rules (Fig. 4 and 5), judged by each curve.

    Those of its four figures that no curve belongs to are left open.
    """
    judged = [_turned(curve) for curve in curves]
    there = {(curve.algorithm, curve.pattern) for curve in curves if curve.setup == PAPER_SETUP}
    missing = [of for of in _FIGURES if of not in there]
    return judged + [
        JudgedClaim(_learns(*of), f"{of[1]}, {PAPER_SETUP}: no training run was given", None)
        for of in missing
    ]


def aims(found: Found, larger: Found) -> list[JudgedClaim]:
    """Targets for trained policies, judged by the runs on the paper's cluster and on larger ones."""
    judged = [_below_baselines(found[pattern], pattern, _COST, 0.0) for pattern in found]
    burst = found["burst"]
    judged.append(_below_baselines(burst, "burst", _COST, 0.1, ("rr", "rrc", "ff", "aep")))
    judged += [_below_baselines(found[pattern], pattern, _DURATION, -0.01) for pattern in found]
    judged.append(_below_baselines(burst, "burst", _COMPLETION, 0.0))
    judged += [
        _undominated(found[pattern], pattern, metric)
        for pattern in found
        for metric in (_COMPLETION, _DURATION)
    ]
    judged += [_better_with_network(found[pattern], pattern) for pattern in found]
    # One policy for all of them, not the best for each: a user has one.
    return judged + [_below_baselines(larger[scene], scene, _COST, 0.0, own=_FOR_COST) for scene in larger]


def _cheaper_in_burst(burst: Policies) -> JudgedClaim:
    own, best = _least(burst, _COST, "reinforce"), _least(burst, _COST, *_paper_baselines())
    beside = _beside(burst, own, best, _COST)
    return JudgedClaim(
        "Burst: the best REINFORCE costs 25 to 30 % less than the best baseline, AEP (0.78 to 1.07 $)",
        f"`{own}` {_dollars(burst, own)}, `{best}` {_dollars(burst, best)}: {beside}",
        beside.at_most(-0.25),
    )


def _mixed_is_cheapest(burst: Policies) -> JudgedClaim:
    every_beta = _of(burst, "reinforce")
    mixed = min(
        (policy for policy in every_beta if 0 < _beta(policy) < 1),
        key=lambda policy: _mean(burst, policy, _COST),
    )
    beside = _beside(burst, mixed, every_beta[-1], _COST)
    betas = ", ".join(f"{policy.partition('=')[2]}: {_dollars(burst, policy)}" for policy in every_beta)
    return JudgedClaim(
        "Burst: REINFORCE that weighs cost against time is cheaper than for cost alone",
        f"by beta {betas}; `{mixed}` beside `{every_beta[-1]}`: {beside}",
        beside.below(),
    )


def _aep_is_cheapest(normal: Policies) -> JudgedClaim:
    rival = _least(normal, _COST, *(name for name in _paper_baselines() if name != "aep"), *_LEARNED)
    ilp, beside = _least(normal, _COST, "ilp"), _beside(normal, "aep", rival, _COST)
    return JudgedClaim(
        "Normal: AEP is the cheapest of all (0.78 $), before ILP (0.83 $) and the agents",
        f"`aep` {_dollars(normal, 'aep')}, `{rival}` {_dollars(normal, rival)}, `{ilp}` "
        f"{_dollars(normal, ilp)}; `aep` beside `{rival}`: {beside}",
        beside.below(),
    )


def _reinforce_beside_aep(normal: Policies) -> JudgedClaim:
    own = _least(normal, _COST, "reinforce")
    beside = _beside(normal, own, "aep", _COST)
    return JudgedClaim(
        "Normal: the cheapest REINFORCE costs 14 to 16 % more than AEP",
        f"`{own}` beside `aep`: {beside}",
        every((beside.at_least(0.12), beside.at_most(0.18))),
    )


def _rr_is_shortest(normal: Policies) -> JudgedClaim:
    rival = _least(normal, _DURATION, *(name for name in _paper_baselines() if name != "rr"), *_LEARNED)
    beside = _beside(normal, "rr", rival, _DURATION)
    return JudgedClaim(
        "Normal: RR has the shortest average duration",
        f"`rr` {_seconds(normal, 'rr')}, `{rival}` {_seconds(normal, rival)}: {beside}",
        beside.below(),
    )


def _dqn_beside_rr(normal: Policies) -> JudgedClaim:
    own = _least(normal, _DURATION, "dqn")
    beside = _beside(normal, own, "rr", _DURATION)
    return JudgedClaim(
        "Normal: the average duration of DQN (beta 0) is 1 % above RR's",
        f"`{own}` beside `rr`: {beside}",
        every((beside.at_least(0.0), beside.at_most(0.02))),
    )


def _reinforce_beside_rr(burst: Policies) -> JudgedClaim:
    own = _least(burst, _DURATION, "reinforce")
    best = _least(burst, _DURATION, *_paper_baselines())
    of_rr, of_best = (_beside(burst, own, other, _DURATION) for other in ("rr", best))
    return JudgedClaim(
        "Burst: the average duration of REINFORCE (beta 0) is 2 % below RR's, the best baseline's",
        f"`{own}` beside `rr`: {of_rr}; beside `{best}`, the best baseline: {of_best}",
        every((of_rr.at_most(-0.015), of_best.below())),
    )


def _dqn_is_mediocre(burst: Policies) -> JudgedClaim:
    own, other = _least(burst, _COST, "dqn"), _least(burst, _COST, "reinforce")
    beside = _beside(burst, own, other, _COST)
    return JudgedClaim(
        "Burst: DQN is mediocre at cost, behind REINFORCE",
        f"`{own}` beside `{other}`: {beside}",
        beside.above(),
    )


def _good_falls(found: Found, name: str) -> JudgedClaim:
    values = {
        pattern: [policies[policy]["good_placements"] for policy in _of(policies, name)]
        for pattern, policies in found.items()
    }
    told = "; ".join(f"{pattern} {', '.join(f'{v.mean:.1f}' for v in of)}" for pattern, of in values.items())
    return JudgedClaim(
        f"{name.upper()} places fewer jobs well as beta rises (Fig. 8)",
        f"by rising beta: {told}",
        every(_falls(of) for of in values.values()),
    )


def _good_by_pattern(normal: Policies, burst: Policies) -> JudgedClaim:
    best = [
        [
            max((of[policy]["good_placements"] for policy in _of(of, name)), key=lambda value: value.mean)
            for name in _LEARNED
        ]
        for of in (normal, burst)
    ]
    beside = [difference(dqn, reinforce) for dqn, reinforce in best]
    return JudgedClaim(
        "DQN places more jobs well than REINFORCE in normal, and fewer in burst",
        f"at best, DQN and REINFORCE: normal {best[0][0].mean:.1f} and {best[0][1].mean:.1f} ({beside[0]}), "
        f"burst {best[1][0].mean:.1f} and {best[1][1].mean:.1f} ({beside[1]})",
        every((beside[0].above(), beside[1].below())),
    )


def _beta_trades(found: Found, name: str) -> JudgedClaim:
    told: list[str] = []
    holds: list[bool | None] = []
    for pattern, policies in found.items():
        own = _of(policies, name)
        costs = [policies[policy][_COST] for policy in own]
        durations = [policies[policy][_DURATION] for policy in own]
        holds += [_falls(costs), _falls(durations[::-1])]
        dollars = ", ".join(f"{v.mean:.2f}" for v in costs)
        seconds = ", ".join(f"{v.mean:.0f}" for v in durations)
        told.append(f"{pattern} {dollars} $ and {seconds} s")
    return JudgedClaim(
        f"{name.upper()}: as beta rises, cost falls and duration rises (Fig. 9)",
        "; ".join(told),
        every(holds),
    )


def _learns(algorithm: str, pattern: str) -> str:
    figure = _FIGURES.get((algorithm, pattern), {"dqn": "4", "reinforce": "5"}[algorithm])
    return f"{algorithm.upper()} learns the rules: hugely negative returns turn positive (Fig. {figure})"


def _turned(curve: LearningCurve) -> JudgedClaim:
    return JudgedClaim(
        _learns(curve.algorithm, curve.pattern),
        f"{curve.pattern}, {curve.setup}: from {curve.returns[0]:,.0f} to at best {max(curve.returns):,.0f} "
        f"in {counted(curve.iterations[-1], 'iteration')}",
        curve.returns[0] < 0 and curve.turned is not None,
    )


def _below_baselines(
    policies: Policies,
    scene: str,
    metric: str,
    least: float,
    names: Sequence[str] = _BASELINES,
    own: str | None = None,
) -> JudgedClaim:
    """Claim that the policy is below the best of these baselines by a share (negative: above).

    Without a name it is the trained policy that is best by the metric.
    """
    own, best = own or _least(policies, metric, *_LEARNED), _least(policies, metric, *names)
    lead = _beside(policies, own, best, metric)
    what = {_COST: "cost", _DURATION: "average duration", _COMPLETION: "average completion"}[metric]
    rivals = "the best baseline" if names == _BASELINES else f"the best of {', '.join(names).upper()}"
    bound = (
        "below"
        if least == 0
        else f"at least {least:.0%} below"
        if least > 0
        else f"at most {-least:.0%} above"
    )
    if metric == _COST:
        completions = [_seconds(policies, policy, _COMPLETION) for policy in (own, best)]
        beside = f"completion {' and '.join(completions)}"
    else:
        beside = f"cost {_dollars(policies, own)} and {_dollars(policies, best)}"
    return JudgedClaim(
        f"{scene[0].upper()}{scene[1:]}: {what} {bound} {rivals}",
        f"`{own}` beside `{best}`: {lead} ({beside})",
        lead.at_most(-least) if least else lead.below(),
    )


def _better_with_network(policies: Policies, pattern: str) -> JudgedClaim:
    alone, based = "lookahead:beta=1.0", "lookahead:base=reinforce:beta=1.0"
    beside = _beside(policies, based, alone, _COST)
    return JudgedClaim(
        f"{pattern.capitalize()}: as lookahead's base, a trained network makes it cheaper",
        f"`{based}` {_dollars(policies, based)}, `{alone}` {_dollars(policies, alone)}: {beside}",
        beside.below(),
    )


def _undominated(policies: Policies, pattern: str, metric: str) -> JudgedClaim:
    """No baseline is at least as good in cost and time as a trained policy on the front of them all."""
    own = [policy for name in _LEARNED for policy in _of(policies, name)]
    front = [
        policy
        for policy in own
        if not any(_dominates(policies, other, policy, metric) for other in own if other != policy)
    ]
    rivals = [policy for name in _BASELINES for policy in _of(policies, name)]
    judged = {
        (policy, rival): _dominates(policies, rival, policy, metric) for policy in front for rival in rivals
    }
    beaten = [f"`{policy}` by `{rival}`" for (policy, rival), holds in judged.items() if holds]
    open_ones = [f"`{policy}` beside `{rival}`" for (policy, rival), holds in judged.items() if holds is None]
    what = "completion" if metric == _COMPLETION else "duration"
    found = "; ".join(beaten) or f"none clearly dominates {', '.join(f'`{policy}`' for policy in front)}"
    return JudgedClaim(
        f"{pattern.capitalize()}: no baseline dominates a point of the front over beta in cost and {what}",
        found + (f"; open: {', '.join(open_ones)}" if open_ones else ""),
        False if beaten else None if open_ones else True,
    )


def _dominates(policies: Policies, one: str, other: str, metric: str) -> bool | None:
    """Whether one is as good in both and better in one, by two standard errors; None where that is open."""
    beside = [_beside(policies, one, other, of) for of in (_COST, metric)]
    better = True if any(each.lower for each in beside) else None
    return every((*(each.at_most(0.0) for each in beside), better))


def _paper_baselines() -> Sequence[str]:
    return _BASELINES[:-1]


def _of(policies: Policies, name: str) -> list[str]:
    """The policies of that name, by rising beta."""
    return sorted((policy for policy in policies if policy.partition(":")[0] == name), key=_beta)


def _beta(policy: str) -> float:
    return float(policy.partition("beta=")[2] or 0)


def _least(policies: Policies, metric: str, *names: str) -> str:
    """The policy of one of these names with the least mean."""
    candidates = [policy for name in names for policy in _of(policies, name)]
    return min(candidates, key=lambda policy: _mean(policies, policy, metric))


def _mean(policies: Policies, policy: str, metric: str) -> float:
    return policies[policy][metric].mean


def _beside(policies: Policies, one: str, other: str, metric: str) -> PairedDifference:
    return difference(policies[one][metric], policies[other][metric])


def _falls(values: Sequence[Statistic]) -> bool | None:
    """Whether each is at most the one before, and the last below the first."""
    steps = [difference(after, before).at_most(0.0) for before, after in itertools.pairwise(values)]
    whole = difference(values[-1], values[0])
    return every((*steps, whole.below()))


def _dollars(policies: Policies, policy: str) -> str:
    return f"{_mean(policies, policy, _COST):.2f} $"


def _seconds(policies: Policies, policy: str, metric: str = _DURATION) -> str:
    return f"{_mean(policies, policy, metric):.0f} s"
