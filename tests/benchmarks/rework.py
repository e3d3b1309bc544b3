"""Work that real Spark repeats when an executor is lost, and when it was decommissioned; run by hand.

    python -m tests.benchmarks.rework [--apps wordcount,sort] [--ways lost,drained] [--size 24]

Each app runs on two executors of a core. When a given share of its time is over, one of the executors is
killed with SIGKILL, or decommissioned as by `stoker decommission`; another takes its place. From Spark's
event log: how long the executor had worked by then (its tasks, also those that were cut short), and how much
of that was done again (tasks that were cut short, and those of which the same partition of the same stage
succeeded a second time). Recomputation by other tasks because a cached block is gone is not seen there.
Printed is one line of JSON for each run, and the share by app and way: of the sums over the runs.
"""

import argparse
import contextlib
import json
import math
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from stoker import Stoker

from daemon.cli.operate.temporary_daemon import TemporaryDaemon
from daemon.cli.shared.follow import ENDED

APPS = Path(__file__).parents[2] / "profiles/apps"
PATIENCE = 600.0
PARTITIONS = 24


def main() -> int:
    """Measure, print, and return 0 when every job finished."""
    parser = argparse.ArgumentParser(description="What Spark does again of a lost executor's work.")
    parser.add_argument("--apps", default="wordcount,sort")
    parser.add_argument("--size", type=float, default=24.0, help="MiB of input of each")
    parser.add_argument("--ways", default="lost,drained")
    parser.add_argument("--moments", default="0.3,0.5,0.7", help="shares of the time of an undisturbed run")
    values = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))  # in order: nothing is left running
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    with (
        tempfile.TemporaryDirectory(prefix="stoker-rework-", ignore_cleanup_errors=True) as folder,
        TemporaryDaemon(Path(folder), "ff", "clusters/testbed.yaml", {"jvms": 100}) as daemon,
        Stoker(daemon.url) as client,
    ):
        daemon.await_ready(client)
        for app in values.apps.split(","):
            whole = _run(daemon, client, app, values.size, "", 0.0)
            for way in values.ways.split(","):
                for moment in values.moments.split(","):
                    after = float(moment) * whole["seconds"]
                    run = _run(daemon, client, app, values.size, way, after)
                    print(json.dumps({"app": app, "way": way, "after": round(after, 1), **run}))
                    sys.stdout.flush()
                    found.setdefault((app, way), []).append((run["done"], run["again"]))
    for (app, way), runs in found.items():
        shares = [again / done for done, again in runs if done > 0]
        share = sum(again for _, again in runs) / max(sum(done for done, _ in runs), 1e-9)
        print(f"{app} {way}: {share:.2f} of it is done again ({', '.join(f'{each:.2f}' for each in shares)})")
    return 0


def _run(
    daemon: TemporaryDaemon, client: Stoker, app: str, size: float, way: str, after: float
) -> Mapping[str, Any]:
    """Run it, and take an executor away once it has run for so many seconds."""
    job_id = client.submit_spec(
        {
            "app": str(APPS / f"{app}.py"),
            "type": app,
            "executors": {"min": 2, "max": 2, "initial": 2},
            "cpus": 1.0,
            "memory": 1024,
            "args": ["--size", f"{size:g}", "--partitions", str(PARTITIONS)],
            "conf": {"spark.dynamicAllocation.executorIdleTimeout": "600s"},
        }
    )["id"]
    events, gone = daemon.data_dir / "jobs" / job_id / "driver/events", None
    give_up = time.monotonic() + PATIENCE
    while (job := client.job(job_id))["state"] not in ENDED:
        if time.monotonic() > give_up:
            raise SystemExit(f"{job_id} ({app}) takes more than {PATIENCE:g} s")
        if way and gone is None and time.time() > _began(events) + after:
            gone = "0"
            if way == "lost":
                for pid in _pids(daemon, f"{job_id}.{gone}"):  # none where the job was faster
                    os.kill(pid, signal.SIGKILL)
            else:
                client.decommission(job_id, [int(gone)], "to measure it")
        time.sleep(0.1)
    if job["state"] != "finished":
        raise SystemExit(f"{job_id} ({app}, {way}) {job['state']}: {job['reason']}")
    tasks = _tasks(events)
    ended = max(task["Task Info"]["Finish Time"] for task in tasks) / 1000.0
    return {"seconds": round(ended - _began(events), 3), **_again(tasks, gone)}


def _again(tasks: Sequence[Mapping[str, Any]], gone: str | None) -> dict[str, float]:
    """Seconds of the executor's tasks, and of those that were repeated."""
    succeeded: dict[tuple[int, int], list[str]] = {}
    for task in tasks:
        if task["Task End Reason"]["Reason"] == "Success":
            succeeded.setdefault(_partition(task), []).append(task["Task Info"]["Executor ID"])
    done = again = 0.0
    for task in tasks:
        info = task["Task Info"]
        if info["Executor ID"] != gone:
            continue
        seconds = (info["Finish Time"] - info["Launch Time"]) / 1000.0
        done += seconds
        if task["Task End Reason"]["Reason"] != "Success" or len(succeeded[_partition(task)]) > 1:
            again += seconds
    return {"done": round(done, 3), "again": round(again, 3)}


def _partition(task: Mapping[str, Any]) -> tuple[int, int]:
    info = task["Task Info"]
    return task["Stage ID"], info.get("Partition ID", info["Index"])


def _began(events: Path) -> float:
    """When its first Spark job began, seconds since the epoch; infinity before."""
    starts = (each["Submission Time"] for each in _events(events) if each["Event"] == "SparkListenerJobStart")
    return min(starts, default=math.inf) / 1000.0


def _tasks(events: Path) -> list[Mapping[str, Any]]:
    """The tasks that are over by the event log, in the order in which they ended."""
    return [event for event in _events(events) if event["Event"] == "SparkListenerTaskEnd"]


def _events(folder: Path) -> Iterator[Mapping[str, Any]]:
    for path in sorted(folder.rglob("*")) if folder.is_dir() else ():
        if path.is_file() and not path.name.startswith((".", "appstatus")):
            for line in path.read_text(errors="replace").splitlines():
                with contextlib.suppress(ValueError):  # the last line may be half there
                    yield json.loads(line)


def _pids(daemon: TemporaryDaemon, task: str) -> Iterator[int]:
    """The executor's JVM, if it is there, by the task id that Mesos gave it."""
    for process in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            command = (process / "cmdline").read_bytes()
            ours = (process / "cwd").readlink().is_relative_to(daemon.data_dir.parent)
            java = b"CoarseGrainedExecutorBackend" in command and b"java" in command.split(b"\0")[0]
            said = (process / "environ").read_bytes().split(b"\0") if ours and java else ()
            if f"MESOS_EXECUTOR_ID={task}".encode() in said:
                yield int(process.name)


if __name__ == "__main__":
    sys.exit(main())
