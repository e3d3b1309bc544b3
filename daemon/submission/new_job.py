"""The job that a submission becomes, by its specification, its profile and its queue."""

from collections.abc import Callable, Mapping
from difflib import get_close_matches

from conf.defaults import UNKNOWN_SPREAD
from conf.schema import DynamicExecutors, JobSpec
from conf.units import deadline_at
from conf.util.copy_fields import carried
from daemon.launch.launcher import Launcher
from daemon.queues import queue_admission
from daemon.store.queries.insert_jobs import SubmittedSpec
from environment.decisions.sizing import Sizes
from environment.queues.types import Queues
from environment.resources import Resources
from environment.types import MEASURED_REWORK, USUAL_PAUSES, Dynamic, Job, Rework
from profiles.job_profile import JobProfile


class JobMaker:
    """Makes jobs of submissions."""

    def __init__(
        self,
        launcher: Launcher,
        profiles: Mapping[str, JobProfile],
        queues: Callable[[], Queues],
        sizes: Sizes,
    ) -> None:
        """`profiles` are those of job types; `queues` are those that there are now."""
        self._launcher, self._profiles, self._queues, self._sizes = launcher, profiles, queues, sizes

    def job(self, job_id: str, submitted: SubmittedSpec, at: float, unending_on: tuple[str, ...]) -> Job:
        """The job with that id, submitted at that time; `unending_on` names spot pools where it never ends.

        Its dependencies are those that the store knows.
        """
        spec, queues = submitted.spec, self._queues()
        profile, most, bounds = self._profiles.get(spec.type), spec.most_executors, spec.executors
        job = carried(
            Job,
            spec,
            id=job_id,
            size=size_of(spec),
            name=spec.label,
            spark=self._launcher.spark(spec),
            submitted_at=at,
            driver=self._launcher.driver_size(spec),
            spot_driver=self._launcher.spot_driver(spec),
            priority=queue_admission.priority_of(queues, spec),
            spot=queue_admission.spot_of(queues, spec),
            unending_on=unending_on,
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
            expected_duration=expected_duration(profile, spec),
            prefers=profile.prefers if profile else None,
            spread=profile.spread if profile else UNKNOWN_SPREAD,
            rework=rework_of(profile),
            curve=profile.curve if profile else None,
            dynamic=Dynamic(bounds.min, bounds.begins_with) if isinstance(bounds, DynamicExecutors) else None,
        )
        return self._sizes.opened(job)

    def warnings(self, kind: str) -> list[str]:
        """Warnings for users that submit a job of this type: there are no measurements of it."""
        if kind == JobSpec.model_fields["type"].default or kind in self._profiles:
            return []
        near = "".join(f"; did you mean {each}?" for each in get_close_matches(kind, self._profiles, 1))
        known = ", ".join(sorted(self._profiles)) or "none"
        guessed = f"no job of its type was measured (measured are {known}), so its duration is guessed"
        return [f"type: {kind}: {guessed}{near}"]

    def _memory_retry(self, submitted: SubmittedSpec) -> bool:
        """Whether a failure for memory restarts the job; a user's own driver cannot be restarted."""
        spec = submitted.spec
        if submitted.client is not None or not self._sizes.memory_retry:
            return False
        if spec.memory_retry is not None:
            return spec.memory_retry
        return bool(spec.most_retries) or (spec.restartable and "memory" in submitted.sized)


def size_of(spec: JobSpec) -> Resources:
    """Resources of each executor."""
    return Resources.of(spec.most_cpus, spec.memory_mib, spec.resources)


def expected_duration(profile: JobProfile | None, spec: JobSpec) -> float | None:
    """Seconds that its profile expects at full size; None without one."""
    return profile.duration(spec.most_cpus, spec.memory_mib, spec.most_executors) if profile else None


def rework_of(profile: JobProfile | None) -> Rework:
    """Shares of work that losses cost, by its profile; otherwise as measured."""
    return Rework(profile.rework.lost, profile.rework.drained) if profile else MEASURED_REWORK
