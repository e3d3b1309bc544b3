"""Policies of the bench: the learner's variants, the comparison partners, the optima; one call makes any.

They share the interface `Allocator`: arrivals of a slot in, allocation [K, E] out.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from agents.oga.bipartite import Model, dominant_shares
from agents.oga.kernel import sharing
from agents.oga.learner import AllocationLearner, LearnerOptions
from agents.oga.maximiser import maximise
from environment.types import FloatArray

Allocator = Callable[[FloatArray], FloatArray]

LEARNERS = ("oga", "oga-reactive", "oga-conserving")
PARTNERS = ("drf", "fairness", "binpacking", "spreading")
#: Optima in hindsight: one allocation for all slots, y*, and another for every slot, the ceiling.
OPTIMA = ("stationary", "optimum")
NAMES = (*LEARNERS, *PARTNERS, *OPTIMA)


@contextmanager
def allocator(name: str, model: Model, arrivals: FloatArray, options: LearnerOptions) -> Iterator[Allocator]:
    """The policy of that name, in a `with`; ValueError for an unknown one.

    `arrivals` [T, L] are for `stationary` only. The array that an allocator answers with may be overwritten
    by its next call.
    """
    if name in LEARNERS:
        # It is a Variant, which `in` does not tell mypy; Learner's options check it.
        with AllocationLearner(model, replace(options, variant=name)) as learner:  # type: ignore[arg-type]
            yield learner.step
    else:
        yield _unlearned(name, model, arrivals)


def _unlearned(name: str, model: Model, arrivals: FloatArray) -> Allocator:
    if name == "fairness":
        return _fairness(model)
    if name in PARTNERS:
        return _in_turn(name, model)
    if name == "stationary":
        best = maximise(model, arrivals.mean(axis=0)).y
        return lambda _: best
    if name == "optimum":
        return lambda x: maximise(model, x).y
    raise ValueError(f"policy {name}: unknown; known are {', '.join(NAMES)}")


def _fairness(model: Model) -> Allocator:
    out, sums = np.zeros(model.shape), np.zeros(model.graph.bounds.shape)

    def allocate(x: FloatArray) -> FloatArray:
        sharing.share_out(model.graph, x, model.request == "total", sums, out)
        return out

    return allocate


def _in_turn(name: str, model: Model) -> Allocator:
    out, free = np.zeros(model.shape), np.zeros(model.graph.capacity.shape)
    queue, used = np.zeros(model.width, dtype=np.uint32), np.zeros(model.width)
    turns = np.arange(len(model.ports))
    if name == "drf":
        turns = np.argsort(dominant_shares(model), kind="stable")
    order = {"binpacking": sharing.MOST_USED, "spreading": sharing.LEAST_USED}.get(name, sharing.AS_NUMBERED)

    def allocate(x: FloatArray) -> FloatArray:
        sharing.serve_in_turn(model.graph, x, turns, order, model.request == "total", free, queue, used, out)
        return out

    return allocate
