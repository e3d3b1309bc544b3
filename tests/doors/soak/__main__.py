"""Bad times for interactive sessions: `python -m tests.doors.soak --rounds 50 --sessions 4 --seed 1`.

A `stoker up` works on an embedded Mesos; in each round users start so many sessions at once, real pyspark
drivers in client mode with executors that come and go with their work. Meanwhile drivers, executors and the
daemon are killed with -9, and agents with all they run. After each round everything is counted: every job has
a truthful end, no task is open, in the store or in Mesos, no process is left, and the results are right where
the driver was left alone.

Exit code 0 when that holds for all rounds, 1 when it does not; then the folder stays.
"""

import argparse
import contextlib
import os
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

from stoker import Stoker

from daemon.store.job_store import Store
from environment.model.messages.records import ExecutorRecord, JobRecord
from tests.chaos.scene import MESOS_TIMES, Scene, agents
from tests.chaos.verdict import listed, open_or_odd, wrong_sums
from tests.doors.soak.sessions import Session, settings_folder
from tests.framework.embedded.running import running

#: Sections of the daemon's config.
CONFIG: dict[str, object] = {"spark": {"driver_host": "127.0.0.1"}}
FAULTS = ("a driver's Python", "a driver's Spark", "the daemon", "an agent", "an executor")
LONGEST = 900.0  # seconds that a session may take, and that the daemon may take to notice its end
_OVER = ("finished", "failed", "killed")
#: Seconds within which the executors of a driver that stops end before it does.
_STOPS_WITHIN = 2.0


def main() -> int:
    """Run the rounds one after the other, and print each outcome."""
    parser = argparse.ArgumentParser(description="Kill everything around interactive sessions, then count.")
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--sessions", type=int, default=4, help="in each round, all at once")
    parser.add_argument("--executors", type=int, default=3, help="of each session, at most")
    parser.add_argument("--faults", type=int, default=3, help="in each round")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="stoker-soak-"))
    began, lost, made = time.monotonic(), 0, Counter[str]()
    with running(folder / "mesos", agents(), **MESOS_TIMES) as mesos:
        scene = Scene(folder, mesos, changes=CONFIG)
        (daemon,) = scene.daemons
        try:
            daemon.start()
            scene.await_ready()
            with Stoker(daemon.url) as client:
                settings = settings_folder(folder / "settings", client, options.executors)
            for number in range(1, options.rounds + 1):
                found = Round(scene, settings, options, number).run(made)
                lost += len(found)
                for line in found:
                    print(f"  {line}", flush=True)
            if daemon.end(signal.SIGTERM):
                lost += 1
                print("  the daemon did not end well")
        finally:
            scene.clear()
    print(f"{options.rounds} rounds of {options.sessions} sessions, seed {options.seed}, "
          f"{time.monotonic() - began:.0f} s on {os.cpu_count()} cores")  # fmt: skip
    print(f"{sum(made.values())} x kill -9: {listed(made)}")
    lost += summary(scene)
    print(f"losses: {lost or 'zero'}" + (f"\nthe files are in {folder}" if lost else ""))
    if not lost:
        shutil.rmtree(folder)
    return 1 if lost else 0


class Round:
    """Some sessions at once, some faults, and the counting."""

    def __init__(self, scene: Scene, settings: Path, options: argparse.Namespace, number: int) -> None:
        self._scene = scene
        (self._daemon,) = scene.daemons
        self._random = Random(options.seed * 1_000_000 + number)  # noqa: S311 - no secret hangs on it
        self._prefix = f"{options.seed}-{number}-"
        self._title = f"round {number}"
        folder = scene.folder / self._title.replace(" ", "-")
        folder.mkdir()
        (folder / "scratch").mkdir()
        self._sessions = [
            Session(f"{self._prefix}{index}", settings, folder, self._random, options.executors)
            for index in range(options.sessions)
        ]
        #: Seconds from when the first driver is there, which takes as long as the machine is busy.
        self._faults = sorted(
            (self._random.uniform(0.0, 15.0 + options.sessions), self._random.choice(FAULTS))
            for _ in range(options.faults)
        )
        self._mends: list[tuple[float, Any]] = []
        self._daemon_killed = False

    def run(self, made: Counter[str]) -> list[str]:
        """See it through, add the faults that were made to `made`, and return violations."""
        began, log = time.monotonic(), []
        first: float | None = None
        while not all(session.over for session in self._sessions):
            now = time.monotonic() - began
            self._mend(now)
            if first is None and any(session.began for session in self._sessions):
                first = now
            if self._faults and first is not None and self._faults[0][0] < now - first:
                _, fault = self._faults.pop(0)
                if self._make(fault, now):
                    made[fault] += 1
                    log.append(f"{fault} at {now:.0f} s")
            if now > LONGEST:
                stuck = [session.name for session in self._sessions if not session.over]
                for session in self._sessions:
                    session.process.kill()
                return [f"{', '.join(stuck)} did not end in {LONGEST:.0f} s"]
            time.sleep(0.05)
        self._mend(float("inf"))
        took = time.monotonic() - began
        found = self._settled()
        jobs = self._jobs()
        for session in self._sessions:
            found += session.complaints(
                [job for job in jobs if job["name"] == session.name], self._daemon_killed
            )
        silent = sum("not heard of" in job["reason"] for job in jobs)
        states = listed(Counter(job["state"] for job in jobs))
        settled = time.monotonic() - began - took
        print(f"{self._title}: {took:.0f} s, {settled:.0f} s to settle; jobs {states} ({silent} given up); "
              f"kill -9 of {', '.join(log) or 'nothing'}; losses: {len(found)}", flush=True)  # fmt: skip
        return found

    def _jobs(self) -> list[Mapping[str, Any]]:
        """The jobs of this round, with their tasks."""
        with Stoker(self._daemon.url) as client:
            jobs = client.jobs(limit=1000)["jobs"]
            return [client.job(job["id"]) for job in jobs if job["name"].startswith(self._prefix)]

    def _settled(self) -> list[str]:
        """Wait until nothing of the round is left; return the leftovers if that takes too long."""
        self._scene.await_ready()
        deadline = time.monotonic() + 60.0
        while (found := self._left()) and time.monotonic() < deadline:
            time.sleep(0.5)
        return found

    def _left(self) -> list[str]:
        found = [
            f"{job['id']} is {job['state']}: {job['reason']}"
            for job in self._jobs()
            if job["state"] not in _OVER
        ]
        with Stoker(self._daemon.url) as client:
            found += [f"{vm['name']} is used" for vm in client.cluster()["vms"] if vm["used_cpus"]]
        found += [f"Mesos has {task['id']}: {task['state']}" for task in self._tasks()]
        return found + [f"still running: {process}" for process in self._scene.left()]

    def _tasks(self) -> list[Mapping[str, Any]]:
        """Tasks that are open for Mesos."""
        frameworks = self._scene.mesos.get("/master/state")["frameworks"]
        return [task for framework in frameworks for task in framework["tasks"]]

    # ---- faults ----------------------------------------------------------------------------------

    def _make(self, fault: str, now: float) -> bool:
        """Kill it; whether there was one."""
        if fault == "the daemon":
            if not self._daemon.up:
                return False
            self._daemon_killed = True
            self._daemon.end(signal.SIGKILL)
            self._mends.append((now + self._random.uniform(0.0, 4.0), self._daemon.start))
            return True
        if fault == "an agent":
            return self._kill_agent(now)
        if fault == "an executor":
            victim = self._random.choice(sorted(self._scene.executors()) or [0])
            with contextlib.suppress(ProcessLookupError):
                if victim:
                    os.kill(victim, signal.SIGKILL)
                    return True
            return False
        there = [session for session in self._sessions if not session.over and not session.killed]
        return bool(there) and self._random.choice(there).kill(jvm=fault.endswith("Spark"))

    def _kill_agent(self, now: float) -> bool:
        """One on which something runs, where there is one; it is there again seconds later."""
        mesos = self._scene.mesos
        well = {name for name, state in mesos.get("/stoker/faults")["agents"].items() if state == "up"}
        names = {agent["id"]: agent["hostname"] for agent in mesos.get("/master/slaves")["slaves"]}
        used = sorted({names[task["slave_id"]] for task in self._tasks() if task["slave_id"] in names} & well)
        if not used:
            return False
        name = self._random.choice(used)
        mesos.fault("kill_agent", agent=name)
        self._mends.append(
            (now + self._random.uniform(0.5, 8.0), lambda: mesos.fault("start_agent", agent=name))
        )
        return True

    def _mend(self, now: float) -> None:
        due = [mend for at, mend in self._mends if at <= now]
        self._mends = [(at, mend) for at, mend in self._mends if at > now]
        for mend in due:
            mend()


def summary(scene: Scene) -> int:
    """Print how sessions grew and shrank, and faults of the books; return the number of faults."""
    store = Store(scene.database)
    try:
        records = {record.job.id: record for record in store.jobs.page(limit=100_000)}
        tasks = {job_id: store.jobs.executors(job_id) for job_id in records}
    finally:
        store.close()
    began = [executors for executors in tasks.values() if executors]
    grew = sum(most_at_once(executors) > 1 for executors in began)
    shrank = sum(
        any(gave_back(task, records[job_id]) for task in executors) for job_id, executors in tasks.items()
    )
    executors = Counter(task.state for all_of_one in began for task in all_of_one)
    print(f"{len(records)} jobs: {listed(Counter(record.state for record in records.values()))}")
    print(f"{sum(executors.values())} executors: {listed(executors)}; "
          f"{grew} jobs had several at once, {shrank} gave some back")  # fmt: skip
    found = [*open_or_odd(tasks), *wrong_sums(records, tasks)]
    for line in found:
        print(f"  {line}")
    return len(found)


def gave_back(task: ExecutorRecord, job: JobRecord) -> bool:
    """Whether the driver let the executor go while it went on.

    It says so, or decommissions it: then it ends by itself, as executors of a driver that stops do, too.
    """
    if task.released or task.ended_at is None or job.finished_at is None:
        return task.released
    return task.state == "finished" and task.ended_at < job.finished_at - _STOPS_WITHIN


def most_at_once(tasks: list[ExecutorRecord]) -> int:
    """The most of these executors that were there at the same time."""
    return max(
        sum(other.launched_at <= task.launched_at < (other.ended_at or float("inf")) for other in tasks)
        for task in tasks
    )


if __name__ == "__main__":
    sys.exit(main())
