"""Clusters, policies, keepers and sizes under which logged applications are played again."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from audit.prices import Prices
from audit.savings.job_runs import JobRun
from audit.savings.paid_types import paid_types
from conf.schema.cluster import Billing, Cluster, Pool, Spot, VmGroup
from conf.schema.prices import VmPrice
from conf.util.counted import counted

#: VMs of EC2 with Linux: a minute until Spark runs there; charged by the second, a minute at least.
_BOOT, _BILLING = 60.0, Billing(granularity=1.0, minimum=60.0)
#: Chosen: that of clusters/spot.yaml. AWS publishes less than 5 % a month for some types, more than 20 % for
#: others, and neither by the hour.
_INTERRUPTIONS, _NOTICE = 0.2, 120.0
#: Chosen: spot prices change by the hour, and the price list has one share for all of them.
_SPOT_UNKNOWN = 0.25
#: VMs of a pool at most: a decision looks at each.
_MOST_VMS = 2000
#: Room beyond the most that was there at once.
_ROOM = 1.25
#: Where no type is known, GiB for each core, and the fewest cores of a VM.
_RATIOS, _FEWEST = (2, 4, 8, 16, 32), 4
_MIB_PER_GIB = 1024
#: Seconds after which Karpenter closes an empty node by default (consolidateAfter of its examples).
_KARPENTER_KEEPS = 30.0
#: Least share of its executors that a job may get.
FLOOR = 0.5
#: A policy that knows prices and interruptions.
_ON_SPOT = "greedy"


@dataclass(frozen=True, slots=True)
class Scenario:
    """A way to run the same applications."""

    name: str
    #: Requirements, in words.
    needs: str
    cluster: Cluster
    policy: str
    #: As --keep and --sizes of `stoker simulate` take it.
    keep: str = "break_even"
    sizes: str | None = None
    #: The name or file of a cluster that was given, empty for one that is made here.
    cluster_name: str = ""
    #: Standard deviation of its dollars by its assumptions, as a share of them.
    unknown: float = 0.0


def scenarios(
    runs: Sequence[JobRun], prices: Prices, policies: Sequence[str], given: tuple[str, Cluster] | None = None
) -> list[Scenario]:
    """Karpenter-like, Stoker's pools by policy, with smaller jobs, on spot VMs, a fixed cluster; the given.

    Where a cluster is given, its VMs replace the pools that are made of the types in the logs.
    """
    pools = Cluster(pools=tuple(_pools(runs, prices)))
    spot = Cluster(pools=(*pools.pools, *(_as_spot(pool, prices) for pool in pools.pools)))
    name, on = ("", pools) if given is None else given
    where = "a pool of VMs" if given is None else f"the VMs of {name}"
    found = [
        Scenario(
            "Karpenter-like",
            "an autoscaler that packs executors on nodes and closes empty nodes after 30 s",
            pools,
            "karpenter",
            f"timeout:{_KARPENTER_KEEPS:g}",
        ),
        *(
            Scenario(
                f"shared VMs, {policy}",
                f"a Stoker daemon that places all applications on {where}",
                on,
                policy,
                cluster_name=name,
            )
            for policy in policies
        ),
        Scenario(
            f"shared VMs, {policies[-1]}, half the size",
            f"a Stoker daemon that places all on {where}, some with down to half of their executors",
            on,
            policies[-1],
            sizes=f"floor={FLOOR:g}",
            cluster_name=name,
        ),
    ]
    if given is None:
        needs = "a Stoker daemon that places all on spot VMs: some are taken away, and their work is repeated"
        found.append(Scenario(f"spot VMs, {_ON_SPOT}", needs, spot, _ON_SPOT, unknown=_SPOT_UNKNOWN))
    fixed = Cluster(vms=tuple(_fixed(runs, pools)))
    count = sum(group.count for group in fixed.vms)
    needs = f"{counted(count, 'VM')} always there, enough for the most that ran at once"
    return [*found, Scenario("fixed cluster", needs, fixed, policies[0])]


def _pools(runs: Sequence[JobRun], prices: Prices) -> list[Pool]:
    """A pool for each VM type of the logs; of executors without a type, one by cores and memory."""
    by_vm: dict[tuple[str, bool, float], list[JobRun]] = {}
    types = paid_types(runs, prices)
    for run in runs:
        known = types.get(run.vm_type)
        named = run.vm_type if known is not None and _fits(run, known) else ""
        by_vm.setdefault((named, run.gpus > 0, 0.0 if named else _cores(run)), []).append(run)
    found: dict[str, Pool] = {}
    for (name, gpus, cores), of in sorted(by_vm.items()):
        vm = types[name] if name else _general(of, cores, prices)
        label = name or f"{vm.cpus:g}-core" + ("-gpu" if gpus else "")
        largest = max(run.executors for run in of)
        most = min(max(largest, math.ceil(_ROOM * _most_at_once(of, lambda run: run.executors))), _MOST_VMS)
        found[label] = Pool(
            name=label,
            type=label,
            cpus=vm.cpus,
            memory=vm.memory,
            price_per_hour=vm.price_per_hour,
            max=min(most, _MOST_VMS),
            boot=_BOOT,
            billing=_BILLING,
            resources=vm.resources,
        )
    return list(found.values())


def _fits(run: JobRun, vm: VmPrice) -> bool:
    gpus = vm.resources.get("gpus", 0.0)
    return run.cpus <= vm.cpus and run.memory_mib <= vm.memory and run.gpus <= gpus


def _cores(run: JobRun) -> float:
    """Cores of a VM of no type that holds an executor of the run, with the most GiB for each core."""
    count = float(_FEWEST)
    while count < run.cpus or count * _RATIOS[-1] * _MIB_PER_GIB < run.memory_mib:
        count *= 2
    return count


def _general(runs: Sequence[JobRun], count: float, prices: Prices) -> VmPrice:
    """A VM of so many cores that holds each of these executors, priced by cores, memory and GPUs."""
    memory, gpus = max(run.memory_mib for run in runs), max(run.gpus for run in runs)
    usual = float(np.median([run.memory_mib / run.cpus for run in runs])) / _MIB_PER_GIB
    least = max(usual, memory / count / _MIB_PER_GIB)
    ratio = next((each for each in _RATIOS if each >= least), _RATIOS[-1])
    table = prices.table
    per_core = table.per_core_hour
    if per_core is None:  # priced by the share of a type that its executors do not fit
        per_core = max(run.per_hour / run.cpus for run in runs)
    price = per_core * count + table.per_gib_hour * count * ratio + table.per_gpu_hour * gpus
    resources = {"gpus": gpus} if gpus else {}
    return VmPrice(
        cpus=count,
        memory=round(count * ratio * _MIB_PER_GIB),
        price_per_hour=round(price, 6),
        resources=resources,
    )


def _as_spot(pool: Pool, prices: Prices) -> Pool:
    vm = prices.table.type_named(pool.type)
    said = vm.spot_price_per_hour if vm is not None else None
    price = said if said is not None else (pool.price_per_hour or 0.0) * prices.table.spot_share
    spot = Spot(price_per_hour=round(price, 6), interruptions_per_hour=_INTERRUPTIONS, notice=_NOTICE)
    return pool.model_copy(update={"name": f"{pool.name}-spot", "price_per_hour": None, "spot": spot})


def _fixed(runs: Sequence[JobRun], pools: Cluster) -> list[VmGroup]:
    """As many VMs of each type as hold the most executors that were there at once."""
    found = []
    for pool in pools.pools:
        gpus = pool.resources.get("gpus", 0.0)
        of = [run for run in runs if (run.gpus > 0) == (gpus > 0)]
        of = [run for run in of if run.vm_type == pool.type] or of

        def vms(run: JobRun, pool: Pool = pool, gpus: float = gpus) -> float:
            on_one = min(pool.cpus // run.cpus, pool.memory // run.memory_mib)
            if run.gpus:
                on_one = min(on_one, gpus // run.gpus)
            return run.executors / max(on_one, 1.0)

        count = max(1, min(math.ceil(_most_at_once(of, vms)), _MOST_VMS))
        found.append(
            VmGroup(
                type=pool.type,
                cpus=pool.cpus,
                memory=pool.memory,
                price_per_hour=pool.price_per_hour or 0.0,
                count=count,
                resources=pool.resources,
            )
        )
    return found


def _most_at_once(runs: Sequence[JobRun], amount: Callable[[JobRun], float]) -> float:
    """The largest sum of an amount over the runs that were there at one time."""
    times = np.array([[r.application.started_at, r.application.started_at + r.seconds] for r in runs])
    steps = np.array([[amount(run), -amount(run)] for run in runs]).reshape(-1)
    order = np.lexsort((steps, times.reshape(-1)))
    return float(np.cumsum(steps[order]).max())
