"""Tiny Spark jobs on the embedded cluster that wait for each other: how often their estimates came true.

    python -m tests.benchmarks.estimates_live [--minutes 8] [--jobs 60] [--policy greedy]

A daemon in a folder of its own with two VMs of two cpus each, and more jobs than they carry: of three types
that sleep for so long on the average, in one or two executors with a cpu each, some longer, some shorter
(log-normal, as their profile says). Spark's own time beside that is measured first, by three jobs that do
not sleep, unless `--startup` says it. A day in minutes: jobs and their submission times are drawn with the
seed. Printed is one line of JSON: how many jobs had an estimate before they started, how many true starts,
ends and costs were within their first estimate, and by quarters the seconds waited, and the widths of
the estimated intervals.
"""

import argparse
import json
import signal
import statistics
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from stoker import Stoker

from daemon.cli.operate.temporary_daemon import TemporaryDaemon
from tests.benchmarks.sharing import JOB

Json = dict[str, Any]
#: What is submitted when, seconds from the beginning.
Drawn = list[tuple[float, Json]]

#: Each executor sleeps for its part of what the job takes, and takes next to nothing of a core.
APP = """
import sys, time
from pyspark import SparkContext

context = SparkContext()
seconds, executors = float(sys.argv[1]), int(sys.argv[2])
context.parallelize([seconds / executors] * executors, executors).foreach(time.sleep)
context.stop()
"""
#: Seconds that a type sleeps on one executor, and its share of the jobs.
TYPES = {"nap": (6.0, 0.5), "rest": (15.0, 0.35), "sleep": (40.0, 0.15)}
#: Standard deviation of the logarithm of what jobs take over what is believed.
SPREAD = 0.3
#: Jobs that show what Spark takes beside that.
_FIRST = 3
#: For so many seconds the last jobs are waited for.
_PATIENCE = 200.0


def main() -> int:
    """Measure once and print."""
    parser = argparse.ArgumentParser(description="Whether estimates of real, tiny Spark jobs come true.")
    parser.add_argument("--minutes", type=float, default=8.0, help="within which they are submitted")
    parser.add_argument("--jobs", type=int, default=60)
    parser.add_argument("--policy", default="greedy")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--startup", type=float, help="seconds that Spark takes beside what jobs sleep")
    values = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))  # in order: nothing is left running
    with tempfile.TemporaryDirectory(prefix="stoker-estimates-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        (folder / "sleeps.py").write_text(APP)
        cluster, profiles = folder / "cluster.yaml", folder / "profiles.yaml"
        cluster.write_text("vms: [{type: pair, cpus: 2, memory: 2g, price_per_hour: 0.5, count: 2}]\n")

        def submitted(name: str, drawn: Drawn) -> list[Json]:
            """The jobs' outcomes with a daemon of their own."""
            own = folder / name
            own.mkdir()
            more = {"profiles": str(profiles)} if profiles.exists() else {}
            with (
                TemporaryDaemon(own, values.policy, str(cluster), {"jvms": 1000}, **more) as daemon,
                Stoker(daemon.url) as client,
            ):
                daemon.await_ready(client)
                return _submit(daemon, client, folder / "sleeps.py", drawn)

        startup = values.startup
        if startup is None:
            none = {"type": "none", "executors": 1, "args": ["0", "1"]}
            first = submitted("first", [(0.0, none)] * _FIRST)
            startup = statistics.median(job["finished_at"] - job["placed_at"] for job in first)
        known = {"bound_by": "cpu", "prefers": "spread", "startup": startup, "spread": SPREAD}
        types = {kind: {**known, "work": seconds} for kind, (seconds, _) in TYPES.items()}
        profiles.write_text(yaml.safe_dump({"types": types}))
        found = submitted("all", _drawn(values.jobs, values.minutes * 60.0, values.seed))
    given = {"policy": values.policy, "seed": values.seed, "startup": round(startup, 1)}
    print(json.dumps({**given, **_told(found)}))
    return 0


def _drawn(jobs: int, seconds: float, seed: int) -> Drawn:
    """Drawn jobs with submission times, seconds from the beginning; all arrive somewhere within (Poisson)."""
    draw = np.random.default_rng(seed)
    shares = [share for _, share in TYPES.values()]
    found = []
    for at in sorted(draw.uniform(0.0, seconds, jobs).tolist()):
        kind, executors = str(draw.choice(list(TYPES), p=shares)), int(draw.integers(1, 3))
        sleeps = TYPES[kind][0] * float(draw.lognormal(-(SPREAD**2) / 2, SPREAD))
        found.append((at, {"type": kind, "executors": executors, "args": [f"{sleeps:.2f}", str(executors)]}))
    return found


def _submit(daemon: TemporaryDaemon, client: Stoker, app: Path, drawn: Drawn) -> list[Json]:
    """The jobs as they are at the end."""
    began, ids = time.monotonic(), list[str]()
    for at, job in drawn:
        time.sleep(max(at - (time.monotonic() - began), 0.0))
        daemon.check_alive()
        ids.append(client.submit_spec({**JOB, "app": str(app), **job})["id"])
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end:
        if all(client.job(job_id)["finished_at"] is not None for job_id in ids[::-1]):
            break
        time.sleep(3.0)
    return [dict(client.job(job_id)) for job_id in ids]


def _told(jobs: list[Json]) -> Json:
    """How often estimates came true, among jobs that had one."""
    told = [job["expected"]["first"] for job in jobs if job["expected"] and job["placed_at"] is not None]
    waits = [job["placed_at"] - job["submitted_at"] for job in jobs if job["placed_at"] is not None]
    widths = [each["start"]["high"] - each["start"]["low"] for each in told]
    return {
        "jobs": len(jobs),
        "states": Counter(job["state"] for job in jobs),
        "told": len(told),
        **{
            of: Counter(each["came"][of] for each in told if each["came"][of])
            for of in ("start", "end", "cost")
        },
        "waited_seconds": _quarters(waits),
        "told_width_seconds": _quarters(widths),
    }


def _quarters(values: list[float]) -> list[float]:
    """Between which a quarter of them is each."""
    return [round(each, 1) for each in statistics.quantiles(values)] if len(values) > 1 else []


if __name__ == "__main__":
    sys.exit(main())
