"""DQN and REINFORCE as policies: a trained network decides, and a baseline where the network waits too long.

What the network makes of a view is computed in `kernel/deciding.py`, without TensorFlow; numba is imported
when the policy is made.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from agents.drl.model import Algorithm, Model, ModelError, find_model, read_model, shipped_for
from agents.drl.network import network_of
from agents.policy import Policy
from environment.check import check, shortage
from environment.types import ClusterView, Decision, Job, Place, PlacementRequest, Vm, Wait

if TYPE_CHECKING:
    from agents.drl.kernel.deciding import Choices, Desk

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
    #: How many jobs' ends a job that fits is made to wait for. Then the fallback places it. Without it, as
    #: many as in training.
    wait_limit: int | None = None
    #: Seconds for which a job that fits is made to wait, if its patience lasts that long.
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
        if not 0 <= self.patience < math.inf:
            raise ValueError(f"patience: should be 0 or more seconds, found {self.patience:g}")
        if self.fallback in ("dqn", "reinforce"):
            raise ValueError(f"fallback: should not be a trained policy, found {self.fallback}")


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A job that waits though it fits.

    The network decides again when a job has ended, as in training, or a VM has come or gone; until then the
    decision stands.
    """

    job_id: str
    since: float
    running: tuple[str, ...]
    vms: tuple[Vm, ...]
    times: int
    reason: str


class LearnedPolicy:
    """Decides by a trained network, first come first served, and names no VM without room.

    A job waits when its executors do not all fit, or when the network would rather wait; but for no more
    than `wait_limit` ends of jobs, and `patience` seconds, while it fits. Then the fallback places it.
    """

    def __init__(self, algorithm: Algorithm, options: LearnedOptions) -> None:
        """PolicyError says what is wrong with the model or the fallback."""
        from agents.registry import PolicyError, create  # here, since the registry names this module

        try:
            folder = (
                shipped_for(algorithm, options.beta) if options.model is None else find_model(options.model)
            )
            model = read_model(folder)
        except ModelError as error:
            raise PolicyError(f"policy {algorithm}: model: {error}") from error
        if model.spec.algorithm != algorithm:
            raise PolicyError(f"policy {algorithm}: model: {folder} is of {model.spec.algorithm}")
        limit = model.spec.wait_limit if options.wait_limit is None else options.wait_limit
        self._options = options
        self._wait_limit = _WAIT_LIMIT if limit is None else limit
        self._fallback: Policy = create(options.fallback)
        self._network = _Network(model)
        self._waiting: _Waiting | None = None
        #: The head of the queue that was seen last, and how many there were before it.
        self._head, self._number = "", -1

    def decide(self, view: ClusterView, queue: Sequence[PlacementRequest]) -> Decision:
        """Place the head of the queue, all of its executors, or wait."""
        request = queue[0]
        if request.job.id != self._head:
            self._head, self._number = request.job.id, self._number + 1
        if not view.vms:
            return Wait(shortage(view, request))
        if self._network.vms not in (None, len(view.vms)):
            return self._instead(
                view, queue, f"the model is for {self._network.vms} VMs, not {len(view.vms)}"
            )
        waiting = self._waiting if self._waiting and self._waiting.job_id == request.job.id else None
        if waiting is not None and self._unchanged(waiting, view):
            return Wait(waiting.reason)
        decision = self._network.decide(view, queue, self._number)
        if isinstance(decision, Place):
            faults = check(view, request, decision)
            return self._instead(view, queue, f"by the network {faults[0]}") if faults else decision
        if decision is None:
            return Wait(shortage(view, request))
        return self._wait(waiting, view, queue, decision.reason)

    def _unchanged(self, waiting: _Waiting, view: ClusterView) -> bool:
        late = view.at - waiting.since >= self._options.patience
        return not late and waiting.vms == view.vms and waiting.running == _running(view)

    def _wait(
        self,
        waiting: _Waiting | None,
        view: ClusterView,
        queue: Sequence[PlacementRequest],
        reason: str,
    ) -> Decision:
        """What becomes of the network's wish that the head waits."""
        times, since = (waiting.times, waiting.since) if waiting else (0, view.at)
        if times >= self._wait_limit:
            return self._instead(view, queue, f"it has waited for {times} ends of jobs though it fits")
        if view.at - since >= self._options.patience:
            return self._instead(view, queue, f"it has waited for {view.at - since:.0f} s though it fits")
        self._waiting = _Waiting(queue[0].job.id, since, _running(view), view.vms, times + 1, reason)
        return Wait(reason)

    def _instead(self, view: ClusterView, queue: Sequence[PlacementRequest], why: str) -> Decision:
        """What the fallback decides, and why it does."""
        decision, name = self._fallback.decide(view, queue), self._options.fallback
        if isinstance(decision, Wait):
            return Wait(f"{why}, so {name} decides: {decision.reason}")
        whys = decision.why or ("it gave no reason",) * len(decision.placement)
        return replace(decision, why=tuple(f"{why}, so {name} decides: {reason}" for reason in whys))


class Reinforce(LearnedPolicy):
    """REINFORCE: a trained network gives each VM a probability; the likeliest takes the executor."""

    def __init__(self, options: LearnedOptions) -> None:
        super().__init__("reinforce", options)


class Dqn(LearnedPolicy):
    """DQN: a trained network estimates what comes of each VM; the best takes the executor."""

    def __init__(self, options: LearnedOptions) -> None:
        super().__init__("dqn", options)


def _running(view: ClusterView) -> tuple[str, ...]:
    return tuple(running.job.id for running in view.running)


class _Network:
    """A model that decides about views; the arrays it works in are kept from decision to decision."""

    def __init__(self, model: Model) -> None:
        self.vms = model.spec.vms
        self._options, self._network = model.spec.options, network_of(model.weights)
        self._says = _probability if model.spec.algorithm == "reinforce" else _estimate
        self._desk: Desk | None = None
        self._compile()

    def decide(self, view: ClusterView, queue: Sequence[PlacementRequest], number: int) -> Decision | None:
        """Place the head, or wait; None when there is no room for all of it."""
        from agents.drl.kernel.deciding import NO_ROOM, WAITS, decide, make_desk, make_draft
        from environment.observation import scene_of

        request, vms, layout = queue[0], len(view.vms), self._options.layout
        if self._desk is None or len(self._desk.mask) != vms + 1:
            self._desk = make_desk(self._network, layout, vms)
        scene = scene_of(view, queue, self._options, number)
        draft = make_draft(vms, scene.placed, request.count)
        found = decide(scene, layout, self._network, self._desk, draft)
        if found == NO_ROOM:
            return None
        names = ("waiting for the next job to end", *(vm.name for vm in view.vms))
        if found == WAITS:
            return Wait(self._says(draft.choices, 0, names))
        placement = tuple(draft.placed[len(scene.placed) :].tolist())
        why = tuple(self._says(draft.choices, i, names) for i in range(found))
        return Place(request.job.id, placement, why, tuple(draft.first[1:].tolist()))

    def _compile(self) -> None:
        """Decide once, so that no job waits for the compiler."""
        vms, one = self.vms or 1, np.ones(self.vms or 1)
        machines = tuple(Vm(f"{i}", f"{i}", "", 1.0, 1, 1.0) for i in range(vms))
        view = ClusterView(0.0, machines, one, one.copy(), np.zeros(vms, np.int64), np.zeros(vms))
        self.decide(view, [PlacementRequest(Job("", "", 1.0, 1, 1, 0.0), 1)], 0)


def _probability(choices: "Choices", i: int, names: Sequence[str]) -> str:
    """What REINFORCE says of a choice."""
    chosen = f"{names[choices.action[i]]} has probability {choices.share[i]:.0%}"
    if choices.other[i] < 0:
        return f"{names[choices.action[i]]} is the only choice"
    return f"{chosen}, {names[choices.other[i]]} {choices.other_share[i]:.0%}"


def _estimate(choices: "Choices", i: int, names: Sequence[str]) -> str:
    """What DQN says of a choice."""
    chosen = f"{names[choices.action[i]]} promises a return of {choices.score[i]:.3f}"
    if choices.other[i] < 0:
        return f"{names[choices.action[i]]} is the only choice"
    return f"{chosen}, {names[choices.other[i]]} {choices.other_score[i]:.3f}"
