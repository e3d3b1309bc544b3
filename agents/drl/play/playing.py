"""Learned policies in compiled code: a simulation that decides as `learned_policy` does, behind its guard.

`agents.compiled.waits` counts waits and overtakings, `asking.py` builds the network's input, `guarding.py`
implements the guard, and `agents.drl.player` reports decisions.
"""

from agents.compiled.waits import may_overtake, note_fit
from agents.drl.kernel.placing import Choices, Draft, PlacingWorkspace
from agents.drl.network import Network
from agents.drl.play.arrays import (
    GUARD,
    NETWORK,
    NOBODY,
    DecisionNotes,
    NetworkBeliefs,
    NetworkLimits,
    NetworkState,
    Space,
)
from agents.drl.play.asking import ask
from agents.drl.play.guarding import fit_best, idle_share, late_one
from environment.kernel.compiled import njit
from environment.kernel.play_loop import (
    CPUS,
    MEMORY,
    ROOM,
    Trace,
    bring_to_head,
    expected_of_started,
    lacking,
    note,
    room_for_head,
    wait_for_event,
    waiting,
)
from environment.kernel.resized_jobs import SparedResources
from environment.kernel.rules import put_executor, start_head
from environment.kernel.state import Batch, Layout, SmallIntArray


@njit(entry=True)
def play_learned(
    batch: Batch,
    spared: SparedResources,
    trace: Trace,
    until: int,
    believed: NetworkBeliefs,
    means: NetworkLimits,
    borne: NetworkState,
    said: DecisionNotes,
    layout: Layout,
    network: Network,
    desk: PlacingWorkspace,
    draft: Draft,
    space: Space,
) -> bool:
    """Decide until `until` jobs are placed; False when the head waits and no event will ever follow."""
    state, numbers = batch.state, space.numbers
    while state.head[0] < until:
        waits = waiting(batch, spared, 0, trace)
        oldest = borne.counts.order[state.head[0]]
        if borne.oldest[0] != oldest:
            borne.oldest[0] = oldest
            borne.oldest[1] += 1
        made = note(batch, 0, trace, waits, oldest)
        _notice(batch, made, waits, means, believed, borne)
        said.oldest[made], said.by[made], said.begin[made] = oldest, NOBODY, said.counts[0]
        alone = borne.waits[oldest] >= means.wait_limit
        reach = waits
        if not may_overtake(means.waits, borne.counts, oldest):
            reach = 1
        fit = 0
        for i in range(1 if alone and borne.fits[0] else min(reach, means.considered)):
            if borne.fits[i]:
                numbers[fit] = i
                fit += 1
        if borne.stands[0] >= 0 and borne.stands[1] == waits and borne.stands[2] == state.running[0]:
            said.by[made], said.begin[made] = NETWORK, said.begin[borne.stands[0]]  # a new job is not seen
        elif fit > 0:
            job, executors = ask(
                batch, made, waits, fit, alone, believed, means, borne, layout, network, desk, draft, space
            )
            said.by[made], said.fitted[made], said.held_back[made] = NETWORK, fit, borne.waits[oldest]
            _tell(draft.choices, max(executors, 1), said)
            if executors > 0:
                _place(batch, trace, believed, means, borne, said, space, made, job, draft.placed[:executors])
                continue
            if borne.fits[0]:
                borne.waits[oldest] += 1
            borne.stands[0], borne.stands[1], borne.stands[2] = made, waits, state.running[0]
        late = late_one(batch, min(reach, waits, means.watched), means, believed, borne)
        if late >= 0:
            now, number = state.clock[0], borne.counts.order[state.head[0] + late]
            said.by[made], said.waited[made] = GUARD, now - borne.counts.since[number]
            said.idle[made] = idle_share(batch)
            said.counts[1] += 1
            executors = fit_best(batch, state.head[0] + late, space.used, draft.placed)
            _place(batch, trace, believed, means, borne, said, space, made, late, draft.placed[:executors])
            continue
        trace.lacks[made, ROOM] = room_for_head(batch, 0)
        trace.lacks[made, CPUS], trace.lacks[made, MEMORY] = lacking(batch, 0)
        if not wait_for_event(batch, spared, 0, trace):
            return False
    return True


@njit()
def _notice(
    batch: Batch, made: int, waits: int, means: NetworkLimits, believed: NetworkBeliefs, borne: NetworkState
) -> None:
    """Update the fits of the first waiting jobs, and the times since when those watched by the guard fit."""
    head, now = batch.state.head[0], batch.state.clock[0]
    for i in range(min(waits, len(borne.fits))):
        number = borne.counts.order[head + i]
        kind = believed.jobs.kind[number]
        if borne.counts.noted[kind] != made:
            borne.counts.noted[kind], borne.fitting[kind] = made, _has_room(batch, head + i)
        borne.fits[i] = borne.fitting[kind]
        if i < means.watched:
            note_fit(borne.counts, number, borne.fits[i], now)


@njit()
def _has_room(batch: Batch, job: int) -> bool:
    """Whether all executors of a job that waits fit now."""
    state, jobs, room = batch.state, batch.jobs, 0
    cpus, memory, count = jobs.milli_cpus[0, job], jobs.memory_mib[0, job], jobs.executors[0, job]
    for vm in range(batch.machines.milli_cpus.shape[1]):
        if state.free_milli_cpus[0, vm] >= cpus and state.free_memory_mib[0, vm] >= memory:
            room += min(state.free_milli_cpus[0, vm] // cpus, state.free_memory_mib[0, vm] // memory)
            if room >= count:
                return True
    return False


@njit()
def _tell(made: Choices, count: int, said: DecisionNotes) -> None:
    """Record the first choices of a decision."""
    at, kept = said.counts[0], said.choices
    for i in range(count):
        kept.action[at + i], kept.score[at + i], kept.share[at + i] = (
            made.action[i],
            made.score[i],
            made.share[i],
        )
        kept.other[at + i], kept.other_score[at + i] = made.other[i], made.other_score[i]
        kept.other_share[at + i] = made.other_share[i]
    said.counts[0] = at + count


@njit()
def _place(
    batch: Batch,
    trace: Trace,
    believed: NetworkBeliefs,
    means: NetworkLimits,
    borne: NetworkState,
    said: DecisionNotes,
    space: Space,
    made: int,
    job: int,
    placement: SmallIntArray,
) -> None:
    """Start the job of that number in the queue there."""
    head, number = batch.state.head[0], bring_to_head(batch, 0, borne.counts.order, job)
    if job > 0:
        borne.counts.overtaken[said.oldest[made]] += 1
    trace.job[made], said.passed[made] = number, job
    borne.stands[0] = -1
    used = 0
    for i in range(len(placement)):
        new = True
        for other in range(i):
            new = new and placement[other] != placement[i]
        used += new
        put_executor(batch, 0, placement[i])
    start_head(batch, 0)
    space.runs[space.running[0]] = head
    space.running[0] += 1
    expected = believed.jobs.expected[number]
    borne.expects[head] = expected_of_started(batch, 0, head, used, expected, means.waits.exact)
