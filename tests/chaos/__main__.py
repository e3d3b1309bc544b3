"""A bad day: `python -m tests.chaos --faults 300 --seed 1`.

A real `stoker up` works on an embedded Mesos. Users submit jobs (real processes, with a Spark in miniature),
send submissions again and kill some; meanwhile the daemon is killed with -9, connections are cut, messages
lost, agents stopped and killed, executors killed. In the end everything is counted: every job accepted must
have come to its right end, nothing may have run twice or be left, and the books must balance.

Exit code 0 when nothing is lost, 1 when something is; then the folder stays.
"""

import argparse
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

from daemon.cli.client import Client
from daemon.store import Store
from tests.chaos.scene import MESOS_TIMES, Scene, agents
from tests.chaos.trouble import Trouble
from tests.chaos.users import Users
from tests.chaos.verdict import losses, report
from tests.framework.embedded.running import running

DRAIN = 180.0  # seconds in which all jobs must be over once all is well again


def main() -> int:
    """Run one day and print its report."""
    parser = argparse.ArgumentParser(description="Break everything, then count.")
    parser.add_argument("--faults", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pause", type=float, default=0.4, help="mean seconds between two submissions")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="stoker-chaos-"))
    text, lost = day(folder, options.faults, options.seed, options.pause)
    print(text)
    if lost:
        print(f"the files are in {folder}")
        return 1
    shutil.rmtree(folder)
    return 0


def day(folder: Path, faults: int, seed: int, pause: float) -> tuple[str, bool]:
    """One day in `folder`: the report, and whether anything was lost."""
    began = time.monotonic()
    with running(folder / "mesos", agents(), **MESOS_TIMES) as mesos:
        scene = Scene(folder, mesos)
        try:
            scene.up()
            scene.await_ready()
            users = Users(scene, seed, pause)
            trouble = Trouble(scene, users, seed)
            users.start()
            try:
                while sum(trouble.made.values()) < faults:
                    trouble.once()
            finally:
                trouble.calm()
                users.stop()
            overdue = drain(scene)
            code = scene.end(signal.SIGTERM)
            left = scene.left()
        finally:
            scene.clear()
    store = Store(f"sqlite:///{scene.data / 'stoker.db'}")
    try:
        found = [*users.complaints, *overdue, *losses(users.jobs, store, scene.log, left)]
        found += [f"the daemon's exit code is {code}"] if code else []
        return report(seed, time.monotonic() - began, trouble.made, users.jobs, store, found), bool(found)
    finally:
        store.close()


def drain(scene: Scene) -> list[str]:
    """Wait until all jobs are over and their tasks have ended; complaints about those that never are."""

    def still(client: Client) -> list[str]:
        jobs = client.jobs(None, 1000)["jobs"]
        over = ("finished", "failed", "killed")
        return [f"{job['id']}: {job['state']}, {job['reason']}" for job in jobs if job["state"] not in over]

    scene.await_ready()
    deadline = time.monotonic() + DRAIN
    with scene.client() as client:
        while (waiting := still(client)) and time.monotonic() < deadline:
            time.sleep(0.2)
        while any(vm["used_cpus"] for vm in client.cluster()["vms"]) and time.monotonic() < deadline:
            time.sleep(0.2)
    # What the master was to be told of and was not is found by the sweep after the next subscription.
    scene.mesos.fault("drop_stream")
    while scene.executors() and time.monotonic() < deadline:
        time.sleep(0.2)
    return [f"not over in time: {line}" for line in waiting]


if __name__ == "__main__":
    sys.exit(main())
