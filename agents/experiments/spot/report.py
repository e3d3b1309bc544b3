"""The report on recorded spot VMs: a table for each workload. Runs are in `runs.py`."""

from collections.abc import Sequence
from pathlib import Path

from agents.experiments.paired import (
    METHOD,
    PairedDifference,
    Statistic,
    difference,
    every,
    standard_error,
    verdict,
)
from agents.experiments.reports import TRACES
from agents.experiments.runner import Runner
from agents.experiments.seed_register import SeedRange
from agents.experiments.spot.runs import (
    ON_DEMAND,
    SETUPS,
    SpotRecord,
    SpotRun,
    SpotScene,
    play,
    read_records,
    scenes,
    spot_discount,
)
from conf.util.counted import counted

#: Aims: so much less than on demand, and of the deadlines that are met there, so many.
LESS, KEPT = 0.45, 0.99
_COLUMNS = (
    *("world", "policy", "bill ($)", "beside on demand", "completion (s)", "deadlines kept (%)"),
    *("interruptions", "refused", "core-hours lost", f"{LESS:.0%} less, {KEPT:.0%} kept"),
)


def report(folder: Path, data: Path, seeds: SeedRange, runner: Runner, jobs: int | None = None) -> Path:
    """Play the records in `data`, write spot.md into the folder; returns the path.

    ConfigError where a record is missing or cannot be used.
    """
    records = read_records(data)
    runs = play(records, seeds, runner, jobs)
    asked = seeds.option + (f" --jobs {jobs}" if jobs else "")
    parts = [
        HEAD.format(count=len(seeds), asked=asked, seeds=seeds, less=LESS, kept=KEPT, method=METHOD),
        TRACES,
    ]
    for scene in scenes():
        of_scene = [run for run in runs if run.scene == scene.name]
        parts += [f"## {scene.name}\n", f"{counted(len({run.seed for run in of_scene}), 'seed')}.\n"]
        parts.append(table(scene, of_scene))
    parts.append("## Records\n")
    parts += [_told(record) for record in records]
    path = folder / "spot.md"
    path.write_text("\n".join(parts) + "\n", encoding="utf-8")
    return path


def _told(record: SpotRecord) -> str:
    share = record.available
    most = f"saves {share * spot_discount():.0%} at most, on average over all points of the record"
    return f"* `{record.name}`: VMs for {share:.0%} of the time, which {most}; SHA-256 {record.digest}"


def table(scene: SpotScene, runs: Sequence[SpotRun]) -> str:
    """A Markdown table: a row for each world and policy."""
    lines = [f"| {' | '.join(_COLUMNS)} |", "|---|---|" + "---:|" * (len(_COLUMNS) - 3) + "---|"]
    for world in dict.fromkeys(run.world for run in runs):
        for setup in SETUPS:
            here, there = (
                {run.seed: run for run in runs if (run.world, run.setup) == (name, setup.label)}
                for name in (world, ON_DEMAND)
            )
            found = {name: _numbers(here, name) for name in next(iter(here.values())).numbers}
            less, kept, reached = "", "", ""
            if world != ON_DEMAND:
                cheaper = difference(found["bill"], _numbers(there, "bill"), scene.least)
                share = deadlines_kept(here, there, scene.least)
                less, kept = str(cheaper), f"{100 * share.mean:.1f} ± {100 * share.error:.1f}"
                reached = verdict(every((cheaper.at_most(-LESS), share.at_least(KEPT))))
            cells = (
                f"{found['bill'].mean:.2f} ± {found['bill'].spread:.2f}",
                less,
                f"{found['completion'].mean:.0f} ± {found['completion'].spread:.0f}",
                kept,
                f"{found['interruptions'].mean:.1f}",
                f"{found['refused'].mean:.1f}",
                f"{found['lost'].mean:.2f}",
                reached,
            )
            lines.append(f"| {world} | `{setup.label}` | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def deadlines_kept(here: dict[int, SpotRun], there: dict[int, SpotRun], least: int) -> PairedDifference:
    """The mean share of the deadlines met in `there` that are met `here` as well, over seeds."""
    shares = [
        len(run.met & there[seed].met) / len(there[seed].met) for seed, run in here.items() if there[seed].met
    ]
    mean = sum(shares) / len(shares) if shares else float("nan")
    return PairedDifference(mean, standard_error(shares), len(shares), least)


def _numbers(runs: dict[int, SpotRun], name: str) -> Statistic:
    return Statistic({seed: run.numbers[name] for seed, run in runs.items()})


HEAD = """# Spot VMs that come and go as recorded

Made by `stoker reproduce spot --data FOLDER --seeds {count}{asked}`, with {seeds}.

The records are counts of spot VMs in a zone by skypilot-org/spot-traces (Can't Be Late, NSDI 24), which are
not part of this repository; each run begins at a point of the record that its seed draws. *On demand* is
`conf/clusters/elastic.yaml`. The other worlds have as many spot VMs beside it, at a third of the price, with
two minutes' notice (`conf/clusters/spot.yaml`): in *endless spot* they can always be opened, and each is
interrupted once in five hours on average; with a record, all of them are there while the record has a VM, and
none otherwise. With two records, half of each pool is in either zone.

Policies do not see a record. They believe in one interruption in five hours, with an error of 0.5 (spot
belief), and learn from refused VMs: a pool that refused is left out for ten seconds, then for twice as long
after each further refusal. Durations are those of the profiles (truth `profile`), and policies' beliefs err
by 20 % (belief 0.2). Each job's deadline is 2 to 8 times its duration after its arrival; jobs are placed as
they come, and no policy knows the deadlines.

*Deadlines kept* is the share of the deadlines that the same policy meets on demand which it meets here as
well. The last column tells whether both aims are reached: the bill at least {less:.0%} lower than on demand,
and at least {kept:.0%} of these deadlines kept. Cells are mean ± standard deviation over seeds, shares mean ±
standard error. {method}
"""
