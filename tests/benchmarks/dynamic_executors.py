"""Cost and duration of dynamic allocation on a bursty application, against fixed executors; run by hand.

    python -m tests.benchmarks.dynamic_executors [--idle 1 --idle 5 ...] [--vms 4] [--runs 3] [-o json]

One application: bursts of short tasks, with pauses in between in which its executors have nothing to do. It
runs on real Spark, alone on a daemon with an embedded Mesos, with the fewest executors, with the most, and
with bounds and each of the idle timeouts, one after the other, and all of that again so many times. A task
sleeps, so that other load of the machine slows the start of a JVM but not the work. Its result is checked.
With `--narrow` the pauses have stages of so few tasks, and each timeout is measured a second time with these
tasks spread over all executors, as Spark by itself does (`spark.stoker.packTasks=false`).

The VMs have room for the most executors and nothing else: by default one VM for each executor; with
`--vms 1` one for all of them, at the price of as many. Printed is for each way, as mean ± standard
deviation: the bill (dollars), seconds from submission to end, seconds of a burst, executor-seconds (from
launch to end), and how many executors were started.
"""

import argparse
import json
import os
import signal
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console

from daemon.cli.shared.render import table
from framework.spark import SMALLEST_MEMORY_MIB
from tests.real_daemon import QUICK_JAVA, Daemon, real_daemon

#: The price of a VM of one core, dollars per hour; larger ones cost as much for each core.
PRICE = 0.06

APP = """
import sys, time
from pyspark import SparkContext

bursts, tasks, narrow, seconds, pause = *map(int, sys.argv[1:4]), *map(float, sys.argv[4:])
context = SparkContext()

def slowly(x):
    time.sleep(seconds)
    return x * x

for burst in range(bursts):
    until = time.monotonic() + (pause if burst else 0.0)
    while narrow and time.monotonic() < until:
        context.parallelize(range(narrow), narrow).map(slowly).sum()
    time.sleep(max(until - time.monotonic(), 0.0))
    began = time.monotonic()
    total = context.parallelize(range(tasks * burst, tasks * (burst + 1)), tasks).map(slowly).sum()
    print("BURST", total, time.monotonic() - began, flush=True)
context.stop()
"""


@dataclass(frozen=True)
class Load:
    """The application's work: tasks per burst and of a stage in between, seconds of a task and of a pause."""

    bursts: int
    tasks: int
    narrow: int
    seconds: float
    pause: float

    @property
    def arguments(self) -> list[str]:
        """The application's."""
        return [str(value) for value in astuple(self)]

    @property
    def totals(self) -> list[int]:
        """The expected results, burst by burst."""
        starts = range(0, self.bursts * self.tasks, self.tasks)
        return [sum(x * x for x in range(start, start + self.tasks)) for start in starts]


@dataclass(frozen=True)
class BurstyRun:
    """Results of one run; `load` is the machine's mean load of the last minute, at its end."""

    cost: float
    completion: float
    burst: float
    executor_seconds: float
    started: int
    load: float


def main() -> int:
    """Measure, print, and return 0."""
    parser = argparse.ArgumentParser(description="Dynamic against fixed executors on a bursty application.")
    parser.add_argument("--idle", type=int, action="append", help="seconds; 1, 5 and 15 when not given")
    parser.add_argument("--fewest", type=int, default=1, help="executors of the one, and the dynamic bound")
    parser.add_argument("--most", type=int, default=4, help="executors of the other, and the dynamic bound")
    parser.add_argument("--vms", type=int, help="that share the cores of all executors; one for each")
    parser.add_argument("--bursts", type=int, default=3)
    parser.add_argument("--tasks", type=int, default=16, help="of a burst")
    parser.add_argument("--narrow", type=int, default=0, help="tasks of the stages in the pauses")
    parser.add_argument("--seconds", type=float, default=0.5, help="of a task")
    parser.add_argument("--pause", type=float, default=8.0, help="seconds between two bursts")
    parser.add_argument("--runs", type=int, default=3, help="of each way, interleaved")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    values = parser.parse_args()
    vms = values.vms or values.most
    if not 1 <= values.fewest < values.most or values.most % vms or values.runs < 1:
        parser.error("should be 1 <= fewest < most, most a multiple of vms, and one run at least")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))  # in order: nothing is left running
    load = Load(values.bursts, values.tasks, values.narrow, values.seconds, values.pause)
    ways = _ways(values.fewest, values.most, values.idle or [1, 5, 15], spread=values.narrow > 0)
    found: dict[str, list[BurstyRun]] = {way: [] for way in ways}
    with tempfile.TemporaryDirectory(prefix="stoker-bursty-", ignore_cleanup_errors=True) as folder:
        cluster = _cluster(Path(folder), values.most // vms, vms)
        with real_daemon(Path(folder), cluster=str(cluster)) as daemon:
            for _ in range(values.runs):
                for way, spec in ways.items():
                    found[way].append(_run(daemon, way, spec, load))
                    print(f"{way}: {found[way][-1]}", file=sys.stderr)
    if values.output == "json":
        settings = {**asdict(load), "vms": vms, "cores_here": len(os.sched_getaffinity(0))}
        runs = {way: [asdict(run) for run in of_it] for way, of_it in found.items()}
        print(json.dumps({**settings, "ways": runs}))
    else:
        _print(found)
    return 0


def _ways(fewest: int, most: int, idle: Sequence[int], *, spread: bool) -> dict[str, Mapping[str, Any]]:
    """Differing parts of a job's specification, by label."""
    ways: dict[str, Mapping[str, Any]] = {
        f"{number} executor{'s' * (number > 1)}": {"executors": number, "conf": QUICK_JAVA}
        for number in (most, fewest)
    }
    for seconds in idle:
        for packs in (True, False) if spread else (True,):
            ways[f"{fewest} to {most}, idle {seconds} s{'' if packs else ', spread'}"] = {
                "executors": {"min": fewest, "max": most},
                "conf": {
                    **QUICK_JAVA,
                    "spark.dynamicAllocation.executorIdleTimeout": f"{seconds}s",
                    "spark.stoker.packTasks": str(packs).lower(),
                },
            }
    return ways


def _cluster(folder: Path, cores: int, vms: int) -> Path:
    file = folder / "cluster.yaml"
    vm = {"type": "vm", "cpus": cores, "memory": f"{cores}g", "price_per_hour": PRICE * cores, "count": vms}
    file.write_text(yaml.safe_dump({"vms": [vm]}))
    return file


def _run(daemon: Daemon, way: str, spec: Mapping[str, Any], load: Load) -> BurstyRun:
    """Run the application once, to its end, and the end of its executors."""
    app = daemon.folder / "bursty.py"
    app.write_text(APP)
    size = {"cpus": 1.0, "memory": SMALLEST_MEMORY_MIB}
    submitted = {"app": str(app), "name": way, "args": load.arguments, **size, **spec}
    job = daemon.ended(daemon.client.submit_spec(submitted)["id"])
    assert job["state"] == "finished", (way, job["reason"])
    bursts = [line.split() for line in daemon.printed(job["id"]).splitlines()]
    assert [int(total) for _, total, _ in bursts] == load.totals, (way, bursts)
    tasks = job["tasks"]
    return BurstyRun(
        cost=job["cost"],
        completion=job["completion"],
        burst=statistics.fmean(float(seconds) for _, _, seconds in bursts),
        executor_seconds=sum(task["ended_at"] - task["launched_at"] for task in tasks),
        started=len(tasks),
        load=os.getloadavg()[0],
    )


def _print(found: Mapping[str, Sequence[BurstyRun]]) -> None:
    columns = [
        "executors",
        "cost, $/1000",
        "completion, s",
        "a burst, s",
        "executor-seconds",
        "started",
        "load",
    ]
    rows = [
        [
            way,
            _spread([1000 * run.cost for run in runs], 2),
            _spread([run.completion for run in runs]),
            _spread([run.burst for run in runs]),
            _spread([run.executor_seconds for run in runs]),
            _spread([run.started for run in runs]),
            f"{min(run.load for run in runs):.0f} - {max(run.load for run in runs):.0f}",
        ]
        for way, runs in found.items()
    ]
    Console(width=110).print(table(columns, rows, right=columns[1:]))


def _spread(values: Sequence[float], digits: int = 1) -> str:
    """Mean ± standard deviation of the sample, where there is more than one."""
    spread = f" ± {statistics.stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{statistics.fmean(values):.{digits}f}{spread}"


if __name__ == "__main__":
    sys.exit(main())
