"""Jobs with all, with fewer and with dynamic executors on real Spark, to check predictions by their logs.

How they are compared is in `audit.savings`, `real_savings` and `real_dynamic`; how jobs run is in `measure`.
"""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from stoker.characters import visible

from audit.applications import LoggedApplication
from audit.log_files import LogsError
from audit.read_logs import read_logs
from audit.savings.real_runs import AuditedRun, AuditedRuns, read_audited, write_audited
from conf.loader import ConfigError, find
from conf.schema.measuring_plan import MeasuringPlan
from daemon.cli.profile import measure
from daemon.cli.profile.measure import Bench, Progress, own_bench
from daemon.cli.profile.profile import place_of_runs
from daemon.cli.shared.errors import CommandError
from daemon.cli.shared.progress import progress_bar
from daemon.disk.job_folders import temporary_folder
from daemon.launch.event_log_export import copy_event_logs, find_event_logs
from profiles.measuring_plans import PlannedRun

#: Bytes of the event log of a run: these are short.
_MOST_BYTES = 256 << 20


@dataclass(frozen=True, slots=True)
class SizedRun:
    """A run to do, and the share of its executors in those of its app before the change.

    With `idle` it has dynamic allocation, up to as many executors, which releases those idle for so many
    seconds.
    """

    planned: PlannedRun
    share: float
    idle: int | None = None

    @property
    def key(self) -> tuple[str, int, int, float | None]:
        """By which it is found among those that are done."""
        return self.planned.app, self.planned.executors, self.planned.repeat, self.idle


def audited_or_told(
    plan: str, folder: Path | None, rounds: int | None, idle: int | None = None
) -> tuple[Path, AuditedRuns, bool]:
    """The folder and the runs of a plan, with progress, and whether some failed; these are printed.

    As `audited`; CommandError when no run has finished.
    """
    path = find(plan)
    place = place_of_runs(folder, path)
    with progress_bar() as progress:
        runs, failed = audited(path, place.absolute(), rounds, progress, idle)
    for line in failed:
        print(f"stoker: {visible(line)}; start again to repeat it", file=sys.stderr)
    if not runs.runs:
        raise CommandError("no run has finished", 1)
    return place, runs, bool(failed)


def audited(
    path: Path, folder: Path, rounds: int | None, progress: Progress, idle: int | None = None
) -> tuple[AuditedRuns, Sequence[str]]:
    """Run all apps of a plan at their sizes, round by round, and store each run in `folder` as it ends.

    With `idle` each app has one size, and runs with that and with dynamic allocation that releases executors
    which were idle for so many seconds.

    What is stored is not repeated. Returned beside the runs are those that failed, each with its reason: a
    new start tries them again. `rounds` are the first ones of the plan, all unless given. An invalid plan
    raises ConfigError, a folder of another plan CommandError, one that cannot be read RealRunsError.
    """
    plan, cluster, planned = measure.planned(path)
    ordered = in_turn(plan, planned) if idle is None else both_ways(planned, idle)
    wanted = [run for run in ordered if rounds is None or run.planned.repeat < rounds]
    failed: list[str] = []
    with measure.hold(folder):
        kept = read_audited(folder)
        if kept.runs and kept.about.get("plan") != _told(plan):
            raise CommandError(f"{folder}: holds runs of another plan; choose another folder")
        done = {_key(run) for run in kept.runs}
        if todo := [run for run in wanted if run.key not in done]:
            with own_bench(folder, str(cluster), measure.mesos_of(plan)) as bench:
                about = measure.about_runs(_told(plan), bench)
                for number, run in enumerate(todo):
                    way = "" if run.idle is None else ", dynamic"
                    progress(number, len(todo), f"{run.planned.name}{way}, {len(failed)} failed")
                    ended = _run(bench, run, plan)
                    if isinstance(ended, str):
                        failed.append(f"{run.planned.name}: {ended}")
                        continue
                    kept = AuditedRuns((*kept.runs, ended), about)
                    write_audited(folder, kept)
                progress(len(todo), len(todo), "")
    keys = {run.key for run in wanted}
    return AuditedRuns(tuple(run for run in kept.runs if _key(run) in keys), kept.about), failed


def in_turn(plan: MeasuringPlan, runs: Sequence[PlannedRun]) -> list[SizedRun]:
    """The runs of a plan: the sizes of an app follow each other, in every round another one first.

    The first number of executors of an app is that before the change. ConfigError for a plan in which an app
    differs in more than its executors, or in nothing.
    """
    before = {app: grid.executors[0] for grid in reversed(plan.grids) for app in grid.apps}
    by_app: dict[tuple[int, str], list[PlannedRun]] = {}
    for run in runs:
        by_app.setdefault((run.repeat, run.app), []).append(run)
    ordered, places = [], {app: place for place, app in enumerate(before)}
    for (repeat, app), sizes in by_app.items():
        alike = {replace(run, executors=1, vms=1) for run in sizes}
        counts = {run.executors for run in sizes}
        if len(alike) > 1 or len(counts) != len(sizes) or len(sizes) < 2 or max(counts) > before[app]:
            raise ConfigError(
                f"{app}: should differ in its number of executors only, and have two at least, the largest "
                "first, as in profiles/audit.yaml"
            )
        sizes.sort(key=lambda run: -run.executors)
        first = (places[app] + repeat) % len(sizes)
        turned = [*sizes[first:], *sizes[:first]]
        ordered += [SizedRun(run, run.executors / before[app]) for run in turned]
    return ordered


def both_ways(runs: Sequence[PlannedRun], idle: int) -> list[SizedRun]:
    """Each run with all of its executors and with dynamic allocation, in every round another one first.

    ConfigError for a plan in which an app has several sizes.
    """
    ordered = list[SizedRun]()
    for place, run in enumerate(runs):
        if sum((other.app, other.repeat) == (run.app, run.repeat) for other in runs) > 1:
            raise ConfigError(f"{run.app}: should have one number of executors, as in profiles/dynamic.yaml")
        ways = [SizedRun(run, 1.0), SizedRun(run, 1.0, idle)]
        ordered += ways[:: 1 if (place + run.repeat) % 2 else -1]
    return ordered


def _key(run: AuditedRun) -> tuple[str, int, int, float | None]:
    return run.type, run.executors, run.round, run.idle


def _told(plan: MeasuringPlan) -> dict[str, Any]:
    """The plan without its number of rounds, which may become larger."""
    return plan.model_dump(mode="json", exclude={"grids": {"__all__": {"repeats"}}})


def _run(bench: Bench, run: SizedRun, plan: MeasuringPlan) -> AuditedRun | str:
    """The run with its log, or why there is none."""
    of = run.planned
    bench.client.set_policy(measure.EVEN, {"vms": of.vms})
    # The audit takes runs of one name as a type.
    spec = measure.spec_of(of.app, of.input_mib, of.executors, of.cpus, of.memory_mib, of.app, of.args)
    conf: dict[str, str] = dict(plan.conf)
    if run.idle is not None:
        spec["executors"] = {"min": 1, "max": of.executors}
        conf["spark.dynamicAllocation.executorIdleTimeout"] = f"{run.idle}s"
    job_id = bench.client.submit_spec({**spec, "conf": conf})["id"]
    measure.await_end(bench, [job_id], plan.timeout)
    job = bench.client.job(job_id)
    if job["state"] != "finished":
        return f"{job['state']}: {job.get('reason') or 'without a reason'}"
    application = logged(bench.data_dir, job_id)
    if isinstance(application, str):
        return application
    named = replace(application, log=of.name)
    load = os.getloadavg()[0]
    return AuditedRun(of.app, of.repeat, of.executors, run.share, load, named, run.idle)


def logged(data_dir: Path, job_id: str) -> LoggedApplication | str:
    """The application of a job, read out of its event log as `stoker audit` does, or why it is none."""
    with temporary_folder("stoker-logs-") as scratch:
        copy_event_logs(find_event_logs(data_dir, job_id), scratch, _MOST_BYTES)
        try:
            found = read_logs([str(scratch)]).applications
        except LogsError as error:
            return str(error)
    return found[0] if len(found) == 1 else f"it has {len(found)} event logs"
