"""All savings of an audit together: types, scenarios played, changes."""

from collections.abc import Sequence
from dataclasses import dataclass

from audit.costs import Costs
from audit.prices import Prices
from audit.savings.changes import Change, changes
from audit.savings.job_runs import JobRun, job_runs
from audit.savings.plays import Played, Progress, play
from audit.savings.scenarios import scenarios
from audit.savings.types import JobType, job_types, median_error
from conf.schema.cluster import Cluster

POLICIES = ("ff", "greedy")


@dataclass(frozen=True, slots=True)
class Savings:
    """What the applications of some logs could cost."""

    runs: tuple[JobRun, ...]
    types: dict[str, JobType]
    played: tuple[Played, ...]
    #: The largest first.
    changes: tuple[Change, ...]
    #: Median over types of the held-out error of durations; None when no type has two runs.
    error: float | None

    @property
    def logged(self) -> float:
        """Dollars of the applications that could be played."""
        return sum(run.cost.total for run in self.runs)

    @property
    def replayed(self) -> float:
        """Dollars of the same with equal executors, as they are played."""
        return sum(run.replayed for run in self.runs)

    @property
    def checked(self) -> int:
        """Number of runs whose duration was predicted by other runs."""
        return sum(each.checked for each in self.types.values())


def predict(
    costs: Costs,
    prices: Prices,
    policies: Sequence[str] = POLICIES,
    given: tuple[str, Cluster] | None = None,
    progress: Progress | None = None,
) -> Savings:
    """Fit, check, play and rank. PolicyError or ConfigError for a policy that cannot be made."""
    runs = job_runs(costs.each, prices)
    types = job_types(runs)
    played = play(scenarios(runs, prices, policies, given), runs, types, progress) if runs else []
    error = median_error(types)
    return Savings(tuple(runs), types, tuple(played), tuple(changes(types, played, prices, error)), error)
