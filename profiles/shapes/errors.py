"""Errors of the model as they were: how far from its predictions runs lay that it had not seen.

A belief tells how much it doubts itself; errors of known types tell how much more, or less, it should. Each
is measured as users meet it: some runs of one job are seen, and another job of the type is predicted (a
left-out run where the type has one job alone).
"""

import random
from collections.abc import Mapping, Sequence

import numpy as np

from profiles.shapes.belief import DOUBTS, Doubts, ShapeBelief, believe, by_job, mixed, of_alone
from profiles.shapes.law import Floats
from profiles.shapes.runs import ShapeRun

#: Within its interval a run is with this probability.
INTERVAL = 0.8
#: Standard deviations to the end of an interval where no type was measured: after one run, and after more.
#: Chosen: of grep, groupbycount, kmeans and c3o grep (docs/results/shapes.md).
_USUAL_OF_ONE, _USUAL = 1.6, 1.4
#: As many known types weigh as much as that. Chosen: the same way.
_WEIGHT = 0.5
#: Times that runs of a type are drawn; so many of them are seen at most.
_DRAWS, _MOST_SEEN = 24, 8
_SEED = 36
#: Parts that are left out in turn. Chosen: the error of their quantile is a few percent.
_MOST_PARTS = 100

Type = Sequence[ShapeRun]


class KnownTypes:
    """Types that were measured: the prior of another type, and how honest the model's doubts were of them.

    `here` are those of the same users. Those measured `elsewhere` teach the prior alone: how much jobs of a
    type differ is a habit of their users.
    """

    def __init__(self, here: Sequence[Type], elsewhere: Sequence[Type] = (), doubts: Doubts = DOUBTS) -> None:
        self._here, self._doubts = [runs for runs in here if runs], doubts
        self._weights = [of_alone(runs, doubts) for runs in (*self._here, *elsewhere)]
        #: Weights of the laws for a type of which nothing is known.
        self.prior = mixed(self._weights, doubts)
        self._found: dict[int, list[Floats]] = {}

    def believe(self, own: Type) -> ShapeBelief:
        """Belief of a type from its runs; ShapeError without a run."""
        return believe(own, self.prior, self._doubts)

    def deviations(self, own: Type) -> float:
        """Standard deviations from the mean to either end of an interval of 80 %, after these runs of a type.

        Errors of each known type count alike, those of the own runs as of one type more, and those that are
        usual without any measurement as half a type.
        """
        seen = min(len(own), _MOST_SEEN)
        if seen not in self._found:
            self._found[seen] = self._errors(seen)
        found = list(self._found[seen])
        # One job's own runs tell nothing of other jobs of its type, of which those of other types do.
        if len(by_job(own)) > 1 or not any(len(by_job(runs)) > 1 for runs in self._here):
            found.append(_left_out(own, self.prior, self._doubts))
        found = [errors for errors in found if len(errors)]
        usual = _USUAL if len(own) > 1 else _USUAL_OF_ONE
        if not found:
            return usual
        return (_WEIGHT * usual + len(found) * _quantile(found)) / (_WEIGHT + len(found))

    def _errors(self, seen: int) -> list[Floats]:
        """Errors of each type that is known here, with a prior of all others."""
        return [
            _drawn_errors(runs, seen, mixed(self._without(number), self._doubts), self._doubts)
            for number, runs in enumerate(self._here)
        ]

    def _without(self, number: int) -> list[Floats]:
        return self._weights[:number] + self._weights[number + 1 :]


def error_of(belief: ShapeBelief, run: ShapeRun) -> float:
    """Error of a prediction of a run's log seconds, in the standard deviations of the belief."""
    mean, spread = belief.log_seconds(run.shape, run.input_gib)
    return abs(float(np.log(run.seconds)) - mean) / spread


def drawn(runs: Type, seen: int, draws: int = _DRAWS, *, same: bool = False) -> list[tuple[Type, Type]]:
    """So many runs of one job of a type, drawn anew each time, and runs that they do not include.

    These are of other jobs, up to as many as there are draws; of the same job where it is the only one, or
    where `same` is set. Jobs with too few runs are left out, and all are the same on every machine.
    """
    jobs: Mapping[str, list[ShapeRun]] = by_job(runs)
    same = same or len(jobs) == 1
    large = [of for of in jobs.values() if len(of) >= seen + same]
    source = random.Random(_SEED)  # noqa: S311 - the same runs each time
    found = list[tuple[Type, Type]]()
    for number in range(draws if large else 0):
        known = large[number % len(large)]
        order = source.sample(known, len(known))
        rest = order[seen:] if same else [run for run in runs if run.job != known[0].job]
        found.append((order[:seen], source.sample(rest, min(len(rest), draws))))
    return found


def _drawn_errors(runs: Type, seen: int, prior: Floats, doubts: Doubts) -> Floats:
    errors = list[float]()
    for known, others in drawn(runs, seen):
        belief = believe(known, prior, doubts)
        errors += [error_of(belief, run) for run in others]
    return np.array(errors)


def _left_out(runs: Type, prior: Floats, doubts: Doubts) -> Floats:
    """Errors of runs left out one by one, or with all others of their job where there are several.

    Of more than `_MOST_PARTS`, so many are drawn: each needs a belief from all others.
    """
    jobs = list(by_job(runs).values())
    parts = jobs if len(jobs) > 1 else [[run] for run in runs]
    if len(parts) < 3:  # of two, each tells of the other alone
        return np.zeros(0)
    errors = list[float]()
    source = random.Random(_SEED)  # noqa: S311 - the same parts each time
    for number in sorted(source.sample(range(len(parts)), min(len(parts), _MOST_PARTS))):
        part = parts[number]
        rest = [run for other in parts[:number] + parts[number + 1 :] for run in other]
        belief = believe(rest, prior, doubts)
        errors += [error_of(belief, run) for run in part]
    return np.array(errors)


def _quantile(types: Sequence[Floats]) -> float:
    """The error that 80 % do not exceed, of types that count alike."""
    errors = sorted((float(error), 1 / len(of) / len(types)) for of in types for error in of)
    reached = 0.0
    for error, weight in errors:
        reached += weight
        if reached >= INTERVAL - 1e-9:
            return error
    return errors[-1][0]
