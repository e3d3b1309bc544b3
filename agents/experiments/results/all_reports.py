"""All reports that the simulator makes, one after the other: `make results`.

Reports on real Spark need a cluster and hours: they are made by their own commands, which they name.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from agents.experiments import belief_report, reports
from agents.experiments.decisions import report as decisions
from agents.experiments.elastic import report as elastic
from agents.experiments.estimates import report as estimates
from agents.experiments.islam2022 import report as islam2022
from agents.experiments.leaderboard import report as leaderboard
from agents.experiments.paired import LEAST_PAIRS, LEAST_WINDOWS
from agents.experiments.results.summary import write_summary
from agents.experiments.revision import sign
from agents.experiments.runner import Runner, RunProgress
from agents.experiments.seed_register import REHEARSAL, SeedRange, seeds_of
from agents.experiments.sharing import report as sharing
from agents.experiments.zhao2023 import report as zhao2023

#: Seeds of a quick run, and jobs of each of its workloads.
_QUICK_SEEDS, _QUICK_JOBS = 2, 6


@dataclass(frozen=True, slots=True)
class ResultsReport:
    """One of the reports: its name, which is that of its seeds, and about how many minutes two cores take."""

    name: str
    minutes: float
    make: Callable[[Path, SeedRange, Runner], Path]
    quick: Callable[[Path, SeedRange, Runner], Path]
    seeds: int = LEAST_PAIRS


REPORTS = (
    ResultsReport(
        "baselines",
        5.0,
        reports.report_baselines,
        lambda folder, seeds, runner: reports.report_baselines(folder, seeds, runner, jobs=_QUICK_JOBS),
        seeds=20,
    ),
    ResultsReport(
        "belief",
        7.0,
        belief_report.report,
        lambda folder, seeds, runner: belief_report.report(folder, seeds, runner, _QUICK_JOBS),
        seeds=20,
    ),
    ResultsReport(
        "islam2022",
        40.0,
        lambda folder, seeds, runner: islam2022.report(folder, seeds, seeds.at_most(LEAST_PAIRS), runner),
        lambda folder, seeds, runner: islam2022.report(folder, seeds, seeds, runner, jobs=2),
        seeds=20,
    ),
    ResultsReport(
        "decisions",
        105.0,
        lambda folder, seeds, runner: decisions.report(folder, seeds, decisions.Extent(), runner),
        lambda folder, seeds, runner: decisions.report(folder, seeds.at_most(1), decisions.QUICK, runner),
    ),
    ResultsReport(
        "leaderboard",
        15.0,
        lambda folder, seeds, runner: leaderboard.report(folder, seeds, leaderboard.ranked(seeds, runner)),
        lambda folder, seeds, runner: leaderboard.report(
            folder, seeds, leaderboard.ranked(seeds, runner, jobs=2), jobs=2
        ),
    ),
    ResultsReport(
        "elastic",
        120.0,
        elastic.report,
        lambda folder, seeds, runner: elastic.report(folder, seeds, runner, _QUICK_JOBS),
    ),
    ResultsReport(
        "moves",
        20.0,
        elastic.report_moves,
        lambda folder, seeds, runner: elastic.report_moves(folder, seeds, runner, _QUICK_JOBS),
    ),
    ResultsReport(
        "sharing",
        40.0,
        sharing.report,
        lambda folder, seeds, runner: sharing.report(folder, seeds, runner, 2 * _QUICK_JOBS),
    ),
    ResultsReport(
        "estimates",
        15.0,
        estimates.report,
        lambda folder, seeds, runner: estimates.report(folder, seeds, runner, 60),
        seeds=LEAST_WINDOWS,
    ),
    ResultsReport(
        "zhao2023",
        40.0,
        zhao2023.report,
        lambda folder, seeds, runner: zhao2023.report(folder, seeds, runner, slots=8),
    ),
)


class _ReportProgress:
    """Progress of one report as a part of all, in tenths of a minute."""

    def __init__(self, progress: RunProgress, before: float, minutes: float, total: float, name: str) -> None:
        self._progress, self._name = progress, name
        self._before, self._minutes, self._total = before, minutes, total

    def __call__(self, done: int, total: int, what: str) -> None:
        """Report progress."""
        self._progress(self._at(done, total), round(10 * self._total), f"{self._name}: {what}")

    def begin(self, done: int, total: int, what: str) -> None:
        """Report the amount that an earlier process did."""
        self._progress.begin(self._at(done, total), round(10 * self._total), f"{self._name}: {what}")

    def _at(self, done: int, total: int) -> int:
        return round(10 * (self._before + self._minutes * done / total))


def make_results(
    folder: Path,
    *,
    quick: bool = False,
    only: tuple[str, ...] = (),
    progress: RunProgress | None = None,
    workers: int | None = None,
) -> list[Path]:
    """Make all reports, or `only` those of these names, and sign them; returns their paths.

    Then, where all are made, quote them in a page beside them.

    A stopped run continues when it is started again. `quick` reports are of few jobs on seeds of the block
    `rehearsal`. OSError when a report cannot be written.
    """
    chosen = [report for report in REPORTS if not only or report.name in only]
    total, before, paths = sum(report.minutes for report in chosen), 0.0, []
    for report in chosen:
        told = progress and _ReportProgress(progress, before, report.minutes, total, report.name)
        with Runner(folder, told, workers) as runner:
            if quick:
                paths.append(report.quick(folder, seeds_of(REHEARSAL, _QUICK_SEEDS), runner))
            else:
                paths.append(report.make(folder, seeds_of(report.name, report.seeds), runner))
        sign(paths[-1])
        before += report.minutes
    if not only:
        paths.append(write_summary(folder))
    return paths
