"""The report of the leaderboard: its table and picture. `runs.py` makes the runs."""

from collections.abc import Collection, Sequence
from pathlib import Path

from agents.experiments.comparison import knowledge
from agents.experiments.leaderboard.runs import (
    BELIEF,
    FIRST,
    WORLDS,
    RankedPolicy,
    entered,
    play,
    ranking,
    registered,
)
from agents.experiments.paired import METHOD, PairedDifference, Statistic, difference
from agents.experiments.reports import TRACES
from agents.experiments.runner import Runner
from agents.experiments.seed_register import SeedRange
from conf.util.counted import counted

_COLUMNS = (
    *("", "policy", "knows", f"cost beside `{FIRST}`", "completion beside it", "dearest world"),
    *("fallback", "decision µs"),
)


def ranked(
    seeds: SeedRange, runner: Runner, enter: Sequence[str] = (), jobs: int | None = None
) -> list[RankedPolicy]:
    """Play all policies and those that `enter`; the cheapest first. PolicyError for an invalid entry."""
    return ranking(play((*registered(), *entered(enter)), seeds, runner, jobs))


def report(
    folder: Path,
    seeds: SeedRange,
    ranks: Sequence[RankedPolicy],
    enter: Sequence[str] = (),
    jobs: int | None = None,
) -> Path:
    """Write leaderboard.md and its picture, of what `ranked` made with the same arguments; its path."""
    asked = "".join(f" --enter {text}" for text in enter) + seeds.option
    asked += f" --jobs {jobs}" if jobs else ""
    names = ", ".join(f"`{name}`" for name in WORLDS)
    head = _HEAD.format(
        count=len(seeds), asked=asked, worlds=len(WORLDS), names=names, seeds=seeds, belief=BELIEF,
        first=FIRST, method=METHOD,
    )  # fmt: skip
    own = {entry.label for entry in entered(enter)}
    draw(
        ranks,
        own,
        folder / "leaderboard.png",
        f"{counted(len(WORLDS), 'world')}, {counted(len(seeds), 'seed')}",
    )
    path = folder / "leaderboard.md"
    path.write_text(f"{head}\n{TRACES}\n{table(ranks, own)}\n{_ENTER}", encoding="utf-8")
    return path


def table(ranked: Sequence[RankedPolicy], own: Collection[str] = ()) -> str:
    """A Markdown table: a row for each policy, in the order given; names of `own` are bold."""
    lines = [f"| {' | '.join(_COLUMNS)} |", "|---:|---|---|" + "---:|" * (len(_COLUMNS) - 3)]
    for place, each in enumerate(ranked, 1):
        world, times = each.dearest
        name = f"**`{each.policy}`**" if each.policy in own else f"`{each.policy}`"
        cells = (
            str(place),
            name,
            knowledge(each.policy),
            str(beside(each.cost)),
            str(beside(each.completion)),
            f"{100 * (times - 1):+.1f} %: {world}",
            f"{100 * each.fallback_share:.0f} %",
            f"{1e6 * each.decision:.0f}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def beside(times: Statistic) -> PairedDifference:
    """A multiple of that of `FIRST` as a difference, seed by seed."""
    return difference(times, Statistic(dict.fromkeys(times.values, 1.0)))


def draw(ranked: Sequence[RankedPolicy], own: Collection[str], path: Path, title: str) -> None:
    """A picture of cost over completion, with standard errors; policies that none beats in both are named."""
    from matplotlib.figure import Figure  # a second to import, and only pictures need it

    figure = Figure(figsize=(8, 6), layout="constrained")
    axes = figure.subplots()
    best = float("inf")
    for each in ranked:  # the cheapest first
        cost, completion = beside(each.cost), beside(each.completion)
        color = "C1" if each.policy in own else "C0"
        axes.errorbar(
            100 * completion.mean, 100 * cost.mean, 100 * cost.error, 100 * completion.error, "o", color=color
        )
        if completion.mean < best or each.policy in (*own, FIRST):
            at = 100 * completion.mean, 100 * cost.mean
            axes.annotate(each.policy, at, (6, 4), textcoords="offset points", fontsize="small")
        best = min(best, completion.mean)
    axes.set(
        title=title, xlabel=f"completion beside {FIRST} (%): to the left is sooner",
        ylabel=f"cost beside {FIRST} (%): below is cheaper",
    )  # fmt: skip
    figure.savefig(path, dpi=100)


_HEAD = """# The leaderboard

Made by `stoker reproduce leaderboard --seeds {count}{asked}`, with {seeds}.

Every policy of `stoker policy list` at its defaults, and with `overtake=best` where it has that option, in
{worlds} worlds of fixed VMs on the same seeds: {names}
(`agents/experiments/decisions/shifted_cases.py`). Jobs have the sizes that they ask for, true durations
are the profiles' (truth `profile`), and beliefs have a log-normal error of standard deviation 0.2
(belief {belief}). Cost is that of eq. 4 (Islam 2022), completion is from submission to end, on average over
jobs; a seed's number is the geometric mean over all worlds of its multiple of what `{first}` has there.
*Dearest world* is the one with the largest mean cost beside `{first}`. *Fallback* is the share of decisions
that the policy failed to take, so that `{first}` took them: above half, the numbers are not its own. The time
of a decision is the median, on the machine that made this. {method}

![Cost over completion](leaderboard.png)
"""

_ENTER = """## Enter your own

Write a policy into a file ([ten lines are enough](../policies.md#write-your-own)), and enter it from the
folder of that file. It is marked in the table and the picture. Its runs are made anew each time; those of the
others are stored.

```console
$ stoker reproduce leaderboard --enter mine:decide --out leaderboard
```
"""
