"""Claims of Zhao 2023, 4 about its experiments, judged for `oga`, the algorithm of the paper itself."""

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from agents.experiments.paired import Statistic, difference, every
from agents.experiments.zhao2023.runs import CellOutcome
from agents.experiments.zhao2023.tables import Found, gain, lead, mean
from agents.oga.bipartite import UTILITIES
from agents.oga.partners import PARTNERS

#: OgaSched's gains over its partners as the paper states them (abstract and 4.1).
GAINS = {"drf": 0.1133, "fairness": 0.0775, "binpacking": 0.1389, "spreading": 0.1344}
READINGS = ("per_channel", "total")
_OWN = "oga"
_ALL = (_OWN, *PARTNERS)
#: Shares of a run at which its average reward is looked at: of Table 3's T, 1000 to 10,000.
_SHARES = (0.1, 0.2, 0.5, 1.0)
#: The share of a run that counts as its beginning.
_BEGINNING = 0.01
#: Decays between which the best one is, in the paper.
_DECAYS = (0.995, 0.9999)

#: By policy, an outcome for each seed.
Policies = dict[str, list[CellOutcome]]


@dataclass(frozen=True, slots=True)
class OgaClaim:
    """A claim under one reading of requests, the finding, and whether that supports it; None: open."""

    statement: str
    reading: str
    found: str
    holds: bool | None


def chapter_claims(by_name: Mapping[str, Found]) -> list[OgaClaim]:
    """All claims of the chapter in its order, for each reading of requests that was run."""
    made: list[tuple[str, str, Callable[[Found], tuple[str, bool | None]]]] = [
        ("fig2", "Fig. 2a: it earns 11.33, 7.75, 13.89 and 13.44 % more than DRF, FAIRNESS, BINPACKING and "
         "SPREADING", _gains),
        ("fig2", "Fig. 2a: its average reward rises with time", _rises_with_time),
        ("fig2", "Fig. 2a: FAIRNESS is the best baseline", _fairness_is_best),
        ("fig2", "Fig. 2b: at first FAIRNESS and DRF are ahead, in the end it is", _overtakes),
        ("fig4", "Fig. 4: with wrong step sizes the reward is negative", _negative),
        ("fig4-decay", "Fig. 4b: a decay of 0.9999 is better than one of 1.0001", _decay),
        ("fig4-decay", "Fig. 4b: the best decay is in [0.995, 0.9999]", _best_decay),
        ("fig3-instances", "Fig. 3a: it is the best for any number of instances", _is_best),
        ("fig3-instances", "Fig. 3a: with more instances all earn more", lambda of: _rise(of, _ALL)),
        ("fig3-instances", "Fig. 3a: with more instances its lead first grows, then shrinks", _peaks),
        ("fig3-contention", "Fig. 3c: from contention 0.1 to 1 all earn more",
         lambda of: _rise({value: of[value] for value in of if float(value) <= 1}, _ALL)),
        ("fig3-contention", "Fig. 3c: beyond 1, all earn less, and its lead shrinks", _falls_beyond_one),
        ("fig3-contention", "Fig. 3c: it is the best at any contention", _is_best),
        ("fig3-contention", "Fig. 6: its overhead rises slowly with contention", _overhead),
        ("fig7", "Fig. 7: it earns much less with log, reciprocal and poly utilities than with linear ones",
         _less_than_linear),
        ("fig7", "Fig. 7: it is the best with any utility", _is_best),
        ("table3", "Table 3: it is the best in every setting", _is_best),
        ("table3-T", "Table 3: it earns more with a longer horizon T", _rises_with_horizon),
        ("table3-rho", "Table 3: it earns more up to rho = 0.7, and less at 0.9", _rho),
        ("table3-density", "Table 3: it earns more in a denser graph", lambda of: _rise(of, (_OWN,))),
        ("fig5", "Fig. 5: it is the best at large scale", _is_best),
    ]  # fmt: skip
    judged = [
        OgaClaim(statement, reading, *judge(of))
        for name, statement, judge in made
        for reading in READINGS
        if (of := _cells(by_name, name, reading))
    ]
    impact = _impact(by_name["fig3-instances"], by_name["fig3-types"])
    place = next(n for n, each in enumerate(judged) if each.statement.startswith("Fig. 3c"))
    weaker = "Fig. 3b: the number of job types matters less than that of instances"
    return [*judged[:place], OgaClaim(weaker, READINGS[0], *impact), *judged[place:]]


def _cells(by_name: Mapping[str, Found], name: str, reading: str) -> Found:
    """Cells of an experiment, or of all that begin so, under a reading; sweeps of size are per channel."""
    found: Found = {}
    for experiment, of in by_name.items():
        whole, _, last = experiment.rpartition("-")
        part, read = (whole, last) if last in READINGS else (experiment, READINGS[0])
        if part != name and not (name in ("table3", "fig4") and part.startswith(f"{name}-")):
            continue
        for value, outcomes in of.items():
            if value in READINGS:  # where readings are the cells themselves
                if value == reading:
                    found[experiment.removeprefix("table3-")] = outcomes
            elif read == reading:
                label = value if part == name else f"{part.partition('-')[2]} {value}"
                found[label] = outcomes
    return found


def _only(of: Found) -> Policies:
    ((_, policies),) = of.items()
    return policies


def _gains(of: Found) -> tuple[str, bool | None]:
    policies = _only(of)
    found = ", ".join(lead(policies, _OWN, partner) for partner in GAINS)
    return found, every(
        gain(policies[_OWN], policies[partner]).at_least(least) for partner, least in GAINS.items()
    )


def _rises_with_time(of: Found) -> tuple[str, bool | None]:
    own = _only(of)[_OWN]
    beside = gain(own, _until(own, _SHARES[0]))
    return f"at the end beside the first tenth: {beside}", beside.above()


def _fairness_is_best(of: Found) -> tuple[str, bool | None]:
    policies = _only(of)
    others = [partner for partner in PARTNERS if partner != "fairness"]
    best = max(others, key=lambda partner: mean(policies[partner]))
    beside = gain(policies["fairness"], policies[best])
    return f"`fairness` beside `{best}`: {beside}", beside.above()


def _overtakes(of: Found) -> tuple[str, bool | None]:
    policies = _only(of)
    found, holds = [], []
    for partner in ("fairness", "drf"):
        first = gain(*(_until(policies[name], _BEGINNING) for name in (_OWN, partner)))
        last = gain(policies[_OWN], policies[partner])
        found.append(f"beside `{partner}` {first} in the first hundredth, {last} in all")
        holds += [first.below(), last.above()]
    return "; ".join(found), every(holds)


def _negative(of: Found) -> tuple[str, bool | None]:
    worst = min(of, key=lambda value: mean(of[value][_OWN]))
    rewards = [outcome.average for outcome in of[worst][_OWN]]
    holds = True if max(rewards) < 0 else False if min(rewards) > 0 else None
    return f"least at {worst}: {mean(of[worst][_OWN]):.0f}", holds


def _decay(of: Found) -> tuple[str, bool | None]:
    beside = gain(of["0.9999"][_OWN], of["1.0001"][_OWN])
    return str(beside), beside.above()


def _best_decay(of: Found) -> tuple[str, bool | None]:
    inside = [value for value in of if _DECAYS[0] <= float(value) <= _DECAYS[1]]
    best, other = (
        max(values, key=lambda value: mean(of[value][_OWN]))
        for values in (inside, [value for value in of if value not in inside])
    )
    beside = gain(of[best][_OWN], of[other][_OWN])
    return f"{best} beside {other}: {beside}", beside.above()


def _is_best(of: Found) -> tuple[str, bool | None]:
    """In each setting above the best partner."""
    found, holds = [], []
    for value, policies in of.items():
        if value == "mixed" or _OWN not in policies or PARTNERS[0] not in policies:
            continue
        means = {partner: mean(policies[partner]) for partner in PARTNERS}
        best = max(means, key=means.__getitem__)
        beside = gain(policies[_OWN], policies[best])
        holds.append(beside.above())
        if not holds[-1]:
            found.append(f"{value} ({beside} beside `{best}`)")
    clear = f"clearly in {sum(each is True for each in holds)} of {len(holds)}"
    return clear + (f"; not clearly at {', '.join(found)}" if found else ""), every(holds)


def _rise(of: Found, names: Sequence[str]) -> tuple[str, bool | None]:
    """From each value to the next."""
    steps = {
        name: [gain(of[after][name], of[before][name]) for before, after in itertools.pairwise(of)]
        for name in names
    }
    rewards = ", ".join(f"{mean(policies[_OWN]):.0f}" for policies in of.values())
    fails = [name for name in names if every(step.above() for step in steps[name]) is not True]
    also = f"; not clearly for {', '.join(f'`{name}`' for name in fails if name != _OWN)}"
    found = f"`{_OWN}` {rewards}" + (also if set(fails) - {_OWN} else "")
    return found, every(step.above() for each in steps.values() for step in each)


def _peaks(of: Found) -> tuple[str, bool | None]:
    leads = {value: _lead_over_fairness(policies) for value, policies in of.items()}
    first, *_, last = of
    most = max(of, key=lambda value: leads[value].mean)
    told = f"over `fairness` {_percentages(leads.values())}"
    if most in (first, last):
        return told, False if difference(leads[first], leads[last]).clear else None
    return told, every(difference(leads[most], leads[end]).above() for end in (first, last))


def _impact(instances: Found, types: Found) -> tuple[str, bool | None]:
    factors = [_factor(of) for of in (instances, types)]
    instances_factor, types_factor = (f"{each.mean:.1f}" for each in factors)
    told = f"most beside least reward: {instances_factor} over instances, {types_factor} over types"
    return told, difference(factors[1], factors[0]).below()


def _falls_beyond_one(of: Found) -> tuple[str, bool | None]:
    at_one, last = of["1"], of[next(reversed(of))]
    rewards = {name: gain(last[name], at_one[name]) for name in _ALL}
    leads = [_lead_over_fairness(policies) for policies in (at_one, last)]
    told = (
        f"at {next(reversed(of))} beside 1: `{_OWN}` {rewards[_OWN]}, `fairness` {rewards['fairness']}; "
        f"its lead over `fairness` {_percentages(leads)}"
    )
    holds = every((*(each.below() for each in rewards.values()), difference(leads[1], leads[0]).below()))
    return told, holds


def _overhead(of: Found) -> tuple[str, bool | None]:
    paid = [[replace(each, average=each.overhead) for each in policies[_OWN]] for policies in of.values()]
    levels = [float(value) for value in of]
    steps = [gain(after, before) for before, after in itertools.pairwise(paid)]
    pairs = zip(steps, itertools.pairwise(levels), strict=True)
    slow = [step.below(after / before - 1) for step, (before, after) in pairs]
    told = f"by a factor of {mean(paid[-1]) / mean(paid[0]):.0f}, contention by {levels[-1] / levels[0]:.0f}"
    return told, every([*(step.at_least(0.0) for step in steps), *slow])


def _less_than_linear(of: Found) -> tuple[str, bool | None]:
    beside = {kind: gain(of[kind][_OWN], of["linear"][_OWN]) for kind in UTILITIES if kind != "linear"}
    return ", ".join(f"{kind} {each}" for kind, each in beside.items()), every(
        each.below() for each in beside.values()
    )


def _rises_with_horizon(of: Found) -> tuple[str, bool | None]:
    own = _only(of)[_OWN]
    averages = [_until(own, share) for share in _SHARES]
    at = [own[0].slots[_place(own[0], share)] for share in _SHARES]
    told = ", ".join(f"{mean(each):.0f} (T = {slot})" for slot, each in zip(at, averages, strict=True))
    return told, every(gain(after, before).above() for before, after in itertools.pairwise(averages))


def _rho(of: Found) -> tuple[str, bool | None]:
    *rising, last = of
    steps = [gain(of[after][_OWN], of[before][_OWN]).above() for before, after in itertools.pairwise(rising)]
    fall = gain(of[last][_OWN], of[rising[-1]][_OWN])
    rewards = ", ".join(f"{mean(policies[_OWN]):.0f}" for policies in of.values())
    return f"{rewards}; from {rising[-1]} to {last}: {fall}", every((*steps, fall.below()))


def _until(outcomes: Sequence[CellOutcome], share: float) -> list[CellOutcome]:
    """Outcomes with the average reward up to that share of the slots."""
    return [replace(each, average=each.curve[_place(each, share)]) for each in outcomes]


def _place(outcome: CellOutcome, share: float) -> int:
    return max(round(share * len(outcome.curve)) - 1, 0)


def _lead_over_fairness(policies: Policies) -> Statistic:
    """By seed, the reward of `oga` as a multiple of FAIRNESS's."""
    pairs = zip(policies[_OWN], policies["fairness"], strict=True)
    return Statistic.of([1 + (own.average - other.average) / abs(other.average) for own, other in pairs])


def _factor(of: Found) -> Statistic:
    """By seed, the most over the least that `oga` earns over the values."""
    columns = zip(*(policies[_OWN] for policies in of.values()), strict=True)
    rewards = [[outcome.average for outcome in column] for column in columns]
    return Statistic.of([max(each) / min(each) for each in rewards])


def _percentages(leads: Iterable[Statistic]) -> str:
    return ", ".join(f"{100 * (each.mean - 1):+.1f} %" for each in leads)
