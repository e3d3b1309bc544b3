"""The report of ways of asking for memory, as Markdown with a picture."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from agents.experiments.memory.runs import WAYS, MemoryJob, MemoryRuns, Way
from agents.experiments.paired import METHOD, PairedDifference, Statistic, difference, verdict
from conf.util.counted import counted
from profiles.runs import machine_told

#: Wanted of `memory: auto`: so much fewer failures than with the median's need, and so much less memory paid
#: than with what was asked.
_FEWER, _LESS = 0.9, 0.2
_MIB_SECONDS_PER_GIB_HOUR = 1024 * 3600.0
_TITLES: Mapping[Way, str] = {
    "asked": "as asked",
    "median": "need of the median job",
    "auto": "`memory: auto`",
}


@dataclass(frozen=True, slots=True)
class MemorySum:
    """Jobs of one type, or of all, in one way: `failures` are those for memory, `gib_hours` is memory paid.

    `mean_mib` is the memory of an executor at the end, on average over jobs, `seconds` the sum of the jobs'
    times from submission to end.
    """

    way: Way
    jobs: int
    finished: int
    failures: int
    mean_mib: float
    gib_hours: float
    seconds: float


@dataclass(frozen=True, slots=True)
class MemoryComparison:
    """Sums of all jobs by way, and by type; memory paid with `auto` beside the other ways, job by job."""

    all: Sequence[MemorySum]
    by_type: Mapping[str, Sequence[MemorySum]]
    paid_to_asked: PairedDifference
    paid_to_median: PairedDifference

    @property
    def fewer_failures(self) -> float | None:
        """The share of the median's failures that `auto` avoids; None where there are none."""
        failures = {of.way: of.failures for of in self.all}
        return 1.0 - failures["auto"] / failures["median"] if failures["median"] else None

    @property
    def less_paid(self) -> float:
        """The share of the memory paid as asked that `auto` saves, over all jobs."""
        paid = {of.way: of.gib_hours for of in self.all}
        return 1.0 - paid["auto"] / paid["asked"]

    @property
    def less_memory(self) -> float:
        """The same of executors' mean memory, however long jobs take."""
        memory = {of.way: of.mean_mib for of in self.all}
        return 1.0 - memory["auto"] / memory["asked"]

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "all": [asdict(of) for of in self.all],
            "types": {name: [asdict(of) for of in sums] for name, sums in self.by_type.items()},
            "fewer_failures": self.fewer_failures,
            "less_paid": self.less_paid,
            "less_memory": self.less_memory,
        }


def comparison_of(runs: MemoryRuns) -> MemoryComparison:
    """Sum the jobs of complete runs up."""
    by_type = {
        name: [_sum(way, [job for job in runs.ways[way] if job.type == name]) for way in WAYS]
        for name in dict.fromkeys(job.type for job in runs.ways["asked"])
    }
    paid = {way: Statistic.of([job.paid_mib_seconds for job in runs.ways[way]]) for way in WAYS}
    return MemoryComparison(
        [_sum(way, runs.ways[way]) for way in WAYS],
        by_type,
        difference(paid["auto"], paid["asked"]),
        difference(paid["auto"], paid["median"]),
    )


def _sum(way: Way, jobs: Sequence[MemoryJob]) -> MemorySum:
    return MemorySum(
        way,
        len(jobs),
        sum(job.state == "finished" for job in jobs),
        sum(job.failures for job in jobs),
        sum(job.last_mib for job in jobs) / len(jobs),
        sum(job.paid_mib_seconds for job in jobs) / _MIB_SECONDS_PER_GIB_HOUR,
        sum(job.seconds for job in jobs),
    )


def report(compared: MemoryComparison, runs: MemoryRuns, path: Path, command: str) -> None:
    """Write the report of complete runs, and its picture beside it; OSError when that cannot be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    picture = path.with_suffix(".png")
    _draw(runs, list(compared.by_type), picture)
    path.write_text("\n".join(lines(compared, runs, command, picture.name)) + "\n", encoding="utf-8")


def lines(compared: MemoryComparison, runs: MemoryRuns, command: str, picture: str) -> Iterator[str]:
    """The lines of the report; `picture` is the file of its picture."""
    about = runs.about
    asked = next(iter(runs.ways["asked"]))
    yield "# Memory that jobs ask for, on real Spark\n"
    yield (
        f"{counted(len(runs.ways['asked']), 'job')} of {counted(len(compared.by_type), 'type')}, with inputs "
        "that differ from job to job, ran on real Spark in three ways: with the memory that their users ask "
        f"for ({asked.first_mib} MiB, which is enough for all), with the least memory on which the median "
        "job of their type finished, and with `memory: auto`, which begins without knowledge and learns from "
        "peaks and failures as [shapes.md](../shapes.md#sizes-that-are-left-to-stoker) describes. In each "
        "way a job that fails for memory restarts once with more. The jobs of a type run one after the "
        "other, in the same order in each way, and those of different types beside each other.\n"
    )
    yield f"```console\n$ {command}\n```\n"
    yield (
        f"{machine_told(about)}; {about.get('date')}. Isolation of VMs {about.get('isolation')}. "
        "Memory paid is that of each executor by the time that it had it, failed attempts included.\n"
    )
    yield from _verdicts(compared)
    yield f"![Memory of each job]({picture})\n"
    yield "## All jobs\n"
    yield from _table({"all": compared.all})
    yield "## By type\n"
    yield from _table(compared.by_type)
    needs = ", ".join(f"{name} {need} MiB" for name, need in runs.needs.items())
    yield f"Needs of the median jobs, found by halving on real runs: {needs}.\n"
    yield METHOD


def _verdicts(compared: MemoryComparison) -> Iterator[str]:
    fewer, less = compared.fewer_failures, compared.less_paid
    if fewer is None:
        yield "* No job failed for memory with the need of the median job: failures cannot be compared."
    else:
        yield (
            f"* Failures for memory: {fewer:.0%} fewer than with the need of the median job; wanted are "
            f"{_FEWER:.0%}, {verdict(fewer >= _FEWER, 'reached', 'not reached')}."
        )
    yield (
        f"* Memory paid: {less:.0%} less than as asked, over all jobs; wanted are {_LESS:.0%}, "
        f"{verdict(less >= _LESS, 'reached', 'not reached')}. Job by job it is {compared.paid_to_asked}, and "
        f"{compared.paid_to_median} beside the need of the median job."
    )
    yield (
        f"* Memory of executors, however long the jobs took: {compared.less_memory:.0%} less than as "
        "asked. Ways run one after the other, so that other work on the machine may make the jobs of one way "
        "longer.\n"
    )


def _table(sums: Mapping[str, Sequence[MemorySum]]) -> Iterator[str]:
    yield "| type | memory | jobs | finished | failures for memory | mean MiB | paid, GiB hours | job hours |"
    yield "|---|---|---:|---:|---:|---:|---:|---:|"
    for name, ways in sums.items():
        for of in ways:
            yield (
                f"| {name} | {_TITLES[of.way]} | {of.jobs} | {of.finished} | {of.failures} "
                f"| {of.mean_mib:.0f} | {of.gib_hours:.3f} | {of.seconds / 3600:.3f} |"
            )
    yield ""


def _draw(runs: MemoryRuns, types: Sequence[str], path: Path) -> None:
    """A panel for each type: memory over its jobs, in order, with failures."""
    from matplotlib.figure import Figure  # a second to import, and only pictures need it

    figure = Figure(figsize=(9, 1.0 + 2.2 * len(types)), layout="constrained")
    panels = figure.subplots(len(types), 1, squeeze=False)[:, 0]
    for axes, name in zip(panels, types, strict=True):
        for number, way in enumerate(WAYS):
            jobs = [job for job in runs.ways[way] if job.type == name]
            places = [place + 1 for place in range(len(jobs))]
            memory, color = [job.first_mib / 1024 for job in jobs], f"C{number}"
            axes.plot(places, memory, ".-", color=color, drawstyle="steps-mid", label=way)
            failed = [place for place, job in zip(places, jobs, strict=True) if job.failures]
            axes.plot(failed, [memory[place - 1] for place in failed], "X", markersize=10, color=color)
        axes.set(title=name, ylabel="GiB each", ylim=(0, None))
        axes.xaxis.get_major_locator().set_params(integer=True)
    panels[-1].set(xlabel="jobs in order; crosses: failures for memory")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right upper", fontsize="small")
    figure.savefig(path, dpi=100)
