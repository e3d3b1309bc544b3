"""The user data that ships: shell that starts an agent, and a watcher that tells of the cloud's notice."""

import http.server
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from conf.loader import SHIPPED
from framework.providers.user_data import UserData
from tests.waiting import until

TEMPLATE = UserData(SHIPPED / "user-data/ec2.sh")
NOTICE = b'{"action": "terminate", "time": "2026-01-01T00:02:00Z"}'


class World(http.server.BaseHTTPRequestHandler):
    """The VM's metadata, a daemon that waits, and one that leads."""

    notice: ClassVar[bytes | None] = None
    told: ClassVar[list[tuple[str, str, bytes]]] = []

    def do_PUT(self) -> None:
        """Give a token of the metadata."""
        assert self.headers["X-aws-ec2-metadata-token-ttl-seconds"] == "60"
        self._answer(200, b"a-token")

    def do_GET(self) -> None:
        """Report whether the VM is taken away, to requests with the token."""
        assert self.path == "/meta-data/spot/instance-action"
        assert self.headers["X-aws-ec2-metadata-token"] == "a-token"
        self._answer(*((404, b"") if self.notice is None else (200, self.notice)))

    def do_POST(self) -> None:
        """Redirect requests from one address to the other."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.told.append((self.path, self.headers["Authorization"], body))
        if self.path.startswith("/waits"):
            self._answer(307, b"", f"http://{self.headers['Host']}/leads")
        else:
            self._answer(500 if len(self.told) < 4 else 202, b"")

    def _answer(self, status: int, body: bytes, location: str = "") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        if location:
            self.send_header("Location", location)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture
def world() -> Iterator[str]:
    """Its URL."""
    World.notice, World.told = None, []
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), World)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


def booted(folder: Path, words: dict[str, str]) -> list[list[str]]:
    """Run the user data on a VM that is a folder; return the system commands it ran, by words."""
    programs = folder / "bin"
    programs.mkdir()
    for name in ("systemd-run", "iptables"):
        (programs / name).write_text(
            f'#!/bin/sh\nprintf "%s\\0" "$0" "$@" >> {folder}/ran\necho >> {folder}/ran\n'
        )
        (programs / name).chmod(0o755)
    text = (
        TEMPLATE.filled(words).replace("/etc/stoker", str(folder / "etc")).replace("sleep(5)", "sleep(0.02)")
    )
    path = f"{programs}:{os.environ['PATH']}"
    done = subprocess.run(["sh"], input=text, env={"PATH": path}, text=True, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    ran = (folder / "ran").read_text().replace(f"{programs}/", "").splitlines()
    return [line.split("\0")[:-1] for line in ran]


WORDS = {
    "master": "zk://a:2181,b:2181/mesos", "attributes": "vm:m5.large;price:0.1;lease:it's $HOME.17",
    "resources": "cpus:2;mem:7000", "notice_url": "http://127.0.0.1:1/x", "key": "a-key", "lease": "l",
    "pool": "p", "cluster": "c",
}  # fmt: skip


def test_an_agent_is_started(tmp_path: Path) -> None:
    """The agent gets its flags word by word, for any characters; the key is only in a file of root's."""
    watch, walls, agent = booted(tmp_path, WORDS)
    assert agent[-4:] == [
        "--work_dir=/var/lib/mesos",
        "--master=zk://a:2181,b:2181/mesos",
        "--attributes=vm:m5.large;price:0.1;lease:it's $HOME.17",
        "--resources=cpus:2;mem:7000",
    ]
    assert agent[-5] == "mesos-agent"
    assert watch[-2:] == ["python3", str(tmp_path / "etc/watch")]
    assert walls[:4] == ["iptables", "-I", "OUTPUT", "-d"]
    assert "a-key" not in (tmp_path / "ran").read_text()
    for path in (tmp_path / "etc").iterdir():
        assert path.stat().st_mode & 0o077 == 0, path


def test_a_notice_is_told_until_it_is_heard(tmp_path: Path, world: str) -> None:
    """The leader receives the notice once, with the VM's key."""
    booted(tmp_path, WORDS | {"notice_url": f"{world}/waits"})
    watcher = subprocess.Popen(
        [sys.executable, tmp_path / "etc/watch"], env={"METADATA": world}, stdout=subprocess.PIPE, text=True
    )
    with watcher:
        try:
            World.notice = NOTICE
            until(lambda: len(World.told) >= 4, "the notice is told")
            World.notice = NOTICE.replace(b"02:00", b"03:00")
            until(lambda: len(World.told) >= 6, "so is a later one")
        finally:
            watcher.terminate()
        assert watcher.stdout is not None
        assert watcher.stdout.read() == "HTTP Error 500: Internal Server Error\n"
    assert World.told[:4] == [("/waits", "Bearer a-key", NOTICE), ("/leads", "Bearer a-key", NOTICE)] * 2
    assert [body for _, _, body in World.told[4:]] == [NOTICE.replace(b"02:00", b"03:00")] * 2
