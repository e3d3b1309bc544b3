"""Sizes of jobs that leave them to Stoker, by a model of their type that learns from its ended jobs."""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial

from conf.schema import JobSpec
from daemon.launch.memory_uses import has_workers
from daemon.store.queries.insert_jobs import SubmittedSpec
from daemon.store.queries.stored_jobs import StoredJobs
from daemon.submission.ended_runs import FINISHED, memory_need, shape_runs
from daemon.what_if.fair_queue import FairQueue
from environment.decisions.auto_sizes import (
    MOST_OTHERS,
    MOST_RUNS,
    OtherTypes,
    chosen,
    counts_by_curve,
    names_type,
    sized_by_curve,
)
from environment.types import Vm
from profiles.job_profile import JobProfile
from profiles.shapes.advice import ShapeAdvice
from profiles.shapes.candidates import OpenShape
from profiles.shapes.errors import KnownTypes
from profiles.shapes.runs import JobShape, ShapeRun
from profiles.shapes.told import ShapeChoice, ShapeEstimate

#: Choices of one user, and of all, that are made or wait at once, and seconds that one waits for its turn:
#: a choice takes up to seconds of a core, and threads of the API wait for it.
_EACH, _ALL, _TURN = 8, 16, 30.0
#: Setting with which the peaks of executors include those of Python's workers.
_WATCH = "spark.executor.processTreeMetrics.enabled"


class ShapeChooser:
    """Chooses executors, cpus and memory of jobs, one job at a time; may be called from any thread.

    It reads the store only for jobs that leave a size open, and caches what other types tell. Nobody learns
    by it from jobs that they may not see.
    """

    def __init__(self, jobs: StoredJobs, beta: float) -> None:
        """`beta` weighs money, the rest the job's time."""
        self._jobs, self._beta = jobs, beta
        self._turns = FairQueue(_EACH, _ALL)
        self._others = OtherTypes()

    def sized(
        self, submitted: SubmittedSpec, vms: Sequence[Vm], fits: Callable[[JobSpec], bool]
    ) -> SubmittedSpec:
        """The submission with sizes for its auto fields, the best ones among those that fit.

        ShapeError where no VM has room for the least that it allows, StoreError when the store cannot be
        read, RejectedError when this user or all leave too many sizes open at once.
        """
        with self._turns.turn(submitted.submitter.name, _TURN):
            return self._sized(submitted, vms, fits)

    def _sized(
        self, submitted: SubmittedSpec, vms: Sequence[Vm], fits: Callable[[JobSpec], bool]
    ) -> SubmittedSpec:
        spec, within = submitted.spec, open_shape(submitted.spec)
        named = names_type(spec.type)
        owners = () if submitted.submitter.sees_all else (spec.owner,)
        types = (spec.type,)
        finished = (
            self._jobs.page(states=FINISHED, owners=owners, types=types, limit=MOST_RUNS) if named else []
        )
        own = shape_runs(self._jobs, finished)
        learns = named and "memory" in spec.auto
        need = memory_need(self._jobs, spec.type, finished, MOST_RUNS, owners) if learns else None
        now, newest = time.monotonic(), partial(self._newest, owners)
        known = self._others.beside(spec.type, owners, now, newest) if own else KnownTypes([])
        advice = chosen(
            own, known, vms, spec.spot, within, self._beta, lambda one: fits(_with(spec, one)), need
        )
        shape = advice.shape
        sized = replace(submitted, spec=_watched(spec, _with(spec, shape)), sized=tuple(spec.auto))
        choice = _choice(spec, advice)
        if need is not None and need.met_by(shape.memory_gib, shape.cores):
            peak = None if need.peak is None else round(need.peak.memory_gib * 1024)
            choice = choice._replace(needed_mib=round(need.of(shape.cores) * 1024), peak_mib=peak)
        return replace(sized, shape=choice)

    def _newest(self, owners: Collection[str]) -> list[ShapeRun]:
        """Runs of all types among the newest jobs of these owners (empty: all)."""
        return shape_runs(self._jobs, self._jobs.page(states=FINISHED, owners=owners, limit=MOST_OTHERS))


def is_searched(spec: JobSpec, profiles: Mapping[str, JobProfile]) -> bool:
    """Whether sizes are chosen among shapes, which takes its time, not by the curve of the job's type."""
    return bool(spec.auto) and not sized_by_curve(spec.auto, measured=spec.type in profiles)


def chosen_by_curve(submitted: SubmittedSpec, profile: JobProfile) -> SubmittedSpec:
    """The submission with the numbers of executors that are worth having by the curve of its type."""
    spec = submitted.spec
    fewest, most = counts_by_curve(
        profile.curve, spec.auto["executors"], spec.most_cpus, spec.memory_mib, spec.min_executors
    )
    sized = spec.model_copy(update={"executors": most, "min_executors": fewest})
    return replace(submitted, spec=sized, sized=("executors",))


def open_shape(spec: JobSpec) -> OpenShape:
    """Bounds of a job's sizes: those of auto fields, and all others as they are."""
    auto = spec.auto
    # By `or`, not as defaults: an amount that is auto cannot be read as a number.
    least, most = auto.get("executors") or (spec.most_executors,) * 2
    cpus = auto.get("cpus") or (spec.most_cpus,) * 2
    memory = auto.get("memory") or (spec.memory_mib,) * 2
    return OpenShape.of((max(least or 1, spec.min_executors or 1), most), cpus, memory)


def _with(spec: JobSpec, shape: JobShape) -> JobSpec:
    """The job with sizes of this shape where they are auto."""
    sizes = {
        "executors": shape.executors,
        "cpus": shape.cores,
        "memory": round(shape.memory_gib * 1024),
    }
    return spec.model_copy(update={name: sizes[name] for name in spec.auto})


def _watched(spec: JobSpec, sized: JobSpec) -> JobSpec:
    """The sized job; where its memory was auto, Spark looks at the processes beside its executors' JVMs."""
    if "memory" not in spec.auto or not has_workers(spec):
        return sized
    return sized.model_copy(update={"conf": {_WATCH: "true", **sized.conf}})


def _choice(spec: JobSpec, advice: ShapeAdvice) -> ShapeChoice:
    taken, beside = advice.of(advice.shape), advice.beside
    first, smaller, larger = (None if each is None else ShapeEstimate.of(each) for each in (taken, *beside))
    return ShapeChoice(tuple(spec.auto), advice.runs, advice.shapes, advice.learned, first, smaller, larger)
