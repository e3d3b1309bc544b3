"""A trained network's scores for a cluster view, and its placement of a job.

Computed in `kernel/placing.py`, without TensorFlow; numba is imported when an adviser is made.
`learned_policy.py` limits the time that a job may wait on the network's advice.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from agents.drl.model_folder import TrainedModel
from agents.drl.network import network_of
from environment.kernel.state import PREFERENCES, Float32Array
from environment.resource_arrays import ResourceArrays
from environment.resources import CPUS, Resources
from environment.types import Job, Place, PlacementRequest, Vm, Wait
from environment.view import ClusterView

if TYPE_CHECKING:
    from agents.drl.kernel.placing import Choices, QueuedJobs
    from environment.kernel.scene import Scene


class ScoredPlacement(NamedTuple):
    """A network's assessment of a job's next executor."""

    #: By how much the best VM scores better than waiting.
    gain: float
    #: The scores of waiting, then of each VM, minus infinity without room; float32 [N + 1], until the next
    #: question.
    actions: Float32Array


class Adviser:
    """A model that scores views; its arrays are reused from query to query."""

    def __init__(self, model: TrainedModel, beta: float | None = None) -> None:
        """`beta` is the weight of cost, for a model that observes it; by default that of `meant_for`."""
        from agents.drl.kernel.placing import make_desk

        shown = model.spec.meant_for if beta is None else beta
        self.options = replace(model.spec.options, beta=shown)
        self.network = network_of(model.weights)
        self._layout = self.options.layout
        #: Text of a choice, by its number.
        self.says = _probability if model.spec.algorithm == "reinforce" else _estimate
        self._desk = make_desk(self.network, self._layout, model.spec.vms or 1)
        #: The last view and queue that were summed up, and the result.
        self._summed: tuple[object, object, tuple[float, float, float]] = None, None, (0.0, 0.0, 0.0)
        self._compile(model.spec.vms)

    def score(
        self, view: ClusterView, queue: Sequence[PlacementRequest], number: int, counted: int = 0
    ) -> ScoredPlacement | None:
        """Score placing job `number` of the queue, or waiting, as the next step.

        None when there is no room for the whole job. `counted` is the number of jobs before the oldest.
        """
        from agents.drl.kernel.placing import gain_of

        gain = gain_of(self._scene(view, queue, number, counted), self._layout, self.network, self._desk)
        return None if gain == -math.inf else ScoredPlacement(float(gain), self._desk.scores)

    def gains(
        self,
        view: ClusterView,
        queue: Sequence[PlacementRequest],
        numbers: Sequence[int],
        counted: int = 0,
    ) -> dict[int, float]:
        """Gains of placing these jobs of the queue over waiting; of those that fit."""
        from agents.drl.kernel.placing import gains_of

        if not len(numbers):
            return {}
        known = list(islice(queue, max(*numbers, self._layout.upcoming) + 1))
        # Few jobs ask for more than cpus and memory, have executors already, or see VMs that they may not
        # use; these are looked at one by one.
        plain = [n for n in numbers if not known[n].present_on and view.seen_by(known[n]) is view]
        found = np.full(len(plain), -np.inf)
        if plain:
            scene = self._scene(view, queue, 0, counted, view)
            first = self._jobs(known, range(min(len(known), self._layout.upcoming + 1)))
            jobs = self._jobs(known, plain)
            gains_of(scene, first, jobs, self._layout, self.network, self._desk, found)
        gains = dict(zip(plain, found.tolist(), strict=True))
        for number in {*numbers} - {*plain}:
            scored = self.score(view, queue, number, counted)
            gains[number] = -math.inf if scored is None else scored.gain
        return {number: gains[number] for number in numbers if gains[number] > -math.inf}

    def decide(
        self,
        view: ClusterView,
        queue: Sequence[PlacementRequest],
        number: int,
        counted: int = 0,
        *,
        may_wait: bool = True,
    ) -> Place | Wait:
        """Place the job of that number in the queue, or wait.

        ValueError when there is no room for all of it.
        """
        from agents.drl.kernel.placing import NO_ROOM, WAITS, decide, make_draft

        request, vms = queue[number], len(view.vms)
        scene = self._scene(view, queue, number, counted)
        draft = make_draft(vms, scene.placed, request.count)
        found = decide(scene, self._layout, self.network, self._desk, draft, may_wait)
        if found == NO_ROOM:
            raise ValueError(f"there should be room for all of {request.job.id}")
        if found == WAITS:
            return Wait(self.says(draft.choices, 0, view.vms))
        placement = tuple(draft.placed[len(scene.placed) :].tolist())
        why = tuple(self.says(draft.choices, i, view.vms) for i in range(found))
        return Place(request.job.id, placement, why, tuple(draft.first[1:].tolist()))

    def _jobs(self, queue: Sequence[PlacementRequest], numbers: Sequence[int]) -> "QueuedJobs":
        from agents.drl.kernel.placing import QueuedJobs
        from environment.training.view_encoding import expected_of, type_of

        chosen = [queue[number] for number in numbers]
        return QueuedJobs(
            number=np.array(numbers, np.int64),
            type=np.array([type_of(request, self.options) for request in chosen], np.int64),
            milli_cpus=np.array([request.size.get(CPUS) for request in chosen], np.int64),
            memory_mib=np.array([request.memory_mib for request in chosen], np.int64),
            executors=np.array([request.job.executors for request in chosen], np.int64),
            left=np.array([request.count for request in chosen], np.int64),
            arrival=np.array([request.job.submitted_at for request in chosen], np.float64),
            seconds=np.array([expected_of(request, self.options) for request in chosen], np.float64),
            prefers=np.array([PREFERENCES[request.job.prefers] for request in chosen], np.int64),
        )

    def _scene(
        self,
        view: ClusterView,
        queue: Sequence[PlacementRequest],
        number: int,
        counted: int,
        seen: ClusterView | None = None,
    ) -> "Scene":
        """The network's input for job `number`; makes `self._desk` fit the cluster.

        It contains the view as that job sees it, or the view `seen` where given.
        """
        from agents.drl.kernel.placing import make_desk
        from environment.training.view_encoding import scene_of, sums_of

        if len(self._desk.mask) != len(view.vms) + 1:
            self._desk = make_desk(self.network, self._layout, len(view.vms))
        first = list(islice(queue, max(number, self._layout.upcoming) + 1))
        shown = [first.pop(number), *first]
        seen = view.seen_by(queue[number]) if seen is None else seen
        if self._summed[0] is not view or self._summed[1] is not queue:  # else they are as they were
            self._summed = view, queue, sums_of(view, queue, self.options)
        seconds, work, longest = self._summed[2]
        scene = scene_of(seen, shown, self.options, counted)
        scene = scene._replace(usual_seconds=seconds, waiting_work=work, longest_seconds=longest)
        return scene._replace(waiting=len(queue))

    def _compile(self, known: int | None) -> None:
        """Decide once, so that no job waits for the compiler."""
        vms, one = known or 1, Resources.of(1.0, 1)
        machines = tuple(Vm(f"{i}", f"{i}", "", one, 1.0) for i in range(vms))
        free = ResourceArrays.of([one] * vms)
        view = ClusterView(0.0, machines, free, np.zeros(vms, np.int64))
        queue = [PlacementRequest(Job("", "", one, 1, 0.0), 1)]
        self.score(view, queue, 0)
        self.gains(view, queue, [0])
        self.decide(view, queue, 0)


def _probability(choices: "Choices", i: int, vms: Sequence[Vm]) -> str:
    """Text for a choice of REINFORCE."""
    chosen = _action(choices.action[i], vms)
    if choices.other[i] < 0:
        return f"{chosen} is the only choice"
    other = _action(choices.other[i], vms)
    return f"{chosen} has probability {choices.share[i]:.0%}, {other} {choices.other_share[i]:.0%}"


def _estimate(choices: "Choices", i: int, vms: Sequence[Vm]) -> str:
    """Text for a choice of DQN."""
    chosen = _action(choices.action[i], vms)
    if choices.other[i] < 0:
        return f"{chosen} is the only choice"
    other = _action(choices.other[i], vms)
    return f"{chosen} promises a return of {choices.score[i]:.3f}, {other} {choices.other_score[i]:.3f}"


def _action(action: int, vms: Sequence[Vm]) -> str:
    return "waiting for the next job to end" if action == 0 else vms[action - 1].name
