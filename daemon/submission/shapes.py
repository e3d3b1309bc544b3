"""Sizes of jobs that leave them to Stoker, by a model of their type that learns from its ended jobs."""

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from conf.schema import JobSpec
from daemon.launch.memory_uses import has_workers
from daemon.store.queries.insert_jobs import SubmittedSpec
from daemon.store.queries.stored_jobs import StoredJobs
from daemon.submission.ended_runs import FINISHED, memory_need, shape_runs
from daemon.what_if.fair_queue import FairQueue
from environment.shape_kinds import kinds_of
from environment.types import Vm
from profiles.shapes.advice import ShapeAdvice, advise, any_shape, open_shapes
from profiles.shapes.belief import by_type
from profiles.shapes.candidates import OpenShape
from profiles.shapes.errors import KnownTypes
from profiles.shapes.runs import JobShape
from profiles.shapes.sources import distinct
from profiles.shapes.told import ShapeChoice, ShapeEstimate

#: Runs of a type, the newest, that are learned from, and ended jobs that are looked at for other types.
#: Chosen: more than the model makes use of.
MOST_RUNS, _MOST_OTHERS = 32, 500
#: Shapes, the best ones, that are tried where a queue's limit or the quota is in the way.
_TRIED = 64
#: Other types that are learned from, the newest. Chosen: no prior gets better by more; each takes 32 KiB.
_MOST_TYPES = 32
#: Seconds after which other types are read again, and types and users for which they are kept.
_FRESH, _KEPT = 600.0, 16
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
        #: For a type and the owners of the jobs, the others that were known, and when they were read.
        self._known: dict[tuple[str, ...], tuple[float, KnownTypes]] = {}

    def sized(
        self, submitted: SubmittedSpec, vms: Sequence[Vm], fits: Callable[[JobSpec], bool]
    ) -> SubmittedSpec:
        """The submission with sizes for what is auto, the best ones among those that fit.

        ShapeError where no VM has room for the least that it allows, StoreError when the store cannot be
        read, RejectedError when this user or all leave too many sizes open at once.
        """
        with self._turns.turn(submitted.submitter.name, _TURN):
            return self._sized(submitted, vms, fits)

    def _sized(
        self, submitted: SubmittedSpec, vms: Sequence[Vm], fits: Callable[[JobSpec], bool]
    ) -> SubmittedSpec:
        spec, within = submitted.spec, open_shape(submitted.spec)
        named = spec.type != JobSpec.model_fields["type"].default
        owners = () if submitted.submitter.sees_all else (spec.owner,)
        types = (spec.type,)
        finished = (
            self._jobs.page(states=FINISHED, owners=owners, types=types, limit=MOST_RUNS) if named else []
        )
        own = shape_runs(self._jobs, finished)
        learns = named and "memory" in spec.auto
        need = memory_need(self._jobs, spec.type, finished, MOST_RUNS, owners) if learns else None
        kinds = kinds_of(vm for vm in vms if spec.spot == "allowed" or vm.spot == (spec.spot == "only"))
        shapes = open_shapes(kinds, within, own, need) if vms else [any_shape(within)]
        known = self._others(spec.type, owners) if own else KnownTypes([])
        advice = advise(own, known, shapes, within, beta=self._beta)
        order = [advice.shape, *(each.shape for each in advice.ranked[:_TRIED])]
        shape = next((one for one in order if fits(_with(spec, one))), advice.shape)
        sized = replace(submitted, spec=_watched(spec, _with(spec, shape)), sized=tuple(spec.auto))
        choice = _choice(spec, replace(advice, shape=shape))
        if need is not None and need.met_by(shape.memory_gib, shape.cores):
            peak = None if need.peak is None else round(need.peak.memory_gib * 1024)
            choice = choice._replace(needed_mib=round(need.of(shape.cores) * 1024), peak_mib=peak)
        return replace(sized, shape=choice)

    def _others(self, type_name: str, owners: Collection[str]) -> KnownTypes:
        """The other types among the newest jobs of these owners (empty: all); read again after a while."""
        now, key = time.monotonic(), (type_name, *owners)
        found = self._known.get(key)
        if found is None or now - found[0] > _FRESH:
            newest = self._jobs.page(states=FINISHED, owners=owners, limit=_MOST_OTHERS)
            types = by_type(shape_runs(self._jobs, newest))
            others = [
                runs[:MOST_RUNS] for name, runs in types.items() if name != type_name and distinct(runs) > 1
            ]
            if len(self._known) >= _KEPT:
                self._known.clear()
            found = self._known[key] = now, KnownTypes(others[:_MOST_TYPES])
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


def _watched(spec: JobSpec, sized: JobSpec) -> JobSpec:
    """The sized job; where its memory was auto, Spark looks at the processes beside its executors' JVMs."""
    if "memory" not in spec.auto or not has_workers(spec):
        return sized
    return sized.model_copy(update={"conf": {_WATCH: "true", **sized.conf}})


def _choice(spec: JobSpec, advice: ShapeAdvice) -> ShapeChoice:
    taken, beside = advice.of(advice.shape), advice.beside
    first, smaller, larger = (None if each is None else ShapeEstimate.of(each) for each in (taken, *beside))
    return ShapeChoice(tuple(spec.auto), advice.runs, advice.shapes, advice.learned, first, smaller, larger)
