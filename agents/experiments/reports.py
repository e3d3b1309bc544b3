"""Reports in Markdown with their plots, as `stoker reproduce` writes them into docs/results."""

from collections.abc import Sequence
from pathlib import Path

from agents.experiments.comparison import (
    FIRST_SEED,
    Contender,
    Progress,
    SimulatedRun,
    Statistic,
    durations_of,
    knowledge,
    statistics_of,
    undrawn,
)
from agents.experiments.islam2022.runs import PATTERNS, play, scenes
from environment.simulation.durations.beliefs import Belief

#: All baselines at their defaults, and those that weigh cost against time at three weights.
BASELINES = (
    *(Contender(name) for name in ("rr", "rrc", "ff", "best_fit", "least_allocated", "most_allocated")),
    *(Contender(name) for name in ("dominant_fit", "drf", "random", "aep")),
    *(Contender("ilp", {"beta": beta}) for beta in (0.0, 0.5, 1.0)),
    *(Contender("lookahead", {"beta": beta}) for beta in (0.0, 0.5, 1.0)),
)
#: What overtaking alone is worth: the same policies with it, and those that have it in ways of their own.
OVERTAKING = tuple(
    Contender(name, {"overtake": way})
    for name in ("ff", "aep", "ilp")
    for way in ("first_fit", "easy", "best")
)
OF_THEIR_OWN = (
    *(Contender("greedy", {"beta": beta}) for beta in (0.2, 0.5, 1.0)),
    *(Contender("reinforce", {"beta": beta}) for beta in (0.5, 1.0)),
)

_TITLES = {
    "cost": "cost ($)",
    "cost_over_bound": "cost / bound",
    "average_duration": "duration (s)",
    "average_completion": "completion (s)",
    "p95_completion": "95 % completion (s)",
    "longest_wait": "longest wait (s)",
    "good_placements": "good placements",
    "violations": "violations",
    "decision_p50_us": "decision (µs)",
}


def report_baselines(
    folder: Path, count: int, belief: Belief | None = None, progress: Progress | None = None
) -> Path:
    """Compare all baselines on the paper's cluster at both densities over `count` seeds; returns the path."""
    folder.mkdir(parents=True, exist_ok=True)
    seeds = range(FIRST_SEED, FIRST_SEED + count)
    belief = belief or Belief()
    runs = play(scenes(), (*BASELINES, *OVERTAKING, *OF_THEIR_OWN), count, progress, belief)
    parts = [_HEAD.format(count=count, first=seeds[0], last=seeds[-1], belief=belief)]
    parts.append(_worth(runs))
    for workload in PATTERNS:
        chosen = [run for run in runs if run.workload == workload]
        plot = folder / f"baselines-{workload}.png"
        draw(
            statistics_of(chosen),
            f"{workload}, {count} seeds: truth profile, belief {belief}",
            plot,
        )
        parts += [f"## {workload.capitalize()}\n", table(chosen), f"![{workload}]({plot.name})\n"]
        parts.append(_findings(statistics_of(chosen)))
    path = folder / "baselines.md"
    path.write_text("\n".join(parts), encoding="utf-8")
    return path


def table(runs: Sequence[SimulatedRun]) -> str:
    """A Markdown table: a row for each policy, mean ± standard deviation over seeds, where these differ."""
    found, same, seeds = statistics_of(runs), undrawn(runs), len({run.seed for run in runs})
    head = (
        "| policy | knows | " + " | ".join(_TITLES.values()) + " |\n|---|---|" + "---:|" * len(_TITLES) + "\n"
    )
    rows = (
        f"| `{policy}` | {knowledge(policy)} | "
        + " | ".join(_cell(metric, of[metric], seeds > 1 and policy not in same) for metric in _TITLES)
        + " |\n"
        for policy, of in found.items()
    )
    told = f"All {seeds} seeds are the same run with {', '.join(f'`{policy}`' for policy in same)}.\n"
    return head + "".join(rows) + f"\n{told if same else ''}{durations_of(runs)}\n"


def _worth(runs: Sequence[SimulatedRun]) -> str:
    """A table of the effect of overtaking, seed by seed: cost and completion with it, over those without."""
    rows, ran = [], {run.policy for run in runs}
    for name in (name for name in ("ff", "aep", "ilp:beta=0.5") if name in ran):
        plain = name.partition(":")[0]
        for way in ("first_fit", "easy", "best"):
            own = next(who.label for who in OVERTAKING if who.label.startswith(f"{plain}:overtake={way}"))
            cells = [
                f"{_change(runs, workload, own, name, metric):+.1%}"
                for workload in PATTERNS
                for metric in ("cost", "average_completion")
            ]
            rows.append(f"| `{own}` | `{name}` | " + " | ".join(cells) + " |\n")
    for who in (*OF_THEIR_OWN, *(each for each in BASELINES if each.name == "lookahead")):
        cells = [
            f"{_change(runs, workload, who.label, 'aep:overtake=best', metric):+.1%}"
            for workload in PATTERNS
            for metric in ("cost", "average_completion")
        ]
        rows.append(f"| `{who.label}` | `aep:overtake=best` | " + " | ".join(cells) + " |\n")
    of = [f"{workload}: {what}" for workload in PATTERNS for what in ("cost", "completion")]
    head = "| policy | against | " + " | ".join(of) + " |\n|---|---|" + "---:|" * len(of) + "\n"
    return f"{_WORTH}\n{head}{''.join(rows)}\n{durations_of(runs)}\n"


def _change(runs: Sequence[SimulatedRun], workload: str, policy: str, other: str, metric: str) -> float:
    """Share by which the mean of a policy is above that of another."""
    found = statistics_of([run for run in runs if run.workload == workload])
    return found[policy][metric].mean / found[other][metric].mean - 1.0


def draw(found: dict[str, dict[str, Statistic]], title: str, path: Path) -> None:
    """Draw every policy's mean cost against its mean completion time, with spreads, into a PNG file."""
    from matplotlib.figure import Figure  # a second to import, and only pictures need it

    figure = Figure(figsize=(8, 5.5), layout="constrained")
    axes = figure.subplots()
    for number, (policy, of) in enumerate(found.items()):
        cost, completion = of["cost"], of["average_completion"]
        axes.errorbar(
            completion.mean,
            cost.mean,
            xerr=completion.spread,
            yerr=cost.spread,
            marker="osD^v<>ph"[number % 9],
            color=f"C{number % 10}",
            linestyle="none",
            elinewidth=0.6,
            alpha=0.9,
            label=policy,
        )
    axes.set(xlabel="average completion time (s), waiting included", ylabel="cost ($)", title=title)
    axes.grid(alpha=0.3)
    figure.legend(loc="outside right upper", fontsize="small")
    figure.savefig(path, dpi=110)


def _cell(metric: str, value: Statistic, several: bool) -> str:
    digits = {"cost": 3, "cost_over_bound": 2}.get(metric, 1 if value.mean < 100 else 0)
    if metric in ("violations", "decision_p50_us"):
        return f"{value.mean:.0f}"
    return f"{value.mean:.{digits}f}" + (f" ± {value.spread:.{digits}f}" if several else "")


def _findings(found: dict[str, dict[str, Statistic]]) -> str:
    lines = []
    for metric, what in (
        ("cost", "Cheapest"),
        ("average_duration", "Shortest duration"),
        ("average_completion", "Shortest completion"),
    ):
        ranking = sorted(found, key=lambda policy: found[policy][metric].mean)
        best, second, worst = ranking[0], ranking[1], ranking[-1]
        lead = 1 - found[best][metric].mean / found[second][metric].mean
        gap = 1 - found[best][metric].mean / found[worst][metric].mean
        lines.append(
            f"* {what}: `{best}`, {lead:.1%} below `{second}` and {gap:.1%} below `{worst}`, the last."
        )
    return "\n".join(lines) + "\n"


_HEAD = """# The baselines on the paper's workloads

Made by `stoker reproduce baselines --seeds {count} --belief {belief}`:
every policy on the same {count} generated workloads (seeds {first} to {last}) of each density of Islam 2022,
7.1, normal (50 jobs, Poisson arrivals at 50 an hour) and burst (100 jobs at 600 an hour), on the paper's
cluster of twelve VMs. Durations come from `profiles/data/paper.yaml`, whose numbers are chosen, as the paper
does not print its own; so compare policies with each other, not with the paper's dollars. Cells are the mean
and the standard deviation over seeds.

*Cost* is eq. 4. The *bound* is what perfect packing on the cheapest cores would cost; no schedule stays
below it. *Duration* is from start to end (the paper's "job duration"), *completion* from submission to
end, the *longest wait* from submission to start. A *violation* is a decision that could not be executed.
Under *knows* stands on what a policy's decisions depend; how well durations and ends are known says the
belief ([belief.md](belief.md)). beta 1 weighs cost only, beta 0 time only (`lookahead` keeps a twentieth of
the other in both). Constants of `lookahead` were chosen on seeds 0 to 15, those of `greedy` on 200 to 306,
trained policies on others still; none is among these. Decisions were timed on a machine that did other work
besides.

Policies with `overtake` in their names look at 256 jobs of the queue and let at most 128 go before its
oldest, and so do `greedy`, `drf`, `lookahead` and the trained ones. The others serve first come, first
served.
"""
_WORTH = """## What overtaking alone is worth

The same policy with and without it; and those that overtake in ways of their own, against the best of
backfilling. Shares are of means over all seeds.
"""
