"""How far policies are from the limit of a workload, beside a comparison in the simulator."""

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agents.bound.limits import Limit
    from agents.experiments.comparison import Progress, SimulatedRun
    from environment.simulation.options import SimulationOptions

#: Limits of a search by default, so that no user waits for it.
_SHORT = {"tries": 1000, "nodes": 300_000}
#: Limits by seed.
Limits = Mapping[int, "Limit"]


def limits_of(
    workload: str,
    cluster: str,
    seeds: Sequence[int],
    jobs: int | None,
    options: "SimulationOptions",
    progress: "Progress",
    *,
    wanted: bool,
) -> "tuple[Limits, str]":
    """The limit of each seed, and why there is none; without being `wanted` only those of a few jobs."""
    from agents.bound.instance import BoundError
    from agents.bound.limits import limit_of, small
    from environment.clusters.cluster_files import load_cluster
    from profiles.workloads.varied import load_varied

    found: dict[int, Limit] = {}
    vms = load_cluster(cluster)
    for seed in seeds:
        there = load_varied(workload, seed, jobs, options.vary, options.profiles)
        if not wanted and not small(there):
            return {}, ""
        try:
            drawn = options.drawn(seed)
            found[seed] = limit_of(
                there, vms, **({} if wanted else _SHORT), seed=seed, options=drawn, told=progress
            )
        except BoundError as error:
            return {}, str(error) if wanted else ""
    return found, ""


def told(limits: Limits, run: "SimulatedRun") -> dict[str, object]:
    """The limit of a run as `-o json` prints it; empty where none is known."""
    return {"limit": limits[run.seed].to_json()} if run.seed in limits else {}


def distances(runs: "Sequence[SimulatedRun]", limits: Limits, why: str) -> Iterator[str]:
    """The limit, a mean over seeds, and how far above it each policy is; or `why` there is none."""
    if not limits:
        if why:
            yield f"No limit: {why}."
        return
    every = limits.values()
    best, lower = fmean(each.best.cost for each in every), fmean(each.lower for each in every)
    seconds = fmean(each.best.completion for each in every)
    if all(each.proven for each in every):
        yield f"Limit: the best schedule costs {best:.3f} $ ({seconds:.0f} s to completion), which is proven."
    else:
        yield (
            f"Limit: no schedule costs less than {lower:.3f} $; the best that is known costs {best:.3f} $ "
            f"({seconds:.0f} s to completion)."
        )
    above: dict[str, list[float]] = {}
    for run in runs:
        above.setdefault(run.policy, []).append(run.result.cost / limits[run.seed].best.cost - 1)
    yield "Above it: " + ", ".join(f"{name} {100 * fmean(of):.1f} %" for name, of in above.items())
    shrunk = {run.policy: None for run in runs if any(job.sizes for job in run.result.jobs)}
    if shrunk:
        yield f"{', '.join(shrunk)} gave jobs less than they ask for: no limit holds for that."
