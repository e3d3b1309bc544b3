"""Measures jobs through a daemon: submits them, waits, and records the daemon's and Spark's results.

`profiles.measuring_plans` defines the runs. The daemon may be one of our own (`temporary_daemon`) or one
that runs already.
"""

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from stoker import Stoker

from conf.loader import find, load
from conf.schema import Cluster
from conf.schema.measuring_plan import MeasuringPlan
from daemon.cli.operate.temporary_daemon import TemporaryDaemon, end_left
from daemon.cli.shared import follow
from daemon.cli.shared.errors import CommandError
from daemon.disk.job_folders import remove
from daemon.maintenance.recorded_runs import History
from daemon.store.job_store import Store
from daemon.substrate.embedded_mesos import find_embedded, until
from framework.spark import local_spark_home
from profiles.measuring_plans import PlannedRun, app_command, runs_of
from profiles.runs import RUNS, MeasuredRun, about_machine, read_about, read_runs, write_runs

Json = Any
#: Told before each run: how many are done, how many there are, and which comes.
Progress = Callable[[int, int, str], None]

EVEN = "agents.baselines.even:Even"
#: Of JVMs at once: more than any plan has.
_ANY_NUMBER = 1_000_000
_POLL_SECONDS = 0.2
#: Seconds that the executors of a job that is over get to end too.
_SETTLE_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Bench:
    """A daemon to measure with: its client, its event logs, its VMs by name, their isolation, its files."""

    client: Stoker
    history: History
    vms: Mapping[str, Json]
    isolation: str
    check_alive: Callable[[], None]
    data_dir: Path


@contextlib.contextmanager
def own_bench(
    folder: Path,
    cluster: str,
    mesos: Mapping[str, object],
    policy: str = "ff",
    policies_allowed: Sequence[str] = (),
    **sections: object,
) -> Iterator[Bench]:
    """A daemon of one's own in `folder`/daemon, which is removed when all went well.

    `sections` are others of its config.
    """
    place = folder / "daemon"
    end_left(place)
    with contextlib.suppress(OSError):
        remove(place)
    place.mkdir(parents=True)
    with (
        TemporaryDaemon(place, policy, cluster, mesos, policies_allowed, **sections) as stage,
        Stoker(stage.url) as client,
    ):
        stage.await_ready(client)
        embedded = find_embedded(stage.data_dir)
        with _bench(client, stage.data_dir, embedded.isolation if embedded else "", stage.check_alive) as it:
            yield it
    with contextlib.suppress(OSError):
        remove(place)


@contextlib.contextmanager
def running_bench(client: Stoker, data_dir: Path) -> Iterator[Bench]:
    """A daemon that runs, with its data folder; afterwards the policy decides that did before."""
    if not (data_dir / "stoker.db").is_file():
        raise CommandError(f"--data-dir {data_dir}: holds no job store (stoker.db) of a daemon")
    before = client.policy()
    with _bench(client, data_dir, "as the daemon's cluster has it", lambda: None) as bench:
        try:
            yield bench
        finally:
            client.set_policy(before["name"], before["options"])


@contextlib.contextmanager
def _bench(
    client: Stoker, data_dir: Path, isolation: str, check_alive: Callable[[], None]
) -> Iterator[Bench]:
    # The VMs register within a second or so of the daemon being ready.
    until(lambda: bool(client.cluster()["vms"]), _SETTLE_SECONDS)
    vms = {vm["name"]: vm for vm in client.cluster()["vms"]}
    store = Store(f"sqlite:///{data_dir / 'stoker.db'}")
    try:
        cpus = {name: vm["cpus"] for name, vm in vms.items()}
        yield Bench(client, History(store, data_dir, cpus), vms, isolation or "none", check_alive, data_dir)
    finally:
        store.close()


def mesos_of(plan: MeasuringPlan) -> dict[str, object]:
    """The settings of the daemon's section `mesos` that a plan asks for.

    The plan or the policy limits the number of jobs at once: this machine's capacity limits none.
    """
    return {
        "jvms": _ANY_NUMBER,
        "isolation": plan.isolation,
        "isolation_scale": plan.isolation_scale,
        "isolation_bandwidth": plan.isolation_bandwidth,
    }


def planned(path: Path) -> tuple[MeasuringPlan, Path, tuple[PlannedRun, ...]]:
    """Read a plan, its cluster file and its runs; ConfigError when any of them is invalid."""
    plan = load(path, MeasuringPlan)
    cluster = find(plan.cluster, path.parent)
    return plan, cluster, runs_of(plan, load(cluster, Cluster))


def left_to_do(folder: Path, plan: MeasuringPlan, runs: Sequence[PlannedRun]) -> list[PlannedRun]:
    """The runs that `folder` does not hold yet; CommandError when it holds those of another plan."""
    if not (folder / RUNS).is_file():
        return list(runs)
    if read_about(folder).get("plan") != _kept(plan):
        raise CommandError(f"--out {folder}: holds runs of another plan; choose another folder")
    done = {run.name for run in read_runs(folder)}
    return [run for run in runs if run.name not in done]


def measure(
    bench: Bench, plan: MeasuringPlan, todo: Sequence[PlannedRun], folder: Path, progress: Progress
) -> None:
    """Run the remaining runs one after the other, and write each to `folder` as soon as it ends."""
    kept = list(read_runs(folder)) if (folder / RUNS).is_file() else []
    about = {
        "plan": _kept(plan),
        "isolation": bench.isolation,
        "vms": list(bench.vms.values()),
        "machine": about_machine(local_spark_home(os.environ).version),
    }
    for number, run in enumerate(todo):
        progress(number, len(todo), run.name)
        kept += measure_one(bench, run, plan.timeout, plan.conf)
        write_runs(folder, kept, about)
    progress(len(todo), len(todo), "")


def about_runs(plan: Mapping[str, Json], bench: Bench) -> dict[str, Json]:
    """Description of runs of today: their plan, and the isolation and the machine on which they run."""
    return {
        "plan": plan,
        "isolation": bench.isolation,
        "machine": about_machine(local_spark_home(os.environ).version),
        "date": datetime.now(UTC).date().isoformat(),
    }


def _kept(plan: MeasuringPlan) -> dict[str, Json]:
    """Fields of a plan to record; Spark's settings only if there are any, since older folders lack them."""
    return plan.model_dump(mode="json", exclude=None if plan.conf else {"conf"})


def measure_one(bench: Bench, run: PlannedRun, timeout: float, conf: Mapping[str, str]) -> list[MeasuredRun]:
    """Run a job, and its copies beside it, on the VMs that the plan wants."""
    bench.client.set_policy(EVEN, {"vms": run.vms})
    spec = spec_of(run.app, run.input_mib, run.executors, run.cpus, run.memory_mib, run.name, run.args)
    job_ids = [bench.client.submit_spec({**spec, "conf": dict(conf)})["id"] for _ in range(1 + run.beside)]
    await_end(bench, job_ids, timeout)
    return [bench.history.run(job_id, job_ids, run.name, copy) for copy, job_id in enumerate(job_ids)]


def spec_of(
    app: str,
    input_mib: float | None,
    executors: int,
    cpus: float,
    memory_mib: int,
    name: str,
    args: Sequence[str] = (),
) -> dict[str, Json]:
    """The body of a submission of an app of `profiles/apps`."""
    file, first = app_command(app)
    size = [] if input_mib is None else ["--size", f"{input_mib:g}"]
    return {
        "app": str(file),
        "name": name,
        "type": app,
        "executors": executors,
        "cpus": cpus,
        "memory": memory_mib,
        "args": [*first, *size, *args],
    }


def await_end(bench: Bench, job_ids: Sequence[str], timeout: float) -> None:
    """Wait until the jobs and their executors are over; those that take too long are ended."""
    give_up = time.monotonic() + timeout

    def open_jobs() -> list[str]:
        bench.check_alive()
        return [i for i in job_ids if bench.client.job(i)["state"] not in follow.ENDED]

    while left := open_jobs():
        if time.monotonic() > give_up:
            for job_id in left:
                bench.client.kill(job_id)
        time.sleep(_POLL_SECONDS)

    def settled() -> bool:
        return all(task["ended_at"] for i in job_ids for task in bench.client.job(i)["tasks"])

    until(settled, _SETTLE_SECONDS)


@contextlib.contextmanager
def hold(folder: Path) -> Iterator[None]:
    """Let no other process measure into the folder meanwhile; CommandError when one does."""
    import fcntl

    folder.mkdir(parents=True, exist_ok=True)
    # A killed process releases it.
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise CommandError(f"{folder}: another process is measuring into it") from None
        yield
    finally:
        os.close(lock)


def json_of(run: MeasuredRun) -> dict[str, Json]:
    """A run as plain values."""
    from dataclasses import asdict

    plain: dict[str, Json] = json.loads(json.dumps(asdict(run)))
    return plain
