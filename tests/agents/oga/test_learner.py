"""The learner follows Algorithm 1, its variants serve their purposes, and nothing is forgotten."""

import io
import threading

import numpy as np
import pytest

from agents.oga.bipartite import Model, ModelError, Request, build_model
from agents.oga.environments import EnvironmentOptions, generate
from agents.oga.learner import AllocationLearner, LearnerOptions, Variant, diameter, gradient_bound
from environment.types import FloatArray
from tests.agents.oga.models import random_arrivals, random_model
from tests.agents.oga.plain import Plain

VARIANTS: tuple[Variant, ...] = ("oga", "oga-reactive", "oga-conserving")


def as_allocation(model: Model, y: FloatArray) -> dict[tuple[int, int, int], float]:
    """[K, E] as a dictionary by (port, instance, resource)."""
    graph = model.graph
    return {
        (int(graph.port[e]), int(graph.instance[e]), k): float(y[k, e]) for k, e in np.ndindex(*model.shape)
    }


def test_the_same_as_algorithm_1_in_plain_python() -> None:
    """Allocations and rewards agree slot by slot."""
    model = random_model(1, resources=4)
    learner = AllocationLearner(model, LearnerOptions(variant="oga", eta0=3.0, decay=0.99))
    reference = Plain(model, as_allocation(model, learner.y), 3.0, 0.99)
    for x in random_arrivals(model, 60, 1):
        assert model.reward(x, learner.y) == pytest.approx(reference.reward(list(x)), rel=1e-9)
        played = learner.step(x)
        assert as_allocation(model, played) == pytest.approx(reference.y, abs=1e-9)
        reference.step(list(x))


def test_when_a_variant_decides() -> None:
    """`oga` plays the allocation from before it saw x(t), `oga-reactive` the one after a step on x(t)."""
    model = random_model()
    x = random_arrivals(model, 1)[0]
    plain, reactive = (
        AllocationLearner(model, LearnerOptions(variant=name)) for name in ("oga", "oga-reactive")
    )
    before = plain.y.copy()
    assert (plain.step(x) == before).all()
    assert (reactive.step(x) == plain.y).all()
    assert (plain.step(1 - x) == reactive.y).all()


@pytest.mark.parametrize("request_", ["per_channel", "total"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_allocations_are_feasible_and_repeatable(variant: Variant, request_: Request) -> None:
    """With both readings of a request; twice the same arrivals give the same bits."""
    model = random_model(2, request=request_)
    rewards: list[list[float]] = []
    for _ in range(2):
        learner = AllocationLearner(model, LearnerOptions(variant=variant))
        rewards.append([])
        for x in random_arrivals(model, 50, 3):
            y = learner.step(x)
            assert max(model.violation(y), model.violation(learner.y)) < 1e-9
            rewards[-1].append(model.reward(x, y))
    assert rewards[0] == rewards[1]


def test_conserving_leaves_nothing_to_absent_ports() -> None:
    """An absent port gets nothing, and a port alone may have everything that pays."""
    model = random_model(3, utility=0)
    learner = AllocationLearner(model)
    for port in range(len(model.ports)):
        x = np.eye(len(model.ports))[port]
        y = learner.step(x)
        assert y[:, model.graph.port != port].sum() == 0
        edges = model.edges_of(port)
        most = np.minimum(
            model.graph.bounds[:, port, None], model.graph.capacity[:, model.graph.instance[edges]]
        )
        assert y[:, edges] == pytest.approx(most, rel=1e-6)


def test_explained_steps_add_up() -> None:
    """A step is eta times the gradient, its end is the next y; gradients of absent ports are zero."""
    model = random_model(4)
    learner = AllocationLearner(model, LearnerOptions(eta0=2.0, decay=0.5))
    x = random_arrivals(model, 1, 5)[0]
    learner.step(x)
    learner.step(x)
    for port in range(len(model.ports)):
        told = learner.explain(port)
        assert [state.instance for state in told] == [
            model.instances[model.graph.instance[e]] for e in model.edges_of(port)
        ]
        for state in told:
            assert state.ascended == pytest.approx(state.before + 1.0 * state.gradient)
            assert state.gradient.any() == bool(x[port])
            edge = model.edge(port, model.instances.index(state.instance))
            assert edge is not None
            assert (state.after == learner.y[:, edge]).all()
            assert (state.allocated == learner.allocated[:, edge]).all()


def test_state_survives_a_file() -> None:
    """A learner restored from saved arrays goes on as the one that was saved."""
    model = random_model(6)
    arrivals = random_arrivals(model, 30, 6)
    first = AllocationLearner(model)
    for x in arrivals[:20]:
        first.step(x)
    first.observe(1, 2.0, 3.0)
    file = io.BytesIO()
    np.savez(file, **first.state())
    file.seek(0)
    second = AllocationLearner.restored(model, dict(np.load(file)))
    for x in arrivals[20:]:
        assert second.step(x) == pytest.approx(first.step(x), rel=1e-6, abs=1e-6)
    with pytest.raises(ModelError, match="state: cannot be read: KeyError"):
        AllocationLearner.restored(model, {})


def test_what_is_known_moves_to_another_model() -> None:
    """Ports and instances that stay keep their y, those that are new start from their share."""
    small, other = (
        build_model(
            [(port, instance) for port in range(len(ports)) for instance in range(2)],
            np.full((len(ports), 2), 4.0),
            np.full((2, 2), 100.0),
            utilities=1,
            alphas=1.2,
            beta=0.4,
            ports=ports,
            instances=instances,
            resources=resources,
        )
        for ports, instances, resources in (
            (["a", "b"], ["v", "w"], ["cpus", "memory"]),
            (["b", "c", "a"], ["w", "u"], ["memory", "cpus"]),
        )
    )
    learner = AllocationLearner(small)
    learner.y = np.arange(8.0).reshape(2, 4) / 3  # edges a-v, b-v, a-w, b-w; cpus, memory
    learner.observe(1, 1.0, 2.0)
    moved = learner.moved_to(other)
    b_w, c_w, a_w = other.graph.edges[other.graph.port_start[:-1]]  # w is the first instance of each port
    assert moved.y[:, [a_w, b_w]] == pytest.approx(learner.y[::-1, 2:])
    assert moved.y[:, c_w] == pytest.approx([4.0, 4.0])
    assert moved.gains.tolist() == [1.2, 1.0, 1.0]


def test_surprises_move_the_gain() -> None:
    """A port with jobs that achieve twice f's promise comes to count twice, a wonder ten times at most."""
    learner = AllocationLearner(random_model(), LearnerOptions(gain_rate=0.5))
    for _ in range(40):
        learner.observe(0, 3.0, 6.0)
        learner.observe(1, 1.0, 1e9)
        learner.observe(2, 0.0, 5.0)
    assert learner.gains[:3] == pytest.approx([2.0, 10.0, 1.0])


def test_step_sizes_of_theory() -> None:
    """Theorem 1's is diam / (G sqrt T) throughout, eq. 50's is never shorter, as no gradient exceeds G."""
    model = random_model()
    x = np.ones(len(model.ports))
    fixed = AllocationLearner(model, LearnerOptions(variant="oga", step_size="theorem1", horizon=100))
    fixed.step(x)
    eta = diameter(model) / gradient_bound(model) / 10
    state = fixed.explain(0)[0]
    assert state.ascended - state.before == pytest.approx(eta * state.gradient)
    adaptive = AllocationLearner(model, LearnerOptions(variant="oga", step_size="eq50", horizon=100))
    adaptive.step(x)
    told = adaptive.explain(0)[0]
    assert np.abs(told.ascended - told.before).max() >= eta * np.abs(told.gradient).max()


def _helpers() -> int:
    """Threads of learners that are there."""
    return sum(thread.name.startswith("AllocationLearner") for thread in threading.enumerate())


@pytest.mark.parametrize("request_", ["per_channel", "total"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_threads_change_nothing(variant: Variant, request_: Request) -> None:
    """A large model's steps are the same bits with one thread, with some, and with more than resources."""
    options = EnvironmentOptions(types=30, instances=300, density=0, slots=5, request=request_)
    made = generate(options)
    told = []
    for threads in (1, 2, 4, 9):
        before = _helpers()
        with AllocationLearner(made.model, LearnerOptions(variant=variant, threads=threads)) as learner:
            told.append([learner.step(x).copy() for x in made.arrivals])
            told[-1].append(learner.y.copy())
            assert (_helpers() > before) == (threads > 1)
        assert _helpers() == before
    for others in told[1:]:
        assert all((one == other).all() for one, other in zip(told[0], others, strict=True))


def test_a_small_model_is_one_threads() -> None:
    """Where handing over takes longer than the step, no thread is begun."""
    before = _helpers()
    with AllocationLearner(random_model(), LearnerOptions(threads=4)) as learner:
        learner.step(random_arrivals(learner.model, 1)[0])
        assert _helpers() == before


@pytest.mark.parametrize(
    "options", [{"variant": "ogre"}, {"eta0": 0.0}, {"decay": 2.0}, {"horizon": 0}, {"threads": 0}]
)
def test_bad_options_are_refused(options: dict[str, object]) -> None:
    """At once, not in the first slot."""
    with pytest.raises(ValueError, match=next(iter(options))):
        LearnerOptions(**options)  # type: ignore[arg-type]
