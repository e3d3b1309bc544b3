"""What the embedded Mesos brings into a sandbox over HTTP, as Mesos' fetcher does."""

import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from framework.embedded.sandbox import SandboxError, fetch


class Files(http.server.BaseHTTPRequestHandler):
    """One file, one that ends too early, and nothing else."""

    def do_GET(self) -> None:
        """Answer."""
        good, short = self.path == "/k/a%20b.py", self.path == "/short"
        self.send_response(200 if good or short else 404)
        self.send_header("Content-Length", "9" if short else "5")
        self.end_headers()
        self.wfile.write(b"hello")

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def url() -> Iterator[str]:
    """The server's address."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Files) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_files_are_fetched_over_http(url: str, tmp_path: Path) -> None:
    """Under the name that is asked for, or their own; whoever the task runs as."""
    fetch([{"value": f"{url}/k/a%20b.py", "extract": False, "output_file": "c.py"}], tmp_path, "nobody")
    fetch([{"value": f"{url}/k/a%20b.py", "extract": False}], tmp_path, None)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        "a b.py": "hello",
        "c.py": "hello",
    }


@pytest.mark.parametrize("path", ["/nothing", "/short"])
def test_what_does_not_come_as_a_whole_is_an_error(url: str, tmp_path: Path, path: str) -> None:
    """The task fails instead of running with half of a file."""
    with pytest.raises(SandboxError, match=path):
        fetch([{"value": f"{url}{path}", "extract": False}], tmp_path, None)
