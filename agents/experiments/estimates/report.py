"""The report on the accuracy of estimates: the share of starts, ends and costs within the intervals."""

import statistics
from collections.abc import Sequence
from pathlib import Path

from agents.experiments.estimates.runs import (
    BESIDE,
    DRAWS,
    EVERY,
    POLICIES,
    SLACKS,
    EstimatedJob,
    play,
)
from agents.experiments.paired import CLEAR, LEAST_WINDOWS, Statistic, standard_error
from agents.experiments.reports import TRACES
from agents.experiments.runner import Runner
from agents.experiments.seed_register import SeedRange

#: Shares of the truth within intervals of 90 % that were aimed at.
AIM = (0.85, 0.95)
#: Seconds; jobs with so long a wait are reported apart, since later ones have long to overtake.
_LONG = 300.0


def report(
    folder: Path, seeds: SeedRange, runner: Runner, jobs: int | None = None, every: int = EVERY
) -> Path:
    """Play it, write estimates.md and its picture into the folder; returns the path."""
    folder.mkdir(parents=True, exist_ok=True)
    found = play(seeds, runner, jobs, every)
    given = seeds.option + (f" --jobs {jobs}" if jobs else "")
    given += f" --every {every}" if every != EVERY else ""
    head = _HEAD.format(count=len(seeds), seeds=seeds, given=given, every=every, draws=DRAWS)
    draw(found, folder / "estimates.png")
    parts = [head, TRACES, table(found), findings(found), _PICTURE, _LIMITS]
    path = folder / "estimates.md"
    path.write_text("\n".join(parts), encoding="utf-8")
    return path


def coverage(found: Sequence[EstimatedJob], of: str, *, mended: bool) -> float:
    """Share of true values within the `mended` (reported) or the sampled intervals; of one job or more."""
    number = list(SLACKS).index(of)
    held = [
        (each.told if mended else each.drawn)[number].holds(each.came[number], BESIDE[of]) for each in found
    ]
    return sum(held) / len(held)


def over_seeds(found: Sequence[EstimatedJob], of: str, *, mended: bool) -> Statistic | None:
    """The mean over seeds, and the standard deviation; None where there is nothing to count."""
    shares = {
        seed: coverage([each for each in found if each.seed == seed], of, mended=mended)
        for seed in sorted({each.seed for each in found})
    }
    return Statistic(shares) if shares else None


def table(found: Sequence[EstimatedJob]) -> str:
    """A Markdown table: a row for each policy and kind of jobs, sampled and reported."""
    lines = [
        "| policy | jobs | number | interval | start (%) | end (%) | cost (%) | start, width (s) |",
        "|---|---|---:|---|---:|---:|---:|---:|",
    ]
    for policy in POLICIES:
        own = [each for each in found if each.policy == policy]
        for kind, chosen in (("all", own), ("that wait", [each for each in own if each.waits])):
            for name, mended in (("as drawn", False), ("widened", True)):
                shares = (over_seeds(chosen, of, mended=mended) for of in SLACKS)
                cells = [
                    "none" if s is None else f"{100 * s.mean:.1f} ± {100 * s.spread:.1f}" for s in shares
                ]
                widths = [
                    interval.high - interval.low
                    for each in chosen
                    for interval in (each.told[0] if mended else each.drawn[0],)
                ]
                width = f"{statistics.median(widths):.0f}" if widths else "none"
                row = (f"`{policy}`", kind, str(len(chosen)), name, *cells, width)
                lines.append("| " + " | ".join(row) + " |")
    return "\n".join(lines) + "\n"


def findings(found: Sequence[EstimatedJob]) -> str:
    """Whether the aim is reached, by policy."""
    lines = []
    for policy in POLICIES:
        own = [each for each in found if each.policy == policy]
        kinds = {
            "of all jobs": own,
            "of those that wait": [each for each in own if each.waits],
            f"of those that might wait for {_LONG:g} s or more, as drawn,": [
                each for each in own if each.drawn[0].high >= _LONG
            ],
        }
        for kind, chosen in kinds.items():
            share = over_seeds(chosen, "start", mended=True)
            if share is None:
                continue
            error = standard_error([*share.values.values()])
            lines.append(
                f"* `{policy}`: {share.mean:.1%} ± {error:.1%} (standard error) of the true starts "
                f"{kind} are within the reported interval: {place(share)} the aim of {AIM[0]:.0%} to "
                f"{AIM[1]:.0%}."
            )
    return "\n".join(lines) + "\n"


def place(share: Statistic) -> str:
    """Place of a share beside the aim, by two standard errors over enough days."""
    if len(share.values) < LEAST_WINDOWS:
        return f"not judged ({len(share.values)} of {LEAST_WINDOWS} days) beside"
    low, high = (share.mean + sign * CLEAR * standard_error([*share.values.values()]) for sign in (-1, 1))
    if low > AIM[1]:
        return "above"
    if high < AIM[0]:
        return "below"
    return "within" if AIM[0] <= low and high <= AIM[1] else "not distinguishable from"


def draw(found: Sequence[EstimatedJob], path: Path) -> None:
    """Draw reported against actual starts, a panel for each policy, into a PNG file."""
    from matplotlib.figure import Figure  # a second to import, and only pictures need it

    figure = Figure(figsize=(11, 4.8), layout="constrained")
    panels = figure.subplots(1, len(POLICIES), squeeze=False)[0]
    for axes, policy in zip(panels, POLICIES, strict=True):
        chosen = [each for each in found if each.policy == policy and each.waits]
        for label, color, held in (("within", "C0", True), ("outside", "C3", False)):
            some = [each for each in chosen if each.told[0].holds(each.came[0], BESIDE["start"]) == held]
            means = [max(each.told[0].mean, 1.0) for each in some]
            lows = [mean - max(each.told[0].low, 1.0) for mean, each in zip(means, some, strict=True)]
            highs = [max(each.told[0].high, 1.0) - mean for mean, each in zip(means, some, strict=True)]
            errors = ([max(low, 0.0) for low in lows], [max(high, 0.0) for high in highs])
            came = [max(each.came[0], 1.0) for each in some]
            axes.errorbar(
                came,
                means,
                errors,
                fmt="o",
                color=color,
                markersize=3,
                linewidth=0.6,
                label=f"{label}: {len(some)}",
            )
        axes.axline((1.0, 1.0), slope=1.0, color="black", linewidth=0.6)
        axes.set(xscale="log", yscale="log", title=f"{policy}: jobs that wait", xlabel="true wait (s)")
        axes.legend(fontsize="small")
        axes.grid(alpha=0.3)
    panels[0].set(ylabel="wait as told at submission (s), 90 %")
    figure.savefig(path, dpi=100)


_HEAD = """# Whether estimates come true

Made by `stoker reproduce estimates --seeds {count}{given}`, with {seeds}.

A day of Facebook's arrivals (5,892 jobs unless told otherwise) on fifty of the hundred VMs under a policy,
where about a third to a half of the jobs wait. The truth is the profiles' durations; beliefs have the error
measured for each type (belief `spread`). One of {every} jobs gets an estimate when it is submitted, made as
in the daemon: the policy's input at that time is simulated forward on {draws} samples of the believed
durations (for running jobs, given that they still run), without later arrivals. *As drawn* is the interval of
the samples without the lowest and the highest twentieth. *Widened* is the interval reported to users: each
end is moved outwards by the factor that covers all but a twentieth of the errors of earlier estimates known
at that time (split conformal prediction): of the latest 300, the 60 with the most similar predictions, once
20 jobs that waited are known. A job's true times are used from its start and end on, never earlier.

Cells are the share of true values within the interval, mean ± standard deviation over seeds; an error of up
to 2 seconds counts as within. *That wait* are the jobs that waited for more than 2 seconds, or were predicted
to; the others start at once. The *width* is the median width.
"""
_PICTURE = "![Reported intervals beside true starts](estimates.png)\n"
_LIMITS = """The samples contain no jobs that arrive later. Under `ff` these wait behind the estimated job;
under `greedy` they overtake it, so many jobs start later than in any sample. Widening corrects this with
wider intervals, the more, the longer a job is predicted to wait. A job costs less than in the samples where
later jobs share its VMs.

Real jobs on the embedded cluster: [estimates-live.md](estimates-live.md). Not covered: measured days;
policies that learn; VMs that open and close. Intervals are calibrated on the estimated jobs alone here, while
the daemon uses all jobs that wait: the fewer jobs are estimated (`--every`), the later in the day widening
begins.
"""
