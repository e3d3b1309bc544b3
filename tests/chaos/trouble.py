"""The faults of a chaos run, at seeded moments: killed daemons, cut connections, lost messages, lost VMs."""

import contextlib
import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

from tests.chaos.scene import Daemon, Scene
from tests.chaos.users import Users

#: Faults with their weights.
FAULTS = {
    "kill -9 the daemon": 5, "end the daemon": 1, "cut the stream": 4, "lose a call": 5, "lose an event": 4,
    "delay messages": 2, "stop an agent": 3, "kill an agent": 3, "shut an agent down": 2,
    "crash an executor": 2, "kill -9 an executor": 4, "kill -9 a driver": 1, "kill -9 a supervisor": 0.5,
    "restart the master": 2, "switch the policy": 1, "freeze the daemon": 1, "freeze the master": 1,
    "refuse the disk": 1, "kill -9 the Mesos": 0.5, "jump the clock": 2, "freeze the leader": 2,
    "fill the disk": 1,
}  # fmt: skip
CALLS = ("ACCEPT", "ACCEPT", "KILL", "ACKNOWLEDGE", "RECONCILE", "SUPPRESS", "REVIVE", "DECLINE")
EVENTS = ("UPDATE", "UPDATE", "OFFERS", "RESCIND", "HEARTBEAT")


class Trouble:
    """Makes trouble: `once` for one fault, `calm` to end those still going on."""

    def __init__(self, scene: Scene, users: Users, seed: int) -> None:
        self.made: Counter[str] = Counter()
        self.complaints: list[str] = []
        self._scene = scene
        self._users = users
        self._random = Random(seed)  # noqa: S311 - no secret hangs on it
        #: Each fault comes once at first, so that a short day has seen all.
        self._first = self._random.sample(list(FAULTS), len(FAULTS))
        #: What is to be mended, and when.
        self._later: list[tuple[float, Callable[[], object]]] = []

    def once(self) -> None:
        """Make one fault, then pause; earlier faults may be mended meanwhile."""
        weighted = self._random.choices(list(FAULTS), list(FAULTS.values()))
        fault = self._first.pop() if self._first else weighted[0]
        if getattr(self, "_" + fault.replace(" -9", "").replace(" ", "_"))():
            self.made[fault] += 1
        end = time.monotonic() + self._random.uniform(0.1, 0.9)
        while time.monotonic() < end:
            self._mend(time.monotonic())
            time.sleep(0.02)

    def calm(self) -> None:
        """All is well again."""
        self._mend(float("inf"))
        self._scene.mesos.fault("reset")

    def _mend(self, now: float) -> None:
        due = [mend for at, mend in self._later if at <= now]
        self._later = [(at, mend) for at, mend in self._later if at > now]
        for mend in due:
            mend()
        for daemon in self._scene.daemons:
            if daemon.fell:
                self._start_again(daemon)

    def _start_again(self, daemon: Daemon) -> None:
        """As systemd does with one that ended by itself, which none should."""
        self.complaints.append(f"a daemon ended by itself: {self._scene.log_tail(5)}")
        time.sleep(0.5)
        daemon.start()

    def _after(self, low: float, high: float, mend: Callable[[], object]) -> None:
        self._later.append((time.monotonic() + self._random.uniform(low, high), mend))

    # ---- the daemon ------------------------------------------------------------------------------

    def _kill_the_daemon(self) -> bool:
        return self._end_daemon(signal.SIGKILL)

    def _end_the_daemon(self) -> bool:
        return self._end_daemon(signal.SIGTERM)

    def _end_daemon(self, number: signal.Signals) -> bool:
        daemon = self._some_daemon()
        if daemon is None:
            return False
        daemon.end(number)
        self._after(0.0, 1.0, daemon.start)
        return True

    def _freeze_the_daemon(self) -> bool:
        """Stop it in the midst of its work; later it goes on."""
        daemon = self._some_daemon()
        if daemon is None:
            return False
        with daemon.frozen():
            time.sleep(self._random.uniform(0.2, 3.0))
        return True

    def _freeze_the_leader(self) -> bool:
        """Stop it until another one leads, and some more; when it goes on, it leads no more."""
        if not all(daemon.up for daemon in self._scene.daemons) or len(self._scene.daemons) == 1:
            return False
        leader = self._scene.leader()
        if leader is None:
            return False
        others = [daemon for daemon in self._scene.daemons if daemon is not leader]
        with leader.frozen():
            self._scene.wait(lambda: self._follows(others), "nobody follows a frozen leader")
            time.sleep(self._random.uniform(0.0, 2.0))
        return True

    def _follows(self, others: list[Daemon]) -> bool:
        """Whether one of them leads; due repairs are made meanwhile, such as of a full disk."""
        self._mend(time.monotonic())
        return any(daemon.up and daemon.ready() for daemon in others)

    def _some_daemon(self) -> Daemon | None:
        up = [daemon for daemon in self._scene.daemons if daemon.up]
        return self._random.choice(up) if up else None

    def _refuse_the_disk(self) -> bool:
        """Let the daemon find that its disk takes nothing, as one that is full."""
        probe = self._scene.data / "probe"
        with contextlib.suppress(OSError):
            probe.mkdir()
            self._after(0.5, 3.0, probe.rmdir)
            return True
        return False

    def _fill_the_disk(self) -> bool:
        """Leave no room on the daemon's disk, where it has one of its own."""
        filler = self._scene.data / "filler"
        if not self._scene.data.is_mount() or filler.exists():
            return False
        with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(1 << 20))
        self._after(0.5, 4.0, filler.unlink)
        return True

    def _jump_the_clock(self) -> bool:
        """The daemon's wall clock is up to an hour before or behind the right one from now on."""
        self._scene.jump(self._random.uniform(-3600.0, 3600.0))
        return True

    def _switch_the_policy(self) -> bool:
        name = self._random.choice(("rr", "ff", "rrc"))
        return self._scene.tell(lambda client: client.set_policy(name, {}))

    # ---- the connection --------------------------------------------------------------------------

    def _cut_the_stream(self) -> bool:
        self._scene.mesos.fault("drop_stream")
        return True

    def _lose_a_call(self) -> bool:
        self._scene.mesos.fault("lose", what="calls", type=self._random.choice(CALLS), count=1)
        return True

    def _lose_an_event(self) -> bool:
        self._scene.mesos.fault("lose", what="events", type=self._random.choice(EVENTS), count=1)
        return True

    def _delay_messages(self) -> bool:
        what = self._random.choice(("calls", "events"))
        self._scene.mesos.fault("delay", what=what, seconds=self._random.uniform(0.1, 1.5))
        self._after(1.0, 3.0, lambda: self._scene.mesos.fault("delay", what=what, seconds=0))
        return True

    def _restart_the_master(self) -> bool:
        away, later = self._random.uniform(0.0, 1.0), self._random.uniform(0.0, 1.5)
        self._scene.mesos.fault("restart_master", away_seconds=away, agents_after_seconds=later)
        # The faults are told to the master, so wait for the next one.
        self._scene.wait(self._master_answers, "the master does not come back")
        return True

    def _freeze_the_master(self) -> bool:
        """Stop the process of the master and its agents, but not their tasks; connections stay."""
        self._scene.mesos.hang()
        time.sleep(self._random.uniform(0.2, 4.0))
        self._scene.mesos.go_on()
        return True

    def _kill_the_Mesos(self) -> bool:  # noqa: N802 - as it is reported
        """Kill the master with all agents and their tasks; another one starts at its address."""
        self._scene.mesos.kill(keeper=self._random.random() < 0.5)
        time.sleep(self._random.uniform(0.0, 3.0))
        self._scene.mesos.start_again()
        return True

    def _master_answers(self) -> bool:
        with contextlib.suppress(OSError):
            return self._scene.mesos.request("GET", "/health")[0] == 200
        return False

    # ---- agents and processes --------------------------------------------------------------------

    def _stop_an_agent(self) -> bool:
        return self._break_agent("stop_agent", "continue_agent")

    def _kill_an_agent(self) -> bool:
        return self._break_agent("kill_agent", "start_agent")

    def _shut_an_agent_down(self) -> bool:
        return self._break_agent("shutdown_agent", "start_agent")

    def _break_agent(self, fault: str, cure: str) -> bool:
        conditions = self._scene.mesos.get("/stoker/faults")["agents"]
        well = sorted(name for name, condition in conditions.items() if condition == "up")
        if len(well) <= len(conditions) // 2:
            return False
        name, process = self._random.choice(well), self._scene.mesos.process
        self._scene.mesos.fault(fault, agent=name)
        # Sometimes soon, sometimes after it was taken for lost here and there.
        self._after(0.2, 9.0, lambda: self._cure(cure, name, process))
        return True

    def _cure(self, cure: str, agent: str, process: object) -> None:
        """An agent is back, unless it was of a Mesos that was killed: all of the next one's are well."""
        if self._scene.mesos.process is process:
            self._scene.mesos.fault(cure, agent=agent)

    def _crash_an_executor(self) -> bool:
        running = [
            task["id"]
            for framework in self._scene.mesos.get("/master/state")["frameworks"]
            for task in framework["tasks"]
            if task["state"] == "TASK_RUNNING"
        ]
        if not running:
            return False
        body = {"fault": "kill_executor", "task_id": self._random.choice(sorted(running))}
        return bool(self._scene.mesos.request("POST", "/stoker/faults", body)[0] == 200)

    def _kill_an_executor(self) -> bool:
        return self._kill(self._random.choice(sorted(self._scene.executors()) or [0]))

    def _kill_a_driver(self) -> bool:
        return self._kill_of_job("its driver was killed", lambda pid: pid)

    def _kill_a_supervisor(self) -> bool:
        return self._kill_of_job("its supervisor was killed", _parent)

    def _kill_of_job(self, excuse: str, victim: Callable[[int], int]) -> bool:
        drivers = sorted(self._scene.drivers())
        if not drivers:
            return False
        pid, job_id = self._random.choice(drivers)
        job = self._users.job(job_id)
        if job is None:
            return False
        job.excuses.add(excuse)
        return self._kill(victim(pid))

    def _kill(self, pid: int) -> bool:
        with contextlib.suppress(ProcessLookupError):
            if pid > 1:
                os.kill(pid, signal.SIGKILL)
                return True
        return False


def _parent(pid: int) -> int:
    """The parent's pid; 0 when the process is gone."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0
