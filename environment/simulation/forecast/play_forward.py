"""Plays the present cluster forward by present beliefs: when each job will run, and at which cost.

The simulation starts from a policy's present view and queue. Running jobs stay on their VMs for as long as
believed, or as drawn around that; the policy places the waiting ones. No other jobs come, except those of
the queue that are submitted later, or come after others that run or wait. Several draws make intervals.
Drivers on the cluster of waiting jobs take nothing here. `outlook` defines the results.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_
from statistics import NormalDist

import numpy as np

from conf.defaults import UNKNOWN_DURATION, UNKNOWN_SPREAD
from conf.units import SECONDS_PER_HOUR
from environment.kernel.arrays import refusals
from environment.policy import Policy
from environment.resources import NOTHING, Resources, total
from environment.simulation.durations.belief_errors import DrawnErrors, Errors
from environment.simulation.episode import SimulatedEpisode
from environment.simulation.forecast.outlook import FollowedJobs, JobOutlook, PlayedDraw
from environment.simulation.options import SimulationOptions
from environment.simulation.results.decision_trace import TracedDecision
from environment.simulation.results.results import Result
from environment.simulation.simulator import play
from environment.simulation.world import World
from environment.types import Job, Place, PlacementRequest, Vm
from environment.view import ClusterView, RunningJob

#: Jobs that were to be over long ago are believed to last for so many seconds at least.
_SOON = 1.0
#: Nothing is drawn beyond this probability, nor below the rest of it.
_SUREST = 1.0 - 1e-6
_NORMAL = NormalDist()


def play_ahead(
    policy: Policy,
    view: ClusterView,
    queue: Sequence[PlacementRequest],
    *,
    seed: int | None = None,
    options: SimulationOptions | None = None,
    fallback: Policy | None = None,
    follow: Sequence[str] = (),
    took: Mapping[str, float] | None = None,
    errors: Errors | None = None,
) -> PlayedDraw:
    """Play the queue forward from the view until all of it, and all running jobs, are over.

    With a `seed` the jobs' durations are drawn, those of running jobs given that they run still, and with
    `errors` by the joint errors of beliefs; without a seed they are the believed ones. The durations of
    finished jobs are known, by id, from `took`, though not to the policy; with a `seed` they vary around
    that by the job's spread, as in another run. For jobs to `follow`, by id, the outlook of all of them as
    one is returned, if all run. StuckError when the policy waits for ever.
    """
    options = options or SimulationOptions()
    draw = None if seed is None else np.random.default_rng(seed)
    running = [_RunningJob.of(job, view) for job in view.running]
    running = [held for held in running if held.vms]
    vms = _machines(view, running)
    waiting = [_from_now(request.job, view.at) for request in queue if not request.joins]
    never = refusals(waiting, vms)
    for job in waiting:
        if bad := [other for after in job.after for other in after.jobs if other in never]:
            never.setdefault(job.id, f"it comes after {bad[0]}, which would not run")
    waiting = [job for job in waiting if job.id not in never]
    if not (running or waiting):
        return PlayedDraw({}, 0.0, 0.0, never)
    parts = None
    if draw is not None and errors is not None:
        parts = errors.draw(waiting, [held.running for held in running], view.at, draw)
    began = [held.job if draw is None else held.drawn(view.at, draw, parts) for held in running]
    drawn = [*began, *(_taking(job, draw, took or {}, parts) for job in waiting)]
    world = World(SimulatedEpisode(drawn, vms, options, told=[*(held.job for held in running), *waiting]))
    world.open_as(view)
    for held in running:
        world.place(world.requests[world.head], Place(held.job.id, held.vms, sizes=held.sizes))
    result = play(world, policy, fallback=fallback, compiled=True)
    names = {job.id for job in waiting}
    jobs = {
        job.name: JobOutlook(job.started_at, job.ended_at, job.cost)
        for job in result.jobs
        if job.name in names and job.name not in result.given_up
    }
    dollars = _dollars(result, world.now) if world.elastic else result.cost
    followed = None
    if follow and all(job_id in jobs for job_id in follow):
        followed = _followed([jobs[job_id] for job_id in follow], follow[0], result.decisions, view, waiting)
    never = {**never, **result.aside, **result.given_up}
    return PlayedDraw(jobs, dollars, world.now, never, followed, result.fallback_share)


def _dollars(result: Result, seconds: float) -> float:
    """Dollars of VMs that come and go, and of others while executors hold them.

    With commitments also while they do not, since commitments cover VMs for as long as they are there.
    """
    if result.bill.commitments:
        return result.bill.with_commitments
    held = zip(result.vms, result.vm_seconds, strict=True)
    idle = math.fsum(vm.price_per_hour * (seconds - of) for vm, of in held if vm.terms is None)
    return result.bill.total - idle / SECONDS_PER_HOUR


def _followed(
    seen: Sequence[JobOutlook],
    first: str,
    decisions: Sequence[TracedDecision],
    view: ClusterView,
    waiting: Sequence[Job],
) -> FollowedJobs:
    """Combine the jobs' outlooks with the policy's decision on the first of them."""
    ahead = JobOutlook(
        min(each.start for each in seen), max(each.end for each in seen), sum(each.cost for each in seen)
    )
    jobs, before, why = {job.id: job for job in waiting}, set[str](), ""
    for traced in decisions:
        decision = traced.decision
        if traced.job == first and isinstance(decision, Place):
            if traced.at > 0.0:
                break
            vms = [view.vms[number] for number in decision.placement]
            shares = zip(vms, decision.sizes or jobs[first].asked, strict=False)
            price = sum(vm.price_per_hour * size.share_of(vm.resources) for vm, size in shares)
            return FollowedJobs(ahead, tuple(vm.id for vm in vms), price, before=len(before))
        if isinstance(decision, Place):
            before |= {traced.job} & jobs.keys()
        elif traced.at == 0.0:
            why = decision.reason if traced.job == first else f"{traced.job} waits first: {decision.reason}"
    return FollowedJobs(ahead, why=why, before=len(before))


@dataclass(frozen=True, slots=True)
class _RunningJob:
    """A running job as one that begins now and goes on for as long as is believed, where it is."""

    running: RunningJob
    job: Job
    vms: tuple[int, ...]
    sizes: tuple[Resources, ...]

    @classmethod
    def of(cls, running: RunningJob, view: ClusterView) -> "_RunningJob":
        taken, driver = running.taken, running.job.driver
        if driver is not None and len(running.vm_ids) > len(taken):
            taken = (*taken, driver)
        there = [each for each in zip(running.vm_ids, taken, strict=False) if each[0] in view.index]
        sizes = tuple(size for _, size in there)
        most = reduce(or_, sizes) if sizes else running.job.size
        job = replace(
            running.job, size=most, executors=len(sizes), min_executors=None, min_cpus=None, dynamic=None,
            prefers=None, curve=None, driver=None, submitted_at=0.0, start_at=None, after=(),
        )  # fmt: skip
        held = cls(running, job, tuple(view.index[vm_id] for vm_id, _ in there), sizes)
        return replace(held, job=held.lasting(running.end_assuming(view.at, UNKNOWN_DURATION) - view.at))

    def lasting(self, seconds: float) -> Job:
        """The job with a duration of so many seconds on its present resources.

        They are below its largest size for each executor where sizes differ.
        """
        cores = sum(size.cpus for size in self.sizes)
        share = cores / (self.job.cpus * self.job.executors) if cores else 1.0
        return replace(self.job, expected_duration=max(seconds, _SOON) * share)

    def drawn(self, at: float, draw: np.random.Generator, errors: DrawnErrors | None) -> Job:
        """The job with its remaining time drawn, given that it runs still."""
        passed = at - self.running.started_at
        if errors is None:
            seconds, spread = _known(self.running.expected, self.job.spread)
        else:
            seconds, spread = errors.of_running(self.running)
        # Of all durations that it may have, only those longer than it has run already.
        least = _NORMAL.cdf(_deviations(passed, seconds, spread)) if spread else 0.0
        chance = min(least + (1.0 - least) * draw.random(), _SUREST)
        return self.lasting(_drawn(seconds, spread, chance) - passed)


def _known(expected: float | None, spread: float) -> tuple[float, float]:
    return (UNKNOWN_DURATION, UNKNOWN_SPREAD) if expected is None else (expected, spread)


def _deviations(passed: float, seconds: float, spread: float) -> float:
    """Standard deviations, of the logarithm of a job's duration, by which so long exceeds the median."""
    if passed <= 0.0 or seconds <= 0.0:
        return -math.inf if passed <= 0.0 else math.inf
    return (math.log(passed / seconds) + spread**2 / 2) / spread


def _drawn(seconds: float, spread: float, chance: float) -> float:
    """Quantile, at that chance, of the log-normal distribution with that mean."""
    return seconds * math.exp(spread * _NORMAL.inv_cdf(max(chance, 1.0 - _SUREST)) - spread**2 / 2)


def _from_now(job: Job, now: float) -> Job:
    """A job that waits, or will come, where seconds count from now on."""
    deadline = None if job.deadline is None else job.deadline - now
    came = max(job.submitted_at, job.start_at or 0.0) - now
    # What a driver will ask for is not known: the job has all of its executors for the whole time.
    return replace(
        job, submitted_at=max(came, 0.0), start_at=None, deadline=deadline, driver=None, dynamic=None
    )


def _taking(
    job: Job, draw: np.random.Generator | None, took: Mapping[str, float], errors: DrawnErrors | None
) -> Job:
    """A waiting job with its true duration."""
    if job.id in took:
        seconds, spread = took[job.id], job.spread
    else:
        seconds, spread = _known(job.expected_duration, job.spread) if errors is None else errors.of(job)
    if draw is not None:
        seconds = _drawn(seconds, spread, draw.random())
    return replace(job, expected_duration=seconds)


def _machines(view: ClusterView, running: Sequence[_RunningJob]) -> tuple[Vm, ...]:
    """The VMs with their resources that are free or used by these jobs; the rest stays with others.

    A VM where nothing is placed now has no free resources.
    """
    held: dict[int, list[Resources]] = {}
    for job in running:
        for number, size in zip(job.vms, job.sizes, strict=True):
            held.setdefault(number, []).append(size)
    found = []
    for number, vm in enumerate(view.vms):
        free = NOTHING if vm.id in view.left_out else view.free.at(number)
        found.append(replace(vm, resources=total((free, *held.get(number, ())))))
    return tuple(found)
