"""Files that a job may have replaced by something else."""

import os
import pwd
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from framework.host import openat2
from framework.host.untrusted_files import (
    UntrustedFileError,
    list_beneath,
    open_beneath,
    read_part,
    read_tail,
    read_whole,
)


def test_a_file_is_read_in_parts(tmp_path: Path) -> None:
    """Parts, the end, the whole file; a missing file, or a part beyond the end, is empty."""
    (tmp_path / "driver").mkdir()
    (tmp_path / "driver/stdout").write_bytes(b"0123456789")
    assert read_part(tmp_path, "driver/stdout", 2, 3) == b"234"
    assert read_tail(tmp_path, "driver/stdout", 4) == b"6789"
    assert read_tail(tmp_path, "driver/stdout", 400) == b"0123456789"
    assert read_whole(tmp_path, "driver/stdout", 10) == b"0123456789"
    for offset in (10, 2**53 - 1, 2**63 - 1, 2**70):
        assert read_part(tmp_path, "driver/stdout", offset, 10) == b""
    assert read_part(tmp_path, "driver/stderr", 0, 10) == b""
    assert read_part(tmp_path / "absent", "driver/stdout", 0, 10) == b""
    with pytest.raises(FileNotFoundError):
        read_whole(tmp_path, "absent", 10)


@pytest.mark.parametrize("trick", ["fifo", "link", "linked folder", "second name", "folder", "socket", "up"])
def test_what_is_no_file_of_the_folder_is_refused_at_once(tmp_path: Path, trick: str) -> None:
    """Neither waited for, as a FIFO without a writer would be, nor followed."""
    folder, outside = tmp_path / "job", tmp_path / "outside"
    folder.mkdir()
    outside.mkdir()
    (outside / "stdout").write_text("secret")
    name = "driver/stdout"
    if trick != "linked folder":
        (folder / "driver").mkdir()
    if trick == "fifo":
        os.mkfifo(folder / name)
    elif trick == "link":
        (folder / name).symlink_to(outside / "stdout")
    elif trick == "linked folder":
        (folder / "driver").symlink_to(outside)
    elif trick == "second name":
        (folder / name).hardlink_to(outside / "stdout")
    elif trick == "folder":
        (folder / name).mkdir()
    elif trick == "socket":
        with socket.socket(socket.AF_UNIX) as listener:
            here = Path.cwd()
            os.chdir(folder / "driver")
            try:
                listener.bind("stdout")
            finally:
                os.chdir(here)
    else:
        name = "driver/../../outside/stdout"
    for read in (read_whole, read_tail):
        with pytest.raises(UntrustedFileError, match="stdout"):
            read(folder, name, 100)
    with pytest.raises(UntrustedFileError):
        read_part(folder, name, 0, 100)


def test_a_file_that_is_too_large_is_refused(tmp_path: Path) -> None:
    """A record of a few bytes that holds a gigabyte is none, and is not read."""
    with (tmp_path / "record").open("wb") as file:
        file.truncate(1 << 30)
    with pytest.raises(UntrustedFileError, match="more than 100 bytes"):
        read_whole(tmp_path, "record", 100)


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    """Neither successful reads nor refused ones leave one open."""
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "folder/fifo")
    (tmp_path / "folder/file").write_text("x")
    before = len(list(Path("/proc/self/fd").iterdir()))
    for name in ("folder/fifo", "folder/file", "folder/file/x", "folder/absent"):
        with pytest.raises(OSError, match=r"fifo|file|absent"):  # noqa: PT012 - the last one opened is closed
            os.close(open_beneath(tmp_path, name))
            raise FileNotFoundError(name)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has files that a user's folder may not have")
def test_a_file_of_another_user_is_refused(tmp_path: Path) -> None:
    """A linked file whose other name is gone by now, as after a rotation: its owner tells what it was."""
    folder, secret = tmp_path / "folder", tmp_path / "token"
    folder.mkdir()
    secret.write_text("secret")
    os.link(secret, folder / "stdout")
    secret.unlink()
    assert (folder / "stdout").stat().st_nlink == 1
    nobody = pwd.getpwnam("nobody").pw_uid
    os.chown(folder, nobody, -1)
    with pytest.raises(UntrustedFileError, match="of another user than its folder"):
        open_beneath(folder, "stdout")
    os.chown(folder / "stdout", nobody, -1)
    assert read_part(folder, "stdout", 0, 9) == b"secret"


#: In a namespace of its own, so that the mount ends with the process.
_ENTER_MOUNT = """
import subprocess, sys
from pathlib import Path
from daemon.launch.event_log_export import find_event_logs
from framework.host.folder_sandbox import FolderSandbox
from framework.host.untrusted_files import UntrustedFileError, list_beneath, open_beneath

data_dir, mounted = Path(sys.argv[1]), sys.argv[2]
jobs = data_dir / "jobs"
assert [log.application for log in find_event_logs(data_dir)] == ["app-1"]
subprocess.run(["mount", "-t", "tmpfs", "tmpfs", jobs / "job-1" / mounted], check=True)
(jobs / "job-1/driver/events").mkdir(exist_ok=True)
(jobs / "job-1/driver/events/app-2").write_text("{}")
sandbox = FolderSandbox(data_dir, "jobs/job-1/driver")
for enter in (
    lambda: open_beneath(jobs, "job-1/driver/events/app-2"),
    lambda: list_beneath(jobs, "job-1/driver/events"),
    lambda: sandbox.size("events/app-2"),
    lambda: sandbox.files("events"),
):
    try:
        enter()
    except UntrustedFileError as error:
        assert f"{Path(mounted).name} is a link, a mount" in str(error), error
    else:
        raise SystemExit(f"{mounted} was entered")
assert find_event_logs(data_dir) == []
"""


@pytest.mark.parametrize("mounted", ["driver", "driver/events"])
def test_no_mount_of_a_user_is_entered(tmp_path: Path, mounted: str) -> None:
    """A file system of a user's own (FUSE) may never answer."""
    unshare = [shutil.which("unshare") or "", "--user", "--map-root-user", "--mount"]
    if not unshare[0] or subprocess.run([*unshare, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine has no namespaces of users")
    events = tmp_path / "jobs/job-1/driver/events"
    events.mkdir(parents=True)
    (events / "app-1").write_text("{}")
    command = [*unshare, sys.executable, "-c", _ENTER_MOUNT, str(tmp_path), mounted]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_kernel_without_openat2_opens_the_same_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It answers that it has no such call; links are not followed there either."""
    monkeypatch.setattr(openat2, "_OPENAT2", 100_000)
    (tmp_path / "driver").mkdir()
    (tmp_path / "driver/stdout").write_bytes(b"0123456789")
    (tmp_path / "driver/link").symlink_to("stdout")
    assert read_tail(tmp_path, "driver/stdout", 4) == b"6789"
    assert list_beneath(tmp_path, "driver") == ["driver/stdout"]
    with pytest.raises(UntrustedFileError, match="link"):
        open_beneath(tmp_path, "driver/link")
