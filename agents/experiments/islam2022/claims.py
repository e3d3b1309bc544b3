"""Claims of Islam 2022 about its results, and targets for trained policies here; judged by numbers."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from agents.experiments.comparison import Statistic
from agents.experiments.islam2022.runs import LearningCurve

#: policy -> metric -> statistic.
Policies = Mapping[str, Mapping[str, Statistic]]
Found = Mapping[str, Policies]

_COST, _DURATION, _COMPLETION = "cost", "average_duration", "average_completion"
#: The paper's baselines, and best fit.
_BASELINES = ("rr", "rrc", "ff", "ilp", "aep", "best_fit")
_LEARNED = ("dqn", "reinforce")
_FOR_COST = "reinforce:beta=1.0"


@dataclass(frozen=True, slots=True)
class JudgedClaim:
    """A statement, the finding about it, and whether the finding supports it."""

    statement: str
    found: str
    holds: bool


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
    """The paper's claims of how agents learn the rules (Fig. 4 and 5), judged by each curve."""
    return [_turned(curve) for curve in curves]


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
    lead = 1 - _mean(burst, own, _COST) / _mean(burst, best, _COST)
    return JudgedClaim(
        "Burst: the best REINFORCE costs 25 to 30 % less than the best baseline, AEP (0.78 to 1.07 $)",
        f"`{own}` {_dollars(burst, own)}, `{best}` {_dollars(burst, best)}: {_less(lead)}",
        lead >= 0.25,
    )


def _mixed_is_cheapest(burst: Policies) -> JudgedClaim:
    own = _least(burst, _COST, "reinforce")
    betas = ", ".join(
        f"{policy.partition('=')[2]}: {_dollars(burst, policy)}" for policy in _of(burst, "reinforce")
    )
    return JudgedClaim(
        "Burst: REINFORCE that weighs cost against time is cheaper than for cost alone",
        f"by beta {betas}",
        0 < _beta(own) < 1,
    )


def _aep_is_cheapest(normal: Policies) -> JudgedClaim:
    first = _least(normal, _COST, *_paper_baselines(), *_LEARNED)
    ilp = _least(normal, _COST, "ilp")
    return JudgedClaim(
        "Normal: AEP is the cheapest of all (0.78 $), before ILP (0.83 $) and the agents",
        f"`{first}` is, {_dollars(normal, first)}; "
        f"`aep` {_dollars(normal, 'aep')}, `{ilp}` {_dollars(normal, ilp)}",
        first == "aep",
    )


def _reinforce_beside_aep(normal: Policies) -> JudgedClaim:
    own = _least(normal, _COST, "reinforce")
    more = _mean(normal, own, _COST) / _mean(normal, "aep", _COST) - 1
    return JudgedClaim(
        "Normal: the cheapest REINFORCE costs 14 to 16 % more than AEP",
        f"`{own}` costs {_signed(more)} than `aep`",
        0.12 <= more <= 0.18,
    )


def _rr_is_shortest(normal: Policies) -> JudgedClaim:
    first = _least(normal, _DURATION, *_paper_baselines(), *_LEARNED)
    return JudgedClaim(
        "Normal: RR has the shortest average duration",
        f"`{first}` has, {_seconds(normal, first)}; `rr` {_seconds(normal, 'rr')}",
        first == "rr",
    )


def _dqn_beside_rr(normal: Policies) -> JudgedClaim:
    own = _least(normal, _DURATION, "dqn")
    more = _mean(normal, own, _DURATION) / _mean(normal, "rr", _DURATION) - 1
    return JudgedClaim(
        "Normal: the average duration of DQN (beta 0) is 1 % above RR's",
        f"`{own}`: {_signed(more)} than `rr`",
        abs(more - 0.01) <= 0.01,
    )


def _reinforce_beside_rr(burst: Policies) -> JudgedClaim:
    own = _least(burst, _DURATION, "reinforce")
    best = _least(burst, _DURATION, *_paper_baselines())
    less = 1 - _mean(burst, own, _DURATION) / _mean(burst, "rr", _DURATION)
    beside = 1 - _mean(burst, own, _DURATION) / _mean(burst, best, _DURATION)
    return JudgedClaim(
        "Burst: the average duration of REINFORCE (beta 0) is 2 % below RR's, the best baseline's",
        f"`{own}`: {_less(less)} than `rr`, {_less(beside)} than `{best}`, the best baseline",
        less >= 0.015 and beside > 0,
    )


def _dqn_is_mediocre(burst: Policies) -> JudgedClaim:
    own, other = _least(burst, _COST, "dqn"), _least(burst, _COST, "reinforce")
    more = _mean(burst, own, _COST) / _mean(burst, other, _COST) - 1
    return JudgedClaim(
        "Burst: DQN is mediocre at cost, behind REINFORCE",
        f"`{own}` costs {_signed(more)} than `{other}`",
        more > 0,
    )


def _good_falls(found: Found, name: str) -> JudgedClaim:
    values = {
        pattern: [policies[policy]["good_placements"].mean for policy in _of(policies, name)]
        for pattern, policies in found.items()
    }
    told = "; ".join(f"{pattern} {', '.join(f'{v:.1f}' for v in of)}" for pattern, of in values.items())
    return JudgedClaim(
        f"{name.upper()} places fewer jobs well as beta rises (Fig. 8)",
        f"by rising beta: {told}",
        all(_falls(of) for of in values.values()),
    )


def _good_by_pattern(normal: Policies, burst: Policies) -> JudgedClaim:
    means = [
        [max(of[policy]["good_placements"].mean for policy in _of(of, name)) for name in _LEARNED]
        for of in (normal, burst)
    ]
    return JudgedClaim(
        "DQN places more jobs well than REINFORCE in normal, and fewer in burst",
        f"at best, DQN and REINFORCE: normal {means[0][0]:.1f} and {means[0][1]:.1f}, "
        f"burst {means[1][0]:.1f} and {means[1][1]:.1f}",
        means[0][0] > means[0][1] and means[1][0] < means[1][1],
    )


def _beta_trades(found: Found, name: str) -> JudgedClaim:
    told, holds = [], True
    for pattern, policies in found.items():
        own = _of(policies, name)
        costs = [policies[policy][_COST].mean for policy in own]
        durations = [policies[policy][_DURATION].mean for policy in own]
        holds &= _falls(costs) and _falls(durations[::-1])
        dollars, seconds = ", ".join(f"{v:.2f}" for v in costs), ", ".join(f"{v:.0f}" for v in durations)
        told.append(f"{pattern} {dollars} $ and {seconds} s")
    return JudgedClaim(
        f"{name.upper()}: as beta rises, cost falls and duration rises (Fig. 9)", "; ".join(told), holds
    )


def _turned(curve: LearningCurve) -> JudgedClaim:
    figure = {"dqn": "4", "reinforce": "5"}[curve.algorithm]
    return JudgedClaim(
        f"{curve.algorithm.upper()} learns the rules: hugely negative returns turn positive (Fig. {figure})",
        f"{curve.pattern}, {curve.setup}: from {curve.returns[0]:,.0f} to at best {max(curve.returns):,.0f} "
        f"in {curve.iterations[-1]:,} iterations",
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
    lead = 1 - _mean(policies, own, metric) / _mean(policies, best, metric)
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
        f"`{own}`: {_less(lead)} than `{best}` ({beside})",
        lead > 0 if least == 0 else lead >= least,
    )


def _better_with_network(policies: Policies, pattern: str) -> JudgedClaim:
    alone, based = "lookahead:beta=1.0", "lookahead:base=reinforce:beta=1.0"
    lead = 1 - _mean(policies, based, _COST) / _mean(policies, alone, _COST)
    return JudgedClaim(
        f"{pattern.capitalize()}: as lookahead's base, a trained network makes it cheaper",
        f"`{based}` {_dollars(policies, based)}, `{alone}` {_dollars(policies, alone)}: {_less(lead)}",
        lead > 0,
    )


def _undominated(policies: Policies, pattern: str, metric: str) -> JudgedClaim:
    """No baseline is at least as good in cost and time as a trained policy on the front of them all."""
    own = [policy for name in _LEARNED for policy in _of(policies, name)]
    front = [
        policy for policy in own if not any(_dominates(policies, other, policy, metric) for other in own)
    ]
    rivals = [policy for name in _BASELINES for policy in _of(policies, name)]
    beaten = list(_beaten(policies, front, rivals, metric))
    what = "completion" if metric == _COMPLETION else "duration"
    return JudgedClaim(
        f"{pattern.capitalize()}: no baseline dominates a point of the front over beta in cost and {what}",
        "; ".join(beaten) or f"none dominates {', '.join(f'`{policy}`' for policy in front)}",
        not beaten,
    )


def _beaten(policies: Policies, front: Sequence[str], rivals: Sequence[str], metric: str) -> Iterator[str]:
    for policy in front:
        by = [f"`{rival}`" for rival in rivals if _dominates(policies, rival, policy, metric)]
        if by:
            yield f"`{policy}` by {', '.join(by)}"


def _dominates(policies: Policies, one: str, other: str, metric: str) -> bool:
    pairs = [(_mean(policies, one, of), _mean(policies, other, of)) for of in (_COST, metric)]
    return all(a <= b for a, b in pairs) and any(a < b for a, b in pairs)


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


def _falls(values: Sequence[float]) -> bool:
    return all(a >= b for a, b in itertools.pairwise(values)) and values[0] > values[-1]


def _dollars(policies: Policies, policy: str) -> str:
    return f"{_mean(policies, policy, _COST):.2f} $"


def _seconds(policies: Policies, policy: str, metric: str = _DURATION) -> str:
    return f"{_mean(policies, policy, metric):.0f} s"


def _less(share: float) -> str:
    return f"{abs(share):.1%} {'less' if share >= 0 else 'more'}"


def _signed(share: float) -> str:
    return f"{abs(share):.1%} {'more' if share >= 0 else 'less'}"
