"""Runs a policy over a workload on a cluster, through the same contract as in the daemon.

The kernel has the rules; this module asks the policy. At one instant jobs end first, then jobs arrive, then
the policy decides, again and again until the queue is empty or it waits. A wait lasts until something
happens, the end of a job or an arrival, as in the daemon: a policy that looks at the whole queue may decide
otherwise when that has grown. A job that is placed before older ones becomes the head of the kernel's queue
first. (Episodes in which only the head is seen wait until a job ends: rule 4.)
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from time import perf_counter

from environment.decisions.decision_round import Verdict, WaitingRequests, decide_once
from environment.decisions.sizing import sizing_for
from environment.decisions.vain_waits import HeldBack, watched
from environment.policy import (
    CompiledPolicy,
    Decide,
    Observer,
    Player,
    Policy,
    bounds_waits,
    counts_of,
)
from environment.simulation.admission import admitted
from environment.simulation.compiled_play import MANY, play_compiled
from environment.simulation.options import SimulationOptions
from environment.simulation.results.decision_trace import (
    EndlessError,
    KeptDecisions,
    StuckError,
    TracedDecision,
    asked,
    teach,
)
from environment.simulation.results.outcomes import result_of
from environment.simulation.results.results import Result
from environment.simulation.world import World
from environment.types import Decision, EndedJob, Place, PlacementRequest, Vm, Wait
from environment.view import ClusterView
from profiles.workloads.workload import Workload

__all__ = ["Progress", "StuckError", "play", "simulate"]

#: How many jobs of how many are placed.
Progress = Callable[[int, int], None]

#: Chosen: often enough for a progress bar, seldom enough to cost nothing.
_REPORTS = 200
#: Steps at one time, beside one for each job, after which the clock is said to stand still.
_STILL = 1_000


def simulate(
    policy: Policy,
    workload: Workload,
    cluster: Sequence[Vm],
    *,
    options: SimulationOptions | None = None,
    fallback: Policy | None = None,
    progress: Progress | None = None,
    compiled: bool | None = None,
) -> Result:
    """Run the policy until all jobs have ended.

    Very many jobs are played in compiled code where policy and world allow it; with `compiled` all are, or
    none. The results are the same, except that single decisions are not timed then.

    Sizes that jobs leave to Stoker are chosen when they arrive, from those that have ended by then.
    Jobs that would not fit the empty cluster are rejected up front, and named in the result. A decision that
    cannot be executed counts as a violation and becomes the fallback's decision, or a wait if there is none.
    Jobs that no longer fit after VMs were lost wait aside, as in the daemon, and are named in the result.

    StuckError when the policy waits (and so does the fallback) although nothing will ever happen, and
    EndlessError, which is one, after more events than the options allow.
    """
    world, refused = admitted(workload, cluster, options or SimulationOptions())
    return play(world, policy, refused, fallback=fallback, progress=progress, compiled=compiled)


def play(
    world: World,
    policy: Policy,
    refused: Mapping[str, str] | None = None,
    *,
    fallback: Policy | None = None,
    progress: Progress | None = None,
    compiled: bool | None = None,
) -> Result:
    """Run the policy in a world until all jobs have ended, as `simulate` does; it refused these before."""
    options, jobs = world.options, len(world.jobs)
    many = jobs >= MANY if compiled is None else compiled
    cut_short, guarded = asked(lambda: counts_of(policy))
    if many and (player := asked(lambda: _player(world, policy))) is not None:
        every = max(1, jobs // _REPORTS)
        made, seconds = play_compiled(world, player, lambda placed: _report(progress, placed, jobs), every)
        result = result_of(world, made, refused or {}, seconds)
        return replace(result, guarded=asked(lambda: counts_of(policy))[1] - guarded)
    watch = _Stopwatch(policy)
    trace = []
    observe = asked(lambda: policy.observe if isinstance(policy, Observer) else None)
    held = asked(lambda: watched(policy))
    decide = partial(
        decide_once,
        watch.decide,
        fallback=fallback.decide if fallback else None,
        sizing=asked(lambda: sizing_for(policy, options.sizes)),
        held=held,
    )
    for traced in _run(world, decide, fallback.decide if fallback else None, observe, held):
        trace.append(traced if options.scores else _without_scores(traced))
        if isinstance(traced.decision, Place):
            _report(progress, world.head, jobs)
    result = result_of(world, KeptDecisions(trace), refused or {}, watch.seconds)
    since = asked(lambda: counts_of(policy))
    return replace(result, cut_short=since[0] - cut_short, guarded=since[1] - guarded)


def _player(world: World, policy: Policy) -> Player | None:
    """The policy in compiled code, where it and the world are such that it can be played there."""
    if not isinstance(policy, CompiledPolicy) or isinstance(policy, Observer) or not bounds_waits(policy):
        return None
    if not world.plain:
        return None
    return policy.player(world.jobs, world.vms, world.running, exact=world.options.belief.exact)


class _Stopwatch:
    """A policy with timed decisions."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self.seconds: list[float] = []

    def decide(self, view: ClusterView, queue: Sequence[PlacementRequest]) -> Decision:
        began = perf_counter()
        try:
            return self._policy.decide(view, queue)
        finally:
            self.seconds.append(perf_counter() - began)


def _run(
    world: World,
    decide: Callable[[ClusterView, WaitingRequests], Verdict],
    fallback: Decide | None,
    observe: Callable[[EndedJob], None] | None,
    held: HeldBack | None,
) -> Iterator[TracedDecision]:
    events, most = 0, world.options.events(len(world.jobs))
    still = 0

    def count() -> None:
        nonlocal events
        events += 1
        if events > most:
            raise EndlessError(_endless(world, most))

    def pass_time(until: float) -> None:
        nonlocal still
        count()
        still = still + 1 if until <= world.now else 0
        if still > _STILL + len(world.jobs):
            raise EndlessError(f"the clock of the simulation stands still at {world.now:g} s")
        for ended in world.pass_time(until):
            if observe is not None:
                teach(observe, ended)

    while True:
        while not (queue := world.queue()) and (next_request := world.next_request()) is not None:
            pass_time(next_request)
        if not queue:
            break
        waiting = len(queue)
        count()
        verdict = decide(world.view(), queue)
        if isinstance(verdict.decision, Wait) and (taken := world.seek(verdict.view)) is not None:
            verdict = replace(verdict, request=taken[0], decision=taken[1])
        event = world.next_event() if isinstance(verdict.decision, Wait) else None
        if isinstance(verdict.decision, Wait) and event is None:
            verdict = _unstick(verdict, verdict.decision, queue, fallback)
        if isinstance(verdict.decision, Place):
            world.place(verdict.request, verdict.decision)
        elif event is not None:
            world.plan(verdict.decision.keeps)
            pass_time(event if held is None or held.due_at <= world.now else min(event, held.due_at))
        yield TracedDecision(
            verdict.view.at, verdict.request.job.id, waiting, verdict.decision, verdict.faults
        )
    world.finish()


def _unstick(
    verdict: Verdict, wait: Wait, queue: Sequence[PlacementRequest], fallback: Decide | None
) -> Verdict:
    """The policy waits for nothing: the fallback places the job, or the run is over."""
    fault = f"it waits although nothing runs and nothing will arrive: {wait.reason}"
    if fallback is not None:
        second = decide_once(fallback, verdict.view, queue)
        if isinstance(second.decision, Place):
            return replace(second, faults=(*verdict.faults, fault))
    raise StuckError(f"{queue[0].job.id} will never be placed at {verdict.view.at:g} s: {fault}")


def _endless(world: World, events: int) -> str:
    """Error text for a run that was stopped after so many events, with the jobs that are not over."""
    running = sorted(running.job.id for running in world.running.values())
    still = f"{len(running)} of {len(world.jobs)} jobs run" + (f", such as {running[0]}" if running else "")
    why = "a job that is interrupted again and again may hardly ever end"
    if not running:
        why = (
            "jobs wait for VMs that are not there, such as spot VMs by a record, or beyond a limit in dollars"
        )
    return (
        f"the simulation was stopped after {events:,} events, at {world.now:,.0f} s of its clock: {still}; "
        f"{why}, and a larger limit (--most-events) continues the run"
    )


def _without_scores(traced: TracedDecision) -> TracedDecision:
    decision = traced.decision
    if isinstance(decision, Place) and (decision.scores or decision.details):
        return replace(traced, decision=replace(decision, scores=(), details={}))
    return traced


def _report(progress: Progress | None, placed: int, jobs: int) -> None:
    if progress is not None and (placed == jobs or placed % max(1, jobs // _REPORTS) == 0):
        progress(placed, jobs)
