"""Clusters with jobs that hold executors, in a line each, for tests of preemption."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from environment.queues.running_usage import Holder, Holders, RunningExecutor
from environment.queues.types import Preemption, Queue, Queues, Sharing
from environment.resource_arrays import ResourceArrays
from environment.resources import Resources, total
from environment.types import Job, PlacementRequest, Vm
from environment.view import ClusterView
from tests.builders import make_job, make_vms


def sharing(*by: str, queues: Sequence[Queue] = (), **terms: Any) -> Sharing:
    """Preemption by these causes, between these queues."""
    return Sharing(preemption=Preemption(by, **terms), queues=Queues(tuple(queues)))  # type: ignore[arg-type]


def guaranteed(path: str, cpus: float = 0.0, **more: Any) -> Queue:
    """A queue that has so many cpus for sure."""
    return Queue(path, guaranteed=Resources.of(cpus), **more)


def job(job_id: str, executors: int = 1, cpus: float = 1.0, **more: Any) -> Job:
    """A job of executors of 1 GiB."""
    return replace(make_job(job_id, executors, cpus), **more)


def holder(
    of: Job, on: Sequence[int], since: float = 0.0, ends_at: float | None = None, **more: Any
) -> Holder:
    """A job with executors on these VMs, by index, since then."""
    spare = 0 if of.min_executors is None else len(on) - of.min_executors
    held = tuple(RunningExecutor(number, vm, since, of.size) for number, vm in enumerate(on))
    return Holder(of, since, ends_at, held, **{"spare": spare, "whole": of.restartable, **more})


def view_of(vms: Sequence[Vm], holders: Sequence[Holder], now: float = 100.0) -> ClusterView:
    """The cluster minus the resources that these jobs hold."""
    taken: dict[int, list[Resources]] = {}
    for each in holders:
        for held in each.held:
            taken.setdefault(held.vm, []).append(held.size)
    free = [(vm.resources - total(taken.get(i, ()))).positive for i, vm in enumerate(vms)]
    counts = np.array([len(taken.get(i, ())) for i in range(len(vms))], np.int64)
    return ClusterView(now, tuple(vms), ResourceArrays.of(free), counts)


def asks(of: Job) -> PlacementRequest:
    """The whole job asks for a place."""
    return PlacementRequest(of, of.executors)


def cluster(
    holders: Sequence[Holder], vms: int = 2, cpus: float = 4.0, now: float = 100.0
) -> tuple[ClusterView, Holders]:
    """So many equal VMs with these jobs on them, 100 s after the beginning."""
    return view_of(make_vms(vms, cpus), holders, now), Holders.of_jobs(holders)


def taken(victims: Sequence[Any]) -> Mapping[str, int | str]:
    """How many executors each victim gives; `whole` for one that is stopped."""
    return {victim.job_id: "whole" if victim.whole else len(victim.numbers) for victim in victims}
