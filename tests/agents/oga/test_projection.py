"""The projection is the nearest point of the feasible set, for any bounds."""

import highspy
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.oga.bipartite import Model, ModelError, Request, build_model
from agents.oga.kernel.projection import threshold
from agents.oga.learner import projected
from environment.types import FloatArray
from tests.agents.oga.models import random_model
from tests.agents.oga.plain import projection


def solve(z: FloatArray, upper: FloatArray, rows: FloatArray, limits: FloatArray) -> FloatArray:
    """The y nearest to z with 0 <= y <= upper, rows @ y <= limits, by HiGHS's quadratic solver."""
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("threads", 1)  # whatever the machine has, and as all that may share this process
    solver.setOptionValue("qp_regularization_value", 0.0)
    program = highspy.HighsModel()
    linear, hessian = program.lp_, program.hessian_
    linear.num_row_, linear.num_col_ = rows.shape
    linear.col_cost_, linear.col_lower_, linear.col_upper_ = -z, np.zeros(z.size), upper
    linear.row_lower_, linear.row_upper_ = np.full(len(rows), -np.inf), limits
    matrix = linear.a_matrix_
    matrix.format_ = highspy.MatrixFormat.kColwise
    at, _ = np.nonzero(rows.T)
    matrix.start_ = np.searchsorted(at, np.arange(z.size + 1))
    matrix.index_ = np.nonzero(rows.T)[1]
    matrix.value_ = np.ones(at.size)
    hessian.dim_, hessian.format_ = z.size, highspy.HessianFormat.kTriangular
    hessian.start_, hessian.index_ = np.arange(z.size + 1), np.arange(z.size)
    hessian.value_ = np.ones(z.size)
    assert solver.passModel(program) == highspy.HighsStatus.kOk
    assert solver.run() == highspy.HighsStatus.kOk
    return np.array(solver.getSolution().col_value)


def project(z: FloatArray, a: FloatArray, c: float, guess: float = 0.0) -> FloatArray:
    """By the compiled threshold."""
    return np.clip(z - threshold(z, a, z.size, c, guess), 0.0, a)


def test_equal_to_a_solver_on_thousands_of_instances() -> None:
    """Random sizes, unequal bounds, from slack to empty, any first guess: within 1e-9 of HiGHS."""
    draw = np.random.default_rng(0)
    kinds = {"slack": 0, "tight": 0}
    for _ in range(2000):
        n = int(draw.integers(1, 15))
        z, a = draw.normal(1, 5, n), draw.uniform(0, 5, n) * draw.integers(0, 2, n)
        c = float(draw.choice([0.0, draw.uniform(0, 6), a.sum(), 100.0]))
        found = project(z, a, c, guess=float(draw.uniform(0, 5)))
        assert np.abs(found - solve(z, a, np.ones((1, n)), np.array([c]))).max() < 1e-9
        kinds["slack" if found.sum() < c - 1e-9 else "tight"] += 1
    assert min(kinds.values()) > 200


numbers = st.floats(-50, 50, allow_nan=False)


@given(
    st.lists(st.tuples(numbers, st.floats(0, 50)), min_size=1, max_size=30),
    st.floats(0, 200),
    st.floats(0, 100),
)
def test_breakpoints_agree(edges: list[tuple[float, float]], c: float, guess: float) -> None:
    """The same as the search among sorted breakpoints, also with ties and denormal numbers; idempotent."""
    z, a = (np.array(column) for column in zip(*edges, strict=True))
    found = project(z, a, c, guess)
    assert found.sum() <= c + 1e-9
    assert found == pytest.approx(projection(z.tolist(), a.tolist(), c), abs=1e-9)
    assert project(found, a, c, guess) == pytest.approx(found, abs=1e-9)


@pytest.mark.parametrize(
    ("z", "a", "c", "expected"),
    [
        ([5.0, 4.9, 0.5], [10.0, 1.0, 10.0], 6.0, [4.75, 1.0, 0.25]),  # not the largest is above its bound
        ([1.0, 1.0], [2.0, 2.0], 10.0, [1.0, 1.0]),  # capacity to spare: nothing is raised to use it
        ([3.0, 3.0], [2.0, 2.0], 4.0, [2.0, 2.0]),  # exactly full
        ([-1.0, -2.0], [2.0, 2.0], 4.0, [0.0, 0.0]),
        ([3.0, 1.0], [2.0, 2.0], 0.0, [0.0, 0.0]),
    ],
)
def test_known_cases(z: list[float], a: list[float], c: float, expected: list[float]) -> None:
    """Among them the two where Algorithm 1, as printed, goes wrong."""
    assert project(np.array(z), np.array(a), c) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("request_", ["per_channel", "total"])
def test_whole_models(request_: Request) -> None:
    """All planes at once; where requests are totals, both sides' bounds are kept at the nearest point."""
    for seed in range(12):
        model = random_model(seed, request=request_)
        z = np.random.default_rng(seed).normal(1, 3, model.shape)
        found = projected(model, z)
        assert model.violation(found) < 1e-9
        assert np.abs(found - _solved(model, z)).max() < (1e-9 if request_ == "per_channel" else 1e-7)


def _solved(model: Model, z: FloatArray) -> FloatArray:
    graph = model.graph
    rows = np.stack([graph.instance == r for r in range(len(model.instances))])
    if model.request == "total":
        rows = np.concatenate([rows, np.stack([graph.port == p for p in range(len(model.ports))])])
    planes = []
    for k in range(model.shape[0]):
        limits = np.concatenate([graph.capacity[k], graph.bounds[k]])[: len(rows)]
        planes.append(solve(z[k], graph.bounds[k, graph.port], rows.astype(float), limits))
    return np.stack(planes)


def test_what_cannot_be_projected_is_refused() -> None:
    """A wrong shape and a number that is none."""
    model = build_model([(0, 0)], [[1.0]], [[1.0]], utilities=0, alphas=1.0, beta=0.4)
    for z in ([[1.0, 2.0]], [[np.nan]]):
        with pytest.raises(ModelError, match=r"z: finite numbers of shape \(1, 1\) expected"):
            projected(model, z)
