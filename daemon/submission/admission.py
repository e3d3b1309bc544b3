"""Checks of a submission: it can be launched, fits, finds room in the queue, and is stored."""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import accumulate

from daemon.core.errors import RejectedError
from daemon.launch.launcher import Launcher
from daemon.queues import queue_admission
from daemon.store.job_store import Store
from daemon.store.queries.dependencies import UnknownDependencyError
from daemon.store.queries.insert_jobs import Admission, IdempotencyConflictError, SubmittedSpec
from daemon.store.rows.database import StoreError, StoreFullError, StoreStuckError
from daemon.submission.cluster_fit import ClusterFit
from daemon.submission.new_job import JobMaker
from daemon.submission.shapes import ShapeChooser, chosen_by_curve, is_searched
from environment.decisions.sizing import Sizes
from environment.model.vms.max_capacity import MaxCapacity
from environment.queues.types import ANY, Most, Queues
from environment.types import Job
from profiles.job_profile import JobProfile

#: Id of a job that is only tried: behind all in any order, and no job's number gets so far.
TRIED = "job-100000000000000000"
#: Bytes of the specifications of an array from which it is stored in a transaction of its own.
_LARGE = 1 << 20


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
        over_all: Callable[[], Most] = lambda: ANY,
    ) -> None:
        """`arrive` takes the jobs that were accepted, with their time; `most` may wait at once.

        `look` finds out which VMs there are by now, and notes them. `queues` are those that there are now,
        `over_all` has the limits of each user over all of them.
        """
        sizes = sizes or Sizes()
        self._now = now
        self.jobs = JobMaker(launcher, profiles, queues, sizes)
        self._fit = ClusterFit(launcher, profiles, queues, over_all, now)
        self._shapes = ShapeChooser(store.jobs, sizes.beta)
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
        self._rooms, self._shares = queue_admission.QueueAdmission(), queue_admission.WaitingShares(most)
        #: Accepted jobs that are not among them yet, and whether there are queues.
        self._arriving: dict[str, tuple[Job, bool]] = {}

    def note(
        self,
        queued: int,
        reach: MaxCapacity,
        arrived: Iterable[str],
        waiting: queue_admission.Waiting | None = None,
    ) -> None:
        """So many jobs wait now, so much may be had, and these jobs are among those that wait."""
        self._queued = queued
        self._fit.note(reach)
        if waiting is not None:
            self._rooms.note(waiting)
            self._shares.note(waiting)
        for job_id in arrived:
            job, in_queues = self._arriving.pop(job_id, (None, False))
            if job is not None:
                self._shares.arrive(job)
            if job is not None and in_queues:
                self._rooms.leave(job.queue, job.owner)

    def accept(self, submitted: Sequence[SubmittedSpec]) -> Iterator[Mapping[SubmittedSpec, Admission]]:
        """Accept jobs; see `Scheduler.submit`.

        Those that fit are not kept waiting for a look at the VMs, nor any for sizes that others leave to us,
        or for large arrays of others.
        """
        alone = [
            each
            for each in submitted
            if is_searched(each.spec, self._profiles) or each.spec.array_bytes > _LARGE
        ]
        for some in ([each for each in submitted if each not in alone], *([each] for each in alone)):
            asked: dict[SubmittedSpec, SubmittedSpec] = {}
            for each in some:
                try:
                    asked[self._sized(each)] = each
                except Exception as error:  # an error in one must not stop the others
                    yield {each: error}
            if asked:
                for admissions in self._accept([*asked]):
                    yield {asked[each]: outcome for each, outcome in admissions.items()}

    def _sized(self, submitted: SubmittedSpec) -> SubmittedSpec:
        """With sizes where these were left to us; RejectedError where there is none."""
        spec = submitted.spec
        if not spec.auto:
            return submitted
        if is_searched(spec, self._profiles):
            if not self._fit.there:
                self._look()
            with _as_refusals():
                return self._shapes.sized(
                    submitted, self._fit.known_vms, lambda of: self._fit.misfit(of) is None
                )
        return chosen_by_curve(submitted, self._profiles[spec.type])

    def _accept(self, submitted: Sequence[SubmittedSpec]) -> Iterator[Mapping[SubmittedSpec, Admission]]:
        refused: dict[SubmittedSpec, Admission] = {}
        fit: list[SubmittedSpec] = []
        unfit: list[SubmittedSpec] = []
        for each in submitted:
            try:
                with _as_refusals():
                    self._check(each)
                    (unfit if self._fit.misfit(each.spec) else fit).append(each)
            except Exception as error:  # an error in one must not stop the others
                refused[each] = error
        yield {**refused, **self._keep(fit)}
        if unfit:
            self._look()  # since the last measurement a VM may have joined, or a quota been raised
            misfits = {each: self._fit.misfit(each.spec) for each in unfit}
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
            misfit = self._fit.misfit(spec)
        if misfit is not None:
            self._look()
            misfit = self._fit.misfit(spec)
        full = self._shares.full(submitted) if self._fitting([submitted]) else self._crowded()
        if (refusal := misfit or full or self._rooms.full(queues, spec)) is not None:
            raise refusal
        try:
            after = self._store.jobs.new.dependencies(spec, submitted.submitter)
        except UnknownDependencyError as error:
            raise _comes_after_nothing(error) from error
        except StoreError as error:
            raise _not_kept(error) from error
        return replace(self._job(TRIED, submitted, self._now()), after=after).members()

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
            if (full := self._enter(queues, each)) is not None:
                admissions[each] = full
            else:
                let_in.append(each)
        if let_in:
            new: set[SubmittedSpec] = set()
            admissions |= self._store_all(let_in, self._now(), new, in_queues=bool(queues))
            for each in let_in:
                if each not in new:
                    self._shares.leave(each.spec)
                if each not in new and queues:
                    self._rooms.leave(each.spec.queue, each.spec.owner, each.spec.count or 1)
        return admissions

    def _enter(self, queues: Queues, submitted: SubmittedSpec) -> RejectedError | None:
        if (full := self._shares.enter(submitted)) is not None:
            return full
        if (full := self._rooms.enter(queues, submitted.spec)) is not None:
            self._shares.leave(submitted.spec)
        return full

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
                arriving = record.job.members()
                self._arriving |= {job.id: (job, in_queues) for job in arriving}
                self._shares.store(each.spec, arriving)
                try:
                    if each.client is not None:
                        each.client.keep(record)
                except StoreError as error:
                    admissions[each] = error
                for job in arriving:
                    self._arrive(at, job)  # it is stored, with any outcome
        return admissions

    def _job(self, job_id: str, submitted: SubmittedSpec, at: float) -> Job:
        return self.jobs.job(job_id, submitted, at, self._fit.unending_on(submitted.spec))

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
