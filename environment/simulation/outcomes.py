"""What came of an episode: the outcome of every job, who held what from when to when, and the result.

What a result tells is in `results`; how an episode is run, in `simulator`.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from conf.units import SECONDS_PER_HOUR
from environment.kernel.durations import is_good
from environment.resources import NOTHING, Resources
from environment.simulation.limits import perfect_packing_bound
from environment.simulation.results import Held, JobOutcome, Result, Traced, cost_shares
from environment.simulation.world import World
from environment.types import FloatArray


def result_of(
    world: World, trace: Sequence[Traced], refused: Mapping[str, str], seconds: Sequence[float]
) -> Result:
    """The result of an episode that is over, with the decisions and how many seconds each took."""
    held = _held(world)
    state, outcomes = world.batch.state, {outcome.name: outcome for outcome in _outcomes(world, held)}
    cost, bill = world.meter.bill()
    ran = tuple(outcomes[job.id] for job in world.jobs if job.id in outcomes)
    return Result(
        jobs=ran,
        vms=world.vms,
        vm_seconds=tuple(state.used[0, : len(world.vms)].tolist()),
        cost=cost,
        bill=bill,
        bound=_bound(world) if outcomes else 0.0,
        decisions=tuple(trace),
        held=_of(ran, world, held),
        refused=refused,
        aside=world.aside(),
        decision_seconds=np.array(seconds),
        truth=world.options.truth,
        belief=str(world.options.belief),
        spot_belief=str(world.options.spot_belief),
        interruptions=world.missing.interruptions.vms,
        executors_lost=world.missing.interruptions.executors,
        work_lost=world.missing.interruptions.work_lost / SECONDS_PER_HOUR,
        **world.given_way(),
    )


def _bound(world: World) -> float:
    aside = world.aside()
    ran = [job for job in world.truth.values() if job.id not in aside]
    return perfect_packing_bound(ran, world.vms, world.partial)


def _outcomes(world: World, held: Held) -> Iterator[JobOutcome]:
    """Of the jobs that ran; those that wait to the end stand behind them."""
    jobs, state = world.batch.jobs, world.batch.state
    placement = state.placement[0].tolist()
    rows = zip(
        (request.job for request in world.requests[: world.head]),
        jobs.first[0].tolist(),
        jobs.executors[0].tolist(),
        jobs.prefers[0].tolist(),
        state.start[0].tolist(),
        state.end[0].tolist(),
        _costs(world, held).tolist(),
        strict=False,
    )
    for number, (job, first, executors, prefers, start, end, cost) in enumerate(rows):
        vms = tuple(world.missing.first.get(at, placement[at]) for at in range(first, first + executors))
        yield JobOutcome(
            job.id, job.type, job.size, job.executors, job.submitted_at, start, end, vms,
            is_good(prefers, executors, len(set(vms))), cost, world.sizes(number),
            job.owner, job.queue, job.priority, job.deadline,
        )  # fmt: skip


def _held(world: World) -> Held:
    """Who held what, by the jobs' numbers in the kernel."""
    jobs, state, executors = world.batch.jobs, world.batch.state, world.batch.jobs.executors[0]
    job = np.repeat(np.arange(len(executors)), executors)
    # Jobs with fewer executors than they ask for leave places unused.
    at = np.arange(len(job)) - np.repeat(np.cumsum(executors) - executors, executors) + jobs.first[0][job]
    start, end, over = state.start[0][job], state.end[0][job], world.missing.stints
    for moved, since in world.missing.since.items():
        start[at == moved] = since
    kinds: dict[Resources, int] = {}
    of_job = np.zeros(len(executors), np.int64)
    for number, request in enumerate(world.requests):
        of_job[number] = kinds.setdefault(request.job.size, len(kinds))
    given = np.full(state.placement.shape[1], -1)
    given[list(world.given)] = [kinds.setdefault(size, len(kinds)) for size in world.given.values()]
    kind = np.where(given[at] < 0, of_job[job], given[at])
    more = [kinds.setdefault(stint.size, len(kinds)) for stint in over]
    return Held(
        np.append(job, [stint.job for stint in over]).astype(np.int64),
        np.append(state.placement[0][at], [stint.vm for stint in over]).astype(np.int64),
        np.append(start, [stint.start for stint in over]),
        np.append(end, [stint.end for stint in over]),
        np.append(kind, more).astype(np.int64),
        tuple(kinds),
    )


def _of(ran: Sequence[JobOutcome], world: World, held: Held) -> Held:
    """The same by the numbers of these jobs."""
    numbers = {job.name: number for number, job in enumerate(ran)}
    of = np.full(len(world.jobs), -1, np.int64)  # also of those that never arrived
    of[: len(world.requests)] = [numbers.get(request.job.id, -1) for request in world.requests]
    job = of[held.job]
    ran_too = job >= 0
    return Held(
        job[ran_too],
        held.vm[ran_too],
        held.start[ran_too],
        held.end[ran_too],
        held.kind[ran_too],
        held.kinds,
    )


def _costs(world: World, held: Held) -> FloatArray:
    """Each job's share in the cost, dollars, [M]."""
    return cost_shares(
        held.job,
        held.vm,
        world.meter.price_seconds(held.vm, held.start),
        world.meter.price_seconds(held.vm, held.end),
        _dominant(world, held),
        world.batch.machines.price_per_hour[0],
    )


def _dominant(world: World, held: Held) -> FloatArray:
    """The largest fraction of anything that its VM has that each executor takes, [E]."""
    wholes: dict[Resources, int] = {}
    # What is lost is on a VM behind the last, which has nothing.
    of_vm = [wholes.setdefault(one.resources, len(wholes)) for one in world.vms]
    of_vm += [wholes.setdefault(NOTHING, len(wholes))]
    shares = np.array([[size.share_of(whole) for whole in wholes] for size in held.kinds])
    dominant: FloatArray = shares.reshape(-1, len(wholes))[held.kind, np.array(of_vm)[held.vm]]
    return dominant
