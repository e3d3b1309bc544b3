"""The Unix user of jobs, and the files that jobs may name and read."""

import contextlib
import os
import pwd
import re
import stat
import tempfile
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from conf.loader import ConfigError
from conf.schema import Config, Tls
from daemon.core.errors import RejectedError
from daemon.disk.run_as import RunAs, own_rights, rights_of
from framework.host.unix_users import UnixAccount, cannot, find_account, mode_allows
from framework.spark import DriverPlace, ProcessSpec, driver_status, start_driver

NOBODY = "nobody"


def needs_root() -> None:
    """Only root can run a job as another user."""
    if os.geteuid() != 0:
        pytest.skip("only root can run jobs as another user")
    try:
        pwd.getpwnam(NOBODY)
    except KeyError:
        pytest.skip("this machine has no user nobody")


@pytest.fixture
def data_dir(tmp_path: Path) -> Iterator[Path]:
    """A daemon's folder with its usual content, below folders that every user may enter."""
    above = [folder for folder in tmp_path.parents if folder.stat().st_uid == os.geteuid()]
    modes = {
        folder: stat.S_IMODE(folder.stat().st_mode) for folder in (tmp_path, *above) if folder != Path("/")
    }
    for folder, mode in modes.items():
        folder.chmod(mode | 0o011)
    data = tmp_path / "data"
    (data / "records").mkdir(parents=True)
    for name in ("stoker.db", "stoker.db-wal", "host", "records/launch.json"):
        (data / name).write_text("secret")
        (data / name).chmod(0o644)
    yield data
    for folder, mode in modes.items():
        if Path(tempfile.gettempdir()) not in folder.parents:  # others' tests are in those above ours too
            folder.chmod(mode)


def test_without_root_jobs_run_as_the_daemons_user(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without root no other user is available; a config that names one is refused."""
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    config = Config(data_dir=str(data_dir))
    assert rights_of(config, data_dir, []).account is None
    assert rights_of(config.model_copy(update={"run_as": None}), data_dir, []).account is None
    with pytest.raises(ConfigError, match="only a daemon that root runs"):
        rights_of(config.model_copy(update={"run_as": "root"}), data_dir, [])


def test_with_root_jobs_run_as_another_user(data_dir: Path) -> None:
    """By default; the way to their folders is open then, and everything else is closed."""
    needs_root()
    account = rights_of(Config(data_dir=str(data_dir)), data_dir, [Path("/bin/sh")]).account
    assert account is not None
    assert account.uid != 0
    assert cannot(account, enter=[data_dir / "jobs"]) == ""
    for name in ("stoker.db", "stoker.db-wal", "host", "records/launch.json"):
        assert cannot(account, read=[data_dir / name]) == f"{account.name} may not read {data_dir / name}"
    assert stat.S_IMODE(data_dir.stat().st_mode) == 0o711


def test_jobs_run_as_root_where_nobody_else_may_enter(data_dir: Path) -> None:
    """In a closed folder, which stays closed, jobs run as root.

    A config that names a user is refused with the obstacle.
    """
    needs_root()
    closed = data_dir.parent / "closed"
    closed.mkdir(mode=0o700)
    data_dir.chmod(0o700)
    inside = data_dir.rename(closed / "data")
    config = Config(data_dir=str(inside))
    assert rights_of(config, inside, []).account is None
    assert stat.S_IMODE(inside.stat().st_mode) == 0o700
    with pytest.raises(ConfigError, match="run_as: nobody may not enter"):
        rights_of(config.model_copy(update={"run_as": NOBODY}), inside, [])
    with pytest.raises(ConfigError, match="no such user"):
        rights_of(config.model_copy(update={"run_as": "no-such-user"}), inside, [])
    inside.rename(data_dir)


def test_a_driver_reads_nothing_of_the_daemons(data_dir: Path) -> None:
    """Neither its files nor its environment; its own folder is its alone, and it may write there."""
    needs_root()
    rights_of(Config(data_dir=str(data_dir)), data_dir, [])
    account = find_account(NOBODY)
    token = data_dir / "token"
    token.write_text("secret")
    token.chmod(0o600)
    (data_dir / "jobs/job-0").mkdir(mode=0o700)
    place = DriverPlace(data_dir / "jobs/job-1/driver", data_dir / "records/job-1/driver", user=account)
    targets = [
        *(
            data_dir / name
            for name in ("stoker.db", "stoker.db-wal", "token", "records/job-1/driver/process.json")
        ),
        Path(f"/proc/{os.getpid()}/environ"),
    ]
    attacks = [f"cat {target} && echo READ" for target in targets]
    attacks += [
        f"ls {folder} && echo READ" for folder in (data_dir, data_dir / "jobs", data_dir / "jobs/job-0")
    ]
    attacks += [
        f"echo 0 > {data_dir}/records/job-1/driver/exit_code && echo WROTE",
        f"kill {os.getpid()} && echo KILLED",
    ]
    attacks += ["cat /proc/$PPID/environ && echo READ", "kill $PPID && echo KILLED"]
    script = "\n".join([*attacks, 'echo "$HOME $USER $(id -un) $(id -G)"', "touch mine && echo own"])
    start_driver(ProcessSpec(("bash", "-c", script), {}, {}), place, os.environ)
    while driver_status(place.records).state == "running":
        pass
    printed = (place.folder / "stdout").read_text().splitlines()
    assert printed == [f"{place.folder} {NOBODY} {NOBODY} {account.gid}", "own"]
    assert driver_status(place.records).exit_code == 0
    assert stat.S_IMODE(place.folder.stat().st_mode) == 0o700
    assert place.folder.stat().st_uid == account.uid


def test_what_is_the_daemons_is_nothing_for_jobs(tmp_path: Path) -> None:
    """No path into the daemon's own files is allowed to a job, in any spelling."""
    data = tmp_path / "data"
    data.mkdir()
    (tmp_path / "token").write_text("secret")
    (tmp_path / "link.py").symlink_to(tmp_path / "token")
    (tmp_path / "fine.py").touch()
    (tmp_path / "way").symlink_to(data)
    (tmp_path / "key.pem").write_text("secret")
    tls = Tls(cert=str(tmp_path / "cert.pem"), key=str(tmp_path / "key.pem"))
    rights = own_rights(Config(data_dir=str(data), token_file=str(tmp_path / "token"), tls=tls), data)
    for path in (
        "token",
        "key.pem",
        "link.py",
        "data/stoker.db",
        "way/stoker.db",
        "way/../token",
        "data/new/../x",
    ):
        for reference in (f"{tmp_path}/{path}", f"file://{tmp_path}/{path}", f"file:{tmp_path}/{path}"):
            with pytest.raises(ValueError, match="belongs to the daemon"):
                rights.check(reference)
    for reference in (f"{tmp_path}/fine.py", f"file://{tmp_path}/fine.py", "hdfs://namenode/data/token"):
        rights.check(reference)


def test_what_the_kernel_tells_of_processes_is_nothing_for_jobs(tmp_path: Path) -> None:
    """The daemon's environment, say, or a file that it holds open; by a link neither."""
    (tmp_path / "data.txt").symlink_to("/proc/self/environ")
    rights = own_rights(Config(), tmp_path / "data")
    for reference in ("/proc/self/environ", "file:///proc/1/mem", "/sys/kernel", f"{tmp_path}/data.txt"):
        with pytest.raises(ValueError, match="is a file of the kernel"):
            rights.check(reference)


def test_files_lie_in_the_folders_that_the_config_allows(tmp_path: Path) -> None:
    """Links that lead out of them do not."""
    (tmp_path / "apps").mkdir()
    (tmp_path / "apps/a.py").touch()
    (tmp_path / "b.py").touch()
    (tmp_path / "apps/b.py").symlink_to(tmp_path / "b.py")
    rights = own_rights(Config(allowed_paths=(str(tmp_path / "apps"),)), tmp_path / "data")
    rights.check(f"{tmp_path}/apps/a.py")
    for path in ("b.py", "apps/b.py", "apps/../b.py"):
        with pytest.raises(ValueError, match="none of the folders of allowed_paths"):
            rights.check(f"{tmp_path}/{path}")


def test_a_job_names_only_what_who_runs_it_may_read(data_dir: Path) -> None:
    """A job may name files readable by its own Unix user only, not those readable by the daemon's."""
    needs_root()
    rights = RunAs(find_account(NOBODY), (data_dir,), None)
    private, public = data_dir.parent / "private.py", data_dir.parent / "public.py"
    for path, mode in ((private, 0o600), (public, 0o644)):
        path.touch()
        path.chmod(mode)
    rights.check(str(public))
    with pytest.raises(ValueError, match=r"private.py: nobody may not read it; jobs run as nobody"):
        rights.check(str(private))


def test_modes_are_read_as_the_kernel_reads_them(tmp_path: Path) -> None:
    """The owner's bits for the owner, even where others may more; then the group's; then the others'."""
    file = tmp_path / "file"
    file.touch()
    status = file.stat()
    owner = UnixAccount("owner", status.st_uid or 1, 1)
    other = UnixAccount("other", 54321, 54321)
    member = UnixAccount("member", 54321, 54321, (status.st_gid,))
    file.chmod(0o044)
    if status.st_uid:
        assert not mode_allows(owner, file.stat(), stat.S_IROTH)
    assert mode_allows(other, file.stat(), stat.S_IROTH)
    assert mode_allows(member, file.stat(), stat.S_IROTH)
    file.chmod(0o604)
    assert not mode_allows(member, file.stat(), stat.S_IROTH)
    assert mode_allows(other, file.stat(), stat.S_IROTH)


def test_a_refusal_tells_nothing_of_what_is_there(data_dir: Path) -> None:
    """A file of the daemon's, or in a folder that the user may not enter, is refused alike, there or not."""
    (data_dir / "uploads").mkdir()
    (data_dir / "uploads/there").write_text("of another user")
    rights = own_rights(Config(data_dir=str(data_dir)), data_dir)
    told = [refusal(rights, f"{data_dir}/uploads/{name}").replace(name, "") for name in ("there", "absent")]
    assert told[0] == told[1]
    assert "belongs to the daemon" in told[0]
    needs_root()
    closed = data_dir.parent / "closed"
    closed.mkdir(mode=0o700)
    (closed / "there").touch()
    rights = RunAs(find_account(NOBODY), (data_dir,), None)
    told = [refusal(rights, f"{closed}/{name}").replace(name, "") for name in ("there", "absent")]
    assert told[0] == told[1]
    assert "nobody may not read it" in told[0]


def test_a_link_tells_nothing_of_what_the_daemons_rights_reach(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where no thread can become the job's user: a link to a file there and one to none are refused alike."""
    allowed, closed = tmp_path / "allowed", tmp_path / "closed"
    allowed.mkdir()
    closed.mkdir(mode=0o700)
    (closed / "there").write_text("secret")
    (allowed / "one").symlink_to(closed / "there")
    (allowed / "two").symlink_to(closed / "none")
    rights = RunAs(UnixAccount("other", 54321, 54321), (), (allowed,))
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    told = [refusal(rights, f"{allowed}/{name}").replace(name, "") for name in ("one", "two")]
    assert told[0] == told[1]
    assert "other may not read it" in told[0]


def test_a_lack_of_threads_is_no_fault_of_a_file(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another try may have one: 503, and not the submitter's 422."""

    def no_room(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    rights = RunAs(None, (data_dir,), None)
    with monkeypatch.context() as full:
        full.setattr(threading.Thread, "start", no_room)
        with pytest.raises(RejectedError, match="no room for another") as refused:
            rights.check("/etc/hostname", lambda _: None)
    assert (refused.value.status, dict(refused.value.headers or {})) == (503, {"Retry-After": "1"})
    rights.check("/etc/hostname", lambda _: None)


def refusal(rights: RunAs, path: str) -> str:
    """Return the error of a file that a job may not name."""
    with pytest.raises(ValueError, match=re.escape(path)) as refused:
        rights.check(path, lambda _: None)
    return str(refused.value)


def test_links_that_are_exchanged_lead_nowhere(data_dir: Path) -> None:
    """Exchanged links lead neither into the daemon's folder nor to a FIFO: the opened file is checked."""
    good, path, ended = data_dir.parent / "good.jar", data_dir.parent / "app.jar", threading.Event()
    with zipfile.ZipFile(good, "w"):
        pass
    os.mkfifo(data_dir.parent / "fifo")
    path.symlink_to(good)
    rights = own_rights(Config(data_dir=str(data_dir)), data_dir)
    judged = set()

    def exchange() -> None:
        draft = data_dir.parent / "draft"
        while not ended.is_set():
            for target in (good, data_dir / "stoker.db", data_dir.parent / "fifo"):
                draft.symlink_to(target)
                draft.rename(path)

    thread = threading.Thread(target=exchange)
    thread.start()
    try:
        for _ in range(300):
            with contextlib.suppress(ValueError):
                rights.check(
                    str(path), lambda found: judged.add(Path(f"/proc/self/fd/{found.descriptor}").readlink())
                )
    finally:
        ended.set()
        thread.join()
    assert judged == {good}
    assert rights.files.hanging == []


@pytest.mark.parametrize("name", ["no-such-user", "4123456", "-1", ""])
def test_a_user_that_is_not_there(name: str) -> None:
    """A number without a name neither."""
    with pytest.raises(KeyError):
        find_account(name)
