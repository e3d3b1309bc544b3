"""The report of dynamic allocation in the simulator beside real Spark, as Markdown with a picture."""

import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from audit.savings.real_dynamic import DynamicCase, executors_at
from audit.savings.real_runs import AuditedRuns
from conf.util.counted import counted

#: Points of a curve.
_POINTS = 1000


def report(cases: Sequence[DynamicCase], audited: AuditedRuns, path: Path, command: str) -> None:
    """Write the report and its picture beside it; OSError when that cannot be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    picture = path.with_suffix(".png")
    path.write_text("\n".join(lines(cases, audited, command, picture.name)) + "\n", encoding="utf-8")
    _draw(cases, picture)


def lines(cases: Sequence[DynamicCase], audited: AuditedRuns, command: str, picture: str) -> Iterator[str]:
    """The lines of the report."""
    yield "# Dynamic allocation in the simulator, on real Spark\n"
    yield (
        f"{counted(len(cases), 'job type')} ran on real Spark with a fixed number of executors and with "
        "dynamic allocation from one up to as many, in turn. Profiles with the shapes of stages are those "
        "that `stoker audit` fits to the logs of the fixed runs, and only these; by them the simulator plays "
        "dynamic allocation: executors that the driver requests, their start, and those that it releases. "
        "Seconds are from the application's start to its end, executor-seconds within that time.\n"
    )
    yield f"```console\n$ {command}\n```\n"
    yield f"{audited.conditions}\n"
    if cases:
        seconds = statistics.fmean(abs(each.simulated.seconds / each.real.seconds - 1) for each in cases)
        held = statistics.fmean(
            abs(each.simulated.executor_seconds / each.real.executor_seconds - 1) for each in cases
        )
        saved, real = (
            statistics.fmean(each)
            for each in zip(*((c.predicted_saving, c.saving) for c in cases), strict=True)
        )
        yield (
            f"On average over types the simulated seconds are {seconds:.1%} off and the executor-seconds "
            f"{held:.1%}. Dynamic allocation saves {saved:.1%} of the executor-seconds in the simulation and "
            f"{real:.1%} really.\n"
        )
    yield f"![Executors over time]({picture})\n"
    yield "*Real* is the mean ± standard error of the runs; *started* is the number of executors launched.\n"
    yield (
        "| type | executors | idle (s) | runs | fixed: s | executor-s | dynamic, real: s | simulated "
        "| real: executor-s | simulated | real: started | simulated | real saving | simulated |"
    )
    yield "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
    for each in cases:
        yield _row(each)
    yield ""
    yield (
        "A driver keeps executors with shuffle files, in the simulator until the job ends, in Spark until "
        "its garbage collector finds that no data refers to them. One executor stays in both."
    )


def _row(case: DynamicCase) -> str:
    real, simulated, fixed = case.real, case.simulated, case.fixed
    several = case.rounds > 1

    def spread(value: float, error: float) -> str:
        return f"{value:.1f} ± {error:.1f}" if several else f"{value:.1f}"

    cells = [
        case.type,
        f"1 to {case.executors}",
        f"{case.idle:g}",
        str(case.rounds),
        spread(fixed.seconds, fixed.seconds_error),
        spread(fixed.executor_seconds, fixed.executor_seconds_error),
        spread(real.seconds, real.seconds_error),
        f"{simulated.seconds:.1f}",
        spread(real.executor_seconds, real.executor_seconds_error),
        f"{simulated.executor_seconds:.1f}",
        f"{real.started:.1f}",
        f"{simulated.started:g}",
        f"{case.saving:.1%}",
        f"{case.predicted_saving:.1%}",
    ]
    return f"| {' | '.join(cells)} |"


def _draw(cases: Sequence[DynamicCase], path: Path) -> None:
    from matplotlib.figure import Figure

    columns = min(3, max(1, len(cases)))
    rows = max(1, -(-len(cases) // columns))
    figure = Figure(figsize=(4.6 * columns, 2.8 * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for axis, case in zip(axes, cases, strict=False):
        ends = [
            case.simulated.seconds,
            case.fixed.seconds,
            *(max(end for _, end in of) for of in case.real_spans),
        ]
        times = np.linspace(0.0, max(ends), _POINTS)
        for number, spans in enumerate(case.real_spans):
            label = "real" if not number else None
            axis.step(
                times, executors_at(spans, times), color="tab:gray", linewidth=1, alpha=0.7, label=label
            )
        axis.step(times, executors_at(case.simulated_spans, times), color="tab:blue", label="simulated")
        axis.set(title=case.type, xlabel="seconds", ylabel="executors", ylim=(0, case.executors + 0.5))
        axis.grid(alpha=0.3)
    axes[0].legend(fontsize="small")
    for axis in axes[len(cases) :]:
        axis.set_visible(False)
    figure.savefig(path, dpi=100)
