"""A teacher's decisions as examples to learn from, recorded in the simulator, without TensorFlow."""

from collections.abc import Generator, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from agents.registry import create
from conf.util.process_pool import process_pool
from environment.kernel.observation import observation_length
from environment.kernel.rule_options import ObservationOptions
from environment.kernel.state import BoolArray, Float32Array
from environment.policy import Policy
from environment.simulation.durations.beliefs import EXACT, Belief
from environment.simulation.options import SimulationOptions
from environment.simulation.simulator import simulate
from environment.training.view_encoding import mask, observation, put, scene_of
from environment.types import Decision, Place, PlacementRequest, Vm
from environment.view import ClusterView
from profiles.workloads.generators import load_workload
from profiles.workloads.workload import Workload


class Examples(NamedTuple):
    """S moments in which there was a choice, and how the teacher chose."""

    observation: Float32Array  # [S, L]
    mask: BoolArray  # [S, N + 1]
    target: Float32Array  # [S, N + 1] how likely each action should be


class Lesson(NamedTuple):
    """A teacher, by name and options, on a workload and seed of a cluster, with its expectations."""

    teacher: str
    options: dict[str, object]
    workload: str | Workload
    seed: int
    vms: tuple[Vm, ...]
    observation: ObservationOptions
    considered: int
    belief: Belief = EXACT
    waiting: float | None = None


class _WatchedTeacher:
    """A policy that decides as the teacher does, and records the teacher's observations and choices."""

    def __init__(
        self, teacher: Policy, options: ObservationOptions, considered: int, waiting: float | None
    ) -> None:
        self._teacher, self._options, self._considered = teacher, options, considered
        self._waiting = waiting
        self._waited: tuple[object, ...] | None = None
        self.seen: list[tuple[Float32Array, BoolArray, Float32Array]] = []

    def decide(self, view: ClusterView, queue: Sequence[PlacementRequest]) -> Decision:
        decision = self._teacher.decide(view, queue)
        if isinstance(decision, Place):
            number = next(at for at, request in enumerate(queue) if request.job.id == decision.job_id)
            if number < self._considered:
                self._pass_over(view, queue, number)
                self._write_down(view, _shown(queue, number), sorted(decision.placement))
        elif not self._waits_on(view, queue):
            self._pass_over(view, queue, min(self._considered, len(queue)))
        return decision

    def _waits_on(self, view: ClusterView, queue: Sequence[PlacementRequest]) -> bool:
        """Whether all is as when it waited last: agents are not asked again before."""
        shown = tuple(request.job.id for request in queue[: self._considered])
        before, self._waited = self._waited, (shown, len(view.running))
        return before == self._waited

    def _pass_over(self, view: ClusterView, queue: Sequence[PlacementRequest], count: int) -> None:
        """Record that the `count` oldest jobs were not placed; for those that fit, that was a choice."""
        for number in range(count if self._waiting is None else 0):
            self._write_down(view, _shown(queue, number), ())

    def _write_down(
        self, view: ClusterView, queue: Sequence[PlacementRequest], placement: Sequence[int]
    ) -> None:
        """Executors are alike: any VM that still gets one is a good next choice."""
        scene = scene_of(view, queue, self._options)
        for target in _targets(placement, len(view.vms)):
            allowed = mask(scene)
            if self._waiting is not None and allowed[0]:
                target *= np.float32(1.0 - self._waiting)
                target[0] = self._waiting
            if allowed.sum() > 1 and allowed[target > 0].all():
                self.seen.append((observation(scene, self._options), allowed, target))
            if placement:
                vm, *placement = placement
                scene = put(scene, vm)


def _shown(queue: Sequence[PlacementRequest], number: int) -> tuple[PlacementRequest, ...]:
    """The queue as an agent sees it when it is shown that job of it: the job first."""
    return (queue[number], *queue[:number], *queue[number + 1 :])


def _targets(placement: Sequence[int], vms: int) -> Iterator[Float32Array]:
    if not placement:
        waits = np.zeros(vms + 1, np.float32)
        waits[0] = 1.0
        yield waits
    for at in range(len(placement)):
        left = np.bincount(np.array(placement[at:]) + 1, minlength=vms + 1)
        yield (left / left.sum()).astype(np.float32)


def watch(lesson: Lesson) -> Examples:
    """The examples of one lesson."""
    teacher = create(lesson.teacher, lesson.options)
    watched = _WatchedTeacher(teacher, lesson.observation, lesson.considered, lesson.waiting)
    options = SimulationOptions(belief=lesson.belief, seed=lesson.seed)
    workload = lesson.workload
    if isinstance(workload, str):
        workload = load_workload(workload, lesson.seed)
    simulate(watched, workload, lesson.vms, options=options)
    if not watched.seen:
        vms = len(lesson.vms)
        nothing = np.zeros((0, observation_length(vms, lesson.observation.layout)), np.float32)
        return Examples(nothing, np.zeros((0, vms + 1), np.bool_), np.zeros((0, vms + 1), np.float32))
    return Examples(*(np.array(part) for part in zip(*watched.seen, strict=True)))


def watch_all(lessons: Sequence[Lesson], processes: int) -> Generator[Examples, None, None]:
    """The examples of all lessons, in their order, computed by several processes until it is closed."""
    if processes == 1:
        yield from map(watch, lessons)
        return
    with process_pool(processes) as pool:
        yield from pool.map(watch, lessons, chunksize=4)
