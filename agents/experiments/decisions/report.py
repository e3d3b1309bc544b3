"""The report on decisions on untuned ground: tables, verdicts and pictures, all from the runs.

The experiments are in `runs.py`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean

import numpy as np

from agents.experiments.decisions.runs import (
    BELIEFS,
    DEARER,
    DRAWING,
    JUDGED,
    LONGER,
    POLICIES,
    CaseLimit,
    CaseNumbers,
    PolicyRun,
    RuleVerdict,
    Task,
    calls_of,
    draws,
    few_calls_of,
    few_case,
    few_tasks,
    not_worse_in_both,
    numbers,
    verdicts,
)
from agents.experiments.decisions.shifted_cases import cases
from agents.experiments.paired import METHOD, difference, over_cases, told, verdict
from agents.experiments.partners import PARTNERS, cheapest
from agents.experiments.reports import TRACES
from agents.experiments.runner import Runner
from agents.experiments.seed_register import SeedRange, refuse_used
from agents.registry import knows
from conf.defaults import BAD_PLACEMENT_FACTOR

#: The two densities of Islam 2022, which are also run with free sizes and by policies that draw.
GOALS = ("normal", "burst")
#: By case and policy.
Found = Mapping[str, Mapping[str, CaseNumbers]]


@dataclass(frozen=True, slots=True)
class Extent:
    """Extent of the runs: small instances, another number of jobs, and whether large cases are left out."""

    small: int = 12
    jobs: int | None = None
    quick: bool = False


QUICK = Extent(small=2, jobs=12, quick=True)


def report(folder: Path, seeds: SeedRange, extent: Extent, runner: Runner) -> Path:
    """Run everything, write decisions.md and its pictures into the folder; returns the path."""
    folder.mkdir(parents=True, exist_ok=True)
    chosen = [each for each in cases() if not (extent.quick and each.large)]
    believed = BELIEFS[1]
    tasks = [
        Task(
            each.name, belief, seed, extent.jobs, limit=belief.exact,
            drawing=each.name in GOALS and belief == believed,
        )
        for each in chosen
        for belief in BELIEFS
        for seed in seeds
    ]  # fmt: skip
    free = [
        Task(name, believed, seed, extent.jobs, sizes=True, drawing=True) for name in GOALS for seed in seeds
    ]
    small = few_tasks(seeds.at_most(extent.small))
    refuse_used(draws([*tasks, *free], small))
    played = runner.run([*few_calls_of(small), *calls_of(tasks), *calls_of(free)])
    few, shifted, of_free = (
        played[: len(small)], played[len(small) : -len(free)], played[-len(free) :]
    )  # fmt: skip
    runs, limits = [run for of, _ in shifted for run in of], [limit for _, limit in shifted if limit]
    path = folder / "decisions.md"
    command = f"stoker reproduce decisions --seeds {len(seeds)}{seeds.option}"
    command += " --quick" if extent.quick else ""
    found = {str(belief): numbers(run for run in runs if run.belief == str(belief)) for belief in BELIEFS}
    goals = {
        "as asked for": {name: found[str(believed)][name] for name in GOALS},
        "free": numbers(run for of, _ in of_free for run in of),
    }
    parts = [_head(command, seeds, len(chosen)), TRACES, _who(), _goals(goals)]
    for belief, cases_of in found.items():
        judged = {name: verdicts(of) for name, of in cases_of.items()}
        parts += [_summary(belief, cases_of, judged), _verdicts(belief, judged)]
        _draw_cases(judged, folder / f"decisions-{belief}.png", belief)
        parts.append(f"![Cost and completion by case, belief {belief}](decisions-{belief}.png)\n")
    parts += [_misled(found[str(believed)]), _cases(found[str(believed)], limits)]
    gangs, optima = [run for of, _ in few for run in of], [limit for _, limit in few if limit]
    parts += [_small(gangs, optima), "![Above the optimum](decisions-small.png)\n", _LIMITS]
    _draw_small(gangs, optima, folder / "decisions-small.png")
    path.write_text("\n".join(parts), encoding="utf-8")
    return path


def _head(command: str, seeds: SeedRange, count: int) -> str:
    return f"""# Decisions on cases that no policy was tuned on

Made by `{command}`: {count} cases
(`agents/experiments/decisions/shifted_cases.py`), with {seeds}.

True durations are the profiles'; beliefs are either exact or have a log-normal error of standard deviation
0.2. Cost is that of eq. 4 (Islam 2022), completion is from submission to end, on average over jobs, and the
longest wait is from submission to start. {METHOD}

In every case a policy is judged by three rules, against the *cheapest of all partners* of that case
({len(PARTNERS)}: `agents/experiments/partners.py`):

1. It is not worse than that partner in both cost and completion (*both*).
2. It costs at most {100 * DEARER:.0f} % more (the difference is shown).
3. No job waits longer than {LONGER:g} times the longest wait under `ff` plus one mean duration (*wait x n*,
   where {LONGER:g} is allowed).
"""


def _who() -> str:
    lines = [
        "## Inputs of each policy",
        "",
        "| policy | inputs, besides the first job of the queue and the free resources |",
        "|---|---|",
    ]
    for contender in POLICIES:
        facts = knows(contender.name, contender.options)
        lines.append(f"| `{contender.label}` | {', '.join(facts or ()) or '-'} |")
    return "\n".join([*lines, "", "All policies that overtake have the same window and the same limit.", ""])


def _goals(of: Mapping[str, Found]) -> str:
    """Both densities under wrong beliefs, with sizes as they are asked for and free."""
    lines = [f"## The two densities of the paper, belief {BELIEFS[1]}", ""]
    for sizes, found in of.items():
        best = {name: _cheapest(policies) for name, policies in found.items()}
        columns = " | ".join(
            f"{name}, $ | beside {best[name]} | completion s | beside it | longest wait s" for name in found
        )
        lines += [f"Sizes {sizes}:", "", f"| policy | {columns} |", "|---|" + "---:|" * 5 * len(found)]
        for contender in (*POLICIES, *DRAWING):
            cells = (
                f"{of_it.cost.mean:.3f} | {difference(of_it.cost, partner.cost)} | "
                f"{of_it.completion.mean:.0f} | {difference(of_it.completion, partner.completion)} | "
                f"{of_it.longest_wait.mean:.0f}"
                for name, policies in found.items()
                for of_it, partner in ((policies[contender.label], policies[best[name]]),)
            )
            lines.append(f"| `{contender.label}` | {' | '.join(cells)} |")
        for name, policies in found.items():
            partner = policies[best[name]]
            ours = min(
                (contender.label for contender in (*JUDGED, *DRAWING)),
                key=lambda label: policies[label].cost.mean,
            )
            cost, completion = (
                difference(policies[ours].cost, partner.cost),
                difference(policies[ours].completion, partner.completion),
            )
            lines += [
                "",
                f"* {name.capitalize()}: of the judged policies `{ours}` has the least mean cost; beside "
                f"`{best[name]}`, the cheapest partner, its cost is {told(cost, 'less', 'more')}, "
                f"its completion {told(completion, 'sooner', 'later')}.",
            ]
        lines.append("")
    lines.append(
        "With free sizes jobs may get down to half their cpus and executors, by the profile's curve; they\n"
        "then use fewer core-seconds, so the lower bounds of rigid jobs do not apply. `ogasched` makes\n"
        "executors smaller in both tables. `draws` is the number of samples of the durations, as wide as\n"
        "the believed error ([belief.md](belief.md)), on which plans are evaluated: by default 16.\n"
    )
    return "\n".join(lines)


def _cheapest(policies: Mapping[str, CaseNumbers]) -> str:
    return cheapest({label: of.cost for label, of in policies.items()})


def _summary(belief: str, found: Found, judged: Mapping[str, Mapping[str, RuleVerdict]]) -> str:
    """Over all cases: each policy beside ff and beside the cheapest partner of each case."""
    lines = [
        f"## All cases, belief {belief}",
        "",
        "Ratios to `ff` are geometric means over cases. *Cost beside the cheapest partner* is the",
        "mean of the differences of cases ± its standard error over cases. A rule is open in a case where it",
        "neither clearly holds nor is clearly broken.",
        "",
        "| policy | cost / ff | completion / ff | cost beside the cheapest partner | dearest case | "
        "broken in | open in |",
        "|---|---:|---:|---:|---|---:|---:|",
    ]
    for contender in POLICIES:
        ratios = [
            [getattr(of[contender.label], name).mean / getattr(of["ff"], name).mean for of in found.values()]
            for name in ("cost", "completion")
        ]
        beside = {
            name: difference(of[contender.label].cost, of[_cheapest(of)].cost) for name, of in found.items()
        }
        worst = max(beside, key=lambda name: beside[name].mean)
        of_it = [of[contender.label] for of in judged.values() if contender.label in of]
        counts = (
            f"{sum(bool(each.broken) for each in of_it)} of {len(found)} | {sum(each.open for each in of_it)}"
            if of_it
            else " | "
        )
        lines.append(
            f"| `{contender.label}` | {geometric_mean(ratios[0]):.3f} | {geometric_mean(ratios[1]):.3f} | "
            f"{over_cases(list(beside.values()))} | {worst} ({beside[worst]}) | {counts} |"
        )
    return "\n".join(lines) + "\n"


def _verdicts(belief: str, judged: Mapping[str, Mapping[str, RuleVerdict]]) -> str:
    """Broken rules, by case and policy."""
    labels = [contender.label for contender in JUDGED]
    lines = [
        f"Broken rules, belief {belief}:",
        "",
        "| case | cheapest partner | " + " | ".join(f"`{label}`" for label in labels) + " |",
        "|---|---|" + "---|" * len(labels),
    ]
    for name, of in judged.items():
        cells = (", ".join(of[label].broken) or ("open" if of[label].open else "ok") for label in labels)
        lines.append(f"| {name} | `{of[labels[0]].partner}` | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _misled(found: Found) -> str:
    """The cases in which beliefs about placements are wrong, beside first fit, which has none."""
    names = [each.name for each in cases() if each.misleading]
    lines = [
        f"## Wrong beliefs about placements, belief {BELIEFS[1]}",
        "",
        "Policies are shown the profiles' preferences, and expect a job to take "
        f"{BAD_PLACEMENT_FACTOR:g} times as long",
        "where it is not placed so. In these cases the truth is another: every type prefers the opposite, or",
        "placement has no effect, or a larger one. `ff` has no beliefs; a policy should not be worse than it",
        "in both cost and completion.",
        "",
        "| case | policy | cost beside `ff` | completion beside it | not worse in both |",
        "|---|---|---:|---:|---|",
    ]
    for name in names:
        of = found[name]
        for contender in JUDGED:
            cost = difference(of[contender.label].cost, of["ff"].cost)
            completion = difference(of[contender.label].completion, of["ff"].completion)
            lines.append(
                f"| {name} | `{contender.label}` | {cost} | {completion} | "
                f"{verdict(not_worse_in_both(cost, completion))} |"
            )
    return "\n".join(lines) + "\n"


def _cases(found: Found, limits: Sequence[CaseLimit]) -> str:
    """Cost of all policies case by case, beside the limit."""
    labels = [contender.label for contender in POLICIES]
    lines = [
        f"## Cost by case, belief {BELIEFS[1]}, and the lower bound",
        "",
        "No schedule that gives jobs their requested sizes costs less than the *lower bound*; *best known*",
        "is the cheapest schedule that a search with all jobs known in advance found (`stoker bound`",
        "searches longer).",
        "",
        "| case | lower bound | best known | " + " | ".join(f"`{label}`" for label in labels) + " |",
        "|---|" + "---:|" * (len(labels) + 2),
    ]
    for name, of in found.items():
        mine = [limit for limit in limits if limit.case == name]
        bounds = " | ".join(
            f"{np.mean(of):.3f}" for of in ([limit.lower for limit in mine], [limit.best for limit in mine])
        )
        lines.append(
            f"| {name} | {bounds} | " + " | ".join(f"{of[label].cost.mean:.3f}" for label in labels) + " |"
        )
    return "\n".join(lines) + "\n"


def _small(runs: Sequence[PolicyRun], limits: Sequence[CaseLimit]) -> str:
    """Distance of policies from the optimum of small instances."""
    comes, at_once = (_above(runs, limits, at_once=way) for way in (False, True))
    proven, proven_at_once = (
        sum(limit.proven for limit in limits if limit.case == few_case(limit.seed, at_once=way))
        for way in (False, True)
    )
    lines = [
        "## Small instances and their optimum",
        "",
        f"{len(limits) // 2} instances of five or six gangs on three or four VMs, with exact beliefs: once",
        "with gangs that arrive within minutes, once with the same gangs all queued at the start. The",
        "optimum in cost (`stoker bound`) knows all arrivals; with all gangs queued at the start, so does a",
        (
            f"policy that sees the queue. The optimum is proven for {proven} and {proven_at_once} "
            "instances; for the"
        ),
        "others the best known schedule is used.",
        "",
        "| policy | above the optimum | at most | all queued at the start | at most |",
        "|---|---:|---:|---:|---:|",
    ]
    for policy, shares in sorted(comes.items(), key=lambda item: float(np.mean(item[1]))):
        cells = [f"{100 * of:.1f} %" for way in (shares, at_once[policy]) for of in (np.mean(way), max(way))]
        lines.append(f"| `{policy}` | {' | '.join(cells)} |")
    open_ones = [limit.best / limit.lower - 1 for limit in limits if not limit.proven]
    if open_ones:
        lines += [
            "",
            f"Where the optimum is not proven, the best known cost is {100 * np.mean(open_ones):.1f} % above "
            "the lower bound.",
        ]
    return "\n".join(
        [*lines, "", "`ogasched` gives jobs less than they ask for, so it can be below the optimum.", ""]
    )


def _above(
    runs: Sequence[PolicyRun], limits: Sequence[CaseLimit], *, at_once: bool
) -> dict[str, list[float]]:
    """Share by which each instance costs more than its best known schedule, by policy."""
    best = {limit.case: limit.best for limit in limits}
    found: dict[str, list[float]] = {}
    for run in runs:
        if run.case == few_case(run.seed, at_once=at_once):
            found.setdefault(run.policy, []).append(run.cost / best[run.case] - 1)
    return found


def _draw_cases(judged: Mapping[str, Mapping[str, RuleVerdict]], path: Path, belief: str) -> None:
    """Draw cost and completion of the judged policies beside the cheapest partner, with standard errors."""
    from matplotlib.figure import Figure  # a second to import, and only pictures need it

    figure = Figure(figsize=(12, 8), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    for number, contender in enumerate(JUDGED):
        of = [verdict[contender.label] for verdict in judged.values()]
        places = [place + 0.06 * (number - len(JUDGED) / 2) for place in range(len(of))]
        for axes, found in zip(panels, ([v.dearer for v in of], [v.later for v in of]), strict=True):
            means = [100 * each.mean for each in found]
            errors = [100 * each.error if np.isfinite(each.error) else 0.0 for each in found]
            marker = "osD^v<>p"[number % 8]
            axes.errorbar(
                means, places, xerr=errors, fmt=marker, markersize=4, elinewidth=0.6, label=contender.label
            )
    for axes, title in zip(panels, ("cost", "completion"), strict=True):
        axes.axvline(0.0, color="black", linewidth=0.8)
        axes.set(xlabel=f"{title}, % beside the cheapest partner; belief {belief}")
        axes.grid(alpha=0.3)
    panels[0].set_yticks(range(len(judged)), list(judged))
    panels[0].invert_yaxis()
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    figure.savefig(path, dpi=90)


def _draw_small(runs: Sequence[PolicyRun], limits: Sequence[CaseLimit], path: Path) -> None:
    from matplotlib.figure import Figure

    comes, at_once = (_above(runs, limits, at_once=way) for way in (False, True))
    policies = sorted(comes, key=lambda policy: -np.mean(comes[policy]))
    figure = Figure(figsize=(8, 6), layout="constrained")
    axes = figure.subplots()
    for shift, of, label in ((0.2, comes, "as they come"), (-0.2, at_once, "all queued at the start")):
        places = [number + shift for number in range(len(policies))]
        axes.barh(places, [100 * np.mean(of[policy]) for policy in policies], 0.4, label=label)
    axes.set_yticks(range(len(policies)), policies)
    axes.set(xlabel="% above the optimum in cost, mean over small instances")
    axes.grid(axis="x", alpha=0.3)
    axes.legend(loc="upper right")
    figure.savefig(path, dpi=90)


_LIMITS = """## Reasons for broken rules

* `greedy` places each job by the cost and time that this job adds, and weighs time with four fifths: under
  light load, where no job waits for room, it pays for the faster placement where `ilp` chooses the cheaper
  one.
* `dqn` was trained on the paper's cluster alone, and its network sees times and prices on fixed
  scales (`tests/agents/baselines/test_scales.py` expects it to depend on both): elsewhere it waits where it
  should not.
* `ogasched` gives executors less than they ask for, which saves cost where many jobs wait, and adds cost
  where none waits.
* The optimum of small instances knows all arrivals; most of the distance to it is out of reach of a policy
  that does not.

Not covered: pools of VMs that are opened and closed ([elastic.md](elastic.md)), and durations
that depend on who shares a VM ([fidelity.md](fidelity.md)).
"""
