"""Reports in Markdown with their plots, as `stoker reproduce` writes them into docs/results."""

from collections.abc import Sequence
from pathlib import Path

from agents.experiments.comparison import (
    Contender,
    SimulatedRun,
    durations_of,
    knowledge,
    statistics_of,
    undrawn,
)
from agents.experiments.islam2022.runs import PATTERNS, PaperRuns, play, scenes
from agents.experiments.paired import METHOD, Statistic, difference, told
from agents.experiments.partners import PARTNERS, cheapest
from agents.experiments.runner import Runner
from agents.experiments.seed_register import SeedRange
from conf.util.counted import counted
from environment.simulation.durations.beliefs import Belief

#: All baselines at their defaults, and those that weigh cost against time at three weights.
BASELINES = (
    *(Contender(name) for name in ("rr", "rrc", "ff", "best_fit", "least_allocated", "most_allocated")),
    *(Contender(name) for name in ("dominant_fit", "drf", "random", "aep")),
    *(Contender("ilp", {"beta": beta}) for beta in (0.0, 0.5, 1.0)),
)
#: The gain from overtaking alone: the same policies with it.
OVERTAKING = tuple(
    Contender(name, {"overtake": way})
    for name in ("ff", "aep", "ilp")
    for way in ("first_fit", "easy", "best")
)
#: Policies of ours, which overtake in ways of their own.
OURS = (
    *(Contender("greedy", {"beta": beta}) for beta in (0.2, 0.5, 1.0)),
    *(Contender("reinforce", {"beta": beta}) for beta in (0.5, 1.0)),
    *(Contender("lookahead", {"beta": beta}) for beta in (0.0, 0.5, 1.0)),
)

#: Parts of traces that no report's workload has, for all reports with such workloads.
TRACES = """Workloads of Facebook's traces lack the paths of inputs and outputs, those of Alibaba's lack GPUs
and tasks that never ran. `stoker workload NAME` counts what is left out.
"""

_TITLES = {
    "cost": "cost ($)",
    "cost_over_bound": "cost / bound",
    "average_duration": "duration (s)",
    "average_completion": "completion (s)",
    "p95_completion": "95 % completion (s)",
    "longest_wait": "longest wait (s)",
    "good_placements": "good placements",
    "fallback_share": "fallback",
    "decision_p50_us": "decision (µs)",
}


def report_baselines(
    folder: Path, seeds: SeedRange, runner: Runner, belief: Belief | None = None, jobs: int | None = None
) -> Path:
    """Compare all baselines and ours on the paper's cluster at both densities; returns the path.

    `jobs` is another number of jobs than 50 and 100.
    """
    folder.mkdir(parents=True, exist_ok=True)
    belief = belief or Belief()
    # Each once, where a partner is a baseline or overtakes.
    everyone = tuple(
        {contender.label: contender for contender in (*BASELINES, *OVERTAKING, *PARTNERS, *OURS)}.values()
    )
    (runs,) = play([PaperRuns(scenes(jobs), everyone, seeds, belief)], runner)
    parts = [_HEAD.format(seeds=seeds, count=len(seeds), belief=belief, method=METHOD)]
    parts += [_worth(runs), _ours(runs)]
    for workload in PATTERNS:
        chosen = [run for run in runs if run.workload == workload]
        plot = folder / f"baselines-{workload}.png"
        title = f"{workload}, {counted(len(seeds), 'seed')}: truth profile, belief {belief}"
        draw(statistics_of(chosen), title, plot)
        parts += [f"## {workload.capitalize()}\n", table(chosen), f"![{workload}]({plot.name})\n"]
        parts.append(_findings(statistics_of(chosen)))
    path = folder / "baselines.md"
    path.write_text("\n".join(parts), encoding="utf-8")
    return path


def table(runs: Sequence[SimulatedRun]) -> str:
    """A Markdown table: a row for each policy, mean ± standard deviation, and cost beside the cheapest."""
    found, same, seeds = statistics_of(runs), undrawn(runs), len({run.seed for run in runs})
    least = min(found, key=lambda policy: found[policy]["cost"].mean)
    titles = list(_TITLES.values())
    titles[1:1] = [f"cost beside `{least}`"]
    head = "| policy | knows | " + " | ".join(titles) + " |\n|---|---|" + "---:|" * len(titles) + "\n"
    rows = []
    for policy, of in found.items():
        cells = [_cell(metric, of[metric], seeds > 1 and policy not in same) for metric in _TITLES]
        beside = difference(of["cost"], found[least]["cost"])
        apart = f"{100 * beside.mean:+.1f} %" if {policy, least} <= set(same) else str(beside)
        cells[1:1] = ["" if policy == least else apart]
        rows.append(f"| `{policy}` | {knowledge(policy)} | " + " | ".join(cells) + " |\n")
    alike = (
        f"All {counted(seeds, 'seed')} are the same run with {', '.join(f'`{policy}`' for policy in same)}.\n"
    )
    return head + "".join(rows) + f"\n{alike if same else ''}{durations_of(runs)}\n"


def _worth(runs: Sequence[SimulatedRun]) -> str:
    """A table of the effect of overtaking: cost and completion with it beside those without."""
    ran = {run.policy for run in runs}
    rows = [
        (own, name)
        for name in ("ff", "aep", "ilp:beta=0.5")
        for way in ("first_fit", "easy", "best")
        for own in (f"{name.partition(':')[0]}:overtake={way}",)
        if {own, name} <= ran
    ]
    return f"{_WORTH}\n{_beside(runs, rows)}"


def _ours(runs: Sequence[SimulatedRun]) -> str:
    """Ours beside the cheapest partner at each density."""
    parts = [_OURS]
    for pattern in PATTERNS:
        chosen = [run for run in runs if run.workload == pattern]
        partner = cheapest({policy: of["cost"] for policy, of in statistics_of(chosen).items()})
        parts.append(_beside(chosen, [(contender.label, partner) for contender in OURS]))
    return "\n".join(parts)


def _beside(runs: Sequence[SimulatedRun], rows: Sequence[tuple[str, str]]) -> str:
    """A table of differences in cost and completion, of each policy beside another."""
    patterns = list(dict.fromkeys(run.workload for run in runs))
    found = {pattern: statistics_of([run for run in runs if run.workload == pattern]) for pattern in patterns}
    columns = [f"{pattern}: {what}" for pattern in patterns for what in ("cost", "completion")]
    lines = ["| policy | beside | " + " | ".join(columns) + " |\n|---|---|" + "---:|" * len(columns) + "\n"]
    for own, other in rows:
        cells = (
            str(difference(found[pattern][own][metric], found[pattern][other][metric]))
            for pattern in patterns
            for metric in ("cost", "average_completion")
        )
        lines.append(f"| `{own}` | `{other}` | " + " | ".join(cells) + " |\n")
    return "".join(lines) + f"\n{durations_of(runs)}\n"


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
    if metric == "fallback_share":
        return f"{100 * value.mean:.3g} %"
    if metric == "decision_p50_us":
        return f"{value.mean:.0f}"
    return f"{value.mean:.{digits}f}" + (f" ± {value.spread:.{digits}f}" if several else "")


def _findings(found: dict[str, dict[str, Statistic]]) -> str:
    """The policy with the least mean of each number, beside the next."""
    lines = []
    for metric, what in (
        ("cost", "cost"),
        ("average_duration", "duration"),
        ("average_completion", "completion"),
    ):
        first, second, *_ = sorted(found, key=lambda policy: found[policy][metric].mean)
        beside = difference(found[first][metric], found[second][metric])
        lines.append(
            f"* Least mean {what}: `{first}`; beside `{second}`, the next, {told(beside, 'less', 'more')}."
        )
    return "\n".join(lines) + "\n"


_HEAD = """# The baselines on the paper's workloads

Made by `stoker reproduce baselines --seeds {count} --belief {belief}{seeds.option}`, with
{seeds}.

Every policy schedules the same {count} generated workloads of each density of Islam 2022, 7.1, normal (50
jobs, Poisson arrivals at 50 an hour) and burst (100 jobs at 600 an hour), on the paper's cluster of twelve
VMs. Durations come from `profiles/data/paper.yaml`, whose numbers are assumed, since the paper does not
publish its own; so compare policies with each other, not with the paper's dollars. Cells are the mean and the
standard deviation over seeds. {method}

*Cost* is eq. 4. The *bound* is the cost of perfect packing on the cheapest cores; no schedule costs less.
*Duration* is from start to end (the paper's "job duration"), *completion* from submission to end, the
*longest wait* from submission to start. *Fallback* is the share of decisions that could not be executed.
*Knows* lists the inputs of a policy's decisions; the belief sets how exactly durations and ends are known
([belief.md](belief.md)). beta 1 weighs cost only, beta 0 time only (`lookahead` gives the other a weight of
one twentieth in both). Decisions were timed on a machine with other load.

Policies with `overtake` in their names consider 256 jobs of the queue and let at most 128 overtake its
oldest; so do `greedy`, `drf`, `lookahead` and the trained policies. The others serve jobs first come, first
served.
"""
_WORTH = """## The effect of overtaking alone

Each policy with overtaking, compared with the same policy without.
"""
_OURS = """## Stoker's policies beside the cheapest partner

The partners are listed in `agents/experiments/partners.py`; for each density, the one with the lowest mean
cost is used.
"""
