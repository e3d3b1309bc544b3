"""DQN and REINFORCE as policies: a trained network decides, and a baseline where the network waits too long.

`adviser.py` evaluates the network on a view.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING

from agents.drl.adviser import Adviser
from agents.drl.model_folder import Algorithm, TrainedModelError, model_for, told_betas
from agents.estimates import check_share
from agents.starvation_guard import Guard
from conf.util.counted import counted
from environment.decisions.feasibility import check, shortage
from environment.decisions.starvation import PatienceLimits, StarvationGuard
from environment.number_format import times
from environment.policy import Policy
from environment.types import Decision, Job, Place, PlacementRequest, Vm, Wait
from environment.view import ClusterView, RunningJob

if TYPE_CHECKING:
    from agents.drl.player import LearnedPlayer

#: How often a job may wait though it fits, when neither options nor model say it. Chosen: more often than
#: trained policies do on the paper's workloads.
_WAIT_LIMIT = 20
#: How often the oldest job may be overtaken, by the guard alone, where a model looks at no other.
_OVERTAKEN = 128


@dataclass(frozen=True, slots=True)
class LearnedOptions:
    """Options of a trained policy."""

    #: A shipped model by its name, or the folder of any; without it the shipped one for `beta`.
    model: str | None = None
    #: How much cost counts; the rest is time. Of a model that serves one beta alone, which model.
    beta: float | None = None
    #: How often the oldest job is made to wait though it fits. Then the network places it. Without it, as
    #: often as in training.
    wait_limit: int | None = None
    #: How many later jobs may be placed before one while it is the oldest, by the guard too; 0 is first come,
    #: first served. Without it, as many as in training.
    overtaken_at_most: int | None = None
    #: Whether jobs that fit and wait for too long are placed by the fallback, as `agents.starvation_guard`
    #: has it.
    guard: bool = True
    #: For how long a job may fit and wait: in seconds, or as a multiple of its expected duration.
    patience: float | str = "1x"
    #: Which share of the cluster's cpus must be idle for the guard to step in.
    idle: float = 0.1
    #: The policy that places jobs that have waited too long.
    fallback: str = "best_fit"

    def __post_init__(self) -> None:
        check_share("beta", self.beta or 0.0)
        check_share("idle", self.idle)
        PatienceLimits(self.overtaken_at_most or 0, self.wait_limit or 0, self.patience)
        if ":" in self.fallback:  # to make one of others would run any named module
            raise ValueError(f"fallback: should be a policy that comes with Stoker, found {self.fallback}")
        if self.fallback in ("dqn", "reinforce"):
            raise ValueError(f"fallback: should not be a trained policy, found {self.fallback}")


class LearnedPolicy:
    """Decides by a trained network, and names no VM without room.

    A job waits when its executors do not all fit, or when the network prefers to wait; but at most
    `wait_limit` times while it fits, after which waiting is no choice, as in training. A network that was
    trained to consider more jobs than the first places the one whose gain over waiting is largest. The guard
    limits the time that jobs wait.
    """

    def __init__(self, algorithm: Algorithm, options: LearnedOptions) -> None:
        """Load the model and make the fallback; PolicyError for an invalid model or fallback."""
        from agents.registry import (
            PolicyError,
            create,
        )  # here, since the registry names this module

        try:
            model = model_for(algorithm, options.model, options.beta)
            if options.beta is not None and not model.spec.serves(options.beta):
                raise TrainedModelError(
                    f"{options.model} is for beta {told_betas(model.spec)}, not {options.beta:g}"
                )
        except TrainedModelError as error:
            raise PolicyError(f"policy {algorithm}: model: {error}") from error
        limit = model.spec.wait_limit if options.wait_limit is None else options.wait_limit
        self._options, self._spec = options, model.spec
        most = options.overtaken_at_most
        if most is None:
            most = model.spec.overtaken_at_most if model.spec.considered > 1 else _OVERTAKEN
        #: The waits that jobs have borne, which the guard uses, too.
        self.patience = StarvationGuard(
            PatienceLimits(most, _WAIT_LIMIT if limit is None else limit, options.patience)
        )
        self._fallback: Policy = create(options.fallback)
        self.adviser = Adviser(model, options.beta)
        #: The oldest job, and how many were the oldest before it.
        self._oldest, self._number = "", -1
        #: The state seen when all waited, and the reason: the decision stands until that changes, as in
        #: training.
        self._waits_for: tuple[object, ...] = ()
        self._reason = ""

    def decide(self, view: ClusterView, queue: Sequence[PlacementRequest]) -> Decision:
        """Place the oldest job of the queue, or another considered one, whole; or wait."""
        oldest, patience = queue[0], self.patience
        self._count(oldest)
        if not view.vms:
            return Wait(shortage(view, oldest))
        if not self.serves(len(view.vms)):
            trained = counted(self._spec.vms or 0, "VM")
            return self._instead(view, queue, f"the model is for {trained}, not {len(view.vms)}")
        seen = self._seen(view, queue)
        if self._waits_for == seen:
            return Wait(self._reason)
        self._waits_for = ()
        enough = patience.has_waited(oldest)
        gains = self._gains(view, queue, alone=enough)
        fits = 0 in gains
        if not gains:
            return Wait(shortage(view, oldest))
        number = max(gains, key=gains.__getitem__)
        may_wait = number > 0 or not enough
        decision = self.adviser.decide(view, queue, number, self._number, may_wait=may_wait)
        if isinstance(decision, Place):
            return self._placed(view, queue, number, len(gains), decision)
        if fits:
            patience.hold_back(oldest)
        lacks = "" if fits else shortage(view, oldest)
        self._waits_for, self._reason = seen, told_wait(lacks, decision.reason)
        return Wait(self._reason)

    @property
    def considered(self) -> int:
        """Number of jobs of the queue to consider."""
        return self._spec.considered

    def serves(self, vms: int) -> bool:
        """Whether the network supports `vms` VMs."""
        return self._spec.vms in (None, vms)

    def _count(self, request: PlacementRequest) -> None:
        """Count the oldest jobs; lost executors, which go before, are none."""
        if not request.joins and request.job.id != self._oldest:
            self._oldest, self._number = request.job.id, self._number + 1

    def _seen(self, view: ClusterView, queue: Sequence[PlacementRequest]) -> tuple[object, ...]:
        """Key that makes the network decide again on change: ended jobs, free resources, VMs and jobs."""
        running = tuple(running.job.id for running in view.running)
        free = float(view.usable_cpus.sum()), float(view.usable_memory_mib.sum())
        waiting = (len(queue), queue[-1].job.id) if self._spec.considered > 1 else ()
        return queue[0].job.id, queue[0].again, running, free, view.vms, waiting

    def _gains(
        self, view: ClusterView, queue: Sequence[PlacementRequest], *, alone: bool
    ) -> dict[int, float]:
        """Gains of placing over waiting, by number, of the jobs that fit.

        With `alone`, no job behind the oldest is considered when the oldest fits.
        """
        if alone and (gains := self.adviser.gains(view, queue, [0], self._number)):
            return gains
        shown = list(islice(queue, self._spec.considered))
        numbers = _that_fit(view, shown[: self.patience.reach(shown)])
        return self.adviser.gains(view, queue, numbers, self._number)

    def _placed(
        self,
        view: ClusterView,
        queue: Sequence[PlacementRequest],
        number: int,
        fit: int,
        place: Place,
    ) -> Decision:
        """The network's placement of that job of the queue; the fallback's where it cannot be executed.

        `fit` is the number of jobs of the queue that could have been placed.
        """
        if faults := check(view, queue[number], place):
            return self._instead(view, queue, f"by the network {faults[0]}")
        overtakes = self.patience.told(queue, number) if number else ""
        said = told_placed(self.patience.limits, self.patience.waits(queue[0]), fit, overtakes)
        self.patience.let_pass(queue, number)
        return replace(place, why=tuple(f"{why}{said}" for why in place.why))

    def _instead(self, view: ClusterView, queue: Sequence[PlacementRequest], why: str) -> Decision:
        """The fallback's decision, with its reasons prefixed by `why`."""
        decision, name = self._fallback.decide(view, queue), self._options.fallback
        if isinstance(decision, Wait):
            return Wait(f"{why}, so {name} decides: {decision.reason}")
        number = next((n for n, request in enumerate(queue) if request.job.id == decision.job_id), 0)
        self.patience.let_pass(queue, number)
        whys = decision.why or ("it gave no reason",) * len(decision.placement)
        return replace(decision, why=tuple(f"{why}, so {name} decides: {reason}" for reason in whys))


def told_placed(limits: PatienceLimits, passed_over: int, fit: int, overtakes: str) -> str:
    """Reason for placing a job on the network's advice, with the jobs it overtakes, if any.

    `passed_over` counts the times the oldest was passed over, `fit` the jobs that fit.
    """
    said = f"; it overtakes {overtakes}" if overtakes else ""
    if not overtakes and passed_over >= max(1, limits.wait_limit):
        return f"; passed over {times(passed_over)} though it fits, it may wait no longer"
    return f"; of the {fit} jobs that fit it is the best to place now{said}" if fit > 1 else said


def told_wait(lacks: str, reason: str) -> str:
    """Reason why all jobs wait: the network's, and the resources that an oldest job without room lacks."""
    return f"{lacks}; for the next job, {reason}" if lacks else reason


def _that_fit(view: ClusterView, shown: Sequence[PlacementRequest]) -> Sequence[int]:
    """Numbers of the requests that may have room for their executors: the others are skipped.

    A single request is always returned, since the network checks the room itself.
    """
    if len(shown) == 1:
        return (0,)
    rooms = view.usable.rooms([each.size if each.sizes else each.job.size for each in shown]).tolist()
    return [number for number, request in enumerate(shown) if rooms[number] >= request.count]


class _LearnedPolicy(Guard):
    """A learned policy behind its guard."""

    #: By its `wait_limit`.
    bounds_waits = True

    def __init__(self, algorithm: Algorithm, options: LearnedOptions) -> None:
        from agents.registry import create  # here, since the registry names this module

        policy, fallback = LearnedPolicy(algorithm, options), create(options.fallback)
        idle = options.idle if options.guard else None
        super().__init__(policy, fallback, options.fallback, policy.patience, idle)
        self._learned, self._falls_back_on = policy, options.fallback

    def player(
        self, jobs: Sequence[Job], vms: Sequence[Vm], running: Mapping[int, RunningJob], *, exact: bool
    ) -> "LearnedPlayer | None":
        """The same in compiled code: `environment.policy.CompiledPolicy`.

        None with another fallback than best fit, or where the network considers the oldest job alone, or is
        for another number of VMs.
        """
        from agents.drl.player import LearnedPlayer  # here, since it brings numba

        policy = self._learned
        if self._falls_back_on != "best_fit" or not (policy.considered > 1 and policy.serves(len(vms))):
            return None
        return LearnedPlayer(self, policy, jobs, vms, running, exact=exact)


class Reinforce(_LearnedPolicy):
    """REINFORCE: a trained network gives each VM a probability; the likeliest takes the executor."""

    def __init__(self, options: LearnedOptions) -> None:
        super().__init__("reinforce", options)


class Dqn(_LearnedPolicy):
    """DQN: a trained network estimates the outcome of each VM; the executor goes to the best."""

    def __init__(self, options: LearnedOptions) -> None:
        super().__init__("dqn", options)
