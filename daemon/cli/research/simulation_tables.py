"""Tables of `stoker simulate` and `evaluate`: a row for each policy, and cautions."""

import csv
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from stoker.characters import visible

from conf.util.counted import counted
from conf.util.csv_cells import cell
from daemon.cli.shared.errors import naming
from daemon.cli.shared.mostly_failed import exit_code

if TYPE_CHECKING:
    from agents.experiments.comparison import SimulatedRun
    from agents.experiments.paired import Statistic

#: Inputs of policies, in tables that are read on a terminal.
_LETTERS = {"queue": "q", "types": "t", "durations": "d", "ends": "e", "preferences": "p", "prices": "$"}
_KNOWS = (
    "Knows, beside sizes and free resources: q the queue, t types, d durations, e ends, p preferences, $ "
    "prices (docs/policies.md says more)."
)
_BOUND = (
    "Cost / bound: 1.00 is every job's cores for its shortest duration, at the cheapest core's price;"
    " no schedule costs less."
)
_GOOD = "Good: how many of the {jobs} jobs are placed as their type prefers."
_SPREAD = " ±: the standard deviation over seeds."
#: Numbers that are compared on the same seeds, with their titles.
_COMPARED = {"cost": "cost", "average_completion": "completion"}
#: Number of types without a profile that are named, the others are counted. Chosen: a line.
_NAMED = 8
#: Columns that are left out first where a terminal is narrow.
_SPARE = ("decision µs", "longest wait s", "95 % s", "good", "knows", "lost core h", "openings", "duration s")


def plain(run: "SimulatedRun") -> dict[str, object]:
    """A run as plain values."""
    from agents.experiments.comparison import known_to

    facts = known_to(run.policy)
    return {
        "policy": run.policy,
        "knows": None if facts is None else ["sizes", *facts],
        "workload": run.workload,
        "seed": run.seed,
        "left_out": list(run.left_out),
        **run.result.to_json(),
    }


def show(runs: "list[SimulatedRun]", fallback: str = "none", notes: Iterable[str] = ()) -> None:
    """Print a row for each policy of a workload's runs, the share of fallback decisions, and notes."""
    from agents.experiments.comparison import durations_of, statistics_of, undrawn
    from daemon.cli.shared import render

    several, same = len({run.seed for run in runs}) > 1, undrawn(runs)
    elastic = any(vm.terms for run in runs for vm in run.result.vms)
    spot = any(vm.spot for run in runs for vm in run.result.vms)
    committed = any(run.result.bill.commitments for run in runs)
    shown = {"with_commitments": 3} if committed else {}
    shown |= {"bill": 3, "openings": 0} if elastic else {}
    shown |= {"interruptions": 0, "work_lost": 1} if spot else {}
    refused = any(run.result.opens_refused for run in runs)
    shown |= {"opens_refused": 0} if refused else {}
    shown |= {"cost": 3, "cost_over_bound": 2, "average_duration": 0, "average_completion": 0}
    shown |= {"p95_completion": 0, "longest_wait": 0, "good_placements": 0}
    rows = []
    for policy, of in statistics_of(runs).items():
        cells = [
            _cell(of[metric], digits, several and policy not in same) for metric, digits in shown.items()
        ]
        share, micros = of["fallback_share"].mean, of["decision_p50_us"].mean
        rows.append((policy, known(policy), *cells, f"{100 * share:.3g} %", f"{micros:.0f}"))
    columns = (
        "policy",
        "knows",
        *(("committed and bill $",) if committed else ()),
        *(("bill $", "openings") if elastic else ()),
        *(("taken away", "lost core h") if spot else ()),
        *(("refused",) if refused else ()),
        "cost $",
        "cost / bound",
        "duration s",
        "completion s",
        "95 % s",
        "longest wait s",
        "good",
        "fallback",
        "decision µs",
    )
    table = render.fitted(columns, rows, right=columns[2:], spare=_SPARE)
    render.show(table)
    left_out = [name for name in columns if name not in {each.header for each in table.columns}]
    if left_out:
        render.show(f"Left out, as there is no room for it: {', '.join(left_out)}. -o json has all.")
    render.show(_KNOWS)
    render.show(_BOUND)
    good = _GOOD.format(jobs=max(len(run.result.jobs) for run in runs))
    drawn = several and len(same) < len({run.policy for run in runs})
    render.show(good + (_SPREAD if drawn else ""))
    render.show(durations_of(runs))
    if drawn and len({run.policy for run in runs}) > 1:
        _show_differences(statistics_of(runs))
    for line in (*notes, *_remarks(runs, fallback)):
        render.show(line)


def _show_differences(found: "Mapping[str, Mapping[str, Statistic]]") -> None:
    """Print cost and completion of each policy beside the cheapest, seed by seed."""
    from agents.experiments.paired import CLEAR, LEAST_PAIRS, difference
    from daemon.cli.shared import render

    least = min(found, key=lambda policy: found[policy]["cost"].mean)
    rows = [
        (policy, *(str(difference(of[metric], found[least][metric])) for metric in _COMPARED))
        for policy, of in found.items()
        if policy != least
    ]
    columns = (f"beside {least}", *_COMPARED.values())
    render.show(render.fitted(columns, rows, right=columns[1:]))
    render.show(
        f"Mean ± standard error of differences on the same seed; *: over {CLEAR:g} standard errors, from "
        f"{LEAST_PAIRS} seeds on."
    )


def cautions(runs: "list[SimulatedRun]", profiled: Collection[str]) -> Iterator[str]:
    """Warnings about a workload's numbers: jobs left out, seeds that draw nothing, unprofiled types."""
    from agents.experiments.comparison import undrawn

    for lost in dict.fromkeys(lost for run in runs for lost in run.left_out):
        yield f"Left out of the workload: {visible(lost)}."
    seeds = len({run.seed for run in runs})
    if same := undrawn(runs):
        yield (
            f"All {counted(seeds, 'seed')} are the same run with {', '.join(same)}: nothing "
            f"of the workload is drawn, "
            "so there is no spread (`stoker simulate --vary durations,arrivals` draws)."
        )
    jobs = max((run.result.jobs for run in runs), key=len)
    unknown = {visible(kind): count for kind, count in sorted(jobs.types.items()) if kind not in profiled}
    if unknown:
        names = ", ".join([*unknown][:_NAMED]) + (
            f" and {len(unknown) - _NAMED} more" if len(unknown) > _NAMED else ""
        )
        yield (
            f"No profile of type {names} ({sum(unknown.values())} of "
            f"{counted(len(jobs), 'job')}): they take the same time wherever a policy places them, "
            "count as good, and policies do not know for how long they run."
        )


def known(policy: str) -> str:
    """Letters for the facts that a policy knows."""
    from agents.experiments.comparison import known_to

    facts = known_to(policy)
    return "?" if facts is None else " ".join(_LETTERS[fact] for fact in facts) or "-"


def _cell(value: "Statistic", digits: int, several: bool) -> str:
    spread = f" ± {value.spread:.{digits}f}" if several else ""
    return f"{value.mean:.{digits}f}{spread}"


def _remarks(runs: "list[SimulatedRun]", fallback: str) -> Iterator[str]:
    refused = {name: why for run in runs for name, why in run.result.refused.items()}
    if refused:
        name, why = next(iter(refused.items()))
        yield f"Refused, as they fit no VM or cluster: {counted(len(refused), 'job')}, such as {name}: {why}"
    for run in runs:
        for name, why in list(run.result.aside.items())[:1]:
            yield f"{run.policy} left {counted(len(run.result.aside), 'job')} aside, such as {name}: {why}"
        for name, why in list(run.result.given_up.items())[:1]:
            jobs = counted(len(run.result.given_up), "job")
            yield f"{run.policy}: {jobs} given up, such as {name}: it {why}"
    if kept_off := {name: None for run in runs for name in run.result.kept_off_spot}:
        yield (
            f"Kept off spot VMs: {counted(len(kept_off), 'job')}, such as {next(iter(kept_off))}, "
            "which never ends on spot at this rate."
        )
    faults: dict[str, list[str]] = {}
    for run in runs:
        found = [made.faults[0] for made in run.result.decisions.faulty]
        faults.setdefault(run.policy, []).extend(found)
    for policy, found in faults.items():
        if found:
            who = "they counted as waiting" if fallback == "none" else f"{fallback} decided instead"
            yield (
                f"{policy} failed in {counted(len(found), 'decision')}, and {who}; the first "
                f"time: {visible(found[0])}"
            )
    guarded: dict[str, int] = {}
    for run in runs:
        guarded[run.policy] = guarded.get(run.policy, 0) + run.result.guarded
    for policy, count in guarded.items():
        if count:
            yield (
                f"The guard took {counted(count, 'decision')} of {policy}, as jobs that fitted "
                f"waited too long."
            )
    hurried = {run.policy: run.result.cut_short for run in runs if run.result.cut_short}
    for policy, count in hurried.items():
        yield (
            f"The time limit cut {counted(count, 'decision')} of {policy} short: the numbers "
            f"depend on this machine."
        )


def judge(runs: "list[SimulatedRun]", fallback: str) -> int:
    """The exit code, by the shares that the fallback took on average over seeds, as tables show them."""
    from agents.experiments.comparison import statistics_of

    shares = [
        (policy, of["fallback_share"].mean)
        for name in dict.fromkeys(run.workload for run in runs)
        for policy, of in statistics_of([run for run in runs if run.workload == name]).items()
    ]
    failed = (run for run in reversed(runs) if run.result.violations)
    first = {run.policy: run.result.decisions.faulty[0].faults[0] for run in failed}
    return exit_code(shares, "no policy's" if fallback == "none" else f"those of {fallback}", first)


def draw(runs: "list[SimulatedRun]", title: str, path: Path) -> None:
    """Draw cost against completion into a file; CommandError when it cannot be written."""
    from agents.experiments import reports
    from agents.experiments.comparison import statistics_of

    with naming(f"--plot {path}: ", (OSError, ValueError)):
        reports.draw(statistics_of(runs), title, path)


def timeline(runs: "list[SimulatedRun]", path: Path) -> None:
    """Draw which jobs each VM held; CommandError when the file cannot be written."""
    from agents.experiments.timeline import draw_timeline

    with naming(f"--plot-timeline {path}: ", (OSError, ValueError)):
        left_out = draw_timeline(runs, path)
    if left_out:
        left = f"{counted(left_out, 'VM')} left out, which held executors for the shortest time"
        print(f"stoker: {path}: {left}", file=sys.stderr)


def print_rows(runs: "list[SimulatedRun]", by: str) -> None:
    """Print a line of names, and as CSV a row for each run, or each of its jobs, decisions or executors."""
    from agents.experiments.run_rows import rows_of

    writer = None
    for row in rows_of(runs, by):
        if writer is None:
            writer = csv.writer(sys.stdout, lineterminator="\n")
            writer.writerow(row)
        writer.writerow(map(cell, row.values()))
