"""Accuracy of estimates: made at a job's submission from the beliefs at that time, compared with the outcome.

A day of Facebook's arrivals is simulated under a policy; for some of the jobs, at the moment of their
submission, the same forecast is played that the daemon would play then. It contains no truth: view and queue
are those passed to the policy. `report.py` reports the results.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from agents.experiments.elastic.runs import FACEBOOK_DAY
from agents.experiments.runner import RunCall, Runner
from agents.experiments.seed_register import SeedRange, refuse_used
from agents.registry import create
from environment.clusters.cluster_files import load_cluster
from environment.policy import Policy
from environment.simulation.durations.prediction_intervals import Calibration, Interval
from environment.simulation.forecast.outlook import JobOutlook
from environment.simulation.forecast.play_forward import play_ahead
from environment.simulation.options import SimulationOptions
from environment.simulation.results.results import Result
from environment.simulation.simulator import simulate
from environment.types import Decision, PlacementRequest
from environment.view import ClusterView

POLICIES = ("ff", "greedy")
#: As the daemon.
DRAWS = 20
#: Estimate one of N jobs.
EVERY = 15
#: Every other VM of the hundred: on all of them one job of 25 waits.
STEP = 2
#: Estimated quantities, with the part of an error that does not count: seconds, and dollars.
SLACKS = {"start": 10.0, "end": 10.0, "cost": 0.001}
#: The part of an error that does not count when an estimate is checked; longer is a wait.
BESIDE = {"start": 2.0, "end": 2.0, "cost": 0.0}


@dataclass(frozen=True, slots=True)
class EstimatedJob:
    """A job at its submission (seconds): its sampled and reported estimates, and the outcome, by `SLACKS`.

    Starts and ends are in seconds since its submission, costs in dollars. `waits`: whether the job waited, or
    was forecast to wait.
    """

    policy: str
    seed: int
    at: float
    drawn: tuple[Interval, ...]
    told: tuple[Interval, ...]
    came: tuple[float, ...]

    @property
    def waits(self) -> bool:
        """Whether the job waited, or was forecast to wait."""
        return max(self.came[0], self.drawn[0].high) > BESIDE["start"]


class _ForecastingPolicy:
    """A policy that also plays a forecast when it first sees one of the estimated jobs."""

    def __init__(self, name: str, every: int) -> None:
        self._name, self._policy, self._every = name, create(name), every
        self._seen: set[str] = set()
        #: By job, the result of each draw.
        self.drawn: dict[str, list[JobOutlook]] = {}

    def decide(self, view: ClusterView, queue: Sequence[PlacementRequest]) -> Decision:
        """Return the policy's decision."""
        for request in reversed(queue):  # the newest come last
            if request.job.id in self._seen:
                break
            self._seen.add(request.job.id)
            if len(self._seen) % self._every == 0:
                self.drawn[request.job.id] = self._draws(request.job.id, view, tuple(queue))
        return self._policy.decide(view, queue)

    def _draws(self, job_id: str, view: ClusterView, queue: tuple[PlacementRequest, ...]) -> list[JobOutlook]:
        fresh: list[Policy] = [create(self._name) for _ in range(DRAWS)]
        played = (play_ahead(policy, view, queue, seed=draw) for draw, policy in enumerate(fresh))
        return [found.jobs[job_id] for found in played]


def play(seeds: SeedRange, runner: Runner, jobs: int | None = None, every: int = EVERY) -> list[EstimatedJob]:
    """Estimate the jobs of each policy and seed."""
    refuse_used(draw for seed in seeds for draw in FACEBOOK_DAY.draws(seed, jobs))
    calls = [
        RunCall(
            play_one, (policy, seed, jobs, every), f"{policy}, seed {seed}", 2 if policy == "greedy" else 1
        )
        for policy in POLICIES
        for seed in seeds
    ]
    return [job for found in runner.run(calls) for job in found]


def play_one(policy: str, seed: int, jobs: int | None, every: int) -> list[EstimatedJob]:
    """One policy on one seed."""
    foretelling = _ForecastingPolicy(policy, every)
    cluster = load_cluster("hundred")[::STEP]
    result = simulate(foretelling, FACEBOOK_DAY(seed, jobs), cluster, options=SimulationOptions(seed=seed))
    return mended(policy, seed, foretelling.drawn, result)


def mended(policy: str, seed: int, drawn: dict[str, list[JobOutlook]], result: Result) -> list[EstimatedJob]:
    """Estimates as the daemon would report them, with calibration on the starts and ends so far."""
    calibrations = [Calibration(slack) for slack in SLACKS.values()]
    jobs = {job.name: job for job in result.jobs if job.name in drawn}
    intervals = {
        name: (
            Interval.of([ahead.start for ahead in draws]),
            Interval.of([ahead.end for ahead in draws]),
            Interval.of([ahead.cost for ahead in draws]),
        )
        for name, draws in drawn.items()
        if name in jobs
    }
    came = {name: (job.wait, job.completion, job.cost) for name, job in jobs.items()}
    # At one time, arrivals are known before any estimate is made.
    events = sorted(
        event
        for name, job in jobs.items()
        for event in ((job.submitted_at, 2, name), (job.started_at, 0, name), (job.ended_at, 1, name))
    )
    found = []
    for at, kind, name in events:
        if kind == 2:
            told = tuple(
                of.mended(interval) for of, interval in zip(calibrations, intervals[name], strict=True)
            )
            found.append(EstimatedJob(policy, seed, at, intervals[name], told, came[name]))
        for number in {0: (0,), 1: (1, 2), 2: ()}[kind]:
            calibrations[number].learn(intervals[name][number], came[name][number])
    return found
