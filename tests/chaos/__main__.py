"""Bad days: `python -m tests.chaos --faults 300 --seed 1 2 3`; with `--resume`, those that are left of them.

A real `stoker up` works on an embedded Mesos. Users submit jobs (real processes, with a Spark in miniature),
send submissions again and kill some; meanwhile the daemon is killed with -9, connections are cut, messages
lost, agents stopped and killed, executors killed. In the end everything is counted: every job accepted must
have come to its right end, nothing may have run twice or be left, and the books must balance.

Exit code 0 when nothing is lost, 1 when something is; then the folder stays.
"""

import argparse
import contextlib
import json
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from stoker import Stoker

from daemon.store.job_store import Store
from tests.chaos.scene import MESOS_TIMES, Scene, agents, mount, unmount
from tests.chaos.trouble import Trouble
from tests.chaos.users import Users
from tests.chaos.verdict import losses, report
from tests.daemon.postgresql import empty_database, postgresql, postgresql_programs
from tests.framework.embedded.running import running

STORE = "PostgreSQL has two daemons, the file one; both: every other day, where PostgreSQL is installed"
#: What was run, for `--resume`.
PROGRESS = Path("build/chaos.json")
#: Between the seeds of one day and the next.
DAYS = 1_000_000
DRAIN = 180.0  # seconds in which all jobs must be over once all is well again


def main() -> int:
    """Run the days that were not run yet, one after the other, and print their reports."""
    parser = argparse.ArgumentParser(description="Break everything, then count.")
    parser.add_argument("--faults", type=int, default=300, help="of each seed")
    parser.add_argument("--seed", type=int, nargs="+", default=[1])
    parser.add_argument("--day", type=int, default=300, help="faults after which all is counted")
    parser.add_argument("--pause", type=float, default=0.4, help="mean seconds between two submissions")
    parser.add_argument("--resume", action="store_true", help="go on where the last call came to its end")
    parser.add_argument("--progress", type=Path, default=PROGRESS, help="what was run is kept here")
    parser.add_argument("--store", choices=("sqlite", "postgresql", "both"), default="both", help=STORE)
    options = parser.parse_args()
    days = [
        (seed, number, min(options.day, options.faults - before))
        for seed in options.seed
        for number, before in enumerate(range(0, options.faults, options.day))
    ]
    done = Progress(options.progress, resume=options.resume)
    for seed, number, faults in days:
        name = f"seed {seed}, day {number + 1}, {faults} faults"
        if name not in done.reports:
            with sharing(number, options.store) as database:
                done.add(name, *one(faults, seed + DAYS * number, options.pause, database))
            print(done.reports[name], flush=True)
    if len(days) > 1:
        print(f"{len(days)} days, losses in {done.lost or 'none'}")
    return 1 if done.lost else 0


@contextlib.contextmanager
def sharing(number: int, store: str) -> Iterator[str]:
    """The URL of a store for two daemons on this day; empty where there is one daemon with a file."""
    shared = store == "postgresql" or (store == "both" and number % 2 and postgresql_programs() is not None)
    if not shared:
        yield ""
        return
    with postgresql() as server:
        yield empty_database(server)


class Progress:
    """Reports of the days that were run, in a file that an interruption leaves whole."""

    def __init__(self, path: Path, *, resume: bool) -> None:
        self._path = path
        kept = json.loads(path.read_text()) if resume and path.exists() else {}
        self.reports: dict[str, str] = kept.get("reports", {})
        #: The names of days on which something was lost.
        self.lost: list[str] = kept.get("lost", [])

    def add(self, name: str, report: str, lost: bool) -> None:
        """A day is over."""
        self.reports[name] = report
        self.lost += [name] if lost else []
        self._path.parent.mkdir(parents=True, exist_ok=True)
        draft = self._path.with_suffix(".draft")
        draft.write_text(json.dumps({"reports": self.reports, "lost": self.lost}, indent=1))
        draft.replace(self._path)


def one(faults: int, seed: int, pause: float, database: str) -> tuple[str, bool]:
    """A day in a folder of its own, which stays when something is lost."""
    folder = Path(tempfile.mkdtemp(prefix="stoker-chaos-"))
    mount(folder / "data")
    text, lost = day(folder, faults, seed, pause, database)
    if lost:
        return f"{text}\nthe files are in {folder}", True
    unmount(folder / "data")
    shutil.rmtree(folder)
    return text, False


def day(folder: Path, faults: int, seed: int, pause: float, database: str) -> tuple[str, bool]:
    """One day in `folder`: the report, and whether anything was lost."""
    began = time.monotonic()
    with running(folder / "mesos", agents(), **MESOS_TIMES) as mesos:
        scene = Scene(folder, mesos, database)
        try:
            for daemon in scene.daemons:
                daemon.start()
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
            codes = [daemon.end(signal.SIGTERM) for daemon in scene.daemons]
            left = scene.left_for_good()
        finally:
            scene.clear()
    seconds = time.monotonic() - began
    store = Store(scene.database)
    try:
        found = [
            *users.complaints,
            *trouble.complaints,
            *overdue,
            *losses(users.jobs, store, scene.log, left, seconds),
        ]
        found += [f"a daemon's exit code is {code}" for code in codes if code]
        return report(seed, seconds, trouble.made, users.jobs, store, found), bool(found)
    finally:
        store.close()


def drain(scene: Scene) -> list[str]:
    """Wait until all jobs are over and their tasks have ended; complaints about those that never are."""

    def still(client: Stoker) -> list[str]:
        jobs = client.jobs(limit=1000)["jobs"]
        over = ("finished", "failed", "killed")
        return [f"{job['id']}: {job['state']}, {job['reason']}" for job in jobs if job["state"] not in over]

    scene.await_ready()
    deadline = time.monotonic() + DRAIN
    leader = scene.leader() or scene.daemons[0]  # the other one may only just begin to start
    with Stoker(leader.url) as client:
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
