"""Users with weights on the embedded cluster, and more tiny Spark jobs than room: each user's share.

    python -m tests.benchmarks.sharing [--minutes 10] [--users 4] [--slots 10] [--seconds 8]

A daemon in a folder of its own, with a VM of `slots` cpus and jobs of one executor with a cpu each, so that
as many run at once. Users have the weights 1 to 4 in turn, and each has jobs that wait at any time. Printed
is one line of JSON: by user the weight, its share of all held resources after the first minute, and how many
percentage points that is off, how many jobs are over, and the load; the exit code is 0 when no user is off by
more than five. A slot costs two JVMs. In the first minute the first user to come has more, and less in the
next ones, until its share is met: over few minutes no user has its share.
"""

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from stoker import Stoker

from daemon.cli.operate.temporary_daemon import TemporaryDaemon

#: Sleeps in one task: it holds its executor, and takes next to nothing of a core.
APP = """
import sys, time
from pyspark import SparkContext

context = SparkContext()
context.parallelize([float(sys.argv[1])], 1).foreach(time.sleep)
context.stop()
"""
_QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
#: What every job asks for: the least that Spark starts with.
JOB = {
    "executors": 1,
    "cpus": 1.0,
    "memory": 896,
    "conf": {"spark.driver.extraJavaOptions": _QUICK, "spark.executor.extraJavaOptions": _QUICK},
}
#: Percentage points; seconds that do not count, in which the first jobs start together.
ALLOWED, START = 5.0, 60.0
#: As many jobs of each user wait or run at least.
_AHEAD = 12


def main() -> int:
    """Measure once, print, and return 0 when shares are those of the weights."""
    parser = argparse.ArgumentParser(description="Shares of users on real, tiny Spark jobs.")
    parser.add_argument("--minutes", type=float, default=10.0, help="more than one")
    parser.add_argument("--users", type=int, default=4)
    parser.add_argument("--slots", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=8.0, help="for which a job's task sleeps")
    values = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))  # in order: nothing is left running
    weights = {f"user-{number}": float(1 + number % 4) for number in range(values.users)}
    with tempfile.TemporaryDirectory(prefix="stoker-sharing-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        app, cluster = folder / "sleeps.py", folder / "cluster.yaml"
        app.write_text(APP)
        size = f"cpus: {values.slots}, memory: {values.slots}g"
        cluster.write_text(f"vms: [{{type: slots, {size}, price_per_hour: 0.5, count: 1}}]\n")
        with (
            TemporaryDaemon(
                folder,
                "ff",
                str(cluster),
                {"jvms": 1000},
                queues={"default": {"user_weights": weights}},
                sharing={"order": "fair", "half_life": "2m"},
            ) as daemon,
            Stoker(daemon.url) as client,
        ):
            daemon.await_ready(client)
            held, count = _measure(daemon, client, app, weights, values.minutes * 60.0, values.seconds)
    everything, all_weights = sum(held.values()), sum(weights.values())
    users = {
        user: {
            "weight": weight,
            "share": round(100 * held[user] / everything, 2),
            "off": round(100 * (held[user] / everything - weight / all_weights), 2),
        }
        for user, weight in weights.items()
    }
    told = {"minutes": values.minutes, "slots": values.slots, "jobs": count, "load": os.getloadavg()[1]}
    print(json.dumps({**told, "executor_seconds": round(everything), "users": users}))
    return 0 if all(abs(user["off"]) <= ALLOWED for user in users.values()) else 1


def _measure(
    daemon: TemporaryDaemon,
    client: Stoker,
    app: Path,
    weights: dict[str, float],
    seconds: float,
    sleeps: float,
) -> tuple[dict[str, float], int]:
    """Executor-seconds by user, from `START` on, and how many jobs are over."""
    began, jobs = time.time(), {user: list[str]() for user in weights}
    over: dict[str, Any] = {}
    while time.time() < began + seconds:
        daemon.check_alive()
        open_jobs = {user: sum(job_id not in over for job_id in ids) for user, ids in jobs.items()}
        for number in range(_AHEAD):  # in turn, or the first would have all for as long as a job takes
            for user, ids in jobs.items():
                if number >= open_jobs[user]:
                    spec = {**JOB, "app": str(app), "args": [str(sleeps)], "owner": user}
                    ids.append(client.submit_spec(spec)["id"])
        time.sleep(2.0)
        for ids in jobs.values():
            for job_id in ids:
                if job_id not in over and (job := client.job(job_id))["finished_at"] is not None:
                    over[job_id] = job
    until = time.time()
    found = dict.fromkeys(weights, 0.0)
    for user, ids in jobs.items():
        for job_id in ids:
            for task in (over.get(job_id) or client.job(job_id))["tasks"]:
                end = min(task["ended_at"] or until, until)
                found[user] += max(end - max(task["launched_at"], began + START), 0.0)
    return found, len(over)


if __name__ == "__main__":
    sys.exit(main())
