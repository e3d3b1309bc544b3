"""A user's session survives a change of leader to another host: its state is in the store."""

import contextlib
import os
import signal
import socket
import threading
from collections.abc import Iterator
from typing import Any

import httpx

from tests.daemon.fleet import Daemon, Starter
from tests.waiting import until

SECRET = "a-secret-of-the-session"


class Driver:
    """A user's driver in miniature: lets executors in that know its secret, and speaks to daemons."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._connections: list[socket.socket] = []
        self._told: dict[str, Any] = {}
        #: What executors have shown.
        self.shown: list[str] = []
        threading.Thread(target=self._let_in, daemon=True).start()

    def _let_in(self) -> None:
        with contextlib.suppress(OSError):  # it was closed
            while True:
                connection, _ = self._listener.accept()
                self._connections.append(connection)
                self.shown.append(connection.recv(4096).decode().strip())
                connection.sendall(b"welcome\n")

    def register(self, daemon: Daemon, **properties: str) -> str:
        """Become a job; its id."""
        where = {"host": "127.0.0.1", "port": self._listener.getsockname()[1]}
        body = {
            "application_id": "app-1",
            "spark": "0.1.0",
            "user": "alice",
            "secret": SECRET,
            "driver": where,
        }
        answer = httpx.post(f"{daemon.url}/v1/applications", json={**body, "properties": properties})
        assert answer.status_code == 201, answer.text
        self._told = answer.json()
        return str(self._told["id"])

    def ask(self, daemon: Daemon, method: str, what: str = "", **body: Any) -> Any:
        """The daemon's answer to a request with the driver's key."""
        url, key = f"{daemon.url}/v1/applications/{self._told['id']}{what}", self._told["key"]
        return httpx.request(method, url, json=body, headers={"Authorization": f"Bearer {key}"}).json()

    def close(self) -> None:
        """Be gone."""
        self._listener.shutdown(socket.SHUT_RDWR)
        for one in (self._listener, *self._connections):
            one.close()


@contextlib.contextmanager
def driver() -> Iterator[Driver]:
    """A driver, until the end of `with`."""
    made = Driver()
    try:
        yield made
    finally:
        made.close()


def test_a_session_goes_on_under_another_host(fleet: Starter, postgresql_url: str) -> None:
    """By the key that the first one gave, with executors that come to it by the same secret."""
    group = fleet(database=postgresql_url, leader={"lease": 2.0})
    first, second = group.add("one"), group.add("other")
    with driver() as session:
        properties = {"spark.executor.instances": "1", "spark.executor.memory": "512m"}
        job_id = session.register(first, **properties, **{"spark.executorEnv.CHAOS_LOG": str(group.started)})
        until(lambda: session.shown == [SECRET], first.log)
        group.wait(first, job_id, "running")
        first.end(signal.SIGKILL)
        until(second.leads, second.log)
        assert session.ask(second, "POST", "/heartbeat")["stop"] is None
        pid = int(group.started.read_text().split()[-1])
        os.kill(pid, signal.SIGKILL)
        until(lambda: session.ask(second, "POST", "/heartbeat") and len(session.shown) == 2, second.log)
        assert session.shown == [SECRET, SECRET]
        assert "app-1" in group.started.read_text().splitlines()[-1]
        session.ask(second, "DELETE", stopped=True)
        job = group.wait(second, job_id, "finished", "failed", "killed")
    assert (job["state"], job["losses"], len(job["tasks"])) == ("finished", 1, 2), job
