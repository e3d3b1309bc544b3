"""Effect of fifty small Spark jobs at once on this machine and on the daemon's answers, run by hand.

    python -m tests.benchmarks.fifty_jobs [--jvms N] [--jobs 50] [--executors 1]

A daemon with the default cluster, in a folder of its own, gets all jobs at once. Until they are over, the
load of the machine is noted every second, and how long `GET /v1/jobs` and the command `stoker jobs` take.
Printed is one line of JSON: seconds until all were done, the highest load of a minute, how many threads had
or wanted a core (mean), and the seconds that answers and commands took (median, 95 of 100, longest).
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from stoker import Stoker

from daemon.cli.operate.temporary_daemon import TemporaryDaemon
from daemon.cli.shared.errors import CommandError
from daemon.cli.shared.follow import ENDED

APP = Path(__file__).parents[2] / "profiles/apps/wordcount.py"
#: Seconds after which it is given up.
PATIENCE = 1800.0


def main() -> int:
    """Measure once, print, and return 0 when every job finished."""
    parser = argparse.ArgumentParser(description="Fifty small jobs at once, and how the daemon answers.")
    parser.add_argument("--jvms", type=int, help="mesos.jvms; without it, the default of this machine")
    parser.add_argument("--jobs", type=int, default=50)
    parser.add_argument("--executors", type=int, default=1, help="of each job")
    values = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))  # in order: nothing is left running
    mesos = {} if values.jvms is None else {"jvms": values.jvms}
    with (
        tempfile.TemporaryDirectory(prefix="stoker-fifty-", ignore_cleanup_errors=True) as folder,
        TemporaryDaemon(Path(folder), "ff", "clusters/paper.yaml", mesos) as daemon,
        Stoker(daemon.url) as client,
    ):
        daemon.await_ready(client)
        found = _measure(daemon, client, values.jobs, values.executors)
    print(json.dumps({"cores": len(os.sched_getaffinity(0)), "jvms": values.jvms, **found}))
    return 0 if found["states"] == {"finished": values.jobs} else 1


def _measure(daemon: TemporaryDaemon, client: Stoker, jobs: int, executors: int) -> dict[str, object]:
    spec = {
        "app": str(APP),
        "executors": executors,
        "cpus": 1.0,
        "memory": 1024,
        "args": ["--size", "0.2", "--partitions", "2"],
    }
    load_before, began = os.getloadavg()[0], time.monotonic()
    for _ in range(jobs):
        client.submit_spec(spec)
    answers: list[float] = []
    commands: list[float] = []
    loads: list[float] = []
    wanting: list[float] = []
    while True:
        daemon.check_alive()
        due = time.monotonic() + 1.0
        loads.append(os.getloadavg()[0])
        wanting.append(float(Path("/proc/loadavg").read_text().split()[3].partition("/")[0]))
        before = time.monotonic()
        listed = client.jobs(limit=jobs)["jobs"]
        answers.append(time.monotonic() - before)
        states = [job["state"] for job in listed]
        if all(state in ENDED for state in states):
            break
        if time.monotonic() - began > PATIENCE:
            raise CommandError(f"the jobs were not done after {PATIENCE:g} s", 1)
        commands.append(_seconds_of_a_command(daemon.url))
        time.sleep(max(0.0, due - time.monotonic()))
    return {
        "seconds": round(time.monotonic() - began),
        "states": {state: states.count(state) for state in sorted(set(states))},
        "load_before": load_before,
        "load": max(loads),
        "wanting_a_core": round(sum(wanting) / len(wanting), 1),
        "answers": _quantiles(answers),
        "commands": _quantiles(commands),
    }


def _seconds_of_a_command(url: str) -> float:
    before = time.monotonic()
    command = [sys.executable, "-P", "-m", "daemon.cli", "jobs", "--url", url]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - before


def _quantiles(seconds: Sequence[float]) -> list[float]:
    """Median, 95 of 100, longest."""
    ordered = sorted(seconds)
    return [round(ordered[min(int(part * len(ordered)), len(ordered) - 1)], 3) for part in (0.5, 0.95, 1.0)]


if __name__ == "__main__":
    sys.exit(main())
