"""Joint errors of beliefs: compared with the exact normal posterior, and with later outcomes."""

import math
import threading
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from environment.simulation.durations import belief_errors
from environment.simulation.durations.belief_errors import Errors, LearnedErrors
from environment.simulation.durations.prediction_intervals import Interval
from environment.types import Job
from environment.view import RunningJob
from tests.builders import make_job

DRAWS = 20


def job(kind: str, spread: float = 0.3, believed: float | None = 100.0) -> Job:
    """A job of a type that is believed to take so long."""
    return replace(make_job(), type=kind, spread=spread, expected_duration=believed)


def interval(
    errors: Errors, one: Job, seed: int, running: Sequence[RunningJob] = (), at: float = 0.0
) -> Interval:
    """Interval of a job's drawn durations."""
    found = []
    for number in range(DRAWS):
        draw = np.random.default_rng([seed, number])
        seconds, spread = errors.draw([one], running, at, draw).of(one)
        found.append(seconds * math.exp(spread * draw.standard_normal() - spread**2 / 2))
    return Interval.of(found)


def test_parts_are_those_of_the_normal_posterior(monkeypatch: pytest.MonkeyPatch) -> None:
    """All parts as one vector, solved as a linear model of errors that all count, of known width."""
    monkeypatch.setattr(belief_errors, "_PRIOR", 1e12)
    monkeypatch.setattr(belief_errors, "_WIDER", 1.0)
    monkeypatch.setattr(belief_errors, "_HALF", 1e12)
    monkeypatch.setattr(belief_errors, "_DRIFT", 0.0)
    learned, kinds = LearnedErrors(), {"a": (1.0, 1.2, 0.7), "b": (0.2,), "c": ()}
    rows, errors, noise = [], [], []
    for number, (kind, seen) in enumerate(kinds.items()):
        for error in seen:
            one = job(kind, spread=0.2 + 0.1 * number)
            learned.learn(one, 100.0, 100.0 * math.exp(error))
            variance = one.spread**2 + 0.1**2
            rows.append([1.0, *(float(other == number) for other in range(3))])
            errors.append(error + variance / 2)
            noise.append(variance)
    design, prior = np.array(rows), np.array([0.7**2, 0.5**2, 0.5**2, 0.5**2])
    precision = np.diag(1 / prior) + design.T @ np.diag(1 / np.array(noise)) @ design
    covariance = np.linalg.inv(precision)
    # Parts are such that what is believed is right on average.
    mean = covariance @ (design.T @ (np.array(errors) / np.array(noise)) - 0.5)
    known = learned.now()
    assert (known.mean, known.variance) == pytest.approx((mean[0], covariance[0, 0]))
    drawn, draw, jobs = {kind: list[float]() for kind in kinds}, np.random.default_rng(1), [*map(job, kinds)]
    for _ in range(4000):
        parts = known.draw(jobs, [], 0.0, draw).parts
        for kind in kinds:
            drawn[kind].append(parts[kind, True])
    for number, kind in enumerate(kinds):
        of = np.zeros(4)
        of[[0, 1 + number]] = 1.0
        assert np.mean(drawn[kind]) == pytest.approx(of @ mean, abs=0.03)
        assert np.var(drawn[kind]) == pytest.approx(of @ covariance @ of, rel=0.1)
    both = np.cov(drawn["a"], drawn["c"])[0, 1]
    assert both == pytest.approx(covariance[0, 0] + covariance[0, 1], abs=0.02)  # they have the common part


@pytest.mark.parametrize("common", [-1.2, 0.0, 1.1])
def test_intervals_hold_whatever_is_wrong_with_all_profiles(common: float) -> None:
    """By about 0.3, 1 and 3, where types differ, and jobs spread as their profiles say or twice as much."""
    for width, first in ((1.0, 0.85 - 0.15 * abs(common)), (2.0, 0.8 - 0.1 * abs(common))):
        early, late = list[bool](), list[bool]()
        for seed in range(25):
            truth, learned = np.random.default_rng(seed), LearnedErrors()
            types = {kind: common + 0.3 * truth.standard_normal() for kind in "abcd"}
            for number in range(40):
                one = job(str(truth.choice(list(types))))
                error = types[one.type] + 0.3 * width * truth.standard_normal()
                took = 100.0 * math.exp(error - 0.3**2 / 2)
                held = interval(learned.now(), one, 1000 * seed + number).holds(took)
                (late if number >= 10 else early).append(held)
                learned.learn(one, 100.0, took)
        assert 0.85 <= np.mean(late) <= 0.97
        assert np.mean(early) >= first


def test_who_runs_for_too_long_is_evidence() -> None:
    """Nothing has ended, and a job of another type runs three times as long as it should: all are longer."""
    one, other = job("a"), job("b")
    before = interval(Errors(), one, 7)
    runs = [RunningJob(replace(other, id=f"job-{n}"), ("vm-1",), 0.0, 100.0) for n in range(3)]
    after = interval(Errors(), one, 7, runs, at=300.0)
    assert after.mean > 1.5 * before.mean
    assert interval(Errors(), one, 7, runs, at=1.0).mean == pytest.approx(before.mean, rel=0.2)


def test_of_a_type_that_nobody_knows_it_is_learned_alone() -> None:
    """Its jobs take a twentieth of the assumed time: only beliefs about this type change."""
    learned, unknown = LearnedErrors(), job("new", spread=0.0, believed=None)
    for _ in range(20):
        learned.learn(unknown, None, 12.0)
    known = learned.now()
    assert (known.mean, known.variance) == pytest.approx((Errors().mean, Errors().variance))
    assert interval(known, unknown, 3).high < 40.0
    assert interval(Errors(), unknown, 3).high > 200.0


def test_what_is_kept_is_bounded_and_nonsense_is_not_learned() -> None:
    """A thousand types, and jobs that took no time at all or were expected to."""
    learned = LearnedErrors()
    for number in range(1000):
        learned.learn(job(f"type-{number}"), 100.0, 110.0)
    assert len(learned.now().types) == 500
    known = learned.now()
    learned.learn(job("a"), 0.0, 10.0)
    learned.learn(job("a"), 10.0, 0.0)
    assert learned.now() == known


def test_threads_may_learn_and_ask_at_once() -> None:
    """Nothing is lost, nothing raises."""
    learned, failed = LearnedErrors(), list[BaseException]()

    def work(kind: str) -> None:
        try:
            for _ in range(30):
                learned.learn(job(kind), 100.0, 150.0)
                learned.now()
        except BaseException as error:  # which the test shows
            failed.append(error)

    threads = [threading.Thread(target=work, args=(kind,)) for kind in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert {kind for kind, _ in learned.now().types} == set("abcd")
