"""Files that the embedded Mesos fetches into a sandbox, over HTTP and of this machine, as the task's user."""

import contextlib
import gzip
import http.server
import os
import subprocess
import sys
import tarfile
import tempfile
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from framework.embedded.agent import fetch
from framework.embedded.agent.fetch import FetchError
from framework.embedded.agent.processes import appended, popen
from framework.embedded.agent.sandbox import fetching
from tests.waiting import PATIENCE


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
    """Under the name that is asked for, or their own."""
    fetch.fetch([{"value": f"{url}/k/a%20b.py", "extract": False, "output_file": "c.py"}], tmp_path)
    fetch.fetch([{"value": f"{url}/k/a%20b.py", "extract": False}], tmp_path)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        "a b.py": "hello",
        "c.py": "hello",
    }


@pytest.mark.parametrize("path", ["/nothing", "/short"])
def test_a_file_that_does_not_come_as_a_whole_is_an_error(url: str, tmp_path: Path, path: str) -> None:
    """The task fails instead of running with half of a file."""
    with pytest.raises(FetchError, match=path):
        fetch.fetch([{"value": f"{url}{path}", "extract": False}], tmp_path)


@pytest.fixture
def there() -> Iterator[Path]:
    """A folder that others may pass through, with a file for all and one of root's, and a user's sandbox."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        folder.chmod(0o711)
        (folder / "good").write_text("good")
        (folder / "token").write_text("secret")
        (folder / "token").chmod(0o600)
        (folder / "sandbox").mkdir()
        if os.geteuid() == 0:
            os.chown(folder / "sandbox", 65534, 65534)
        yield folder


def fetched(folder: Path, *uris: Any) -> tuple[int, str]:
    """Fetch into the sandbox as a task's user does; the exit code, and the error."""
    user = "nobody" if os.geteuid() == 0 else None
    process = popen(fetching(uris, user), cwd=folder / "sandbox", stderr=subprocess.PIPE, text=True)
    error = process.communicate(timeout=PATIENCE)[1]
    return process.returncode, error


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda path: path.symlink_to("/dev/zero"), "is not a regular file"),
        (lambda path: path.symlink_to("/dev/urandom"), "is not a regular file"),
        (os.mkfifo, "is not a regular file"),
        (lambda path: path.mkdir(), "is not a regular file"),
        (lambda path: path.symlink_to(path), "Too many levels of symbolic links"),
    ],
    ids=["endless", "random", "fifo", "folder", "circle"],
)
def test_only_a_regular_file_is_copied(there: Path, make: Any, why: str) -> None:
    """Neither without end, nor waiting for a writer."""
    make(there / "odd")
    code, error = fetched(there, {"value": str(there / "odd")})
    assert code == 1
    assert error.startswith(f"Failed to fetch {there}/odd: ")
    assert why in error


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can fetch as another user")
def test_a_link_that_is_exchanged_gives_nothing_of_roots(there: Path) -> None:
    """Between a good file and the daemon's token: each fetch has the good one, or none."""
    link, ended = there / "link", threading.Event()

    def exchange() -> None:
        while not ended.is_set():
            for target in ("good", "token"):
                draft = there / "draft"
                draft.symlink_to(target)
                draft.rename(link)

    link.symlink_to("good")
    thread = threading.Thread(target=exchange)
    thread.start()
    try:
        many = [{"value": str(link), "output_file": f"{number}"} for number in range(200)]
        outcomes = {fetched(there, *many[n : n + 20]) for n in range(0, 200, 20)}
    finally:
        ended.set()
        thread.join()
    contents = {path.read_text() for path in (there / "sandbox").iterdir() if path.name.isdigit()}
    assert contents <= {"good", ""}
    assert all(code == 0 or "nobody may not read it" in error for code, error in outcomes)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can fetch as another user")
@pytest.mark.parametrize("name", ["target", "sub/target"])
def test_a_link_in_the_sandbox_leads_root_nowhere(there: Path, name: str) -> None:
    """Another task of the user may have put one there: files are written as the user."""
    (there / "sandbox" / name).parent.mkdir(exist_ok=True)
    (there / "sandbox" / name).symlink_to(there / "token")
    code, error = fetched(there, {"value": str(there / "good"), "output_file": name})
    assert (code, "Permission denied" in error) == (1, True)
    assert (there / "token").read_text() == "secret"


@pytest.mark.parametrize("name", ["/etc/passwd", "../out", "a/../../out"])
def test_the_target_is_in_the_sandbox(there: Path, name: str) -> None:
    """Wherever the URI says."""
    code, error = fetched(there, {"value": str(there / "good"), "output_file": name})
    assert code == 1
    assert "output_file must stay in the sandbox" in error


def test_no_archive_fills_the_disk(there: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The unpacked size has to fit, with room left for others, before any part is unpacked."""
    with (there / "zeros").open("wb") as zeros:
        zeros.truncate(1 << 20)
    with zipfile.ZipFile(there / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as zipped:
        zipped.write(there / "zeros", "zeros")
    with tarfile.open(there / "bomb.tgz", "w:gz") as tarred:
        tarred.add(there / "zeros", "zeros")
    disk = os.statvfs(there)
    free = disk.f_bavail * disk.f_frsize
    monkeypatch.setattr(fetch, "_SPARED", free - (1 << 19))
    for name in ("bomb.zip", "bomb.tgz"):
        with contextlib.suppress(FileNotFoundError):
            (there / "sandbox/zeros").unlink()
        with pytest.raises(FetchError, match="no room for"):
            fetch.fetch([{"value": str(there / name)}], there / "sandbox")
        assert not (there / "sandbox/zeros").exists()


def test_no_archive_fills_the_memory(there: Path) -> None:
    """Headers of a tar are read whole: a small file can hold one of gigabytes."""
    size = 1200 << 20
    header = tarfile.TarInfo("pax")
    header.type, header.size = tarfile.XHDTYPE, size
    with gzip.open(there / "bomb.tgz", "wb", compresslevel=1) as file:
        file.write(header.tobuf(tarfile.USTAR_FORMAT))
        for _ in range(size >> 20):
            file.write(bytes(1 << 20))
    code, error = fetched(there, {"value": str(there / "bomb.tgz")})
    assert code == 1
    assert "takes more than 1024 MiB of memory to unpack" in error


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_that_a_task_put_in_place_of_its_output_is_not_given_to_it(there: Path) -> None:
    """A user may rename a file of root's that lies in a folder of the user's own."""
    (there / "token").rename(there / "sandbox/stderr")
    with pytest.raises(OSError, match="not a regular file of the task's user"):
        appended(there / "sandbox/stderr", "nobody")
    assert (there / "sandbox/stderr").stat().st_uid == 0
    with appended(there / "sandbox/stdout", "nobody") as made, appended(there / "sandbox/stdout", "nobody"):
        made.write(b"x")
    assert (there / "sandbox/stdout").owner() == "nobody"


def test_modules_that_archives_need_are_imported_as_root() -> None:
    """A task's user may have no way to them: the names in a ZIP file, if of no other code, are in cp437."""
    program = "import sys, framework.embedded.agent.fetch; print('encodings.cp437' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout == "True\n"


def test_an_archive_that_names_what_it_lacks_is_an_error(there: Path) -> None:
    """A link of its own to a member that is not there, which tarfile looks up."""
    with tarfile.open(there / "odd.tar", "w") as archive:
        member = tarfile.TarInfo("name")
        member.type, member.linkname = tarfile.LNKTYPE, "missing"
        archive.addfile(member)
    (there / "odd.tar").chmod(0o644)
    with pytest.raises(FetchError, match=r"odd\.tar"):
        fetch.fetch([{"value": str(there / "odd.tar"), "extract": True}], there)
