"""Runs of policies on environments: rewards slot by slot, decision times, statistics over seeds.

Other modules make reports and pictures. No allocation is stored longer than its slot.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from agents.oga.environments import Environment, EnvironmentOptions, generate
from agents.oga.learner import LearnerOptions
from agents.oga.maximiser import maximise
from agents.oga.partners import allocator
from agents.oga.port_jobs import PortJobs
from environment.types import FloatArray, IntArray

#: Called with the number of the run, the number of runs, and its name.
Progress = Callable[[int, int, str], None]
#: Slots between two reports of progress.
_TOLD = 50
#: Fields of which the mean over several runs is reported.
_AVERAGED = (
    "average_reward",
    "cumulative_reward",
    "average_overhead",
    "seconds_per_slot",
    "jobs_came",
    "jobs_started",
    "tasks_scheduled",
)


@dataclass(frozen=True, slots=True)
class JobCount:
    """Numbers of jobs that came and that started in all slots, and of their tasks.

    A task counts as scheduled when it got at least its floor, a share of its request of every resource; a job
    as started when at least its minimum of tasks, and at least one, is scheduled.
    """

    came: int = 0
    started: int = 0
    tasks: int = 0
    scheduled: int = 0

    @property
    def share_scheduled(self) -> float:
        """Share of the tasks that were scheduled, from 0 to 1; 1 when none came."""
        return self.scheduled / self.tasks if self.tasks else 1.0


@dataclass(frozen=True, slots=True)
class BenchRun:
    """Earnings of a policy in an environment."""

    policy: str
    environment: str
    request: str
    seed: int
    #: q of every slot, and of it the overhead, [T].
    rewards: FloatArray
    overheads: FloatArray
    #: Average time to decide; rewards are computed outside of it.
    seconds_per_slot: float
    jobs: JobCount

    @property
    def average(self) -> float:
        """The mean reward of a slot."""
        return float(self.rewards.mean())

    @property
    def running_average(self) -> FloatArray:
        """The mean reward up to each slot, [T]."""
        mean: FloatArray = self.rewards.cumsum() / np.arange(1, self.rewards.size + 1)
        return mean

    def to_json(self) -> dict[str, Any]:
        """Output of `stoker oga run -o json`."""
        return {
            "policy": self.policy,
            "environment": self.environment,
            "request": self.request,
            "seed": self.seed,
            "slots": self.rewards.size,
            "average_reward": self.average,
            "cumulative_reward": float(self.rewards.sum()),
            "average_overhead": float(self.overheads.mean()),
            "seconds_per_slot": self.seconds_per_slot,
            "jobs_came": self.jobs.came,
            "jobs_started": self.jobs.started,
            "tasks_scheduled": self.jobs.share_scheduled,
        }


@dataclass(frozen=True, slots=True)
class Summary:
    """Runs of one policy over seeds."""

    policy: str
    runs: tuple[BenchRun, ...]

    @property
    def mean(self) -> float:
        """The mean over seeds of the average reward."""
        return float(np.mean([run.average for run in self.runs]))

    @property
    def spread(self) -> float:
        """The standard deviation over seeds of the average reward; 0 for one seed."""
        return float(np.std([run.average for run in self.runs], ddof=1)) if len(self.runs) > 1 else 0.0

    @property
    def seconds_per_slot(self) -> float:
        """Average time of a decision."""
        return float(np.mean([run.seconds_per_slot for run in self.runs]))

    def to_json(self) -> dict[str, Any]:
        """Plain values as of a run; for several, means over seeds, and the spread of the average reward."""
        told = self.runs[0].to_json()
        if len(self.runs) > 1:
            del told["seed"]
            told |= {name: float(np.mean([run.to_json()[name] for run in self.runs])) for name in _AVERAGED}
            told |= {"seeds": [run.seed for run in self.runs], "spread": self.spread}
        return told


def run(
    policy: str,
    environment: Environment,
    options: LearnerOptions,
    seed: int = 0,
    told: Callable[[int], None] | None = None,
) -> BenchRun:
    """Run one policy through all slots, at least one; `told` receives the number of finished slots.

    For any answer of a policy, jobs get the settlement's result, which is part of deciding.
    """
    model, jobs = environment.model, environment.jobs
    arrivals = environment.arrivals.astype(np.float64)
    slots = len(arrivals)
    learning = replace(options, horizon=slots)
    # Code is compiled, or read from its cache, before it is timed.
    with allocator(policy, model, arrivals, learning) as allocate:
        jobs.settle(allocate(arrivals[0]), arrivals[0])
    rewards, overheads = np.empty(slots), np.empty(slots)
    seconds, count = 0.0, _Counter(jobs)
    with allocator(policy, model, arrivals, learning) as allocate:
        for t, x in enumerate(arrivals):
            begun = time.perf_counter()
            y = jobs.settle(allocate(x), x)
            seconds += time.perf_counter() - begun
            gain, overheads[t] = model.gain_and_overhead(x, y)
            rewards[t] = gain - overheads[t]
            count.add(y, x)
            if told is not None and t % _TOLD == 0:
                told(t)
    each = seconds / slots
    return BenchRun(policy, environment.name, model.request, seed, rewards, overheads, each, count.total())


class _Counter:
    """Counts jobs and tasks slot by slot."""

    def __init__(self, jobs: PortJobs) -> None:
        self._jobs = jobs
        self._needed = np.maximum(jobs.minimum, 1)
        self._counts = np.zeros(4, np.int64)

    def add(self, y: FloatArray, x: FloatArray) -> None:
        scheduled = self._jobs.scheduled(y, x)
        came, started = self._jobs.model.jobs_of(x).sum(), (scheduled >= self._needed).sum()
        self._counts += np.array([came, started, x.sum(), scheduled.sum()]).astype(np.int64)

    def total(self) -> JobCount:
        return JobCount(*self._counts.tolist())


def compare(
    policies: Sequence[str],
    environments: Iterable[tuple[int, Environment]],
    options: LearnerOptions,
    count: int = 1,
    progress: Progress | None = None,
) -> list[Summary]:
    """Run every policy on the same `count` (seed, environment) pairs."""
    runs: dict[str, list[BenchRun]] = {name: [] for name in policies}
    for number, (seed, environment) in enumerate(environments):
        slots = len(environment.arrivals)
        for place, name in enumerate(policies):
            before = (number * len(policies) + place) * slots
            told = _teller(progress, before, count * len(policies) * slots, f"{name}, {environment.name}")
            runs[name].append(run(name, environment, options, seed, told))
    return [Summary(name, tuple(found)) for name, found in runs.items()]


def generated(options: EnvironmentOptions, seeds: Iterable[int]) -> Iterator[tuple[int, Environment]]:
    """Environments of these seeds, one at a time."""
    for seed in seeds:
        yield seed, generate(replace(options, seed=seed))


def ceiling(environment: Environment, sample: int = 50) -> tuple[IntArray, FloatArray, float]:
    """The per-slot optimum of some slots, evenly spread: their numbers, optima, and the largest gap."""
    slots = np.unique(np.linspace(0, len(environment.arrivals) - 1, sample).astype(np.int64))
    found = [maximise(environment.model, environment.arrivals[t]) for t in slots]
    rewards = np.array([optimum.reward for optimum in found])
    return slots, rewards, max(optimum.gap for optimum in found)


def _teller(progress: Progress | None, before: int, total: int, what: str) -> Callable[[int], None] | None:
    if progress is None:
        return None
    return lambda done: progress(before + done, total, what)
