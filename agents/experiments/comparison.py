"""Many runs: every policy over every workload and seed, and their mean results.

The simulator makes each run; `reports.py` and the command line print and draw results.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from agents.experiments.paired import Statistic
from agents.registry import PolicyError, create, knows
from conf.loader import ConfigError
from conf.policy_text import policy_text, read_policy
from environment.clusters.cluster_files import load_availability, load_cluster, load_prices
from environment.simulation.options import SimulationOptions
from environment.simulation.results.results import Result
from environment.simulation.simulator import StuckError, simulate
from profiles.workloads.varied import load_varied

#: Called before each run with its number (from 0), the number of runs, and its name.
Progress = Callable[[int, int, str], None]

#: The numbers of a run that tables show, in this order; see `environment.simulation.results.results.Result`.
METRICS = (
    "cost",
    "bill",
    "with_commitments",
    "openings",
    "interruptions",
    "opens_refused",
    "work_lost",
    "cost_over_bound",
    "average_duration",
    "average_completion",
    "p95_completion",
    "longest_wait",
    "good_placements",
    "violations",
    "fallback_share",
    "decision_p50_us",
)


@dataclass(frozen=True, slots=True)
class Contender:
    """A policy with its options, under the name that tables show."""

    name: str
    options: Mapping[str, object] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """Label as a user would write it: `ilp:beta=0.5`."""
        return policy_text(self.name, self.options)


def contender(text: str) -> Contender:
    """Read a policy's text, `name:key=value`; PolicyError when it cannot be made."""
    try:
        found = Contender(*read_policy(text))
    except ConfigError as error:
        raise PolicyError(f"policy {text}: {error}") from error
    create(found.name, found.options)
    return found


def known_to(label: str) -> tuple[str, ...] | None:
    """Inputs beside sizes that decisions of the policy `label` depend on; None when unknown."""
    try:
        return knows(*read_policy(label))
    except ConfigError:
        return None


def knowledge(label: str) -> str:
    """The inputs of a policy, in words."""
    found = known_to(label)
    return "not told" if found is None else ", ".join(("sizes", *found))


@dataclass(frozen=True, slots=True)
class SimulatedRun:
    """One policy's run over one workload."""

    policy: str
    workload: str
    seed: int
    result: Result
    #: Parts of the workload's source that were not read.
    left_out: tuple[str, ...] = ()


def compare(
    contenders: Sequence[Contender],
    workloads: Sequence[str],
    cluster: str = "paper",
    seeds: Sequence[int] = (0,),
    *,
    jobs: int | None = None,
    options: SimulationOptions | None = None,
    fallback: Contender | None = None,
    progress: Progress | None = None,
) -> Iterator[SimulatedRun]:
    """Run every policy on the same workloads and seeds, each run with a new policy object.

    `jobs` replaces the number of jobs of the workloads; `fallback` decides where a policy's decision cannot
    be executed, or where it waits for nothing. ConfigError, WorkloadError and PolicyError for an invalid
    input; StuckError names a policy that waits for ever.
    """
    options = options or SimulationOptions()
    vms, prices, available = load_cluster(cluster), load_prices(cluster), load_availability(cluster)
    every = [(name, seed, each) for name in workloads for seed in seeds for each in contenders]
    for number, (name, seed, each) in enumerate(every):
        if progress is not None:
            progress(number, len(every), f"{each.label} on {name}, seed {seed}")
        workload = load_varied(name, seed, jobs, options.vary, options.profiles)
        drawn = replace(options.drawn(seed), prices=prices, availability=available)
        second = create(fallback.name, fallback.options) if fallback else None
        try:
            result = simulate(create(each.name, each.options), workload, vms, options=drawn, fallback=second)
        except StuckError as error:
            raise StuckError(f"policy {each.label}: {error}") from None
        yield SimulatedRun(each.label, name, seed, result, workload.left_out)


def durations_of(runs: Sequence[SimulatedRun]) -> str:
    """Text on the true durations of jobs in these runs, and the policies' expectations of them."""
    truths, beliefs = ({getattr(run.result, name) for run in runs} for name in ("truth", "belief"))
    return f"Durations: truth {', '.join(sorted(truths))}; belief {', '.join(sorted(beliefs))}."


def undrawn(runs: Sequence[SimulatedRun]) -> list[str]:
    """The policies with identical runs for several seeds."""
    grouped: dict[str, list[Result]] = {}
    for run in runs:
        grouped.setdefault(run.policy, []).append(run.result)
    return [
        policy for policy, of in grouped.items() if len(of) > 1 and len({_summed(each) for each in of}) == 1
    ]


def _summed(result: Result) -> tuple[float, ...]:
    """Equal of runs that are the same, as far as tables show it."""
    return result.cost, result.average_completion, result.makespan


def statistics_of(runs: Sequence[SimulatedRun]) -> dict[str, dict[str, Statistic]]:
    """Numbers by seed of each policy's runs: policy -> metric -> statistic, in order of appearance."""
    grouped: dict[str, dict[int, Mapping[str, float | None]]] = {}
    for run in runs:
        grouped.setdefault(run.policy, {})[run.seed] = run.result.summary()
    return {
        policy: {
            metric: Statistic(
                {seed: value for seed, of in summaries.items() if (value := of[metric]) is not None}
            )
            for metric in METRICS
        }
        for policy, summaries in grouped.items()
    }
