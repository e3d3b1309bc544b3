"""Tables of the commands of `profile`: runs, a model fitted to them, simulations beside real runs.

`curve_tables` prints the tables of `profile curve`.
"""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conf.util.counted import counted
from daemon.cli.shared import render
from daemon.cli.shared.mostly_failed import exit_code

if TYPE_CHECKING:  # which takes half a second
    from agents.experiments.fidelity import Fidelity
    from agents.experiments.memory.report import MemoryComparison
    from agents.experiments.real_runs import RealComparison
    from audit.savings.real_dynamic import DynamicCase
    from audit.savings.real_savings import RealSavings
    from environment.simulation.durations.fitted_model import FittedModel
    from profiles.runs import MeasuredRun

_RUNS = (
    "type",
    "input",
    "executors",
    "VMs",
    "shared",
    "duration",
    "startup",
    "tasks",
    "gc",
    "read",
    "written",
    "network",
    "spilled",
    "losses",
    "cost",
    "",
)
_MEMORY = ("type", "memory", "finished", "failures", "mean memory", "paid, GiB hours")
_AMOUNTS = ("shuffle_read_mib", "shuffle_write_mib", "network_mib", "spill_mib")
_MODEL = ("type", "runs", "method", "error on held-out runs", "spread", "slowdown", "worst / best placement")
_ERRORS = ("type", "duration", "completion", "cost")
_COMPARED = (
    "policy", "$, real", "simulated", "completion s, real", "simulated", "fallback, real", "simulated",
)  # fmt: skip

_SAVINGS = (
    "type",
    "executors",
    "held out",
    "$ before",
    "predicted saving",
    "interval",
    "real saving",
    "inside",
)


def show_runs(
    runs: Sequence["MeasuredRun"], marked: Collection[tuple[str, int]], about: Mapping[str, Any]
) -> None:
    """Print runs, with outliers marked (by name and copy), and the machine that measured them."""
    rows = [_row(run, (run.name, run.copy) in marked) for run in runs]
    render.show(render.table(_RUNS, rows, right=_RUNS[3:-1]))
    machine = about.get("machine", {})
    render.show(
        f"{render.count(len(runs), 'run')} on {counted(machine.get('cores', 0), 'core')} of "
        f"{machine.get('cpu')}, "
        f"isolation of VMs: {about.get('isolation')}"
    )


def _row(run: "MeasuredRun", outlier: bool) -> tuple[str, ...]:
    return (
        run.type,
        render.NONE if run.input_mib is None else f"{run.input_mib:g} MiB",
        f"{run.executors} x {run.cpus:g} cpu, {render.memory(run.memory_mib)}",
        str(run.vms),
        f"{run.shared:.0%}",
        render.duration(run.duration),
        render.duration(run.startup),
        render.duration(run.total("task_seconds")),
        render.duration(run.total("gc_seconds")),
        *(f"{run.total(amount):.1f}" for amount in _AMOUNTS),
        str(run.losses),
        render.money(run.cost),
        run.state if run.state != "finished" else "outlier" if outlier else "",
    )


def show_model(model: "FittedModel", left_out: Mapping[str, str], path: Path) -> None:
    """Print how well each type's durations were fitted, why some were not, and where the model is."""
    rows = [
        (
            name,
            str(found.runs),
            found.method,
            ", ".join(f"{method} {error:.1%}" for method, error in found.errors.items()),
            f"{found.sigma:.1%}",
            f"{found.slowdown:.2f}",
            f"{found.placement_ratio:.2f}",
        )
        for name, found in model.types.items()
    ]
    render.show(render.table(_MODEL, rows, right=("runs", *_MODEL[4:])))
    for name, why in left_out.items():
        render.show(f"{name} has no model: {why}")
    render.show(f"The model is in {path}.")


def show_errors(fidelity: "Fidelity") -> None:
    """Print how far a simulation is from the same jobs on real Spark, by type."""
    rows = [(name, *(f"{value:.1%}" for value in values)) for name, values in fidelity.errors().items()]
    render.show(render.table(_ERRORS, rows, right=_ERRORS[1:], title="Mean absolute errors"))


def show_comparison(comparison: "RealComparison") -> None:
    """Print each policy's cost and completion times, real and simulated."""
    names = (("real_cost", 4), ("cost", 4), ("real_completion", 1), ("completion", 1))
    rows = [
        (
            label,
            *(f"{row[name][0]:.{digits}f} ± {row[name][1]:.{digits}f}" for name, digits in names),
            *(f"{100 * row[name][0]:.3g} %" for name in ("real_fallback_share", "fallback_share")),
        )
        for label, row in comparison.rows().items()
    ]
    render.show(render.table(_COMPARED, rows, right=_COMPARED[1:], title="Mean ± standard deviation"))


def show_real_savings(found: "RealSavings") -> None:
    """Print each predicted saving beside the real one, as shares of the cost before, and how many fit."""
    rows = []
    for case in found.cases:
        middle, low, high, real, error = (
            f"{value / case.cost:.1%}"
            for value in (
                case.predicted.middle,
                case.predicted.low,
                case.predicted.high,
                case.saving,
                case.saving_error if case.rounds > 1 else 0.0,
            )
        )
        rows.append(
            (
                case.type,
                f"{case.executors} to {case.fewer}",
                "not checked" if case.error is None else f"{case.error:.1%}",
                f"{case.cost:.6f}",
                middle,
                f"{low} to {high}",
                f"{real} ± {error}" if case.rounds > 1 else real,
                "yes" if case.inside else "no",
            )
        )
    render.show(render.table(_SAVINGS, rows, right=_SAVINGS[2:-1]))
    for line in found.left_out:
        render.show(f"Not compared: {line}")
    render.show(f"{found.inside} of {len(found.cases)} inside")


def show_memory(compared: "MemoryComparison") -> None:
    """Print failures for memory and memory paid in each way of asking, by type and of all jobs."""
    rows = [
        (
            name,
            of.way,
            f"{of.finished} of {of.jobs}",
            str(of.failures),
            f"{of.mean_mib:.0f} MiB",
            f"{of.gib_hours:.3f}",
        )
        for name, sums in {**compared.by_type, "all": compared.all}.items()
        for of in sums
    ]
    render.show(render.table(_MEMORY, rows, right=_MEMORY[2:]))


def judge(comparison: "RealComparison") -> int:
    """The exit code, by the shares that the fallback took of decisions, really and simulated."""
    return exit_code(
        (policy, max(row["real_fallback_share"][0], row["fallback_share"][0]))
        for policy, row in comparison.rows().items()
    )


def show_dynamic(found: "Sequence[DynamicCase]") -> None:
    """Print what each type takes with dynamic allocation, really and in the simulation."""
    columns = [
        "type",
        "executors",
        "s, real",
        "simulated",
        "executor-s, real",
        "simulated",
        "started",
        "simulated",
    ]
    rows = [
        (
            each.type,
            f"1 to {each.executors}",
            f"{each.real.seconds:.1f} ± {each.real.seconds_error:.1f}",
            f"{each.simulated.seconds:.1f}",
            f"{each.real.executor_seconds:.1f} ± {each.real.executor_seconds_error:.1f}",
            f"{each.simulated.executor_seconds:.1f}",
            f"{each.real.started:.1f}",
            f"{each.simulated.started:g}",
        )
        for each in found
    ]
    render.show(render.table(columns, rows, right=columns[2:]))
