"""Outcomes of an episode: each job's, the holdings over time, and the result.

`results` defines the result; `simulator` runs an episode.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from conf.units import SECONDS_PER_HOUR
from environment.resources import NOTHING, Resources
from environment.simulation.results.decision_trace import TracedDecisions
from environment.simulation.results.job_outcomes import JobOutcomes, OutcomeColumns
from environment.simulation.results.lower_bound import perfect_packing_bound
from environment.simulation.results.results import HeldArrays, Result, cost_shares
from environment.simulation.world import World
from environment.types import FloatArray, IntArray


def result_of(
    world: World, trace: TracedDecisions, refused: Mapping[str, str], seconds: Sequence[float] | FloatArray
) -> Result:
    """The result of an episode that is over, with the decisions and how many seconds each took."""
    held, order = _held(world), _in_order_of_arrival(world)
    state = world.batch.state
    cost, bill = world.meter.bill()
    ran = _outcomes(world, held, order)
    return Result(
        jobs=ran,
        vms=world.vms,
        vm_seconds=tuple(state.used[0, : len(world.vms)].tolist()),
        cost=cost,
        bill=bill,
        bound=_bound(world) if ran else 0.0,
        decisions=trace,
        held=_of(order, held),
        refused=refused,
        aside=world.aside(),
        given_up={world.in_turn[number].id: why for number, why in world.placed.missing.given_up.items()},
        kept_off_spot=tuple(job.id for job in world.jobs if job.unending_on),
        decision_seconds=np.asarray(seconds, np.float64),
        truth=world.options.truth,
        belief=str(world.options.belief),
        spot_belief=str(world.options.spot_belief),
        interruptions=world.placed.missing.interruptions.vms,
        executors_lost=world.placed.missing.interruptions.executors,
        work_lost=world.placed.missing.interruptions.work_lost / SECONDS_PER_HOUR,
        opens_refused=world.opens_refused,
        **world.placed.given_way(),
    )


def _bound(world: World) -> float:
    aside = world.aside()
    ran = [job for job in world.episode.truth.values() if job.id not in aside]
    return perfect_packing_bound(ran, world.vms, world.placed.partial)


def _in_order_of_arrival(world: World) -> IntArray:
    """The numbers in the kernel of the jobs that ran, in order of arrival; [R]."""
    numbers = {job.id: number for number, job in enumerate(world.in_turn[: world.head])}
    return np.array([numbers[job.id] for job in world.jobs if job.id in numbers], np.int64)


def _outcomes(world: World, held: HeldArrays, order: IntArray) -> JobOutcomes:
    """Outcomes of the jobs that ran; those that wait to the end stand behind them."""
    jobs, state, in_turn = world.batch.jobs, world.batch.state, world.in_turn
    placement = state.placement[0].copy()
    for at, vm in world.placed.missing.first.items():
        placement[at] = vm
    columns = OutcomeColumns(
        start=state.start[0][order],
        end=state.end[0][order],
        cost=_costs(world, held)[order],
        executors=jobs.executors[0][order],
        prefers=jobs.prefers[0][order],
        first=jobs.first[0][order],
        placement=placement,
    )
    sizes = {
        place: taken for place, number in enumerate(order.tolist()) if (taken := world.placed.sizes(number))
    }
    return JobOutcomes([in_turn[number] for number in order.tolist()], columns, sizes)


def _held(world: World) -> HeldArrays:
    """Holdings over time, by the jobs' numbers in the kernel."""
    jobs, state, executors = world.batch.jobs, world.batch.state, world.batch.jobs.executors[0]
    job = np.repeat(np.arange(len(executors)), executors)
    # Jobs with fewer executors than they ask for leave places unused.
    at = np.arange(len(job)) - np.repeat(np.cumsum(executors) - executors, executors) + jobs.first[0][job]
    start, end, over = state.start[0][job], state.end[0][job], world.placed.missing.stints
    for moved, since in world.placed.missing.since.items():
        start[at == moved] = since
    kinds: dict[Resources, int] = {}
    of_job, known = np.zeros(len(executors), np.int64), dict[int, int]()
    for number, asks in enumerate(world.in_turn):
        kind = known.get(id(asks.size))  # most jobs ask for as much as another one, and by the same object
        if kind is None:
            kind = known[id(asks.size)] = kinds.setdefault(asks.size, len(kinds))
        of_job[number] = kind
    given = np.full(state.placement.shape[1], -1)
    given[list(world.placed.given)] = [
        kinds.setdefault(size, len(kinds)) for size in world.placed.given.values()
    ]
    of_each = np.where(given[at] < 0, of_job[job], given[at])
    more = [kinds.setdefault(stint.size, len(kinds)) for stint in over]
    return HeldArrays(
        np.append(job, [stint.job for stint in over]).astype(np.int64),
        np.append(state.placement[0][at], [stint.vm for stint in over]).astype(np.int64),
        np.append(start, [stint.start for stint in over]),
        np.append(end, [stint.end for stint in over]),
        np.append(of_each, more).astype(np.int64),
        tuple(kinds),
    )


def _of(order: IntArray, held: HeldArrays) -> HeldArrays:
    """Renumber holdings by the order of the jobs that ran; those of other jobs are dropped."""
    of = np.full(max(int(held.job.max(initial=-1)), int(order.max(initial=-1))) + 1, -1, np.int64)
    of[order] = np.arange(len(order))
    job = of[held.job]
    ran_too = job >= 0
    return HeldArrays(
        job[ran_too],
        held.vm[ran_too],
        held.start[ran_too],
        held.end[ran_too],
        held.kind[ran_too],
        held.kinds,
    )


def _costs(world: World, held: HeldArrays) -> FloatArray:
    """Each job's share in the cost, dollars, [M]."""
    return cost_shares(
        held.job,
        held.vm,
        world.meter.price_seconds(held.vm, held.start),
        world.meter.price_seconds(held.vm, held.end),
        _dominant(world, held),
        world.batch.machines.price_per_hour[0],
    )


def _dominant(world: World, held: HeldArrays) -> FloatArray:
    """The largest fraction of anything that its VM has that each executor takes, [E]."""
    wholes: dict[Resources, int] = {}
    # Lost executors are on a VM behind the last, which has nothing.
    of_vm = [wholes.setdefault(one.resources, len(wholes)) for one in world.vms]
    of_vm += [wholes.setdefault(NOTHING, len(wholes))]
    shares = np.array([[size.share_of(whole) for whole in wholes] for size in held.kinds])
    dominant: FloatArray = shares.reshape(-1, len(wholes))[held.kind, np.array(of_vm)[held.vm]]
    return dominant
