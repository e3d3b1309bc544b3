"""Policies on real Spark: the same workload under each, several times, beside the simulator's results.

Comparing and reporting only; `daemon.cli.profile.compare_on_spark` runs the jobs and the simulations.
"""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conf.util.counted import counted
from environment.simulation.results.results import Result
from profiles.runs import machine_told

#: Mean and standard deviation.
Spread = tuple[float, float]


@dataclass(frozen=True, slots=True)
class RealJob:
    """A job that ran: seconds on the workload's clock, dollars of its bill, and the VM of each executor."""

    name: str
    type: str
    state: str
    submitted: float
    placed: float
    ended: float
    cost: float
    placement: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RealRun:
    """The workload once under a policy.

    `round` counts from 0, the same for every policy's turn. `load` is the machine's at the end of the run:
    how many processes wanted to run, on average over a minute. `fallback_share` is that of the decisions
    that the policy failed to take; 0 of runs that were kept before it was.
    """

    policy: str
    round: int
    load: float
    jobs: tuple[RealJob, ...]
    fallback_share: float = 0.0

    @property
    def cost(self) -> float:
        """Dollars of all jobs' bills."""
        return sum(job.cost for job in self.jobs)

    @property
    def completion(self) -> float:
        """Mean seconds from a job's submission to its end."""
        return statistics.fmean(job.ended - job.submitted for job in self.jobs)

    @property
    def duration(self) -> float:
        """Mean seconds from a job's placement to its end."""
        return statistics.fmean(job.ended - job.placed for job in self.jobs)

    @property
    def longest_wait(self) -> float:
        """Most seconds from a job's submission to its placement."""
        return max(job.placed - job.submitted for job in self.jobs)

    @property
    def failed(self) -> int:
        """Number of jobs that did not finish."""
        return sum(job.state != "finished" for job in self.jobs)


@dataclass(frozen=True)
class RealComparison:
    """All real runs, in order, and the simulations of each policy with durations sampled by seed.

    `about` describes the machine, the isolation and the Spark; `cluster` is the cluster file's name.
    """

    workload: str
    cluster: str
    runs: tuple[RealRun, ...]
    simulated: Mapping[str, Sequence[Result]]
    about: Mapping[str, Any]

    def rows(self) -> dict[str, dict[str, Spread]]:
        """By policy: cost, completion, longest wait and `fallback_share`, real and simulated, with spread."""
        return {policy: self._row(policy) for policy in self.simulated}

    def _row(self, policy: str) -> dict[str, Spread]:
        real, simulated = self._real(policy), self.simulated[policy]
        return {
            "real_cost": _spread([run.cost for run in real]),
            "cost": _spread([result.cost for result in simulated]),
            "real_completion": _spread([run.completion for run in real]),
            "completion": _spread([result.average_completion for result in simulated]),
            "real_longest_wait": _spread([run.longest_wait for run in real]),
            "longest_wait": _spread([result.longest_wait for result in simulated]),
            "real_fallback_share": _spread([run.fallback_share for run in real]),
            "fallback_share": _spread([result.fallback_share for result in simulated]),
        }

    def _real(self, policy: str) -> list[RealRun]:
        return [run for run in self.runs if run.policy == policy]

    def gain(self, policy: str, reference: str, what: str) -> float:
        """Share by which a column of `rows` is less under the policy than under the reference.

        `what` is the column.
        """
        rows = self.rows()
        return 1 - rows[policy][what][0] / rows[reference][what][0]

    def rounds_won(self, policy: str, reference: str, what: str) -> tuple[int, int]:
        """Number of rounds in which the policy beat the reference's cost or completion, and of all rounds.

        `what` is cost or completion.
        """
        own, others = (
            {run.round: getattr(run, what) for run in self._real(of)} for of in (policy, reference)
        )
        both = own.keys() & others.keys()
        return sum(own[number] < others[number] for number in both), len(both)

    def to_json(self) -> dict[str, Any]:
        """All of it as plain values; simulations contribute only the columns of `rows`."""
        return {
            "workload": self.workload,
            "cluster": self.cluster,
            "policies": {
                policy: {name: {"mean": mean, "std": std} for name, (mean, std) in row.items()}
                for policy, row in self.rows().items()
            },
            "runs": [
                {
                    "policy": run.policy,
                    "round": run.round,
                    "load": run.load,
                    "cost": run.cost,
                    "completion": run.completion,
                    "longest_wait": run.longest_wait,
                    "failed": run.failed,
                    "fallback_share": run.fallback_share,
                }
                for run in self.runs
            ],
        }


def _spread(values: Sequence[float]) -> Spread:
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else 0.0


def report(comparison: RealComparison, path: Path, command: str) -> None:
    """Write the report, Markdown, and its picture beside it; OSError when that cannot be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    picture = path.with_suffix(".png")
    _draw(comparison, picture)
    path.write_text("\n".join(_lines(comparison, picture.name, command)) + "\n", encoding="utf-8")


def _lines(comparison: RealComparison, picture: str, command: str) -> Iterator[str]:
    about, rows = comparison.about, comparison.rows()
    rounds = 1 + max(run.round for run in comparison.runs)
    jobs = len(comparison.runs[0].jobs)
    seeds = len(next(iter(comparison.simulated.values())))
    yield "# Policies on real Spark\n"
    yield (
        f"The {counted(jobs, 'job')} of `{comparison.workload}` on the VMs of "
        f"`{comparison.cluster}`, with real Spark, "
        f"{counted(rounds, 'time')} under each policy; in every round all policies in turn, "
        f"each time another first. "
        f"Beside it the simulator with durations drawn from a model that was fitted to other runs (truth "
        f"`drawn`, seeds 0 to {seeds - 1}; belief: the model's mean). Mean ± standard deviation.\n"
    )
    yield f"```console\n$ {command}\n```\n"
    yield (
        f"{machine_told(about)}. Isolation of VMs {about.get('isolation')}. "
        "Cost is the sum of the jobs' bills, completion is from "
        "submission to end, duration from placement to end, both on average over jobs; the longest wait is "
        "from submission to placement.\n"
    )
    columns = [f"{what}, real | simulated" for what in ("$", "completion s", "longest wait s", "fallback")]
    yield f"| policy | {' | '.join(columns)} |"
    yield "|---|" + "---:|" * 8
    for policy, row in rows.items():
        cells = [
            _cell(row[f"{real}{what}"], digits)
            for what, digits in (("cost", 4), ("completion", 1), ("longest_wait", 0))
            for real in ("real_", "")
        ]
        cells += [f"{100 * row[name][0]:.3g} %" for name in ("real_fallback_share", "fallback_share")]
        yield f"| `{policy}` | " + " | ".join(cells) + " |"
    yield ""
    yield from _gains(comparison)
    yield f"![real and simulated]({picture})\n"
    yield from _every_run(comparison)


def _cell(value: Spread, digits: int) -> str:
    return f"{value[0]:.{digits}f} ± {value[1]:.{digits}f}"


def _gains(comparison: RealComparison) -> Iterator[str]:
    reference, *others = comparison.simulated
    if not others:
        return
    yield f"## Gains over `{reference}`, real and simulated\n"
    yield "*Cheaper* and *sooner* count the rounds in which the real run was.\n"
    yield "| policy | cost, real | simulated | cheaper | completion, real | simulated | sooner |"
    yield "|---|" + "---:|" * 6
    for policy in others:
        cells = []
        for what in ("cost", "completion"):
            cells += [
                f"{0.0 - comparison.gain(policy, reference, f'{real}{what}'):+.1%}" for real in ("real_", "")
            ]
            cells.append("{} of {}".format(*comparison.rounds_won(policy, reference, what)))
        yield f"| `{policy}` | " + " | ".join(cells) + " |"
    yield ""
    for where, column in (("By the simulator", "cost"), ("With real Spark", "real_cost")):
        best = max(others, key=lambda policy: comparison.gain(policy, reference, column))
        real, simulated = (comparison.gain(best, reference, of) for of in ("real_cost", "cost"))
        told = f"* {where} `{best}` is the cheapest of these: simulated {_beside(simulated, reference)}, "
        told += f"really {_beside(real, reference)}"
        if simulated > 0 and real > 0:
            told += f", {real / simulated:.0%} of the simulated gain"
        yield told + "."
    yield ""


def _beside(gain: float, reference: str) -> str:
    return f"{abs(gain):.1%} {'under' if gain >= 0 else 'above'} `{reference}`"


def _every_run(comparison: RealComparison) -> Iterator[str]:
    yield "## Every run\n"
    yield "In order of time; the load is the machine's at the end of the run.\n"
    yield "| round | policy | $ | completion s | duration s | longest wait s | not finished | load |"
    yield "|---:|---|" + "---:|" * 6
    for run in comparison.runs:
        yield (
            f"| {run.round + 1} | `{run.policy}` | {run.cost:.4f} | {run.completion:.1f} | "
            f"{run.duration:.1f} | {run.longest_wait:.0f} | {run.failed} | {run.load:.1f} |"
        )


def _draw(comparison: RealComparison, path: Path) -> None:
    from matplotlib.figure import Figure  # a second to import, and only pictures need it

    figure = Figure(figsize=(10, 4), layout="constrained")
    panels = (("cost", "bill of all jobs ($)"), ("completion", "mean completion (s)"))
    rows = comparison.rows()
    for axes, (what, label) in zip(figure.subplots(1, 2), panels, strict=True):
        for number, (policy, row) in enumerate(rows.items()):
            runs = [getattr(run, what) for run in comparison.runs if run.policy == policy]
            axes.plot([number - 0.1] * len(runs), runs, "o", color="C0", label="real" if not number else None)
            mean, std = row[what]
            axes.errorbar(
                [number + 0.1],
                [mean],
                yerr=[std],
                fmt="s",
                color="C1",
                capsize=3,
                label="simulated" if not number else None,
            )
        axes.set_xticks(range(len(rows)), list(rows), rotation=15)
        axes.set(ylabel=label)
        axes.set_ylim(bottom=0, top=1.05 * axes.get_ylim()[1])
        axes.legend(fontsize="small", loc="lower left")
    figure.savefig(path, dpi=120)
