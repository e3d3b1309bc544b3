"""The report of predicted savings beside real ones, as Markdown."""

import statistics
from collections.abc import Iterator
from pathlib import Path

from audit.prices import Prices
from audit.savings.real_runs import AuditedRuns
from audit.savings.real_savings import RealSavings, SavingCase, cost_of
from conf.util.counted import counted

#: A run costs fractions of a cent: dollars are those of so many.
_MANY = 1000
#: Share of the cases that should at least lie in their intervals.
_WANTED = 0.8


def report(found: RealSavings, audited: AuditedRuns, prices: Prices, path: Path, command: str) -> None:
    """Write the report; OSError when that cannot be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines(found, audited, prices, command)) + "\n", encoding="utf-8")


def lines(found: RealSavings, audited: AuditedRuns, prices: Prices, command: str) -> Iterator[str]:
    """The lines of the report; `prices` are those of the comparison."""
    yield "# Savings that an audit predicts, on real Spark\n"
    yield (
        f"{counted(len(found.cases), 'job type')} ran on real Spark with all of their executors and with "
        "fewer, in turn, so that changes of the machine over time meet both sizes. `stoker audit` read the "
        "event logs of the runs with all executors, and only these, and predicted the saving of the fewer "
        "ones. The real saving is the difference of what the same audit computes as the cost of both logs, "
        "on average over rounds, with its standard error. Predictions that the audit does not list, as they "
        "save less than 2 % or nothing, are cases as well.\n"
    )
    yield f"```console\n$ {command}\n```\n"
    yield f"{audited.conditions} Prices: `{prices.name}`.\n"
    yield from _summary(found)
    yield "## Every type\n"
    yield (
        f"Dollars are those of {_MANY:,} runs, savings are shares of the cost before. The interval (90 %) is "
        "the one that the audit prints; *held out* is its error of durations, each half of the runs "
        "predicted by the other. *Longer* is the duration with fewer executors as a multiple, *work* the "
        "seconds of all tasks as a multiple, *listed* tells whether the audit lists the change as worth "
        "having.\n"
    )
    yield (
        "| type | executors | rounds | held out | $ before | predicted saving | interval | real saving "
        "| longer, predicted | real | work, predicted | real | listed | inside |"
    )
    yield "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|---|"
    for case in found.cases:
        yield _row(case)
    yield ""
    for each in found.left_out:
        yield f"* Not compared: {each}."
    if found.left_out:
        yield ""
    yield from _every_run(audited, prices)
    yield "## Not checked here\n"
    yield (
        "Dynamic allocation, which needs minutes of idle executors; less memory, whose saving is that of the "
        "prices, with the same runs; another shape, skew, savings plans and scenarios of other policies."
    )


def _summary(found: RealSavings) -> Iterator[str]:
    cases = found.cases
    if not cases:
        yield "No case was compared.\n"
        return
    reached = found.inside >= _WANTED * len(cases)
    yield (
        f"**{found.inside} of {len(cases)} inside**: so many real savings lie in the predicted interval of "
        f"90 %; wanted are at least {_WANTED:.0%}, which is {'reached' if reached else 'not reached'}.\n"
    )
    predicted = statistics.fmean(case.predicted.middle / case.cost for case in cases)
    real = statistics.fmean(case.saving / case.cost for case in cases)
    work, real_work = (
        statistics.fmean(of) for of in zip(*((case.work, case.real_work) for case in cases), strict=True)
    )
    away = statistics.fmean(abs(case.saving - case.predicted.middle) / case.cost for case in cases)
    yield (
        f"On average over types the audit predicts a saving of {predicted:.1%} of the cost before; really "
        f"it is {real:.1%}. A prediction is {100 * away:.1f} points of the cost away from the real saving.\n"
    )
    yield (
        "Each executor loads and compiles its code for itself, so fewer of them have less work: by the times "
        f"of their tasks, the audit expects {1 - work:.0%} less; really it is {1 - real_work:.0%} less.\n"
    )
    for case in cases:
        if not case.inside:
            beyond = "more" if case.saving > case.predicted.high else "less"
            yield f"* Outside: {case.type} saves {beyond} than its interval holds."
    if found.inside < len(cases):
        yield ""


def _row(case: SavingCase) -> str:
    held_out = "not checked" if case.error is None else f"{case.error:.1%}"
    low, high = case.predicted.low / case.cost, case.predicted.high / case.cost
    cells = [
        case.type,
        f"{case.executors} to {case.fewer}",
        str(case.rounds),
        held_out,
        f"{_MANY * case.cost:.3f}",
        f"{case.predicted.middle / case.cost:.1%}",
        f"{low:.1%} to {high:.1%}",
        f"{case.saving / case.cost:.1%}{_error(case)}",
        f"{case.slower:.2f}",
        f"{case.real_slower:.2f}",
        f"{case.work:.2f}",
        f"{case.real_work:.2f}",
        "yes" if case.listed else "no",
        "yes" if case.inside else "no",
    ]
    return f"| {' | '.join(cells)} |"


def _error(case: SavingCase) -> str:
    return f" ± {case.saving_error / case.cost:.1%}" if case.rounds > 1 else ""


def _every_run(audited: AuditedRuns, prices: Prices) -> Iterator[str]:
    yield "## Every run\n"
    yield f"In order of time; dollars are those of {_MANY:,} such runs.\n"
    yield "| round | type | executors | s | $ | load |"
    yield "|---:|---|---:|---:|---:|---:|"
    for run in audited.runs:
        cost = cost_of(run, prices)
        yield (
            f"| {run.round + 1} | {run.type} | {run.executors} | {run.application.seconds:.1f} "
            f"| {_MANY * cost:.3f} | {run.load:.1f} |"
        )
    yield ""
