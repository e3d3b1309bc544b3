"""A daemon's records of finished jobs as measured runs: its store, and Spark's event logs.

Reads only. `profile run` uses it for the jobs that it has submitted, and `profile ingest` for all.
"""

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from conf.schema import JobSpec
from conf.util.copy_fields import carried
from daemon.launch.event_log_export import find_event_logs, opened_files
from daemon.store.job_store import Store
from environment.decisions.explain import Explanation
from environment.model.messages.records import ExecutorRecord, JobRecord
from environment.resources import CPUS, MEMORY
from profiles.event_lines import EventLogError
from profiles.runs import MeasuredRun, measured
from profiles.spark_event_log import AppLog, parse_log
from profiles.trajectories import TrajectoryStep
from profiles.workloads.workload import Workload, WorkloadJob, workload_of

_PAGE = 500


class History:
    """The jobs of a store, with the logs that are in the daemon's data folder.

    `vm_cpus` are the cpus of the VMs by name.
    """

    def __init__(self, store: Store, data_dir: Path, vm_cpus: Mapping[str, float]) -> None:
        self._store = store
        self._data_dir = data_dir
        self._vm_cpus = vm_cpus
        #: Jobs of which Spark's event log could not be read so far, and why.
        self.unread: dict[str, str] = {}
        #: Jobs with drivers that had several Spark applications, and which of them is counted.
        self.partly: dict[str, str] = {}

    def run(self, job_id: str, beside: Sequence[str], name: str, copy: int) -> MeasuredRun:
        """A job that is over and was placed, under this name; `beside` are jobs that may have run meanwhile.

        ValueError when it was never placed.
        """
        record = self._store.jobs.get(job_id)
        if record is None:
            raise ValueError(f"{job_id} is not in the store")
        others = [task for other in beside if other != job_id for task in self._store.jobs.executors(other)]
        return self._measured(record, others, name, copy)

    def runs(self) -> Iterator[tuple[MeasuredRun, JobRecord]]:
        """All jobs that are over and were placed, in order of submission, each under its id."""
        records = list(self._records())
        tasks = {record.job.id: self._store.jobs.executors(record.job.id) for record in records}
        for record in records:
            if record.placed_at is not None and record.finished_at is not None:
                others = (task for job_id, own in tasks.items() if job_id != record.job.id for task in own)
                yield self._measured(record, others, record.job.id, 0), record

    def steps(self) -> list[TrajectoryStep]:
        """Every stored decision with its consequences, in order of time."""
        steps = [
            _step(record, explanation)
            for record in self._records()
            for explanation in self._store.jobs.explanations(record.job.id)
        ]
        return sorted(steps, key=lambda step: step.at)

    def _records(self) -> Iterator[JobRecord]:
        last = None
        while page := self._store.jobs.page(limit=_PAGE, before=last, newest_first=False):
            yield from page
            if page[-1].job.id == last:  # a number that no job has: the page is always the first one
                return
            last = page[-1].job.id

    def _measured(
        self, record: JobRecord, others: Iterable[ExecutorRecord], name: str, copy: int
    ) -> MeasuredRun:
        if record.placed_at is None or record.finished_at is None:
            raise ValueError(f"{record.job.id} was never placed: {record.reason}")
        job = record.job
        tasks = [task for task in self._store.jobs.executors(job.id) if task.number is not None]
        started = record.started_at if record.started_at is not None else record.finished_at
        spec = self._store.jobs.spec(job.id)
        return measured(
            self._log(job.id),
            started_at=record.started_at,
            name=name,
            copy=copy,
            type=job.type,
            input_mib=None if spec is None else input_of(spec),
            executors=job.executors,
            cpus=job.cpus,
            memory_mib=job.memory_mib,
            # Later numbers replaced executors that were lost.
            placement=tuple(task.vm_name for task in tasks if (task.number or 0) < job.executors),
            shared=self._shared(tasks, others, record.placed_at, record.finished_at),
            state=record.state,
            submitted_at=job.submitted_at,
            ended_at=record.finished_at,
            launching=started - record.placed_at,
            duration=record.finished_at - started,
            cost=record.cost,
            losses=record.losses,
        )

    def _shared(
        self, own: Sequence[ExecutorRecord], others: Iterable[ExecutorRecord], begin: float, end: float
    ) -> float:
        """The mean share of the cpus of the job's VMs that others held while it ran."""
        used = {task.vm_name for task in own}
        taken = sum(
            max(0.0, min(task.ended_at or end, end) - max(task.launched_at, begin))
            * task.resources.cpus
            / self._vm_cpus[task.vm_name]
            for task in others
            if task.vm_name in used and task.vm_name in self._vm_cpus
        )
        return taken / (len(used) * (end - begin)) if used and end > begin else 0.0

    def _log(self, job_id: str) -> AppLog | None:
        """The newest log of its last driver; None, and noted, where it is not on this host or none."""
        try:
            logs = find_event_logs(self._data_dir, job_id)
            if not logs:
                raise EventLogError("it has none")
            beside = {log.application for log in logs if log.folder == logs[0].folder}
            if len(beside) > 1:
                self.partly[job_id] = f"its driver had {len(beside)}, {logs[0].application} is counted"
            with contextlib.ExitStack() as opened:
                parts = opened_files(opened, logs[0])
                return parse_log(parts, parts[0][0])
        except (EventLogError, OSError) as error:
            self.unread[job_id] = str(error)
            return None


def workload_of_runs(runs: Iterable[tuple[MeasuredRun, JobRecord]]) -> Workload:
    """The jobs that have finished as a workload that can be simulated; the first arrives at 0.

    Their durations are the measured ones of their placements. ValueError when none has finished.
    """
    finished = [(run, record.job) for run, record in runs if run.state == "finished"]
    if not finished:
        raise ValueError("no job has finished")
    begin = min(job.submitted_at for _, job in finished)
    there = {job.id for _, job in finished}
    return workload_of(
        carried(
            WorkloadJob,
            job,
            name=job.id,
            after=tuple(i for after in job.after for i in after.jobs if i in there),
            start_at=None if job.start_at is None else max(0.0, job.start_at - begin),
            submitted_at=job.submitted_at - begin,
            duration=run.held,
            input_mib=run.input_mib,
            resources=job.size.others,
            auto={},  # as it was chosen
            dynamic_min=None,  # the stages of its type, by which a driver would ask, are not known
            dynamic_initial=None,
        )
        for run, job in finished
    )


def _step(record: JobRecord, explanation: Explanation) -> TrajectoryStep:
    choices = explanation.choices
    seen = choices[0].candidates if choices else ()
    return carried(
        TrajectoryStep,
        explanation,
        record,
        record.job,
        job=record.job.id,
        vms=tuple(candidate.vm for candidate in seen),
        free_cpus=tuple(candidate.free[CPUS] for candidate in seen),
        free_memory_mib=tuple(int(candidate.free[MEMORY]) for candidate in seen),
        chosen=tuple(choice.vm for choice in choices if choice.vm is not None),
    )


def input_of(spec: JobSpec) -> float | None:
    """MiB of input, as the apps of `profiles/apps` are told by `--size`; None when it is not said so."""
    for option, value in zip(spec.args, spec.args[1:], strict=False):
        if option == "--size":
            try:
                return float(value)
            except ValueError:
                return None
    return None
