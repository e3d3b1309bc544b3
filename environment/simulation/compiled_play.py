"""Plays simulations in compiled code and reports their decisions afterwards.

Results are the same as when the policy is asked decision by decision, as in `simulator`: the world is one
that the kernel models completely (`World.plain`), and the policy decides the same in compiled code
(`environment.policy.CompiledPolicy`). A job takes microseconds instead of a fifth of a millisecond.
"""

from collections.abc import Callable, Sequence
from time import perf_counter

import numpy as np

from environment.decisions.feasibility import told_shortage
from environment.kernel import play_loop
from environment.kernel.play_loop import CPUS, MADE, MEMORY, ROOM, WAITS, Trace
from environment.policy import Player
from environment.resources import CPUS as CPUS_NAME
from environment.resources import MEMORY as MEMORY_NAME
from environment.simulation.results.decision_trace import (
    StuckError,
    ToldDecisions,
    TracedDecision,
    TracedDecisions,
)
from environment.simulation.world import World
from environment.types import FloatArray, Job

#: From so many jobs on a simulation is played here if it can be: the time of single decisions is not known
#: then, and a few jobs are played in no time by asking.
MANY = 10_000


def play_compiled(
    world: World, player: Player, report: Callable[[int], None], every: int
) -> tuple[TracedDecisions, FloatArray]:
    """Play a plain world to its end: its decisions, and the mean seconds of each decision.

    `report` is called with the number of jobs placed, at each multiple of `every` and at the end.
    """
    jobs, trace, seconds = len(world.jobs), play_loop.blank_trace(len(world.jobs), world.options.jvms), []
    while world.head < jobs:
        until = min(jobs, (world.head // every + 1) * every)
        made, began = int(trace.counts[MADE]), perf_counter()
        if not player.play(world.batch, world.episode.spared, trace, until):
            raise StuckError(
                f"{world.jobs[int(player.order[world.head])].id} will never be placed at {world.now:g} s"
            )
        new = int(trace.counts[MADE]) - made
        seconds.append(np.full(new, (perf_counter() - began) / max(new, 1)))
        report(world.head)
    world.finish_plain(player.order)
    return _told(world, player, trace), np.concatenate(seconds) if seconds else np.zeros(0)


def _told(world: World, player: Player, trace: Trace) -> TracedDecisions:
    jobs, size = world.jobs, len(world.vms)
    first, count = world.batch.jobs.first[0], world.batch.jobs.executors[0]
    placement, kernels = world.batch.state.placement[0], np.argsort(player.order)

    def tell(number: int) -> TracedDecision:
        which = int(trace.job[number])
        job, at, waiting = jobs[which], float(trace.at[number]), int(trace.waiting[number])
        room = int(trace.lacks[number, ROOM])
        if room >= 0:
            lacks = _shortage(job, trace.lacks[number].tolist(), size) if room < job.executors else ""
            return TracedDecision(at, job.id, waiting, player.wait(number, lacks))
        begin = first[kernels[which]]
        on = tuple(placement[begin : begin + count[kernels[which]]].tolist())
        return TracedDecision(at, job.id, waiting, player.place(number, job, on))

    return ToldDecisions(int(trace.counts[MADE]), int(trace.counts[WAITS]), tell)


def _shortage(job: Job, lacks: Sequence[int], vms: int) -> str:
    lacking = {CPUS_NAME: lacks[CPUS], MEMORY_NAME: lacks[MEMORY]}
    return told_shortage(job.size, lacks[ROOM], job.executors, job.executors, lacking, vms)
