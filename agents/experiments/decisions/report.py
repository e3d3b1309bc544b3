"""The report on decisions on untuned ground: tables, verdicts and pictures, all from the runs.

The experiments are in `runs.py`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from agents.experiments.comparison import Progress
from agents.experiments.decisions.runs import (
    BELIEFS,
    DEARER,
    DRAWING,
    FIRST_COME,
    FIRST_SEED,
    JUDGED,
    LONGER,
    PARTNERS,
    POLICIES,
    CaseLimit,
    Mean,
    PolicyRun,
    Task,
    few_case,
    means,
    play,
    play_small,
    verdicts,
)
from agents.experiments.decisions.shifted_cases import cases
from agents.registry import knows

#: The two densities of Islam 2022, of which more seeds are run, with sizes as asked for and free.
GOALS = ("normal", "burst")
_GOAL_SEEDS = 3


@dataclass(frozen=True, slots=True)
class Extent:
    """Extent of the runs."""

    seeds: int = 3
    small: int = 12
    #: Another number of jobs, and whether cases on hundreds of VMs are left out.
    jobs: int | None = None
    quick: bool = False


QUICK = Extent(seeds=1, small=2, jobs=12, quick=True)


def report(
    folder: Path, extent: Extent, progress: Progress | None = None, workers: int | None = None
) -> Path:
    """Run everything, write decisions.md and its pictures into the folder; returns the path."""
    folder.mkdir(parents=True, exist_ok=True)
    chosen = [each for each in cases() if not (extent.quick and each.large)]
    shifted = [
        Task(each.name, belief, seed, extent.jobs, limit=belief.exact)
        for each in chosen
        for belief in BELIEFS
        for seed in range(FIRST_SEED, FIRST_SEED + extent.seeds)
    ]
    goals = [
        Task(name, BELIEFS[1], seed, extent.jobs, sizes=free, drawing=True)
        for free in (False, True)
        for name in GOALS
        for seed in range(FIRST_SEED, FIRST_SEED + _GOAL_SEEDS * extent.seeds)
    ]
    rigid = [task for task in goals if not task.sizes]
    small, optima = play_small(extent.small, progress, workers)
    runs, limits = play(shifted, progress, workers)
    of_goals = {free: play(tasks, progress, workers)[0] for free, tasks in (
        ("as asked for", rigid), ("free", [task for task in goals if task.sizes])
    )}  # fmt: skip
    path = folder / "decisions.md"
    command = "stoker reproduce decisions" + (" --quick" if extent.quick else f" --seeds {extent.seeds}")
    parts = [_head(command, extent, len(chosen)), _who(), _goals(of_goals)]
    for belief in BELIEFS:
        found = means(run for run in runs if run.belief == str(belief))
        parts += [_summary(str(belief), found), _verdicts(str(belief), found)]
        _draw_cases(found, folder / f"decisions-{belief}.png", str(belief))
        parts.append(f"![Cost and completion by case, belief {belief}](decisions-{belief}.png)\n")
    parts.append(_cases(means(run for run in runs if run.belief == str(BELIEFS[1])), limits))
    parts += [_small(small, optima), "![Above the optimum](decisions-small.png)\n", _LIMITS]
    _draw_small(small, optima, folder / "decisions-small.png")
    path.write_text("\n".join(parts), encoding="utf-8")
    return path


def _head(command: str, extent: Extent, count: int) -> str:
    last = FIRST_SEED + extent.seeds - 1
    return f"""# Decisions where nobody tuned anything

Made by `{command}`: {count} cases (`agents/experiments/decisions/shifted_cases.py`), the seeds {FIRST_SEED}
to {last}, on which nothing was chosen or trained, beliefs exact and wrong by a log-normal error with a
standard deviation of 0.2. Cost is that of eq. 4 (Islam 2022), completion is from submission to end, on
average over jobs, and the longest wait is from submission to start. In every case a policy is judged by three
rules, against `ff`, `aep` and `ilp` that serve first come, first served:

1. It is not worse than the cheapest of these in both cost and completion (*both*).
2. It is no more than {100 * (DEARER - 1):.0f} % dearer than that one (*+n %*).
3. Nobody waits longer than {LONGER:g} times the longest wait under `ff` and one mean duration (*wait x n*,
   where 2 is allowed).
"""


def _who() -> str:
    lines = ["## Who knows what", "", "| policy | knows, beside the head and what is free |", "|---|---|"]
    for who in POLICIES:
        facts = knows(who.name, who.options)
        lines.append(f"| `{who.label}` | {', '.join(facts or ()) or '-'} |")
    return "\n".join([*lines, "", "All that overtake have the same window and the same bound.", ""])


def _goals(of: Mapping[str, Sequence[PolicyRun]]) -> str:
    """Both densities under wrong beliefs, with sizes as they are asked for and free."""
    lines = [f"## The two densities of the paper, belief {BELIEFS[1]}", ""]
    seeds = len({run.seed for runs in of.values() for run in runs})
    for sizes, runs in of.items():
        found = means(runs)
        columns = " | ".join(f"{name}, $ | completion s | longest wait s" for name in found)
        lines += [
            f"Sizes {sizes}, {seeds} seeds:",
            "",
            f"| policy | {columns} |",
            "|---|" + "---:|" * 3 * len(found),
        ]
        for who in (*POLICIES, *DRAWING):
            cells = (
                f"{mean.cost:.3f} | {mean.completion:.0f} | {mean.longest_wait:.0f}"
                for mean in (policies[who.label] for policies in found.values())
            )
            lines.append(f"| `{who.label}` | {' | '.join(cells)} |")
        for name, policies in found.items():
            fair = min(
                (who.label for who in (*FIRST_COME, *PARTNERS)), key=lambda label: policies[label].cost
            )
            best = min((who.label for who in (*JUDGED, *DRAWING)), key=lambda label: policies[label].cost)
            share = 100 * (policies[best].cost / policies[fair].cost - 1)
            lines += [
                "",
                f"* {name.capitalize()}: of those that are judged {_said(best, policies[best])} is cheapest, "
                f"{share:+.1f} % beside the cheapest partner, {_said(fair, policies[fair])}.",
            ]
        lines.append("")
    lines.append(
        "With free sizes jobs may get as little as half their cpus and executors, by the profile's curve;\n"
        "they take fewer core-seconds then, so no limit of rigid jobs holds for them. `ogasched` makes\n"
        "executors smaller in both tables. With `draws=32` plans are valued by what jobs may take as well,\n"
        "as far as beliefs are said to err ([belief.md](belief.md)), at eight times the work.\n"
    )
    return "\n".join(lines)


def _said(label: str, mean: Mean) -> str:
    return f"`{label}` ({mean.cost:.3f} $, {mean.completion:.0f} s)"


def _summary(belief: str, found: Mapping[str, Mapping[str, Mean]]) -> str:
    """Over all cases: how each policy compares with ff."""
    lines = [
        f"## All cases, belief {belief}",
        "",
        "Ratios to `ff`, geometric means over cases; a rule counts as broken by case.",
        "",
    ]
    lines += [
        "| policy | cost | completion | longest wait | dearest case | rules broken in |",
        "|---|---:|---:|---:|---|---:|",
    ]
    judged = {name: verdicts(dict(of)) for name, of in found.items()}
    for who in POLICIES:
        costs = {name: of[who.label].cost / of["ff"].cost for name, of in found.items()}
        times = [of[who.label].completion / of["ff"].completion for of in found.values()]
        waits = [
            of[who.label].longest_wait / of["ff"].longest_wait
            for of in found.values()
            if of["ff"].longest_wait > 1.0
        ]
        worst = max(costs, key=costs.__getitem__)
        broken = (
            ""
            if who not in JUDGED
            else f"{sum(bool(of[who.label].broken) for of in judged.values())} of {len(found)}"
        )
        lines.append(
            f"| `{who.label}` | {_geometric(list(costs.values())):.3f} | {_geometric(times):.3f} | "
            f"{_geometric(waits):.2f} | {worst} ({costs[worst]:.2f}) | {broken} |"
        )
    return "\n".join(lines) + "\n"


def _verdicts(belief: str, found: Mapping[str, Mapping[str, Mean]]) -> str:
    """Broken rules, by case and policy."""
    labels = [who.label for who in JUDGED]
    lines = [
        f"Rules that are broken, belief {belief}:",
        "",
        "| case | " + " | ".join(f"`{label}`" for label in labels) + " |",
    ]
    lines.append("|---|" + "---|" * len(labels))
    for name, of in found.items():
        judged = verdicts(dict(of))
        lines.append(
            f"| {name} | " + " | ".join(", ".join(judged[label].broken) or "ok" for label in labels) + " |"
        )
    return "\n".join(lines) + "\n"


def _cases(found: Mapping[str, Mapping[str, Mean]], limits: Sequence[CaseLimit]) -> str:
    """Cost of all policies case by case, beside the limit."""
    labels = [who.label for who in POLICIES]
    lines = [
        f"## Dollars by case, belief {BELIEFS[1]}, and the limit",
        "",
        "No schedule that gives jobs what they ask for costs less than the *lower bound*; *best known* is",
        "what a search found that knows all jobs to come (`stoker bound` searches longer).",
        "",
        "| case | lower bound | best known | " + " | ".join(f"`{label}`" for label in labels) + " |",
        "|---|" + "---:|" * (len(labels) + 2),
    ]
    for name, of in found.items():
        mine = [limit for limit in limits if limit.case == name]
        bounds = f"{fmean(limit.lower for limit in mine):.3f} | {fmean(limit.best for limit in mine):.3f}"
        lines.append(
            f"| {name} | {bounds} | " + " | ".join(f"{of[label].cost:.3f}" for label in labels) + " |"
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
        f"{len(limits) // 2} instances of five or six gangs on three or four VMs, beliefs exact: as the",
        "gangs come, within minutes, and with the same gangs all there at the start. The optimum in cost",
        "(`stoker bound`) knows who will come; where all are there, so does a policy that sees the queue.",
        f"Of {proven} and {proven_at_once} it is proven, of the others the best known schedule is taken.",
        "",
        "| policy | above the optimum | at most | all there at the start | at most |",
        "|---|---:|---:|---:|---:|",
    ]
    for policy, shares in sorted(comes.items(), key=lambda item: fmean(item[1])):
        cells = [f"{100 * of:.1f} %" for way in (shares, at_once[policy]) for of in (fmean(way), max(way))]
        lines.append(f"| `{policy}` | {' | '.join(cells)} |")
    open_ones = [limit.best / limit.lower - 1 for limit in limits if not limit.proven]
    if open_ones:
        lines += [
            "",
            f"Where it is not proven, the best known is {100 * fmean(open_ones):.1f} % over the lower bound.",
        ]
    return "\n".join(
        [*lines, "", "`ogasched` gives jobs less than they ask for, so that it can be below.", ""]
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


def _geometric(values: Sequence[float]) -> float:
    product = 1.0
    for value in values:
        product *= value ** (1 / len(values))
    return product


def _draw_cases(found: Mapping[str, Mapping[str, Mean]], path: Path, belief: str) -> None:
    """Cost and completion of those that are judged, as ratios to the cheapest first-come baseline."""
    from matplotlib.figure import Figure  # a second to import, and only pictures need it

    figure = Figure(figsize=(12, 8), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    names = list(found)
    for number, who in enumerate(JUDGED):
        of = [verdicts(dict(found[name]))[who.label] for name in names]
        for axes, values in zip(panels, ([v.dearer for v in of], [v.later for v in of]), strict=True):
            axes.scatter(values, range(len(names)), s=22, marker="osD^v<>p"[number % 8], label=who.label)
    for axes, title in zip(panels, ("cost", "completion"), strict=True):
        axes.axvline(1.0, color="black", linewidth=0.8)
        axes.set(xscale="log", xlabel=f"{title}, of the cheapest of ff, aep and ilp; belief {belief}")
        axes.grid(alpha=0.3)
    panels[0].set_yticks(range(len(names)), names)
    panels[0].invert_yaxis()
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    figure.savefig(path, dpi=90)


def _draw_small(runs: Sequence[PolicyRun], limits: Sequence[CaseLimit], path: Path) -> None:
    from matplotlib.figure import Figure

    comes, at_once = (_above(runs, limits, at_once=way) for way in (False, True))
    policies = sorted(comes, key=lambda policy: -fmean(comes[policy]))
    figure = Figure(figsize=(8, 6), layout="constrained")
    axes = figure.subplots()
    for shift, of, label in ((0.2, comes, "as they come"), (-0.2, at_once, "all there at the start")):
        places = [number + shift for number in range(len(policies))]
        axes.barh(places, [100 * fmean(of[policy]) for policy in policies], 0.4, label=label)
    axes.set_yticks(range(len(policies)), policies)
    axes.set(xlabel="% above the optimum in cost, mean over small instances")
    axes.grid(axis="x", alpha=0.3)
    axes.legend(loc="upper right")
    figure.savefig(path, dpi=90)


_LIMITS = """## Where rules are broken, and why

* `greedy` places each job by what that job adds, and counts time for four fifths: in light load,
  where nobody waits for room, it pays for the shorter way where `ilp` takes the cheaper one. With
  `beta=1.0` it is 10 % cheaper in normal (`stoker simulate --workload normal --seed 200 --seeds 2
  --belief 0.2 --policy ilp,greedy,greedy:beta=1`: 3.05, 3.41 and 3.07 $), and still without a plan
  for all that wait.
* `reinforce:beta=1.0` is beaten in both by little: in normal by 0.1 % in cost and 1 s. With either
  beta it is 7 to 11 % dearer in light load on other VM types, which training drew at random.
* `dqn` was trained on the paper's cluster alone, and its network sees times and prices on fixed
  scales (`tests/agents/baselines/test_scales.py` expects it to depend on both): elsewhere it waits where it
  should not. Take `reinforce`.
* `ogasched` gives executors less than they ask for, which pays where many wait, and costs where
  nobody does.
* On small instances `lookahead` stays 17 % above an optimum that knows who will come, and 8 % where
  all are there: most of that is not to be had by who does not know.

Not covered: pools of VMs that are opened and closed ([elastic.md](elastic.md)), and durations
that depend on who shares a VM ([fidelity.md](fidelity.md)).
"""
