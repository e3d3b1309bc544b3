"""Checks of a submission: it can be launched, fits, finds room in the queue, and is stored."""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from difflib import get_close_matches
from itertools import accumulate

from conf.defaults import UNKNOWN_SPREAD
from conf.schema import DynamicExecutors, JobSpec
from conf.units import deadline_at
from conf.util.copy_fields import carried
from daemon.core.errors import RejectedError
from daemon.launch.launcher import Launcher
from daemon.queues import queue_admission
from daemon.store.job_store import Store
from daemon.store.queries.dependencies import UnknownDependencyError
from daemon.store.queries.insert_jobs import Admission, IdempotencyConflictError, SubmittedSpec
from daemon.store.rows.database import StoreError, StoreFullError, StoreStuckError
from daemon.submission.shapes import ShapeChooser, chosen_by_curve, sized_by_curve
from environment.barred_vms import barred
from environment.decisions.feasibility import nowhere, whole_cluster_shortfall
from environment.decisions.sizing import Sizes, smallest
from environment.model.messages.snapshot import Quota
from environment.model.vms.max_capacity import ONLY_SPOT, MaxCapacity, over_quota
from environment.pools import Terms
from environment.queues.types import Queues
from environment.resources import Resources, total
from environment.simulation.durations.endless_jobs import spot_terms, unending_on
from environment.types import MEASURED_REWORK, USUAL_PAUSES, Dynamic, Job, Rework, Vm
from profiles.job_profile import JobProfile

#: For so many seconds a VM that is gone is taken for one that reboots: a job that fits only there may wait.
OF_LATE = 3600.0
#: Id of a job that is only tried: behind all in any order, and no job's number gets so far.
TRIED = "job-100000000000000000"


class Intake:
    """Accepts jobs; `accept` may be called from any thread, `note` is for the scheduling loop."""

    def __init__(
        self,
        store: Store,
        launcher: Launcher,
        profiles: Mapping[str, JobProfile],
        arrive: Callable[[float, Job], None],
        look: Callable[[], None],
        most: int,
        now: Callable[[], float],
        sizes: Sizes | None = None,
        queues: Callable[[], Queues] = Queues,
    ) -> None:
        """`arrive` takes the jobs that were accepted, with their time; `most` may wait at once.

        `look` finds out which VMs there are by now, and notes them. `queues` are those that there are now.
        """
        self._now = now
        self._sizes = sizes or Sizes()
        self._shapes = ShapeChooser(store.jobs, self._sizes.beta)
        self._store = store
        self._launcher = launcher
        #: Profiles of job types.
        self._profiles = profiles
        self._arrive = arrive
        self._look = look
        self._most = most
        #: Jobs that wait for a placement, as of the last event.
        self._queued = 0
        self._queues = queues
        self._rooms = queue_admission.QueueAdmission()
        #: Accepted jobs that are not among them yet, with queue and user where there are queues.
        self._arriving: dict[str, tuple[str, str] | None] = {}
        self._vms: tuple[Vm, ...] = ()
        #: Terms of those VMs that their cloud may take away.
        self._spot: frozenset[Terms] = frozenset()
        #: The most that we may have in all, by Mesos' names of resources.
        self._quota: Quota = {}
        #: VMs that are not there any more, and when they were noted last, by name: they may be back soon.
        self._late: dict[str, tuple[Vm, float]] = {}

    def note(
        self,
        queued: int,
        reach: MaxCapacity,
        arrived: Iterable[str],
        waiting: queue_admission.Waiting | None = None,
    ) -> None:
        """So many jobs wait now, so much may be had, and these jobs are among those that wait."""
        self._queued, self._quota, vms = queued, reach.quota, reach.vms
        if waiting is not None:
            self._rooms.note(waiting)
        for job_id in arrived:
            if (place := self._arriving.pop(job_id, None)) is not None:
                self._rooms.leave(*place)
        if vms is not self._vms:
            self._note_late(vms)
            self._vms, self._spot = vms, spot_terms(vms)

    def _note_late(self, vms: tuple[Vm, ...]) -> None:
        now, there = self._now(), {vm.name for vm in vms}
        late = {**self._late, **{vm.name: (vm, now) for vm in self._vms}}
        self._late = {
            name: (vm, at) for name, (vm, at) in late.items() if name not in there and now - at < OF_LATE
        }

    def accept(self, submitted: Sequence[SubmittedSpec]) -> Iterator[Mapping[SubmittedSpec, Admission]]:
        """Accept jobs; see `Scheduler.submit`.

        Those that fit are not kept waiting for a look at the VMs, nor any for sizes that others leave to us.
        """
        slow = [each for each in submitted if self._chooses(each.spec)]
        for some in ([each for each in submitted if each not in slow], *([each] for each in slow)):
            asked: dict[SubmittedSpec, SubmittedSpec] = {}
            for each in some:
                try:
                    asked[self._sized(each)] = each
                except Exception as error:  # an error in one must not stop the others
                    yield {each: error}
            if asked:
                for admissions in self._accept([*asked]):
                    yield {asked[each]: outcome for each, outcome in admissions.items()}

    def _chooses(self, spec: JobSpec) -> bool:
        """Whether a size is chosen among shapes, which takes its time."""
        return bool(spec.auto) and not sized_by_curve(spec.auto, measured=spec.type in self._profiles)

    def _sized(self, submitted: SubmittedSpec) -> SubmittedSpec:
        """With sizes where these were left to us; RejectedError where there is none."""
        spec = submitted.spec
        if not spec.auto:
            return submitted
        if self._chooses(spec):
            if not self._vms:
                self._look()
            with _as_refusals():
                return self._shapes.sized(submitted, self._known_vms, lambda of: self._misfit(of) is None)
        return chosen_by_curve(submitted, self._profiles[spec.type])

    def _accept(self, submitted: Sequence[SubmittedSpec]) -> Iterator[Mapping[SubmittedSpec, Admission]]:
        refused: dict[SubmittedSpec, Admission] = {}
        fit: list[SubmittedSpec] = []
        unfit: list[SubmittedSpec] = []
        for each in submitted:
            try:
                with _as_refusals():
                    self._check(each)
                    (unfit if self._misfit(each.spec) else fit).append(each)
            except Exception as error:  # an error in one must not stop the others
                refused[each] = error
        yield {**refused, **self._keep(fit)}
        if unfit:
            self._look()  # since the last measurement a VM may have joined, or a quota been raised
            misfits = {each: self._misfit(each.spec) for each in unfit}
            refused = {each: misfit for each, misfit in misfits.items() if misfit}
            yield {**refused, **self._keep([each for each in unfit if each not in refused])}

    def trial(self, submitted: SubmittedSpec, sends: Mapping[str, int]) -> Sequence[Job]:
        """The jobs that a submission would become now, with an id that no other has; nothing is changed.

        Raises the reason of a rejection. Files that the user `sends` before, so many bytes by hash, need
        not be there yet.
        """
        submitted = self._sized(submitted)
        spec, queues = submitted.spec, self._queues()
        with _as_refusals():
            self._check(submitted, sends)
            misfit = self._misfit(spec)
        if misfit is not None:
            self._look()
            misfit = self._misfit(spec)
        full = None if self._fitting([submitted]) else self._crowded()
        if (refusal := misfit or full or self._rooms.full(queues, spec)) is not None:
            raise refusal
        try:
            after = self._store.jobs.new.dependencies(spec, submitted.submitter)
        except UnknownDependencyError as error:
            raise _comes_after_nothing(error) from error
        except StoreError as error:
            raise _not_kept(error) from error
        return replace(self._job(TRIED, submitted, self._now()), after=after).members()

    def warnings(self, kind: str) -> list[str]:
        """Warnings for users that submit a job of this type: there are no measurements of it."""
        if kind == JobSpec.model_fields["type"].default or kind in self._profiles:
            return []
        near = "".join(f"; did you mean {each}?" for each in get_close_matches(kind, self._profiles, 1))
        known = ", ".join(sorted(self._profiles)) or "none"
        guessed = f"no job of its type was measured (measured are {known}), so its duration is guessed"
        return [f"type: {kind}: {guessed}{near}"]

    def _room(self) -> int:
        """So many more jobs may wait."""
        return max(0, self._most - self._queued - len(self._arriving))

    def _fitting(self, submitted: Sequence[SubmittedSpec]) -> int:
        """For so many of them, the first, there is room in the queue."""
        return bisect_right([*accumulate(each.spec.count or 1 for each in submitted)], self._room())

    def _crowded(self) -> RejectedError:
        detail = f"the maximum number of jobs is queued (max_queued_jobs: {self._most})"
        if room := self._room():
            detail = f"there is room for {room} of these jobs (max_queued_jobs: {self._most})"
        return RejectedError(429, "The queue is full", detail, {"Retry-After": queue_admission.PAUSE})

    def _keep(self, submitted: Sequence[SubmittedSpec]) -> dict[SubmittedSpec, Admission]:
        """Keep those that there is room for in the queue."""
        fits = self._fitting(submitted)
        admissions: dict[SubmittedSpec, Admission] = {each: self._crowded() for each in submitted[fits:]}
        queues, let_in = self._queues(), []
        for each in submitted[:fits]:
            if (full := self._rooms.enter(queues, each.spec)) is not None:
                admissions[each] = full
            else:
                let_in.append(each)
        if let_in:
            new: set[SubmittedSpec] = set()
            admissions |= self._store_all(let_in, self._now(), new, in_queues=bool(queues))
            for each in let_in if queues else ():
                if each not in new:
                    self._rooms.leave(each.spec.queue, each.spec.owner, each.spec.count or 1)
        return admissions

    def _store_all(
        self, submitted: Sequence[SubmittedSpec], at: float, new: set[SubmittedSpec], *, in_queues: bool
    ) -> dict[SubmittedSpec, Admission]:
        """Have jobs in the store, and those that are `new` arrive."""
        admissions: dict[SubmittedSpec, Admission] = {}
        try:
            kept = self._store.jobs.new.add(submitted, lambda job_id, each: self._job(job_id, each, at), at)
        except Exception as error:
            if len(submitted) == 1 or isinstance(error, StoreStuckError | StoreFullError):
                return {each: _not_kept(error) for each in submitted}
            for each in submitted:  # one of them may have spoilt it for all
                admissions |= self._store_all([each], at, new, in_queues=in_queues)
            return admissions
        for each, outcome in zip(submitted, kept, strict=True):
            if isinstance(outcome, IdempotencyConflictError):
                admissions[each] = RejectedError(409, "Idempotency key used before", str(outcome))
                continue
            if isinstance(outcome, UnknownDependencyError):
                admissions[each] = _comes_after_nothing(outcome)
                continue
            admissions[each] = outcome
            record, is_new = outcome
            if is_new:
                new.add(each)
                arriving, place = record.job.members(), (record.job.queue, record.job.owner)
                self._arriving |= dict.fromkeys((job.id for job in arriving), place if in_queues else None)
                try:
                    if each.client is not None:
                        each.client.keep(record)
                except StoreError as error:
                    admissions[each] = error
                for job in arriving:
                    self._arrive(at, job)  # it is stored, with any outcome
        return admissions

    def _job(self, job_id: str, submitted: SubmittedSpec, at: float) -> Job:
        spec, queues = submitted.spec, self._queues()
        profile, most, bounds = self._profiles.get(spec.type), spec.most_executors, spec.executors
        job = carried(
            Job,
            spec,
            id=job_id,
            size=_size(spec),
            name=spec.label,
            spark=self._launcher.spark(spec),
            submitted_at=at,
            driver=self._launcher.driver_size(spec),
            spot_driver=self._launcher.spot_driver(spec),
            priority=queue_admission.priority_of(queues, spec),
            spot=queue_admission.spot_of(queues, spec),
            unending_on=self._unending_on(spec),
            deadline=deadline_at(spec.deadline, at),
            after=(),  # as the store knows
            start_at=deadline_at(spec.start_at, at),
            retries=spec.most_retries,
            memory_retry=self._memory_retry(submitted),
            pauses=spec.pauses or USUAL_PAUSES,
            array="",
            index=None,
            shape=submitted.shape,
            labels=tuple(sorted(spec.labels.items())),
            client_driver="" if submitted.client is None else submitted.client.where,
            unix_user=submitted.submitter.unix_user,
            executors=most,
            min_executors=spec.fewest_executors,
            min_cpus=spec.fewest_cpus,
            expected_duration=_duration(profile, spec),
            prefers=profile.prefers if profile else None,
            spread=profile.spread if profile else UNKNOWN_SPREAD,
            rework=_rework(profile),
            curve=profile.curve if profile else None,
            dynamic=Dynamic(bounds.min, bounds.begins_with) if isinstance(bounds, DynamicExecutors) else None,
        )
        return self._sizes.opened(job)

    def _memory_retry(self, submitted: SubmittedSpec) -> bool:
        """Whether a failure for memory restarts the job; a user's own driver cannot be restarted."""
        spec = submitted.spec
        if submitted.client is not None or not self._sizes.memory_retry:
            return False
        if spec.memory_retry is not None:
            return spec.memory_retry
        return bool(spec.most_retries) or (spec.restartable and "memory" in submitted.sized)

    def _unending_on(self, spec: JobSpec) -> tuple[str, ...]:
        """The spot pools, by name, on which the job is believed never to end."""
        profile = self._profiles.get(spec.type)
        return unending_on(self._spot, _duration(profile, spec), _rework(profile), spec.most_executors)

    def _check(self, submitted: SubmittedSpec, sends: Mapping[str, int] | None = None) -> None:
        """Raise ValueError or RejectedError when no cluster could launch the job.

        Its uploaded files are kept for it, except those that the user `sends`.
        """
        spec = submitted.spec
        queues = self._queues()
        queue_admission.check(queues, spec)
        if not submitted.submitter.raises:
            queue_admission.check_priority(queues, spec)
        if spec.driver is not None and spec.driver.on == "client" and submitted.client is None:
            why = "driver.on: a user's own driver requests its executors itself, by POST /v1/applications"
            raise ValueError(why)
        self._launcher.check(spec, submitted.submitter, sends)

    def _misfit(self, spec: JobSpec) -> RejectedError | None:
        """Why there is no cluster for the job, as far as is known; None when there may be."""
        queues, parts = self._queues(), self._needs(spec)
        needs = total(size * count for size, count in parts)
        line = queues.line(spec.queue) if queues else ()
        if over := queue_admission.never(line, needs):
            return RejectedError(422, "The job is over its queue's limits", over)
        if (over_all := over_quota(self._quota, needs)) is not None:
            return RejectedError(422, "The job is over the quota", over_all)
        if (shortfall := self._shortfall(spec)) is not None:
            return RejectedError(422, "The job fits no cluster of this size", shortfall)
        if over := queue_admission.too_dear(line, parts, self._known_vms):
            return RejectedError(422, "The job is over its queue's limits", over)
        return None

    def _needs(self, spec: JobSpec) -> list[tuple[Resources, int]]:
        """Least resources of the job: size and number of the executors; its driver if on the cluster."""
        executors = (smallest(_size(spec), spec.fewest_cpus), spec.fewest_executors or spec.most_executors)
        driver = self._launcher.driver_size(spec)
        return [executors] if driver is None else [executors, (driver, 1)]

    @property
    def _known_vms(self) -> tuple[Vm, ...]:
        """The VMs that are there, or were of late."""
        return (*self._vms, *(vm for vm, _ in self._late.values()))

    def _shortfall(self, spec: JobSpec) -> str | None:
        """Why the job fits no cluster of the VMs that are or were there; None when it does."""
        vms, use, never = (
            self._known_vms,
            queue_admission.spot_of(self._queues(), spec),
            self._unending_on(spec),
        )

        def why(vm: Vm) -> str:
            return barred(vm.terms, "the job", use, never, size)

        size = _size(spec)

        there = [vm for vm in vms if not why(vm)]
        if vms and not there:
            return nowhere(use, vms, why)
        least = smallest(_size(spec), spec.fewest_cpus)
        shortfall = whole_cluster_shortfall(there, least, spec.most_executors, spec.fewest_executors)
        driver = self._launcher.driver_size(spec)
        if shortfall is None and driver is not None:
            there = [vm for vm in vms if self._launcher.spot_driver(spec) or not vm.spot]
            shortfall = whole_cluster_shortfall(there, driver, 1) if there or not vms else ONLY_SPOT
        return shortfall


def _duration(profile: JobProfile | None, spec: JobSpec) -> float | None:
    return profile.duration(spec.most_cpus, spec.memory_mib, spec.most_executors) if profile else None


def _rework(profile: JobProfile | None) -> Rework:
    return Rework(profile.rework.lost, profile.rework.drained) if profile else MEASURED_REWORK


@contextmanager
def _as_refusals() -> Iterator[None]:
    """Convert a ValueError into a RejectedError."""
    try:
        yield
    except ValueError as error:
        raise RejectedError(422, "The job cannot be launched", str(error)) from error


def _comes_after_nothing(error: UnknownDependencyError) -> RejectedError:
    return RejectedError(422, "It comes after a job that does not exist", str(error))


def _not_kept(error: Exception) -> Exception:
    if isinstance(error, StoreError):
        return RejectedError(503, "The job store is not available", str(error))
    return error


def _size(spec: JobSpec) -> Resources:
    """Resources of each executor."""
    return Resources.of(spec.most_cpus, spec.memory_mib, spec.resources)
