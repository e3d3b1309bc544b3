"""An embedded Mesos in a process of its own, and a plain client of its scheduler API, for tests."""

import contextlib
import dataclasses
import http.client
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from framework.embedded import AgentSpec, MasterOptions, serve
from framework.embedded.isolation import Isolation, IsolationOptions
from framework.embedded.master import state as master_state
from tests.waiting import PATIENCE

Json = dict[str, Any]


def small_cluster() -> list[AgentSpec]:
    """The three agents of the transcripts."""
    return [
        AgentSpec("host1.example", "m1.large", 4, 16384, 0.24, "127.0.0.1", (31000, 32000)),
        AgentSpec("host2.example", "m1.xlarge", 8, 32768, 0.48, "127.0.0.1", (32001, 33001)),
        AgentSpec("host3.example", "c1.xlarge", 12, 49152, 0.58, "127.0.0.1", (33002, 34002)),
    ]


@dataclasses.dataclass
class Mesos:
    """A running embedded Mesos."""

    address: str
    work_dir: Path
    process: subprocess.Popen[str]
    #: What it was started with.
    told: Json = dataclasses.field(default_factory=dict)
    #: The address of this machine that tasks reach.
    host: str = "127.0.0.1"

    def request(self, method: str, path: str, body: object = None, **headers: str) -> tuple[int, Any]:
        """Status and body, parsed when it is JSON."""
        connection = http.client.HTTPConnection(self.address, timeout=PATIENCE)
        with contextlib.closing(connection):
            data = None if body is None else json.dumps(body)
            kind = {} if body is None else {"Content-Type": "application/json"}
            connection.request(method, path, data, kind | headers)
            answer = connection.getresponse()
            raw = answer.read().decode()
            is_json = answer.headers.get("Content-Type") == "application/json"
            return answer.status, json.loads(raw) if is_json else raw

    def get(self, path: str) -> Any:
        """The body of a GET that succeeds."""
        status, body = self.request("GET", path)
        assert status == 200, body
        return body

    def hang(self) -> None:
        """Do nothing from now on: connections stay, new ones are accepted, nothing is answered."""
        self._signal_worker(signal.SIGSTOP)

    def go_on(self) -> None:
        """Be there again."""
        self._signal_worker(signal.SIGCONT)

    def _signal_worker(self, number: signal.Signals) -> None:
        """Signal the process that serves, a child of its supervisor."""
        with contextlib.suppress(ProcessLookupError, FileNotFoundError):
            children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
            for pid in children.split():
                os.kill(int(pid), number)

    def kill(self, *, keeper: bool = False) -> None:
        """Kill the process that serves, or only its keeper: no task of it is left soon after."""
        if keeper:
            self.process.kill()
        else:
            self._signal_worker(signal.SIGKILL)
        self.end()

    def end(self) -> None:
        """Wait until it has ended, without a complaint."""
        _, complaints = self.process.communicate(timeout=PATIENCE)
        assert self.process.returncode in {0, -signal.SIGKILL, 128 + signal.SIGKILL}, complaints
        assert not complaints, complaints

    def start_again(self) -> None:
        """Start another one, as the first was started, at its address."""
        self.process, *where = _start(self.told | {"port": int(self.address.rpartition(":")[2])})
        assert where == [self.address, self.host]

    def fault(self, name: str, **fields: object) -> Any:
        """Switch on a fault."""
        status, body = self.request("POST", "/stoker/faults", {"fault": name} | fields)
        assert status == 200, body
        return body

    def sandbox(self, task_id: str) -> Path:
        """The newest sandbox of a task."""
        runs = self.work_dir.glob(f"agents/*/frameworks/*/executors/{task_id}/runs/*")
        return max(runs, key=lambda folder: folder.stat().st_mtime)


@contextlib.contextmanager
def running(
    work_dir: Path,
    agents: list[AgentSpec] | None = None,
    *,
    credentials: dict[str, str] | None = None,
    may_fail: bool = True,
    master_id: str = "",
    isolated: bool = False,
    **options: object,
) -> Iterator[Mesos]:
    """Run an embedded Mesos on a free port; it must have ended cleanly afterwards.

    With `master_id` it is that master, and its agents have the same ids whenever it is. With `isolated` each
    agent is a VM with a network and cores of its own, which needs root.
    """
    told = {
        "master_id": master_id,
        "agents": [dataclasses.asdict(agent) for agent in agents or small_cluster()],
        "work_dir": str(work_dir),
        "credentials": credentials,
        "may_fail": may_fail,
        "isolated": isolated,
        "options": options,
    }
    process, address, host = _start(told)
    mesos = Mesos(address, work_dir, process, told, host)
    try:
        yield mesos
    finally:
        mesos.process.send_signal(signal.SIGTERM)
        mesos.end()


def _start(told: Json) -> tuple[subprocess.Popen[str], str, str]:
    """Its process and, once it answers, its address and the host that tasks reach."""
    argv = [sys.executable, "-W", "error", "-m", "tests.framework.embedded.running", json.dumps(told)]
    here = Path(__file__).parents[3]  # wherever a test has gone
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=here)
    assert process.stdout is not None
    line = process.stdout.readline().strip()
    assert line, process.communicate()[1]
    address, host = line.split()
    return process, address, host


class Subscription:
    """One subscribed scheduler: events as they come, calls as they are made."""

    def __init__(self, mesos: Mesos, info: Json, **headers: str) -> None:
        self._mesos = mesos
        self._headers = headers
        self._connection = http.client.HTTPConnection(mesos.address, timeout=PATIENCE)
        call: Json = {"type": "SUBSCRIBE", "subscribe": {"framework_info": info}}
        if "id" in info:
            call["framework_id"] = info["id"]
        head = {"Content-Type": "application/json", "Connection": "close"} | headers
        self._connection.request("POST", "/api/v1/scheduler", json.dumps(call), head)
        self._answer = self._connection.getresponse()
        assert self._answer.status == 200, self._answer.read()
        self.stream_id = self._answer.headers["Mesos-Stream-Id"]
        self.events: queue.Queue[Json | None] = queue.Queue()
        self.seen: list[Json] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        self.framework_id = ""
        first = self.next_event()
        if first is not None and first["type"] == "SUBSCRIBED":
            self.framework_id = first["subscribed"]["framework_id"]["value"]

    def next_event(self) -> Json | None:
        """The next event; None at the end of the stream."""
        return self._next(PATIENCE)

    def _next(self, patience: float) -> Json | None:
        event = self.events.get(timeout=patience)
        if event is not None:
            self.seen.append(event)
        return event

    def wait(self, kind: str, suits: Callable[[Json], bool] = lambda _: True) -> Json:
        """Body of the next event of a kind that suits; earlier events are skipped."""
        deadline = time.monotonic() + PATIENCE  # heartbeats must not prolong it
        try:
            while (event := self._next(max(deadline - time.monotonic(), 0.0))) is not None:
                body: Json = event.get(kind.lower(), {})
                if event["type"] == kind and suits(body):
                    return body
        except queue.Empty:
            raise AssertionError(f"no {kind} within {PATIENCE} s that suits: {self.seen}") from None
        raise AssertionError(f"the stream ended before {kind}: {self.seen}")

    def offers(self) -> list[Json]:
        """The next offers."""
        offers: list[Json] = self.wait("OFFERS")["offers"]
        return offers

    def update(self, task_id: str, state: str, *, acknowledge: bool = True) -> Json:
        """The status of the next update of a task that has this state; acknowledge all on the way."""
        while True:
            status: Json = self.wait("UPDATE", lambda b: b["status"]["task_id"]["value"] == task_id)["status"]
            if acknowledge and "uuid" in status:
                self.acknowledge(status)
            if status["state"] == state:
                return status

    def acknowledge(self, status: Json) -> None:
        """Acknowledge an update."""
        body = {name: status[name] for name in ("agent_id", "task_id", "uuid")}
        self.call("ACKNOWLEDGE", body)

    def call(self, kind: str, body: Json | None = None, expect: int = 202) -> Any:
        """Make a call and return the answer's body."""
        call: Json = {"type": kind, "framework_id": {"value": self.framework_id}}
        if body is not None:
            call[kind.lower()] = body
        head = {"Mesos-Stream-Id": self.stream_id} | self._headers
        status, answer = self._mesos.request("POST", "/api/v1/scheduler", call, **head)
        assert status == expect, (status, answer)
        return answer

    def launch(self, offer: Json, *tasks: Json, refuse: float = 0.0) -> None:
        """Launch tasks on one offer."""
        for task in tasks:
            task.setdefault("agent_id", offer["agent_id"])
        operation = {"type": "LAUNCH", "launch": {"task_infos": list(tasks)}}
        filters = {"refuse_seconds": refuse}
        self.call("ACCEPT", {"offer_ids": [offer["id"]], "operations": [operation], "filters": filters})

    def drop(self) -> None:
        """Close the connection without a word, and wait until the reader has ended."""
        with contextlib.suppress(OSError):
            if self._connection.sock is not None:
                self._connection.sock.shutdown(2)
            elif self._answer.fp is not None:
                self._answer.fp.raw._sock.shutdown(2)  # type: ignore[attr-defined]  # no public way to it
        self._reader.join(PATIENCE)
        self._answer.close()
        self._connection.close()

    def __enter__(self) -> "Subscription":
        return self

    def __exit__(self, *exc: object) -> None:
        self.drop()

    def _read(self) -> None:
        try:
            while size := self._answer.readline():
                self.events.put(json.loads(self._answer.read(int(size))))
        except (OSError, ValueError, http.client.HTTPException):
            pass
        self.events.put(None)


def framework_info(name: str = "test", **fields: object) -> Json:
    """A framework with the role `role-a`."""
    return {
        "user": "root",
        "name": name,
        "roles": ["role-a"],
        "capabilities": [{"type": "MULTI_ROLE"}],
        **fields,
    }


def task(task_id: str, command: str = "true", *, cpus: float = 0.5, mem: float = 64, **fields: Any) -> Json:
    """A command task; `ports` becomes a resource."""
    resources: list[Json] = [
        {"name": "cpus", "type": "SCALAR", "scalar": {"value": cpus}},
        {"name": "mem", "type": "SCALAR", "scalar": {"value": mem}},
    ]
    if "ports" in fields:
        begin, end = fields.pop("ports")
        resources.append(
            {"name": "ports", "type": "RANGES", "ranges": {"range": [{"begin": begin, "end": end}]}}
        )
    info = {"value": command, "shell": True} | fields.pop("command_fields", {})
    return {"name": task_id, "task_id": {"value": task_id}, "resources": resources, "command": info} | fields


def scalar(offer: Json, name: str) -> float:
    """A scalar resource of an offer."""
    return float(sum(r["scalar"]["value"] for r in offer["resources"] if r["name"] == name))


def main() -> int:
    """Serve as told by the JSON in the first argument."""
    told = json.loads(sys.argv[1])
    if told["master_id"]:
        vars(master_state)["uuid"] = SimpleNamespace(uuid4=lambda: told["master_id"])
    agents = [AgentSpec(**agent | {"ports": tuple(agent["ports"])}) for agent in told["agents"]]
    host, cells = "127.0.0.1", None
    with contextlib.ExitStack() as stack:
        if told["isolated"]:
            made = stack.enter_context(Isolation(agents, IsolationOptions(1.0, 100.0), told["work_dir"]))
            agents, cells, host = made.agents, made.cells, made.host
        return serve(
            agents,
            port=told.get("port", 0),
            work_dir=Path(told["work_dir"]),
            credentials=told["credentials"],
            options=MasterOptions(**told["options"]),
            on_ready=lambda address: print(address, host, flush=True),
            cells=cells,
            may_fail=told.get("may_fail", True),
        )


if __name__ == "__main__":
    sys.exit(main())
