"""What a submission passes before it is a job: it can be launched, fits, finds room in the queue, is kept."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from conf.assumptions import MEASURED_SPREAD
from conf.carrying import carried
from conf.schema import DynamicExecutors, JobSpec
from conf.units import deadline_at
from daemon.arrivals import IdempotencyConflictError, SubmittedSpec
from daemon.contract import Admission, RejectedError
from daemon.launcher import Launcher
from daemon.store import Store, StoreError, StoreFullError, StoreStuckError
from environment.check import whole_cluster_shortfall
from environment.model.moment import Quota
from environment.model.reach import ONLY_SPOT, Reach, over_quota
from environment.resources import NOTHING, Resources
from environment.sizing import Sizes, smallest
from environment.types import MEASURED_REWORK, Dynamic, Job, Rework, Vm, barred
from profiles.job_profile import JobProfile

#: After how many seconds a submission to a full queue may be tried again.
_PAUSE = "30"
#: For so many seconds a VM that is gone is taken for one that reboots: a job that fits only there may wait.
OF_LATE = 3600.0


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
    ) -> None:
        """`arrive` takes the jobs that were accepted, with their time; `most` may wait at once.

        `look` finds out which VMs there are by now, and notes them.
        """
        self._now = now
        self._sizes = sizes or Sizes()
        self._store = store
        self._launcher = launcher
        #: What is known of job types.
        self._profiles = profiles
        self._arrive = arrive
        self._look = look
        self._most = most
        #: Jobs that wait for a placement, as of the last event.
        self._queued = 0
        #: Those that were accepted and are not among them yet.
        self._arriving: set[str] = set()
        self._vms: tuple[Vm, ...] = ()
        #: The most that we may have in all, by Mesos' names of resources.
        self._quota: Quota = {}
        #: VMs that are not there any more, and when they were noted last, by name: they may be back soon.
        self._late: dict[str, tuple[Vm, float]] = {}

    def note(self, queued: int, reach: Reach, arrived: set[str]) -> None:
        """So many jobs wait now, so much may be had, and these jobs are among those that wait."""
        self._queued, self._quota, vms = queued, reach.quota, reach.vms
        self._arriving -= arrived
        if vms is not self._vms:
            self._note_late(vms)
            self._vms = vms

    def _note_late(self, vms: tuple[Vm, ...]) -> None:
        now, there = self._now(), {vm.name for vm in vms}
        late = {**self._late, **{vm.name: (vm, now) for vm in self._vms}}
        self._late = {
            name: (vm, at) for name, (vm, at) in late.items() if name not in there and now - at < OF_LATE
        }

    def accept(self, submitted: Sequence[SubmittedSpec]) -> Iterator[Mapping[SubmittedSpec, Admission]]:
        """Accept jobs; see `Scheduler.submit`. Those that fit are not kept waiting for a look at the VMs."""
        refused: dict[SubmittedSpec, Admission] = {}
        fit: list[SubmittedSpec] = []
        unfit: list[SubmittedSpec] = []
        for each in submitted:
            try:
                self._check(each)
                (unfit if self._misfit(each.spec) else fit).append(each)
            except ValueError as error:
                refused[each] = RejectedError(422, "The job cannot be launched", str(error))
            except Exception as error:  # what is wrong with one must not stop the others
                refused[each] = error
        yield {**refused, **self._keep(fit)}
        if unfit:
            self._look()  # since the master was last asked an agent may have joined, or a quota been raised
            misfits = {each: self._misfit(each.spec) for each in unfit}
            refused = {each: misfit for each, misfit in misfits.items() if misfit}
            yield {**refused, **self._keep([each for each in unfit if each not in refused])}

    def _keep(self, submitted: Sequence[SubmittedSpec]) -> dict[SubmittedSpec, Admission]:
        """Keep those that there is room for in the queue."""
        room = max(0, self._most - self._queued - len(self._arriving))
        detail = f"{self._most} jobs are queued already (max_queued_jobs)"
        admissions: dict[SubmittedSpec, Admission] = {
            each: RejectedError(429, "The queue is full", detail, {"Retry-After": _PAUSE})
            for each in submitted[room:]
        }
        at, submitted = self._now(), submitted[:room]
        if not submitted:
            return admissions
        try:
            kept = self._store.add_jobs(submitted, lambda job_id, each: self._job(job_id, each, at), at)
        except Exception as error:
            if len(submitted) == 1 or isinstance(error, StoreStuckError | StoreFullError):
                return admissions | {each: _not_kept(error) for each in submitted}
            for each in submitted:  # one of them may have spoilt it for all
                admissions |= self._keep([each])
            return admissions
        for each, outcome in zip(submitted, kept, strict=True):
            if isinstance(outcome, IdempotencyConflictError):
                admissions[each] = RejectedError(409, "Idempotency key used before", str(outcome))
                continue
            admissions[each] = outcome
            record, new = outcome
            if new:
                self._arriving.add(record.job.id)
                try:
                    if each.client is not None:
                        each.client.keep(record)
                except StoreError as error:
                    admissions[each] = error
                self._arrive(at, record.job)  # it is stored, whatever comes of it
        return admissions

    def _job(self, job_id: str, submitted: SubmittedSpec, at: float) -> Job:
        spec = submitted.spec
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
            priority=spec.priority or 0,
            deadline=deadline_at(spec.deadline, at),
            client_driver="" if submitted.client is None else submitted.client.where,
            unix_user=submitted.submitter.unix_user,
            executors=most,
            min_executors=spec.fewest_executors,
            min_cpus=spec.fewest_cpus,
            expected_duration=profile.duration(spec.most_cpus, spec.memory, most) if profile else None,
            prefers=profile.prefers if profile else None,
            spread=profile.spread if profile else MEASURED_SPREAD,
            rework=Rework(profile.rework.lost, profile.rework.drained) if profile else MEASURED_REWORK,
            curve=profile.curve if profile else None,
            dynamic=Dynamic(bounds.min, bounds.begins_with) if isinstance(bounds, DynamicExecutors) else None,
        )
        return self._sizes.opened(job)

    def _check(self, submitted: SubmittedSpec) -> None:
        """Raise ValueError when it could not be launched, whatever the cluster."""
        spec = submitted.spec
        if spec.driver is not None and spec.driver.on == "client" and submitted.client is None:
            why = "driver.on: a driver of its user's asks for its executors itself, by POST /v1/applications"
            raise ValueError(why)
        self._launcher.check(spec, submitted.submitter)

    def _misfit(self, spec: JobSpec) -> RejectedError | None:
        """Why there is no cluster for the job, as far as is known; None when there may be."""
        if (over := self._over_quota(spec)) is not None:
            return RejectedError(422, "The job is over the quota", over)
        if (shortfall := self._shortfall(spec)) is not None:
            return RejectedError(422, "The job fits no cluster of this size", shortfall)
        return None

    def _over_quota(self, spec: JobSpec) -> str | None:
        """Why our roles may never have what the job needs at least; None when they may."""
        fewest = spec.fewest_executors or spec.most_executors
        driver = self._launcher.driver_size(spec) or NOTHING
        return over_quota(self._quota, smallest(_size(spec), spec.fewest_cpus) * fewest + driver)

    def _shortfall(self, spec: JobSpec) -> str | None:
        """Why the job fits no cluster of the VMs that are or were there; None when it does."""
        vms = (*self._vms, *(vm for vm, _ in self._late.values()))
        there = [vm for vm in vms if not barred(spec.spot, spot=vm.spot)]
        if vms and not there:
            return f"no VM is there that it may use (spot: {spec.spot})"
        least = smallest(_size(spec), spec.fewest_cpus)
        shortfall = whole_cluster_shortfall(there, least, spec.most_executors, spec.fewest_executors)
        driver = self._launcher.driver_size(spec)
        if shortfall is None and driver is not None:
            there = [vm for vm in vms if self._launcher.spot_driver(spec) or not vm.spot]
            shortfall = whole_cluster_shortfall(there, driver, 1) if there or not vms else ONLY_SPOT
        return shortfall


def _not_kept(error: Exception) -> Exception:
    if isinstance(error, StoreError):
        return RejectedError(503, "The job store is not available", str(error))
    return error


def _size(spec: JobSpec) -> Resources:
    """What each of its executors takes."""
    return Resources.of(spec.most_cpus, spec.memory, spec.resources)
