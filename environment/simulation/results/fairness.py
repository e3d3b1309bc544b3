"""Fairness of a run: shares that each queue, or each user of a queue, held, against fair ones by weights.

At every moment the total held is divided by the weights of the tree among the parties with unfinished jobs.
No party gets more than its jobs ask for and it may have at once, and none that asks for it less than it is
guaranteed: that is a party's fair part. Limits of money and of jobs that run are no part of it. Everything
here is a function of a result and of the queues; the order of a run does not enter.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from environment.queues.types import Queues
from environment.simulation.results.fair_division import DUST, By, Division, weight_of
from environment.simulation.results.job_outcomes import JobOutcome
from environment.simulation.results.results import Result
from environment.types import FloatArray


@dataclass(frozen=True, slots=True)
class Party:
    """Outcome for a queue, or a user in it. Shares are of the cluster, for its scarcest resource (dominant).

    `share` is the held part and `fair` the fair one, on average over the `demand` seconds in which the party
    had unfinished jobs; slowdown is completion over duration, of its jobs, and `late` counts those that
    ended after their deadlines. Times in seconds, cost in dollars.
    """

    queue: str
    #: None for all users of the queue; empty for jobs without an owner.
    user: str | None
    weight: float
    jobs: int
    demand: float
    share: float
    fair: float
    slowdown: float
    p95_slowdown: float
    wait: float
    longest_wait: float
    completion: float
    in_time: int
    late: int
    cost: float

    @property
    def name(self) -> str:
        """Name for tables and pictures."""
        return _name(self.queue, self.user)

    @property
    def normalised(self) -> float | None:
        """Held share divided by its fair part: 1 is exactly fair; None when its fair part is zero."""
        return self.share / self.fair if self.fair > DUST else None


@dataclass(frozen=True, slots=True)
class Fairness:
    """Fairness of a run to its queues, or to their users."""

    by: By
    parties: tuple[Party, ...]

    @property
    def jain(self) -> float:
        """Jain's index of held over fair shares of parties: 1 when all alike, 1/n when one has all."""
        return jain([party.normalised for party in self.parties if party.normalised is not None])

    @property
    def furthest(self) -> float:
        """Largest relative distance from a fair part: 0.05 for five per cent too much, or too little."""
        there = (party.normalised for party in self.parties)
        return max((abs(each - 1.0) for each in there if each is not None), default=0.0)

    @property
    def in_time(self) -> int:
        """Number of jobs with a deadline that were over by then."""
        return sum(party.in_time for party in self.parties)

    @property
    def late(self) -> int:
        """Number of jobs with a deadline that were not over by then."""
        return sum(party.late for party in self.parties)

    def to_json(self) -> dict[str, Any]:
        """All of it as plain values."""
        parties = [
            {name: getattr(party, name) for name in Party.__slots__} | {"normalised": party.normalised}
            for party in self.parties
        ]
        told = {"jain": self.jain, "furthest": self.furthest, "in_time": self.in_time, "late": self.late}
        return {"by": self.by, **told, "parties": parties}


@dataclass(frozen=True, slots=True, eq=False)
class SharesOverTime:
    """Mean shares of the parties in equal parts of a run: the held ones and the fair ones, [P, G]."""

    names: tuple[str, ...]
    #: Where the parts begin, seconds.
    at: FloatArray
    held: FloatArray
    fair: FloatArray


def fairness(
    result: Result,
    queues: Queues | None = None,
    by: By = "queue",
    between: tuple[float, float] | None = None,
) -> Fairness:
    """Compute the fairness of the run; with `between`, from the holdings in these seconds alone.

    Without queues every queue that jobs name has the weight 1, and so does every user in it.
    """
    queues = queues or Queues()
    division = Division(result, queues, by)
    start, end = between or (0.0, float("inf"))
    demand, held, fair = np.zeros((3, len(division.parties)))
    for at, seconds, shares, parts, wanted in division.moments():
        inside = np.clip(np.minimum(at + seconds, end) - np.maximum(at, start), 0.0, None)
        demand += inside @ (wanted > 0)
        held += inside @ shares
        fair += inside @ parts
    jobs: list[list[JobOutcome]] = [[] for _ in division.parties]
    for job, party in zip(result.jobs, division.party.tolist(), strict=True):
        jobs[party].append(job)
    return Fairness(
        by,
        tuple(
            _party(key, queues, of, *numbers)
            for key, of, *numbers in zip(
                division.parties, jobs, demand.tolist(), held.tolist(), fair.tolist(), strict=True
            )
        ),
    )


def shares_over_time(
    result: Result, queues: Queues | None = None, by: By = "queue", parts: int = 200
) -> SharesOverTime:
    """Held and fair shares of each party over the time of the run."""
    division = Division(result, queues or Queues(), by)
    edges = np.linspace(0.0, max((job.ended_at for job in result.jobs), default=1.0), parts + 1)
    held, fair = np.zeros((2, parts, len(division.parties)))
    for at, seconds, shares, should, _ in division.moments():
        ends = at + seconds
        for sums, values in ((held, shares), (fair, should)):
            for number in range(parts):
                first = np.searchsorted(ends, edges[number], "right")
                last = np.searchsorted(at, edges[number + 1], "left")
                of = slice(first, max(first, last))
                inside = np.minimum(ends[of], edges[number + 1]) - np.maximum(at[of], edges[number])
                sums[number] += np.clip(inside, 0.0, None) @ values[of]
    width = np.diff(edges)[:, None]
    return SharesOverTime(
        tuple(_name(*key) for key in division.parties), edges[:-1], held / width, fair / width
    )


def _name(queue: str, user: str | None) -> str:
    return queue if user is None else f"{user or 'nobody'} in {queue}"


def jain(values: Sequence[float]) -> float:
    """Jain's index of fairness of shares: 1 when all are the same, 1/n when one has everything; 1 of none."""
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares > 0 else 1.0


def _party(
    key: tuple[str, str | None],
    queues: Queues,
    jobs: Sequence[JobOutcome],
    demand: float,
    held: float,
    fair: float,
) -> Party:
    slowdowns = [job.completion / job.duration for job in jobs if job.duration > 0]
    waits = [job.wait for job in jobs]
    due = [job.ended_at <= job.deadline for job in jobs if job.deadline is not None]
    return Party(
        *key,
        weight=weight_of(*key, queues),
        jobs=len(jobs),
        demand=demand,
        share=held / demand if demand > 0 else 0.0,
        fair=fair / demand if demand > 0 else 0.0,
        slowdown=float(np.mean(slowdowns)) if slowdowns else 0.0,
        p95_slowdown=float(np.percentile(slowdowns, 95)) if slowdowns else 0.0,
        wait=float(np.mean(waits)) if waits else 0.0,
        longest_wait=max(waits, default=0.0),
        completion=float(np.mean([job.completion for job in jobs])) if jobs else 0.0,
        in_time=sum(due),
        late=len(due) - sum(due),
        cost=sum(job.cost for job in jobs),
    )
