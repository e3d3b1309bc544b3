"""Sizes of jobs that leave them to Stoker, by a model of their type that learns from its ended jobs."""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from conf.schema import JobSpec
from daemon.store.queries.insert_jobs import SubmittedSpec
from daemon.store.queries.stored_jobs import StoredJobs
from environment.decisions.sizing import is_open
from environment.model.messages.records import JobRecord
from environment.shape_kinds import kinds_of
from environment.types import Job, Vm
from profiles.shapes.advice import ShapeAdvice, advise, any_shape, open_shapes
from profiles.shapes.belief import by_type
from profiles.shapes.candidates import OpenShape
from profiles.shapes.choice import RankedShape
from profiles.shapes.errors import KnownTypes
from profiles.shapes.runs import JobShape, ShapeRun
from profiles.shapes.sources import UNPRICED, UnsizedRun, distinct, sized
from profiles.shapes.told import ShapeChoice, ShapeEstimate

#: Ends of jobs that tell how long a shape takes.
FINISHED = frozenset({"finished"})
#: Runs of a type, the newest, that are learned from, and ended jobs that are looked at for other types.
#: Chosen: more than the model makes use of.
MOST_RUNS, _MOST_OTHERS = 32, 500
#: Shapes, the best ones, that are tried where a queue's limit or the quota is in the way.
_TRIED = 64
#: Seconds after which other types are read again, and types for which they are kept.
_FRESH, _KEPT = 600.0, 64


class ShapeChooser:
    """Chooses executors, cpus and memory of jobs; may be called from any thread.

    It reads the store only for jobs that leave a size open, and caches what other types tell.
    """

    def __init__(self, jobs: StoredJobs, beta: float) -> None:
        """`beta` weighs money, the rest the job's time."""
        self._jobs, self._beta = jobs, beta
        #: For a type, the others that were known, and when they were read.
        self._known: dict[str, tuple[float, KnownTypes]] = {}

    def sized(
        self, submitted: SubmittedSpec, vms: Sequence[Vm], fits: Callable[[JobSpec], bool]
    ) -> SubmittedSpec:
        """The submission with sizes for what is auto, the best ones among those that fit.

        ShapeError where no VM has room for the least that it allows, StoreError when the store cannot be
        read.
        """
        spec, within = submitted.spec, open_shape(submitted.spec)
        named = spec.type != JobSpec.model_fields["type"].default
        own = self._runs_of(spec.type) if named else []
        kinds = kinds_of(vm for vm in vms if spec.spot == "allowed" or vm.spot == (spec.spot == "only"))
        shapes = open_shapes(kinds, within, own) if vms else [any_shape(within)]
        known = self._others(spec.type) if own else KnownTypes([])
        advice = advise(own, known, shapes, within, beta=self._beta)
        order = [advice.shape, *(each.shape for each in advice.ranked[:_TRIED])]
        shape = next((one for one in order if fits(_with(spec, one))), advice.shape)
        sized = replace(submitted, spec=_with(spec, shape), sized=tuple(spec.auto))
        return replace(sized, shape=_choice(spec, replace(advice, shape=shape)))

    def _runs_of(self, type_name: str) -> list[ShapeRun]:
        return shape_runs(self._jobs, self._jobs.page(states=FINISHED, types=(type_name,), limit=MOST_RUNS))

    def _others(self, type_name: str) -> KnownTypes:
        """The other types among the newest jobs; read again after a while."""
        now = time.monotonic()
        found = self._known.get(type_name)
        if found is None or now - found[0] > _FRESH:
            types = by_type(shape_runs(self._jobs, self._jobs.page(states=FINISHED, limit=_MOST_OTHERS)))
            others = [
                runs[:MOST_RUNS] for name, runs in types.items() if name != type_name and distinct(runs) > 1
            ]
            if len(self._known) >= _KEPT:
                self._known.clear()
            found = self._known[type_name] = now, KnownTypes(others)
        return found[1]


def open_shape(spec: JobSpec) -> OpenShape:
    """Bounds of a job's sizes: those of what is auto, and all else as it is."""
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


def _choice(spec: JobSpec, advice: ShapeAdvice) -> ShapeChoice:
    taken, beside = advice.of(advice.shape), advice.beside
    estimates = [None if each is None else _estimate(each) for each in (taken, *beside)]
    return ShapeChoice(tuple(spec.auto), advice.runs, advice.shapes, advice.learned, *estimates)


def _estimate(ranked: RankedShape) -> ShapeEstimate:
    shape = ranked.shape
    return ShapeEstimate(
        shape.executors,
        shape.cores,
        round(shape.memory_gib * 1024),
        ranked.seconds,
        ranked.least,
        ranked.most,
        round(shape.dollars_per_hour, 9),
    )


def shape_runs(jobs: StoredJobs, records: Iterable[JobRecord]) -> list[ShapeRun]:
    """Those jobs that ran undisturbed on a number of executors that did not change.

    The daemon does not know how much input a job has, so that all of a type count as one job.
    """
    found = []
    for record in records:
        job, started, ended = record.job, record.started_at, record.finished_at
        if started is None or ended is None or ended <= started:
            continue
        if job.dynamic is not None or record.losses or record.retried or record.free_retries:
            continue
        if record.grown or record.gave:
            continue
        if (shape := _shape(jobs, job)) is not None:
            found.append(UnsizedRun(job.type, None, shape, ended - started))
    return sized(found)


def _shape(jobs: StoredJobs, job: Job) -> JobShape | None:
    if not is_open(job):
        return JobShape("", job.executors, job.cpus, job.memory_mib / 1024, UNPRICED)
    had = [task for task in jobs.executors(job.id) if task.number is not None]
    if not had:
        return None
    each = had[0].resources
    return JobShape("", len(had), each.cpus, each.memory_mib / 1024, UNPRICED)
