"""A picture of one run of each policy: which job's executors each VM held, and when."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from agents.experiments.comparison import SimulatedRun
from conf.util.dollars import money

#: Rows of a panel: of more VMs, those that held executors for longest are shown. Chosen: names can be read.
_MOST_VMS = 40


class ExecutorBar(NamedTuple):
    """An executor on a VM: seconds, and its edges as parts of the VM's row."""

    start: float
    end: float
    low: float
    high: float
    type: str


def draw_timeline(runs: Sequence[SimulatedRun], path: Path) -> int:
    """Draw the first run of each policy, one panel below the other.

    A bar is an executor, coloured by its job's type; its height is its part of the VM's cores. Returns the
    largest number of VMs left out of a panel. OSError or ValueError when the file cannot be written.
    """
    from matplotlib.figure import Figure  # a second to import, and only pictures need it
    from matplotlib.patches import Patch

    first = {run.policy: run for run in reversed(runs)}
    shown = [first[policy] for policy in dict.fromkeys(run.policy for run in runs)]
    rows = {run.policy: _busiest(run) for run in shown}
    types = sorted({job.type for run in shown for job in run.result.jobs})
    colours = {kind: f"C{number % 10}" for number, kind in enumerate(types)}
    heights = [1.0 + 0.22 * len(rows[run.policy]) for run in shown]
    figure = Figure(figsize=(10, sum(heights) + 0.6), layout="constrained")
    panels = figure.subplots(len(shown), 1, sharex=True, squeeze=False, height_ratios=heights)[:, 0]
    for run, axes in zip(shown, panels, strict=True):
        vms = rows[run.policy]
        for row, number in enumerate(vms):
            for bar in bars_of(run, number):
                axes.broken_barh(
                    [(bar.start, bar.end - bar.start)],
                    (row - 0.45 + 0.9 * bar.low, 0.9 * (bar.high - bar.low)),
                    facecolors=colours[bar.type],
                    edgecolor="white",
                    linewidth=0.2,
                )
        axes.set_yticks(range(len(vms)), [run.result.vms[number].name for number in vms], fontsize=7)
        axes.set_ylim(len(vms) - 0.4, -0.6)
        axes.set_title(f"{run.policy}: {money(run.result.cost)}, {run.workload}, seed {run.seed}", fontsize=9)
        axes.grid(axis="x", alpha=0.3)
    panels[-1].set_xlabel("seconds")
    handles = [Patch(color=colours[kind], label=kind) for kind in types]
    figure.legend(handles=handles, loc="outside upper right", ncols=6, fontsize="small")
    figure.savefig(path, dpi=110)
    return max(sum(seconds > 0 for seconds in run.result.vm_seconds) - len(rows[run.policy]) for run in shown)


def _busiest(run: SimulatedRun) -> list[int]:
    """Numbers of the VMs that held executors, in the cluster's order; of many the busiest."""
    seconds = run.result.vm_seconds
    used = [number for number, held in enumerate(seconds) if held > 0]
    return sorted(sorted(used, key=lambda number: -seconds[number])[:_MOST_VMS])


def bars_of(run: SimulatedRun, vm: int) -> list[ExecutorBar]:
    """The executors of a VM as bars that do not overlap, in order of their start."""
    held, cores = run.result.held, run.result.vms[vm].cpus
    on_it = (held.vm == vm).nonzero()[0]
    placed: list[ExecutorBar] = []
    for at in sorted(on_it.tolist(), key=lambda at: (held.start[at], held.end[at])):
        start, end = float(held.start[at]), float(held.end[at])
        height = held.kinds[held.kind[at]].cpus / cores
        low = _lowest(height, [(bar.low, bar.high) for bar in placed if bar.end > start])
        placed.append(ExecutorBar(start, end, low, low + height, run.result.jobs[held.job[at]].type))
    # A bar stays at its height, so that gaps remain between others, and some may stand above the row.
    highest = max([1.0, *(bar.high for bar in placed)])
    return [bar._replace(low=bar.low / highest, high=bar.high / highest) for bar in placed]


def _lowest(height: float, taken: Sequence[tuple[float, float]]) -> float:
    """The lowest edge at which a bar of that height meets none of these."""
    low = 0.0
    for begin, end in sorted(taken):
        if low + height <= begin + 1e-9:
            break
        low = max(low, end)
    return low
