"""DQN and REINFORCE as policies: a trained network decides, and a baseline where the network waits too long.

What the network makes of a view is said in `adviser.py`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice

from agents.drl.adviser import Adviser
from agents.drl.model import Algorithm, ModelError, model_for
from environment.check import check, shortage
from environment.policy import Policy
from environment.types import (
    ClusterView,
    Decision,
    Place,
    PlacementRequest,
    Wait,
)

#: How often a job may wait though it fits, when neither options nor model say it. Chosen: more often than
#: trained policies do on the paper's workloads.
_WAIT_LIMIT = 20


@dataclass(frozen=True, slots=True)
class LearnedOptions:
    """Options of a trained policy."""

    #: A shipped model by its name, or the folder of any; without it the shipped one for `beta`.
    model: str | None = None
    #: How much cost counts in what it was trained for; the rest is time.
    beta: float | None = None
    #: How often a job that fits is passed over. Then the network places it. Without it, as often as in
    #: training.
    wait_limit: int | None = None
    #: How often the oldest job of the queue may be overtaken; 0: first come, first served. Without it, as
    #: often as in training.
    overtaken_at_most: int | None = None
    #: Seconds for which the oldest job is made to wait though it fits. Where the network would have it wait
    #: longer, the fallback places it.
    patience: float = 1800.0
    #: The policy that places jobs that have waited too long.
    fallback: str = "best_fit"

    def __post_init__(self) -> None:
        if self.model is not None and self.beta is not None:
            raise ValueError("beta: chooses a shipped model, so it does not go with model")
        if self.beta is not None and not 0 <= self.beta <= 1:
            raise ValueError(f"beta: should be between 0 and 1, found {self.beta:g}")
        if self.wait_limit is not None and self.wait_limit < 0:
            raise ValueError(f"wait_limit: should be 0 or more, found {self.wait_limit}")
        if self.overtaken_at_most is not None and self.overtaken_at_most < 0:
            raise ValueError(f"overtaken_at_most: should be 0 or more, found {self.overtaken_at_most}")
        if not 0 <= self.patience < math.inf:
            raise ValueError(f"patience: should be 0 or more seconds, found {self.patience:g}")
        if ":" in self.fallback:  # to make one of others would be to run whatever is named
            raise ValueError(f"fallback: should be a policy that comes with Stoker, found {self.fallback}")
        if self.fallback in ("dqn", "reinforce"):
            raise ValueError(f"fallback: should not be a trained policy, found {self.fallback}")


@dataclass(slots=True)
class _Oldest:
    """The oldest job of the queue: what it has been made to bear though it fits."""

    job_id: str
    #: How often it was passed over, and since when it fits without being placed.
    passed_over: int = 0
    since: float | None = None
    #: How many later ones were placed before it.
    overtaken: int = 0
    #: What was seen when it was passed over and all waited, and why it was: the decision stands until that
    #: changes, as in training.
    seen: tuple[object, ...] = ()
    reason: str = ""


class LearnedPolicy:
    """Decides by a trained network, and names no VM without room.

    A job waits when its executors do not all fit, or when the network would rather wait; but no more than
    `wait_limit` times while it fits, after which waiting is no choice, as in training; and no longer than
    `patience` seconds, after which the fallback places it. A network that was trained to look at more jobs
    than the first places that for which placing beats waiting by most.
    """

    def __init__(self, algorithm: Algorithm, options: LearnedOptions) -> None:
        """PolicyError says what is wrong with the model or the fallback."""
        from agents.registry import (
            PolicyError,
            create,
        )  # here, since the registry names this module

        try:
            model = model_for(algorithm, options.model, options.beta)
        except ModelError as error:
            raise PolicyError(f"policy {algorithm}: model: {error}") from error
        limit = model.spec.wait_limit if options.wait_limit is None else options.wait_limit
        self._options, self._spec = options, model.spec
        self._wait_limit = _WAIT_LIMIT if limit is None else limit
        most = options.overtaken_at_most
        self._overtaken_at_most = model.spec.overtaken_at_most if most is None else most
        self._fallback: Policy = create(options.fallback)
        self._adviser = Adviser(model)
        self._oldest, self._lost = _Oldest(""), _Oldest("")
        #: How many oldest jobs there were before this one.
        self._number = -1

    def decide(self, view: ClusterView, queue: Sequence[PlacementRequest]) -> Decision:
        """Place the oldest job of the queue, or another that is looked at, whole; or wait."""
        oldest = self._know(queue[0])
        if not view.vms:
            return Wait(shortage(view, queue[0]))
        if (vms := self._spec.vms) not in (None, len(view.vms)):
            return self._instead(view, queue, f"the model is for {vms} VMs, not {len(view.vms)}")
        late = oldest.since is not None and view.at - oldest.since >= self._options.patience
        seen = self._seen(view, queue)
        if oldest.seen == seen and not late:
            return Wait(oldest.reason)
        oldest.seen = ()
        gains = self._gains(view, queue, oldest, late=late)
        fits = 0 in gains
        if not fits:
            oldest.since = None
        elif oldest.since is None:
            oldest.since = view.at
        if not gains:
            return Wait(shortage(view, queue[0]))
        number = max(gains, key=gains.__getitem__)
        must = number == 0 and oldest.passed_over >= self._wait_limit
        decision = self._adviser.decide(view, queue, number, self._number, may_wait=not must)
        if isinstance(decision, Place):
            return self._placed(view, queue, number, len(gains), decision, oldest)
        if fits and late and oldest.since is not None:
            waited = f"it has waited for {view.at - oldest.since:.0f} s though it fits"
            return self._instead(view, queue, waited)
        oldest.passed_over += fits
        head = "" if fits else f"{shortage(view, queue[0])}; for the next job, "
        oldest.seen, oldest.reason = seen, f"{head}{decision.reason}"
        return Wait(oldest.reason)

    def _know(self, request: PlacementRequest) -> _Oldest:
        """What is known of the first request; lost executors go before the oldest job, which stays known."""
        if request.again:
            if request.job.id != self._lost.job_id:
                self._lost = _Oldest(request.job.id)
            return self._lost
        if request.job.id != self._oldest.job_id:
            self._oldest, self._number = _Oldest(request.job.id), self._number + 1
        return self._oldest

    def _seen(self, view: ClusterView, queue: Sequence[PlacementRequest]) -> tuple[object, ...]:
        """What makes the network decide again: what has ended or is free, VMs and jobs that came or went."""
        running = tuple(running.job.id for running in view.running)
        free = float(view.usable_cpus.sum()), float(view.usable_memory_mib.sum())
        waiting = (len(queue), queue[-1].job.id) if self._spec.considered > 1 else ()
        return running, free, view.vms, waiting

    def _reach(self, oldest: _Oldest, queue: Sequence[PlacementRequest]) -> int:
        """How many jobs are looked at: none behind one overtaken enough, nor behind lost executors."""
        if oldest.overtaken >= self._overtaken_at_most:
            return 1
        shown = list(islice(queue, self._spec.considered))
        return next((number for number, request in enumerate(shown, 1) if request.again), len(shown))

    def _gains(
        self, view: ClusterView, queue: Sequence[PlacementRequest], oldest: _Oldest, *, late: bool
    ) -> dict[int, float]:
        """Of the jobs that fit, by number, by how much it is better to place them than to wait.

        Where the oldest has waited for long enough, none behind it is looked at.
        """
        numbers = _that_fit(view, list(islice(queue, self._reach(oldest, queue))))
        enough = late or oldest.passed_over >= self._wait_limit
        if enough and (alone := self._adviser.gains(view, queue, [0], self._number)):
            return alone
        return self._adviser.gains(view, queue, numbers, self._number)

    def _placed(
        self,
        view: ClusterView,
        queue: Sequence[PlacementRequest],
        number: int,
        fit: int,
        place: Place,
        oldest: _Oldest,
    ) -> Decision:
        """The network's placement of that job of the queue; the fallback's where it cannot be executed.

        `fit` is how many jobs of the queue could have been placed.
        """
        if faults := check(view, queue[number], place):
            return self._instead(view, queue, f"by the network {faults[0]}")
        said = ""
        if number == 0 and oldest.passed_over >= max(1, self._wait_limit):
            said = f"; passed over {oldest.passed_over} times though it fits, it may wait no longer"
        elif fit > 1:
            said = f"; of the {fit} jobs that fit it is the best to place now"
        if number > 0:
            oldest.overtaken += 1
            overtaken = queue[0].job.id if number == 1 else f"{number} older jobs"
            limit = f"none is overtaken more than {self._overtaken_at_most} times as the oldest"
            said += f"; it overtakes {overtaken} ({limit})"
        return replace(place, why=tuple(f"{why}{said}" for why in place.why))

    def _instead(self, view: ClusterView, queue: Sequence[PlacementRequest], why: str) -> Decision:
        """What the fallback decides, and why it does."""
        decision, name = self._fallback.decide(view, queue), self._options.fallback
        if isinstance(decision, Wait):
            return Wait(f"{why}, so {name} decides: {decision.reason}")
        whys = decision.why or ("it gave no reason",) * len(decision.placement)
        return replace(decision, why=tuple(f"{why}, so {name} decides: {reason}" for reason in whys))


def _that_fit(view: ClusterView, shown: Sequence[PlacementRequest]) -> Sequence[int]:
    """The numbers of the requests for whose executors there may be room: the others need not be looked at.

    With a single request that is left to the network, which finds out anyway.
    """
    if len(shown) == 1:
        return (0,)
    rooms = {size: int(view.usable.room(size).sum()) for size in {request.size for request in shown}}
    return [number for number, request in enumerate(shown) if rooms[request.size] >= request.count]


class Reinforce(LearnedPolicy):
    """REINFORCE: a trained network gives each VM a probability; the likeliest takes the executor."""

    def __init__(self, options: LearnedOptions) -> None:
        super().__init__("reinforce", options)


class Dqn(LearnedPolicy):
    """DQN: a trained network estimates what comes of each VM; the best takes the executor."""

    def __init__(self, options: LearnedOptions) -> None:
        super().__init__("dqn", options)
