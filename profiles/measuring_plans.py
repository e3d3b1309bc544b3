"""Runs of a measuring plan, in order; `daemon.cli.profile.measure` executes them."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import profiles.apps
from conf.loader import ConfigError
from conf.schema import Cluster
from conf.schema.measuring_plan import Grid, MeasuringPlan
from conf.util.counted import counted

#: Its apps are its queries.
TPCH = "tpch"


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """A job to measure: `executors` x (`cpus`, `memory_mib`), spread evenly over so many VMs.

    `beside` further copies of it run at the same time on the same VMs. `seed` is that of the app's data.
    """

    app: str
    input_mib: float
    executors: int
    cpus: float
    memory_mib: int
    vms: int
    beside: int
    repeat: int
    args: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Name that distinguishes the runs of a plan."""
        size = f"{self.input_mib:g}m-{self.executors}x{self.cpus:g}x{self.memory_mib}"
        return f"{self.app}-{size}-on{self.vms}-beside{self.beside}-r{self.repeat}"


def app_command(app: str) -> tuple[Path, tuple[str, ...]]:
    """File and first arguments of an app in `profiles/apps`; of `tpch-9` they are tpch.py and its query 9.

    ConfigError when there is none of that name.
    """
    folder = Path(profiles.apps.__file__).parent
    known = {path.stem: (path, ()) for path in sorted(folder.glob("[a-z]*.py")) if path.stem != TPCH}
    queries = {f"{TPCH}-{number}": (folder / f"{TPCH}.py", (str(number),)) for number in range(1, 23)}
    try:
        return (known | queries)[app]
    except KeyError:
        names = [*known, f"{TPCH}-1 to {TPCH}-{len(queries)}"]
        raise ConfigError(f"{app}: no such app; known are {', '.join(names)}") from None


def runs_of(plan: MeasuringPlan, cluster: Cluster) -> tuple[PlannedRun, ...]:
    """All runs of a plan: one repeat after the other, each in an order of its own drawn by the plan's seed.

    So a change on the machine over time affects all alike, and a plan that is cut short has measured a bit
    of everything. Placements that come to the same VMs are run once. ConfigError names a run that would not
    fit the cluster, or an app that is not there.
    """
    dice, ordered = random.Random(plan.seed), []  # noqa: S311  order, not secrecy
    for repeat in range(max(grid.repeats for grid in plan.grids)):
        found = [run for grid in plan.grids if repeat < grid.repeats for run in _runs(grid, repeat)]
        found = list({run.name: run for run in found}.values())
        for run in found:
            app_command(run.app)
            _check_room(run, cluster)
        dice.shuffle(found)
        ordered += found
    return tuple(ordered)


def _runs(grid: Grid, repeat: int) -> Iterator[PlannedRun]:
    inputs = [(app, mib) for app, sizes in grid.apps.items() for mib in sizes]
    axes = product(inputs, grid.executors, grid.cpus, grid.memory, grid.placement, grid.beside)
    for (app, mib), executors, cpus, memory, placement, beside in axes:
        vms = {"spread": executors, "mixed": (executors + 1) // 2, "consolidated": 1}[placement]
        yield PlannedRun(app, mib, executors, cpus, memory, vms, beside, repeat, grid.args)


def _check_room(run: PlannedRun, cluster: Cluster) -> None:
    most = -(-run.executors // run.vms) * (1 + run.beside)
    cpus, memory = most * run.cpus, most * run.memory_mib
    large = sum(vm.count for vm in cluster.vms if vm.cpus >= cpus and vm.memory >= memory)
    if large < run.vms:
        raise ConfigError(
            f"{run.name}: needs {counted(run.vms, 'VM')} with {counted(cpus, 'cpu')} and {memory} MiB each, "
            f"the cluster has {large} of that size"
        )
