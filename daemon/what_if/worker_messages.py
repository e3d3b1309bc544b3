"""Messages to and from the processes that play the queue forward."""

import json
import pickle
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import IO, Any

from environment.clusters.commitments import Commitment
from environment.decisions.sizing import Sizes
from environment.pools import Consolidation, IdleTimeout
from environment.queues.types import Sharing
from environment.simulation.durations.belief_errors import Errors
from environment.simulation.forecast.outlook import FollowedJobs, JobOutlook, PlayedDraw
from environment.types import PlacementRequest
from environment.view import ClusterView

#: Marks before the answers to a question, once its policies are made, and behind them.
READY, OVER = b"ready\n", b"\n"

#: Passes on an iterable that may be very long, at its own pace.
EachOf = Callable[[Iterable[Any]], Iterable[Any]]


@dataclass(frozen=True, slots=True)
class AskedScene:
    """Starting state of a play."""

    view: ClusterView
    queue: tuple[PlacementRequest, ...]
    #: How sizes are chosen that jobs leave open.
    sizes: Sizes
    #: How the cluster is shared; None: first come, first served.
    sharing: Sharing | None
    #: For how long idle VMs of pools are kept.
    keeping: IdleTimeout
    #: By which rule executors are moved so that VMs of pools close.
    moves: Consolidation
    #: What is paid in any case.
    commitments: tuple[Commitment, ...]
    #: How many executors and drivers one machine carries at once; None: any number.
    jvms: int | None
    #: Jobs, by id, whose outcome is reported as one.
    follow: tuple[str, ...] = ()
    #: How wrong beliefs about durations are together; None: each job by itself alone.
    errors: Errors | None = None
    #: Durations of those of its jobs that are over, seconds.
    took: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Question:
    """Question for a worker: scenes, each with policies (name and options), and draws.

    A draw of None plays the beliefs. No draw but the first begins more than `seconds` after all policies
    were made, and none goes on more than `at_most` seconds after that. The `fallback` decides where a policy
    fails; without one the job waits.
    """

    scenes: tuple[AskedScene, ...]
    policies: tuple[tuple[str, dict[str, Any]], ...]
    draws: tuple[int | None, ...]
    seconds: float
    at_most: float
    fallback: tuple[str, dict[str, Any]] | None = None


@dataclass(frozen=True, slots=True)
class DrawAnswer:
    """Result of a draw, or its failure.

    `policy` counts the policies of the first scene of the question, then those of the second, and so on.
    """

    policy: int
    draw: int | None
    played: PlayedDraw | None
    failure: str = ""

    def to_json(self) -> bytes:
        """Encode as one line."""
        played = None if self.played is None else asdict(self.played)
        return json.dumps([self.policy, self.draw, played, self.failure]).encode() + b"\n"

    @classmethod
    def from_json(cls, line: bytes, each: EachOf = iter) -> "DrawAnswer":
        """Decode the output of `to_json`; ValueError, TypeError or KeyError for anything else."""
        policy, draw, played, failure = json.loads(line)
        if played is not None:
            jobs = {job_id: JobOutlook(**ahead) for job_id, ahead in each(played["jobs"].items())}
            if (followed := played["followed"]) is not None:
                followed |= {"ahead": JobOutlook(**followed["ahead"]), "vms": tuple(followed["vms"])}
                followed = FollowedJobs(**followed)
            played = PlayedDraw(**{**played, "jobs": jobs, "followed": followed})
        return cls(policy, draw, played, failure)


#: Number of requests that are written at once.
_AT_ONCE = 50


def write(question: Question, to: IO[bytes], each: EachOf = iter) -> None:
    """Write a question for `read`, with the waiting jobs in batches, as `each` iterates over them."""
    pickler = pickle.Pickler(to)
    pickler.dump(replace(question, scenes=tuple(replace(scene, queue=()) for scene in question.scenes)))
    for scene in question.scenes:
        starts = range(0, len(scene.queue), _AT_ONCE)
        for start in each(starts):
            pickler.dump(scene.queue[start : start + _AT_ONCE])
        pickler.dump(())
    to.flush()


def read(asked: IO[bytes]) -> Question:
    """Read the next question; EOFError when there is none. Trusted input only: a pickle may run any code."""
    unpickler = pickle.Unpickler(asked)  # noqa: S301
    question: Question = unpickler.load()
    scenes = []
    for scene in question.scenes:
        queue = list[PlacementRequest]()
        while some := unpickler.load():
            queue += some
        scenes.append(replace(scene, queue=tuple(queue)))
    return replace(question, scenes=tuple(scenes))
