"""Options of a simulation for queues and the order of jobs, and tables of queues and users."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from conf.util.counted import counted
from daemon.cli.shared.errors import naming
from daemon.cli.shared.options import notice

if TYPE_CHECKING:
    from agents.experiments.comparison import SimulatedRun
    from conf.schema import Config
    from environment.clusters.commitments import Commitment
    from environment.queues.types import Sharing
    from environment.simulation.results.fairness import Fairness, Party

#: Maximum number of queues or users that are shown of a run; of more, those furthest from their fair parts.
_SHOWN = 30
_EXPLAINED = """
share: dominant share of the cluster, while it had jobs
fair: the same, had all usage been divided by weight among those with demand, within their limits
slow: completion over duration, mean and 95 %; wait: the longest
late: jobs that ended after their deadlines, of those with one"""


@dataclass
class SharingOptions:
    """Options for the order of jobs, and for its tables."""

    sharing: Annotated[
        str | None,
        typer.Option(
            "--sharing",
            metavar="FILE",
            help="Queues, the order of jobs, limits of what VMs cost, and commitments: a file with the "
            "sections queues, sharing, budget and commitments, such as a daemon's config, or a name (teams).",
            show_default=False,
        ),
    ] = None
    order: Annotated[
        str | None,
        typer.Option(
            "--order",
            metavar="ORDER",
            help="The order of jobs: fifo, priority, fair, deadline, shortest, or several by commas.",
            show_default=False,
        ),
    ] = None
    by: Annotated[
        Literal["queue", "user"] | None,
        typer.Option(
            "--by", help="Show the share of the cluster of each queue, or each user.", show_default=False
        ),
    ] = None
    plot_shares: Annotated[
        Path | None,
        typer.Option("--plot-shares", metavar="FILE", help="Draw shares over time (.png, .svg)."),
    ] = None

    @cached_property
    def _config(self) -> "Config | None":
        """The file's sections; None without a file."""
        return None if self.sharing is None else _read(self.sharing)

    def read(self) -> "Sharing | None":
        """Build the queues and the order; None where no option sets them. ConfigError for invalid options."""
        from conf.loader import build
        from conf.schema.sharing import SharingSpec
        from environment.queues.types import Sharing, sharing_of

        found = None if self._config is None else sharing_of(self._config.sharing, self._config.queues)
        if self.order is None:
            return found
        words = [word.strip() for word in self.order.split(",")]
        spec = build(SharingSpec, {"order": words}, "--order")
        return replace(found or Sharing(), order=spec.order)

    def per_hour(self) -> dict[str, float]:
        """Limits of the cost of open VMs per hour, by pool; an empty name means all VMs."""
        budget = None if self._config is None else self._config.budget
        return {} if budget is None else budget.per_hour

    def per_period(self, per: Literal["day", "month"]) -> dict[str, float]:
        """Limits of the cost of VMs per day or month that hold VMs back, as `per_hour`."""
        budget = None if self._config is None else self._config.budget
        limits = [] if budget is None else [each for each in budget.limits if each.per == per and each.holds]
        if any(not each.used for each in limits):
            notice(f"{self.sharing}: budget: per_day with hold is simulated as dollars_per_day")
        return {each.pool: each.dollars for each in limits}

    def commitments(self) -> "tuple[Commitment, ...]":
        """Commitments, paid in any case on all days of the simulation."""
        from environment.clusters.commitments import commitments_of

        return () if self._config is None else commitments_of(self._config.commitments)

    def shown_by(self, runs: "Sequence[SimulatedRun]") -> 'Literal["queue", "user"] | None':
        """Whether the table is by queue or by user; None where no option asks for it."""
        shared = self._config is not None and bool(self._config.queues or self._config.sharing)
        if self.by is not None or not (shared or self.order or self.plot_shares):
            return self.by
        return "queue" if len({job.queue for run in runs for job in run.result.jobs}) > 1 else "user"


def _read(name: str) -> "Config":
    from conf.loader import SHIPPED, ConfigError, find, load
    from conf.schema import Config

    if Path(name).suffix:
        path = find(name)
    else:
        path = SHIPPED / "sharing" / f"{name}.yaml"
        if not path.exists():
            known = ", ".join(sorted(each.stem for each in path.parent.glob("*.yaml")))
            raise ConfigError(f"--sharing {name}: no such file; known are {known}, or a .yaml file")
    config = load(path, Config)
    if not (config.queues or config.sharing or config.budget or config.commitments):
        raise ConfigError(f"{path}: has neither queues nor sharing nor budget nor commitments")
    return config


def show(runs: "Sequence[SimulatedRun]", by: 'Literal["queue", "user"]', sharing: "Sharing | None") -> None:
    """Print each policy's shares of the cluster by queue or user: means over seeds."""
    from agents.experiments.comparison import undrawn
    from daemon.cli.research.simulation_tables import known
    from daemon.cli.shared import render

    same = undrawn(runs)
    order = ", ".join(sharing.order) if sharing else "fifo over all queues"
    render.show(f"\nOrder: {order}; the same for all policies.")
    for policy, every in fairness_of(runs, by, sharing).items():
        found = every[:1] if policy in same else every  # more are that run again
        render.show(f"\n{policy} (knows {known(policy)}): {_in_short(found)}")
        parties = _together([party for each in found for party in each.parties])
        cells = [_row(party) for party in parties[:_SHOWN]]
        render.show(render.table((by, *_COLUMNS), cells, right=_COLUMNS))
        if len(parties) > _SHOWN:
            render.show(f"... and {counted(len(parties) - _SHOWN, 'other')}, nearer to their fair parts")
    render.show(_EXPLAINED)


def fairness_of(
    runs: "Sequence[SimulatedRun]", by: 'Literal["queue", "user"]', sharing: "Sharing | None"
) -> "dict[str, list[Fairness]]":
    """How fair the runs of each policy were, in their order."""
    from environment.simulation.results.fairness import fairness

    found: dict[str, list[Fairness]] = {}
    for run in runs:
        told = fairness(run.result, sharing.queues if sharing else None, by)
        found.setdefault(run.policy, []).append(told)
    return found


def plain(run: "SimulatedRun", by: 'Literal["queue", "user"]', sharing: "Sharing | None") -> dict[str, Any]:
    """How fair a run was, as plain values."""
    ((found,),) = fairness_of([run], by, sharing).values()
    return {"sharing": {"order": list(sharing.order) if sharing else ["fifo"], **found.to_json()}}


def draw(
    runs: "Sequence[SimulatedRun]", by: 'Literal["queue", "user"]', sharing: "Sharing | None", path: Path
) -> None:
    """Draw shares over time, of each policy's first run; CommandError when the file cannot be written."""
    from agents.experiments.sharing.plot import draw_shares
    from environment.simulation.results.fairness import shares_over_time

    queues = sharing.queues if sharing else None
    found = {run.policy: shares_over_time(run.result, queues, by) for run in reversed(runs)}
    with naming(f"--plot-shares {path}: ", (OSError, ValueError)):
        draw_shares(dict(reversed(found.items())), path)


_COLUMNS = ("weight", "share %", "fair %", "slow", "95 %", "wait s", "late", "cost $")


def _in_short(found: "Sequence[Fairness]") -> str:
    spread = f" ± {stdev(each.jain for each in found):.3f}" if len(found) > 1 else ""
    in_time, late = (sum(getattr(each, name) for each in found) for name in ("in_time", "late"))
    due = f", {in_time} of {in_time + late} deadlines met" if in_time + late else ""
    furthest = fmean(each.furthest for each in found)
    return f"Jain {fmean(each.jain for each in found):.3f}{spread}, the furthest {furthest:.0%} off{due}"


def _together(parties: "Sequence[Party]") -> "list[list[Party]]":
    """Those of the same name over seeds; in order, or of many the furthest from their fair parts first."""
    by_name: dict[str, list[Party]] = {}
    for party in parties:
        by_name.setdefault(party.name, []).append(party)
    if len(by_name) <= _SHOWN:
        return list(by_name.values())
    return sorted(by_name.values(), key=lambda of: -fmean(abs((each.normalised or 1.0) - 1.0) for each in of))


def _row(party: "Sequence[Party]") -> tuple[str, ...]:
    def mean(name: str) -> float:
        return fmean(getattr(each, name) for each in party)

    late, due = sum(each.late for each in party), sum(each.late + each.in_time for each in party)
    return (
        party[0].name,
        f"{party[0].weight:g}",
        f"{100 * mean('share'):.1f}",
        f"{100 * mean('fair'):.1f}",
        f"{mean('slowdown'):.1f}",
        f"{mean('p95_slowdown'):.1f}",
        f"{max(each.longest_wait for each in party):.0f}",
        f"{late}/{due}" if due else "-",
        f"{mean('cost'):.2f}",
    )
