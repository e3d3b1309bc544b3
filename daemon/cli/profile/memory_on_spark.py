"""Jobs on real Spark with memory as their users ask for it, as the median job needs it, and left to Stoker.

How they are compared is in `agents.experiments.memory`; how jobs run is in `measure`.
"""

import statistics
import time
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from agents.experiments.memory.runs import (
    WAYS,
    MemoryJob,
    MemoryRuns,
    Way,
    read_memory_runs,
    write_memory_runs,
)
from conf.loader import ConfigError
from conf.schema.measuring_plan import MeasuringPlan
from daemon.cli.profile import measure
from daemon.cli.profile.measure import Bench, Progress
from daemon.cli.shared.errors import CommandError
from daemon.cli.shared.follow import ENDED
from profiles.measuring_plans import PlannedRun

Json = Any
Found = TypeVar("Found")
#: Jobs of a type, one after the other: yields what is to be submitted, gets the job that has ended.
Lane: TypeAlias = Generator[Mapping[str, Json], Mapping[str, Json], Found]

#: Steps in which the need of the median job is looked for, MiB, and the least memory that Spark takes.
_STEP, _LEAST = 128, 896
_POLL_SECONDS = 0.2
#: Seconds that the executors of a job that is over get to end too.
_SETTLE_SECONDS = 60.0


def memory_runs(path: Path, folder: Path, progress: Progress) -> MemoryRuns:
    """Run all jobs of a plan in each way, and store them in `folder`, way by way.

    What is stored is not repeated. Types are beside each other, the jobs of a type one after the other. An
    invalid plan raises ConfigError, a folder of another plan or a job that fails for another reason than
    memory CommandError, a folder that cannot be read MemoryRunsError.
    """
    plan, cluster, planned = measure.planned(path)
    types = _by_type(planned)
    told = plan.model_dump(mode="json")
    with measure.hold(folder):
        kept = read_memory_runs(folder)
        if kept.about and kept.about.get("plan") != told:
            raise CommandError(f"{folder}: holds runs of another plan; choose another folder")
        todo = [way for way in WAYS if way not in kept.ways]
        if not todo:
            return kept
        with measure.own_bench(folder, str(cluster), measure.mesos_of(plan)) as bench:
            lanes = _Lanes(bench, plan, progress, len(planned) * len(todo))
            about = measure.about_runs(told, bench)
            for way in todo:
                if way == "median" and not kept.needs:
                    needs = lanes.run({name: _need(runs, plan) for name, runs in types.items()})
                    kept = MemoryRuns(needs, kept.ways, about)
                found = lanes.run(
                    {name: _all(runs, way, kept.needs.get(name), plan) for name, runs in types.items()}
                )
                jobs = tuple(job for name in types for job in found[name])
                kept = MemoryRuns(kept.needs, {**kept.ways, way: jobs}, about)
                write_memory_runs(folder, kept)
    return kept


def _by_type(planned: Sequence[PlannedRun]) -> dict[str, list[PlannedRun]]:
    """The runs of each type, in order; ConfigError where they differ in more than their input."""
    types: dict[str, list[PlannedRun]] = {}
    for run in planned:
        types.setdefault(run.app, []).append(run)
    for app, runs in types.items():
        if len({(run.executors, run.cpus, run.memory_mib, run.args) for run in runs}) > 1:
            raise ConfigError(f"{app}: should differ in its input only, as in profiles/memory.yaml")
    return types


def _all(
    runs: Sequence[PlannedRun], way: Way, need: int | None, plan: MeasuringPlan
) -> Lane[list[MemoryJob]]:
    """All jobs of a type, in a way of asking for memory."""
    found = []
    for run in runs:
        memory: int | str = "auto" if way == "auto" else run.memory_mib
        if way == "median" and need is not None:
            memory = need
        # Each way is a type of its own, so that none learns from another.
        ended = yield {**_spec(run, plan, f"{run.app}-{way}"), "memory": memory, "memory_retry": True}
        found.append(_job(run, ended))
    return found


def _need(runs: Sequence[PlannedRun], plan: MeasuringPlan) -> Lane[int]:
    """The least memory with which the median job of a type finishes, MiB, found by halves."""
    inputs = statistics.median_high(run.input_mib for run in runs)
    median = next(run for run in runs if run.input_mib == inputs)
    low, high = 0, (median.memory_mib - _LEAST) // _STEP  # which is known to be enough
    while low < high:
        middle = (low + high) // 2
        memory = _LEAST + middle * _STEP
        spec = _spec(median, plan, f"{median.app}-need")
        ended = yield {**spec, "memory": memory, "memory_retry": False}
        if _job(median, ended).failures:
            low = middle + 1
        else:
            high = middle
    return _LEAST + low * _STEP


def _spec(run: PlannedRun, plan: MeasuringPlan, type_name: str) -> dict[str, Json]:
    spec = measure.spec_of(
        run.app, run.input_mib, run.executors, run.cpus, run.memory_mib, run.name, run.args
    )
    return {**spec, "type": type_name, "conf": dict(plan.conf), "retries": 0}


def _job(run: PlannedRun, ended: Mapping[str, Json]) -> MemoryJob:
    """A job that ended; CommandError where it failed for another reason than memory."""
    failures = sum(attempt["fault"] == "memory" for attempt in ended["attempts"])
    if ended["state"] != "finished" and not failures:
        raise CommandError(f"{run.name}: {ended['state']}: {ended.get('reason') or 'without a reason'}", 1)
    executors = [task for task in ended["tasks"] if task["number"] is not None]
    return MemoryJob(
        run.app,
        run.input_mib,
        ended["state"],
        executors[0]["memory_mib"] if executors else ended["memory_mib"],
        ended["memory_mib"],
        failures,
        ended["finished_at"] - ended["submitted_at"],
        sum(task["memory_mib"] * (task["ended_at"] - task["launched_at"]) for task in executors),
    )


@dataclass
class _Lanes:
    """Runs lanes of jobs beside each other."""

    bench: Bench
    plan: MeasuringPlan
    progress: Progress
    total: int
    done: int = 0

    def run(self, lanes: Mapping[str, Lane[Found]]) -> dict[str, Found]:
        """The result of each lane, once all have ended."""
        found: dict[str, Found] = {}
        waiting: dict[str, tuple[str, float]] = {}

        def go_on(name: str, ended: Mapping[str, Json] | None) -> None:
            try:
                spec = next(lanes[name]) if ended is None else lanes[name].send(ended)
            except StopIteration as end:
                found[name] = end.value
                return
            waiting[name] = self.bench.client.submit_spec(spec)["id"], time.monotonic()
            self.progress(self.done, max(self.total, self.done + 1), f"{spec['type']}, {spec['name']}")

        for name in lanes:
            go_on(name, None)
        while waiting:
            time.sleep(_POLL_SECONDS)
            for name, ended in self._ended(waiting):
                del waiting[name]
                self.done += 1
                go_on(name, ended)
        return found

    def _ended(self, waiting: Mapping[str, tuple[str, float]]) -> Iterable[tuple[str, Mapping[str, Json]]]:
        """The jobs that are over with all their executors; those that take too long are ended."""
        self.bench.check_alive()
        for name, (job_id, since) in [*waiting.items()]:
            job, passed = self.bench.client.job(job_id), time.monotonic() - since
            if job["state"] in ENDED and all(task["ended_at"] for task in job["tasks"]):
                yield name, job
            elif passed > self.plan.timeout + _SETTLE_SECONDS:
                raise CommandError(f"{job_id}: its executors do not end", 1)
            elif passed > self.plan.timeout:
                self.bench.client.kill(job_id)
