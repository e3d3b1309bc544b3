"""Several jobs of a type, and jobs that start with a minimum of tasks or not at all."""

import numpy as np
import pytest

from agents.oga.bipartite import ModelError, Request, build_model
from agents.oga.learner import AllocationLearner, LearnerOptions
from agents.oga.port_jobs import PortJobs, jobs_of
from tests.agents.oga.models import random_model


def test_each_of_several_jobs_counts_for_itself() -> None:
    """Zhao 2023, 3.4: copies of a port; the reward is the sum over those that are there."""
    model = random_model(resources=2)
    made = jobs_of(model, [2, 1, 3, 1, 1])
    assert made.model.ports == ("0#0/0", "0#1/0", "1#0/0", "2#0/0", "2#1/0", "2#2/0", "3#0/0", "4#0/0")
    x = made.arrivals([1, 0, 2, 5, 0]).astype(float)
    assert x.tolist() == [1, 0, 0, 1, 1, 0, 1, 0]
    learner = AllocationLearner(made.model, LearnerOptions(variant="oga"))
    y = learner.y
    alone = [made.model.reward(np.eye(8)[port], y) for port in np.flatnonzero(x)]
    assert made.model.reward(x, y) == pytest.approx(sum(alone))
    learner.step(x)
    assert made.model.violation(learner.y) < 1e-9
    assert made.settle(y, x) is y, "no job has a minimum"


def some_gangs(seed: int, request: Request, floor: float = 0.5) -> PortJobs:
    """Five jobs of one to four tasks, of which at least half must start."""
    draw = np.random.default_rng(seed)
    model = random_model(seed, request=request)
    tasks = [draw.uniform(0.5, 3, (int(draw.integers(1, 5)), 3)) for _ in model.ports]
    return jobs_of(model, None, tasks, [-(-len(task) // 2) for task in tasks], floor)


@pytest.mark.parametrize("request_", ["per_channel", "total"])
def test_a_job_has_its_minimum_or_nothing(request_: Request) -> None:
    """In every slot, within all constraints; absent jobs get nothing, and most present ones start."""
    present = started = 0
    for seed in range(6):
        made = some_gangs(seed, request_)
        learner = AllocationLearner(made.model)
        for jobs in np.random.default_rng(seed).random((20, 5)) < 0.7:
            x = made.arrivals(jobs).astype(float)
            y = made.settle(learner.step(x), x)
            assert made.model.violation(y) < 1e-9
            got = made.model.job_totals(y).sum(axis=0)
            scheduled = made.scheduled(y, x)
            for job in range(5):
                if got[job] > 0:
                    assert jobs[job]
                    assert scheduled[job] >= made.minimum[job]
            present += int(jobs.sum())
            started += int((got > 0).sum())
    assert started > 0.5 * present


def test_what_fits_is_only_moved_as_far_as_it_must() -> None:
    """An allocation that keeps the minimum already stays as it is."""
    made = some_gangs(1, "per_channel", floor=0.01)
    y = AllocationLearner(made.model).y
    assert made.settle(y, np.ones(len(made.model.ports))) == pytest.approx(y, abs=1e-9)


def test_whole_requests_are_floors_without_a_warning() -> None:
    """The request's rest at a floor of 1 is 0, or less by rounding, and never a divisor."""
    for seed in (64, 89, 101):
        made = some_gangs(seed, "total", floor=1.0)
        learner, x = AllocationLearner(made.model), np.ones(len(made.model.ports))
        for _ in range(6):
            with np.errstate(all="raise"):
                y = made.settle(learner.step(x).copy(), x)
            assert made.model.violation(y) < 1e-9
            assert made.scheduled(y, x).any()


def test_a_gang_that_cannot_start_leaves_its_share() -> None:
    """Two tasks of 6 on an instance with 10: with both needed nothing starts, with one it does."""
    model = build_model([(0, 0), (1, 0)], [[6.0], [3.0]], [[10.0]], utilities=0, alphas=1.2, beta=0.4)
    tasks = [[[6.0], [6.0]], [[3.0]]]
    together = jobs_of(model, None, tasks, [2, 1], floor=1.0)
    y = np.array([[5.0, 5.0, 0.0]])
    assert together.settle(y, np.ones(3)).tolist() == [[0, 0, 3]]
    one, halves = (
        jobs_of(model, None, tasks, [1, 1], floor=1.0),
        jobs_of(model, None, tasks, [1, 1], floor=0.5),
    )
    assert one.settle(y, np.ones(3)).tolist() == [[6, 0, 3]]
    assert halves.settle(y, np.array([1.0, 1.0, 0.0])).tolist() == [[5, 5, 0]]


def test_tasks_of_a_job_share_its_overhead() -> None:
    """The overhead is the largest over resources of the job's total, not the sum of its tasks' largest."""
    made = some_gangs(2, "per_channel")
    y = AllocationLearner(made.model).y
    _, overhead = made.model.gain_and_overhead(np.ones(len(made.model.ports)), y)
    totals = made.model.graph.beta[:, None] * made.model.job_totals(y)
    assert overhead == pytest.approx(totals.max(axis=0).sum())


def test_scheduled_counts_tasks_that_are_there_and_have_their_floors() -> None:
    """Half of 6 and of 3 at a floor of a half, in the resource of which a task has least."""
    model = build_model([(0, 0), (1, 0)], [[6, 4], [3, 4]], [[10, 10]], utilities=0, alphas=1.2, beta=0.4)
    made = jobs_of(model, None, [[[6, 4], [6, 4]], [[3, 4]]], [1, 1])
    y = np.array([[3.0, 2.9, 3.0], [2.0, 4.0, 1.9]])
    assert made.scheduled(y, np.ones(3)).tolist() == [1, 0]
    assert made.scheduled(y, np.array([0.0, 1.0, 1.0])).tolist() == [0, 0]


@pytest.mark.parametrize(
    ("most", "tasks", "minimum", "floor", "complaint"),
    [
        ([1, 1], None, None, 0.5, "most: 1 expected, one for each type, found 2"),
        ([0], None, None, 0.5, "most: numbers from 1 expected, found 0"),
        (None, [[[1.0]]], [2], 0.5, "minimum: between 0 and a job's 1 task expected, found 2"),
        (None, [[[1.0]]], [1], 0.0, "floor: more than 0 and at most 1 expected, found 0"),
        (None, [[[1.0]]], [1, 1], 0.5, "minimum: 1 expected, one for each type, found 2"),
    ],
)
def test_impossible_jobs_are_refused(
    most: list[int] | None,
    tasks: list[list[list[float]]] | None,
    minimum: list[int] | None,
    floor: float,
    complaint: str,
) -> None:
    """A minimum beyond the tasks, no floor, no job, a number too many."""
    with pytest.raises(ModelError, match=complaint):
        jobs_of(random_model(ports=1, instances=1, resources=1), most, tasks, minimum, floor)
