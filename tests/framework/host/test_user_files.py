"""Files that users name are opened once, with their rights, and nothing that hangs holds up anybody else."""

import contextlib
import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from framework.host import openat2
from framework.host.unix_users import UnixAccount, find_account
from framework.host.untrusted_files import UntrustedFileError
from framework.host.user_files import OpenFile, UserFiles, opened, placed
from tests.waiting import PATIENCE, until

#: A user of this machine, or nobody in particular.
ACCOUNT = find_account("nobody") if os.geteuid() == 0 else None


@pytest.fixture(autouse=True, params=["openat2", "steps"])
def _way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test also as on a kernel without openat2(2), which answers that it has no such call."""
    if request.param == "steps":
        monkeypatch.setattr(openat2, "_OPENAT2", 100_000)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that others may pass through."""
    with tempfile.TemporaryDirectory() as made:
        Path(made).chmod(0o755)
        yield Path(made)


def read(files: UserFiles, path: Path, account: UnixAccount | None = ACCOUNT) -> bytes:
    """All of a file, as the user."""

    def work() -> bytes:
        with opened(path, account) as found:
            return os.read(found.descriptor, 100)

    return files.look(account, str(path), work)


def threads() -> list[threading.Thread]:
    """Those that look at files."""
    return [thread for thread in threading.enumerate() if thread.name == "user files"]


def test_a_file_is_read_wherever_links_lead(folder: Path) -> None:
    """Its path is that of the file itself."""
    (folder / "file").write_text("text")
    (folder / "link").symlink_to("file")
    files = UserFiles()
    assert read(files, folder / "link") == b"text"

    def where() -> OpenFile:
        with opened(folder / "link", ACCOUNT) as found:
            return found

    assert files.look(ACCOUNT, "link", where).path == (folder / "file").resolve()


@pytest.mark.skipif(ACCOUNT is None, reason="only root can look as another user")
def test_nothing_is_read_that_the_user_may_not(folder: Path) -> None:
    """Root's file, one of a group that root is in, and one in a closed folder: told alike, there or not."""
    closed = folder / "closed"
    closed.mkdir(mode=0o700)
    for name, mode in (("roots", 0o600), ("groups", 0o640), ("closed/open", 0o644)):
        (folder / name).write_text("secret")
        (folder / name).chmod(mode)
    files = UserFiles()
    for name in ("roots", "groups", "closed/open", "closed/nothing"):
        with pytest.raises(PermissionError):
            read(files, folder / name)
    assert read(files, folder / "roots", None) == b"secret"
    with pytest.raises(FileNotFoundError):
        read(files, folder / "nothing")
    assert os.geteuid() == 0
    (folder / "still root").write_text("here")
    assert (folder / "still root").stat().st_uid == 0


@pytest.mark.skipif(ACCOUNT is None, reason="only root can look as another user")
@pytest.mark.parametrize("way", ["/proc/{pid}/cwd", "/proc/self/cwd", "/proc/{pid}/root{closed}", "link"])
def test_no_process_is_a_way_around_the_rights(
    folder: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """A file in a closed folder is not told from one that is not there by way of who works in it."""
    closed = folder / "closed"
    closed.mkdir()
    (closed / "open").write_text("secret")
    with subprocess.Popen(["sleep", "1000"], cwd=closed) as process:
        monkeypatch.chdir(closed)
        closed.chmod(0o755)
        folder.chmod(0o700)
        made = tempfile.mkdtemp()
        Path(made).chmod(0o755)
        (Path(made) / "link").symlink_to(f"/proc/{process.pid}/cwd")
        whole = Path(made, way.format(pid=process.pid, closed=closed))
        told = set()
        for name in ("open", "nothing"):
            with pytest.raises(UntrustedFileError) as refused:
                read(UserFiles(), whole / name)
            told.add(str(refused.value))
            shown = UserFiles().look(ACCOUNT, name, partial(placed, whole / name))
            assert not shown.is_relative_to(folder.resolve())
        process.kill()
    assert len(told) == 1
    shutil.rmtree(made)


@pytest.mark.skipif(ACCOUNT is None, reason="only root can look as another user")
def test_a_group_of_the_users_counts(folder: Path) -> None:
    """As the kernel has it."""
    assert ACCOUNT is not None
    (folder / "file").write_text("text")
    os.chown(folder / "file", 0, 54321)
    (folder / "file").chmod(0o640)
    with pytest.raises(PermissionError):
        read(UserFiles(), folder / "file")
    member = UnixAccount(ACCOUNT.name, ACCOUNT.uid, ACCOUNT.gid, (54321,))
    assert read(UserFiles(), folder / "file", member) == b"text"


def test_modes_decide_where_nobody_can_become_the_user(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not there and what may not be read are told alike, of whatever kind it is."""
    closed = folder / "closed"
    closed.mkdir(mode=0o700)
    for file in (folder / "file", closed / "file"):
        file.write_text("text")
        file.chmod(0o600)
    (closed / "folder").mkdir()
    (closed / "circle").symlink_to("circle")
    os.mkfifo(closed / "fifo")
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    names = (
        "file",
        "nothing",
        "file/nothing",
        *(f"closed/{each}" for each in ("folder", "circle", "fifo", "no")),
    )
    for name in names:
        with pytest.raises(PermissionError):
            read(UserFiles(), folder / name, UnixAccount("other", 54321, 54321))
    (folder / "file").chmod(0o644)
    assert read(UserFiles(), folder / "file", UnixAccount("other", 54321, 54321)) == b"text"


def test_what_is_exchanged_meanwhile_loses_no_thread(folder: Path) -> None:
    """A thousand looks, between a file, a FIFO, an endless device and root's token: each ends."""
    (folder / "good").write_text("good")
    (folder / "token").write_text("secret")
    (folder / "token").chmod(0o600)
    os.mkfifo(folder / "fifo")
    path, ended = folder / "path", threading.Event()
    path.symlink_to("good")

    def exchange() -> None:
        while not ended.is_set():
            for target in ("good", "fifo", "/dev/zero", "token"):
                (folder / "draft").symlink_to(target)
                (folder / "draft").rename(path)

    files, found = UserFiles(patience=PATIENCE), set[bytes]()

    def look(_: int) -> None:
        try:
            found.add(read(files, path))
        except (UntrustedFileError, PermissionError):
            found.add(b"refused")

    changing = threading.Thread(target=exchange)
    changing.start()
    try:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(look, range(1000)))
    finally:
        ended.set()
        changing.join()
    assert found - ({b"secret"} if ACCOUNT is None else set()) == {b"good", b"refused"}
    assert files.hanging == []
    until(lambda: not threads())


def test_what_hangs_is_written_off(folder: Path) -> None:
    """Its user is refused at once after a few; others are not; a call that ends after all is forgotten."""
    (folder / "file").write_text("text")
    files, over = UserFiles(patience=0.2), threading.Event()
    ann, bob = UnixAccount("ann", os.geteuid(), os.getegid()), UnixAccount("bob", os.geteuid(), os.getegid())
    try:
        for number in range(4):
            with pytest.raises(TimeoutError, match="took more than"):
                files.look(ann, f"/mnt/{number}", over.wait)
        until(lambda: len(files.hanging) == 4)
        assert files.hanging[0] == "/mnt/0 of ann"
        with pytest.raises(TimeoutError, match="earlier reads hang, for example /mnt/0"):
            files.look(ann, "/mnt/5", over.wait)
        assert len(threads()) == 4
        assert all(thread.daemon for thread in threads())
        until(lambda: read_in_time(files, folder / "file", bob) == b"text")
    finally:
        over.set()
    until(lambda: not threads())
    assert files.hanging == []
    until(lambda: read_in_time(files, folder / "file", ann) == b"text")


def read_in_time(files: UserFiles, path: Path, account: UnixAccount) -> bytes:
    """As `read`; on a timeout, return its message, as a busy machine may take too long."""
    try:
        return read(files, path, account)
    except TimeoutError as error:
        return str(error).encode()


def test_the_looks_of_one_submitter_count_for_that_one_alone() -> None:
    """Though all jobs run as one Unix user."""
    files, over = UserFiles(patience=0.2), threading.Event()
    try:
        for number in range(4):
            with pytest.raises(TimeoutError):
                files.look(None, f"/mnt/{number}", over.wait, "ann")
        until(lambda: len(files.hanging) == 4)
        with pytest.raises(TimeoutError, match="earlier reads hang"):
            files.look(None, "/mnt/5", over.wait, "ann")
        for number in range(6, 10):
            with pytest.raises(TimeoutError, match="took more than"):
                files.look(None, f"/mnt/{number}", over.wait, "bob")
        until(lambda: len(files.hanging) == 8)
        with pytest.raises(TimeoutError, match="earlier reads hang, for example /mnt/6"):  # not one of ann's
            files.look(None, "/mnt/10", over.wait, "bob")
        assert files.trouble() == "reads of users' files hang: 8"
    finally:
        over.set()
    until(lambda: not threads())


def test_the_many_looks_of_two_submitters_close_the_door_for_no_third() -> None:
    """They ask for all of them before the first is late; more submitters are needed to reach the bound."""
    files, over = UserFiles(patience=1.0), threading.Event()

    def hang(number: int) -> None:
        with contextlib.suppress(TimeoutError):
            files.look(None, f"/mnt/{number}", over.wait, "ann" if number % 2 else "bob")

    try:
        with ThreadPoolExecutor(80) as pool:
            list(pool.map(hang, range(80)))
        until(lambda: len(files.hanging) >= 64)
        with pytest.raises(TimeoutError, match="earlier reads hang"):
            files.look(None, "/mnt/80", over.wait, "ann")
        assert files.look(None, "file", lambda: "text", "eve") == "text"
    finally:
        over.set()
    until(lambda: not threads())


def test_looks_without_a_thread_do_not_count_as_hanging(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs had taken all of the machine's; later there is room again. /readyz shows it, a minute at most."""
    files, began = UserFiles(patience=0.0), time.monotonic()
    with monkeypatch.context() as full:
        full.setattr(threading.Thread, "start", no_room)
        for _ in range(5):
            with pytest.raises(TimeoutError, match="no room for another thread"):
                files.look(None, "/mnt/0", str, "ann")
    assert files.hanging == []
    assert files.trouble() == "this machine has no room for another thread now"
    with monkeypatch.context() as later:
        later.setattr(time, "monotonic", lambda: began + 120)
        assert files.trouble() == ""
    with contextlib.suppress(TimeoutError):
        files.look(None, "/mnt/0", str, "ann")
    until(lambda: files.trouble() == "")


def no_room(_: threading.Thread) -> None:
    """As `Thread.start` where there are too many threads."""
    raise RuntimeError("can't start new thread")


def test_a_path_that_is_not_there_is_placed_by_the_kernel(folder: Path) -> None:
    """The nearest existing parent decides, through any links."""
    (folder / "real").mkdir()
    (folder / "way").symlink_to("real")
    assert placed(folder / "way/nothing/x") == folder.resolve() / "real/nothing/x"
    assert placed(folder / "way/nothing/../x") == folder.resolve() / "real/x"
    assert placed(folder / "way/../other") == folder.resolve() / "other"


def test_a_chain_of_links_is_not_followed_by_python(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel follows forty; Python all of them, and keeps every other thread from working meanwhile."""
    (folder / "l0").symlink_to("real")
    for number in range(1, 60):
        (folder / f"l{number}").symlink_to(f"l{number - 1}")
    monkeypatch.setattr(os.path, "realpath", None)
    assert placed(folder / "l59") == folder / "l59"
