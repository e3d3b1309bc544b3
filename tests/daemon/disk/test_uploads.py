"""Uploaded files: sent in parts, resumed, refused, stored while needed, removed."""

import errno
import hashlib
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from conf.schema import JobSpec, UploadsSection
from conf.uploaded_file import UploadedFile, uploaded
from daemon.core.errors import RejectedError
from daemon.disk import file_delivery
from daemon.disk import uploads as uploads_module
from daemon.disk.uploads import Upload, Uploads
from daemon.store.job_store import Store
from framework.host.unix_users import UnixAccount
from tests.daemon.small_scheduler import SmallScheduler

DATA = bytes(range(256)) * 40
SHA = hashlib.sha256(DATA).hexdigest()
FILE = UploadedFile(SHA, "app.py")
DAY = 86_400.0


def test_a_file_that_the_disk_has_changed_reaches_no_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is removed, so that it can be sent again; a right one is read once in a while."""
    monkeypatch.setattr(uploads_module, "_RIGHT", 0.0)
    kept = Uploads(tmp_path / "uploads", UploadsSection())
    kept.put(SHA, len(DATA), 0, DATA)
    file_delivery.copy_in(kept, [FILE], "", tmp_path / "driver", None)
    assert (tmp_path / "driver/app.py").read_bytes() == DATA
    stored = kept.path(FILE)
    stored.write_bytes(DATA[:-1] + b"x")
    with pytest.raises(ValueError, match="disk has changed this file; send it again"):
        file_delivery.copy_in(kept, [FILE], "", tmp_path / "driver", None)
    assert kept.status(SHA) is None
    assert kept.put(SHA, len(DATA), 0, DATA).complete
    assert kept.checked(FILE) == stored
    monkeypatch.undo()
    assert kept.checked(FILE) == stored
    stored.write_bytes(b"changed a moment later")
    assert kept.checked(FILE) == stored


class Clock:
    """The time, as a test sets it."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        """Seconds."""
        return self.now


@pytest.fixture
def clock() -> Clock:
    """A clock that stands."""
    return Clock()


@pytest.fixture
def uploads(tmp_path: Path, clock: Clock) -> Uploads:
    """Files of 1 MiB at most, and 2 MiB in all."""
    return Uploads(tmp_path / "uploads", UploadsSection(size=1, total=2, age=7.0), now=clock)


def files(tmp_path: Path) -> dict[str, int]:
    """Names and sizes of the files in the upload folder."""
    return {path.name: path.stat().st_size for path in (tmp_path / "uploads").glob("*")}


def refused(status: int, call: Any, *arguments: Any) -> str:
    """The words with which a call is refused."""
    with pytest.raises(RejectedError) as refusal:
        call(*arguments)
    assert refusal.value.status == status
    return refusal.value.detail


def send(uploads: Uploads, data: bytes = DATA, step: int = 1000) -> Upload:
    """Send a file in parts; return the final upload."""
    sha256 = hashlib.sha256(data).hexdigest()
    for begin in range(0, max(len(data), 1), step):
        found = uploads.put(sha256, len(data), begin, data[begin : begin + step])
    return found


def test_a_file_comes_in_parts(uploads: Uploads, tmp_path: Path) -> None:
    """It is there when all of it is, under its hash, and nobody but the daemon may read it."""
    assert uploads.status(SHA) is None
    assert uploads.put(SHA, len(DATA), 0, DATA[:100]) == Upload(SHA, 100, False)
    assert uploads.status(SHA) == Upload(SHA, 100, False)
    with pytest.raises(ValueError, match="does not have a file with the hash"):
        uploads.path(FILE)
    assert uploads.put(SHA, len(DATA), 100, DATA[100:]) == Upload(SHA, len(DATA), True)
    assert uploads.path(FILE).read_bytes() == DATA
    assert uploads.path(FILE).stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "uploads").stat().st_mode & 0o777 == 0o700
    assert uploads.put(SHA, len(DATA), 0, b"anything") == Upload(SHA, len(DATA), True)
    assert uploads.path(FILE).read_bytes() == DATA
    assert send(uploads, b"").complete


def test_a_queued_job_finds_a_file_as_an_earlier_version_named_it(uploads: Uploads) -> None:
    """Without the user's mark in front of its name; other users do not find it."""
    uploads.put(SHA, len(DATA), 0, DATA, "ann")
    path = uploads.path(FILE, "ann")
    path.rename(path.with_name(hashlib.sha256(f"ann/{SHA}".encode()).hexdigest()))
    assert uploads.path(FILE, "ann").read_bytes() == DATA
    with pytest.raises(ValueError, match="does not have a file with the hash"):
        uploads.path(FILE, "bob")


def test_an_upload_goes_on_where_it_was_interrupted(uploads: Uploads, tmp_path: Path) -> None:
    """The same daemon or the next one resumes an upload; a wrong offset is refused with the right one."""
    uploads.put(SHA, len(DATA), 0, DATA[:100])
    later = Uploads(tmp_path / "uploads", UploadsSection(size=1, total=2))
    with pytest.raises(RejectedError) as refusal:
        later.put(SHA, len(DATA), 0, DATA[:200])
    assert (refusal.value.status, refusal.value.headers) == (409, {"Upload-Offset": "100"})
    assert "100 bytes are there" in refused(409, later.put, SHA, len(DATA), 300, b"x")
    assert later.put(SHA, len(DATA), 100, DATA[100:]).complete


def test_a_file_that_is_not_what_its_hash_says_is_not_kept(uploads: Uploads, tmp_path: Path) -> None:
    """Nothing of it stays, so that the next one begins anew; nor does a longer one stand in the way."""
    uploads.put(SHA, len(DATA), 0, b"x" * 100)
    assert "another hash" in refused(422, uploads.put, SHA, len(DATA), 100, DATA[100:])
    assert files(tmp_path) == {}
    uploads.put(SHA, 500_000, 0, b"x" * (len(DATA) + 1))
    assert send(uploads).complete


def test_what_is_too_large_is_refused(uploads: Uploads, tmp_path: Path) -> None:
    """A file is refused for its declared size, its sent size or the total of all files."""
    assert "1 MiB (uploads.size)" in refused(413, uploads.put, SHA, (1 << 20) + 1, 0, b"x")
    assert "whose size was given as 5" in refused(422, uploads.put, SHA, 5, 0, b"123456")
    assert files(tmp_path) == {}
    for byte in (b"a", b"b"):
        send(uploads, byte * (1 << 20), 1 << 20)
    assert "2 of 2 MiB are used" in refused(507, uploads.put, SHA, len(DATA), 0, DATA)
    none = Uploads(tmp_path / "none", UploadsSection(size=0))
    assert "accepts no files" in refused(413, none.put, SHA, 1, 0, b"x")


def test_a_full_disk_keeps_nothing_of_a_part(
    uploads: Uploads, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk stores nothing of the failed part; earlier parts stay, and the upload resumes with room."""
    uploads.put(SHA, len(DATA), 0, DATA[:100])
    write = os.pwrite

    def full(file: int, data: Any, offset: int) -> int:
        if offset >= 150:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(file, data[: 150 - offset], offset)

    monkeypatch.setattr(os, "pwrite", full)
    assert "No space left" in refused(507, uploads.put, SHA, len(DATA), 100, DATA[100:])
    assert files(tmp_path) == {f"{SHA}.part": 100}
    monkeypatch.undo()
    assert uploads.put(SHA, len(DATA), 100, DATA[100:]).complete
    assert uploads.path(FILE).read_bytes() == DATA


def test_uploads_leave_room_for_jobs(
    uploads: Uploads, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An upload is refused when few bytes or files are left, which are reserved for the daemon's own."""
    seen = os.statvfs(tmp_path)
    little = os.statvfs_result((seen[0], 4096, *seen[2:4], 50_000, *seen[5:10]))
    few = os.statvfs_result((seen[0], 4096, *seen[2:4], 1 << 30, 1 << 20, 5000, 5000, *seen[8:10]))
    for left, words in ((little, "256 MiB left"), (few, "10,000 files left")):
        monkeypatch.setattr(os, "statvfs", lambda _, left=left: left)
        assert words in refused(507, uploads.put, SHA, len(DATA), 0, DATA)
    assert files(tmp_path) == {}
    uncounted = os.statvfs_result((seen[0], 4096, *seen[2:4], 1 << 30, 0, 0, 0, *seen[8:10]))
    monkeypatch.setattr(os, "statvfs", lambda _: uncounted)
    assert uploads.put(SHA, len(DATA), 0, DATA).complete


def test_many_send_the_same_file_at_once(uploads: Uploads) -> None:
    """Each goes on where the others have come to; all of it is there once, and right."""
    done: list[Upload] = []

    def client() -> None:
        offset = 0
        while True:
            try:
                found = uploads.put(SHA, len(DATA), offset, DATA[offset : offset + 100])
            except RejectedError as refusal:
                offset = int((refusal.headers or {})["Upload-Offset"])
                continue
            if found.complete:
                done.append(found)
                return
            offset = found.received

    threads = [threading.Thread(target=client) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert done == [Upload(SHA, len(DATA), True)] * 8
    assert uploads.path(FILE).read_bytes() == DATA


def test_a_file_that_is_hashed_for_long_holds_up_no_other(
    uploads: Uploads, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many others are sent meanwhile; the locks of all are gone when they are there."""
    hashing, over, hash_of = threading.Event(), threading.Event(), uploads_module._hash

    def slow(file: int) -> str:
        if os.fstat(file).st_size == len(DATA):
            hashing.set()
            over.wait()
        return hash_of(file)

    monkeypatch.setattr(uploads_module, "_hash", slow)
    first = threading.Thread(target=send, args=(uploads,))
    first.start()
    hashing.wait()
    others = threading.Thread(target=lambda: [send(uploads, bytes([n, n + 1])) for n in range(200)])
    others.start()
    others.join(60)
    held_up = others.is_alive()
    over.set()
    first.join()
    others.join()
    assert not held_up
    assert uploads._locks == {}


def test_what_no_job_needs_goes_by_and_by(uploads: Uploads, tmp_path: Path, clock: Clock) -> None:
    """Files that no job needs are removed.

    Needed or recently used files stay; unfinished parts are removed after a day.
    """
    send(uploads)
    send(uploads, b"other")
    part = hashlib.sha256(b"part").hexdigest()
    uploads.put(part, 4, 0, b"pa")
    for path in (tmp_path / "uploads").iterdir():
        os.utime(path, (clock.now, clock.now))
    clock.now += 1.1 * DAY
    assert uploads.sweep(set, dry_run=True) == (1, 2)
    assert uploads.sweep(set) == (1, 2)
    clock.now += 7 * DAY
    assert uploads.sweep(lambda: {SHA}) == (1, 5)
    assert files(tmp_path) == {SHA: len(DATA)}
    uploads.use(FILE)
    assert uploads.sweep(set) == (0, 0)
    assert uploads.sweep(set, age=0.001) == (0, 0)
    clock.now += 200
    assert uploads.sweep(set, age=0.001) == (1, len(DATA))
    with pytest.raises(ValueError, match=r"app\.py: no file with the hash"):
        uploads.use(FILE)
    # What is gone does not count any more.
    for byte in (b"a", b"b"):
        send(uploads, byte * (1 << 20), 1 << 20)


def test_a_file_that_is_used_meanwhile_stays(uploads: Uploads, clock: Clock) -> None:
    """A file stays if a job names it while needed files are being determined."""
    send(uploads)
    os.utime(uploads.path(FILE), (0, 0))

    def needed() -> set[str]:
        uploads.use(FILE)
        return set()

    assert uploads.sweep(needed) == (0, 0)


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "../x.py", "a/b.py", "a\\b.py", "a\nb.py", "a\0b.py", "a,b.py", "-a.py", "stdout", "tmp"],
)
def test_names_that_lead_elsewhere_are_refused(name: str) -> None:
    """A name is refused if it leads elsewhere or would replace a file of the driver's folder."""
    with pytest.raises(ValueError, match="cannot be a file's name"):
        uploaded(f"stoker-file:{SHA}/{name}")


def test_names_of_uploaded_files() -> None:
    """Uploaded files' names are parsed; paths and other URIs are none."""
    assert uploaded(f"stoker-file:{SHA}/é b.py") == UploadedFile(SHA, "é b.py")
    assert uploaded(f"stoker-file:{SHA}/env.tgz#env") == UploadedFile(SHA, "env.tgz", "#env")
    assert [uploaded(text) for text in ("/a.py", "s3a://b/a.py", "stoker-file.py")] == [None] * 3
    for wrong in (f"stoker-file:{SHA}", f"stoker-file:{SHA.upper()}/a.py", f"stoker-file:{SHA[1:]}/a.py"):
        with pytest.raises(ValueError, match="should be stoker-file:SHA256/NAME"):
            uploaded(wrong)


def spec(app: str = f"stoker-file:{SHA}/app.py", **more: Any) -> JobSpec:
    """A job of uploaded files."""
    return JobSpec(app=app, **more)


def test_the_files_of_a_job() -> None:
    """Without their other names; two of one name could not lie in one folder."""
    other = f"stoker-file:{'0' * 64}"
    found = file_delivery.files_of(spec(files=("/x", f"{other}/a.txt"), archives=(f"{other}/e.tgz#e",)))
    assert [file.name for file in found.values()] == ["app.py", "a.txt", "e.tgz"]
    with pytest.raises(ValueError, match=r"two uploaded files are named app\.py"):
        file_delivery.files_of(spec(py_files=(f"{other}/app.py",)))
    (_, other_name) = file_delivery.files_of(spec(files=(f"{other}/a.txt#b",))).items()
    assert other_name == (f"{other}/a.txt", UploadedFile("0" * 64, "a.txt"))
    with pytest.raises(ValueError, match="a program cannot have another name"):
        file_delivery.files_of(spec(app=f"{other}/app.py#b.py"))


def test_keys_open_one_file_of_one_job() -> None:
    """A key needs the job's secret, opens one file of one job and does not reveal the secret."""
    other = UploadedFile("0" * 64, "other.py")
    key = file_delivery.key("secret", FILE)
    assert file_delivery.wanted([other, FILE], "secret", key) == FILE
    assert file_delivery.wanted([other], "secret", key) is None
    assert file_delivery.wanted([FILE], "another", key) is None
    assert file_delivery.wanted([FILE], "secret", "") is None
    assert file_delivery.wanted([FILE], "secret", "\xe9\udc80") is None
    address = file_delivery.url("http://h:1", "job-7", "secret", UploadedFile(SHA, "a b#?.py"))
    assert address.startswith("http://h:1/v1/fetch/job-7/")
    assert address.endswith("/a%20b%23%3F.py")
    assert "secret" not in address
    assert SHA not in address


def test_copies_are_the_jobs_and_go_nowhere_else(uploads: Uploads, tmp_path: Path) -> None:
    """Copies follow no link placed at their target; a job's changes to a copy stay in the copy."""
    send(uploads)
    folder, elsewhere = tmp_path / "driver", tmp_path / "elsewhere"
    folder.mkdir()
    elsewhere.write_text("mine")
    (folder / "app.py").symlink_to(elsewhere)
    owner = UnixAccount("nobody", 65534, 65534) if os.geteuid() == 0 else None
    file_delivery.copy_in(uploads, {FILE}, "", folder, owner)
    copy = folder / "app.py"
    assert (copy.is_symlink(), copy.read_bytes(), elsewhere.read_text()) == (False, DATA, "mine")
    assert copy.stat().st_uid == (os.geteuid() if owner is None else 65534)
    copy.write_text("changed")
    assert uploads.path(FILE).read_bytes() == DATA
    folder.rename(tmp_path / "moved")
    folder.symlink_to(tmp_path / "moved")
    with pytest.raises(OSError, match="driver"):
        file_delivery.copy_in(uploads, {FILE}, "", folder, owner)


def test_the_store_knows_which_files_are_needed(tmp_path: Path) -> None:
    """Those that jobs name which are not over."""
    other = "f" * 64
    store = Store(f"sqlite:///{tmp_path / 'stoker.db'}")
    scheduler = SmallScheduler(store)
    scheduler._add(spec(archives=(f"stoker-file:{other}/e.tgz#e",)), None)
    scheduler._add(JobSpec(app="/apps/stoker-file.py"), None)
    assert store.jobs.open.uploads_needed() == {SHA, other}
    scheduler.kill("job-1")
    assert store.jobs.open.uploads_needed() == set()
    store.close()


def test_small_files_fill_no_disk_with_their_number(tmp_path: Path) -> None:
    """A file counts some KiB at least, also after a restart: a disk has room for so many files only."""
    uploads = Uploads(tmp_path / "uploads", UploadsSection(size=1, total=1))
    for number in range(256):
        data = str(number).encode()
        uploads.put(hashlib.sha256(data).hexdigest(), len(data), 0, data)
    with pytest.raises(RejectedError, match="1 MiB are used"):
        uploads.put("0" * 64, 2, 0, b"x")
    again = Uploads(tmp_path / "uploads", UploadsSection(size=1, total=1))
    with pytest.raises(RejectedError, match="1 MiB are used"):
        again.put("0" * 64, 2, 0, b"x")
    assert again.sweep(set, age=-1.0)[0] == 256
    assert again.put("0" * 64, 2, 0, b"x").received == 1


def test_one_users_files_leave_room_for_those_of_others(tmp_path: Path, clock: Clock) -> None:
    """Half of what others leave, also for the next daemon; what is removed is free again."""
    rules = UploadsSection(size=4, total=8, age=7.0)
    uploads = Uploads(tmp_path / "uploads", rules, now=clock)

    def put(user: str, byte: int, size: int = 1 << 20) -> Upload:
        data = bytes([byte]) * size
        return uploads.put(hashlib.sha256(data).hexdigest(), size, 0, data, user)

    assert all(put("ann", byte).complete for byte in range(4))
    assert "ann has 4 uploaded files, 4 MiB: one user may have half" in refused(507, put, "ann", 4, 1)
    assert put("bob", 0).complete
    assert put("bob", 1).complete
    assert "bob has 2 uploaded files" in refused(507, put, "bob", 2)
    uploads = Uploads(tmp_path / "uploads", rules, now=clock)
    assert "ann has 4" in refused(507, put, "ann", 4)
    assert put("eve", 0).complete
    assert put("", 0).complete  # the config's own token has all of it
    for path in (tmp_path / "uploads").iterdir():
        os.utime(path, (0, 0))
    assert uploads.sweep(set)[0] == 8
    assert put("ann", 4).complete
    few = Uploads(tmp_path / "few", UploadsSection(size=4, total=6), now=clock)
    assert "half of the 6 MiB of all" in refused(413, few.put, SHA, 4 << 20, 0, b"x", "ann")
    assert few.put(SHA, 4 << 20, 0, b"x").received == 1


def test_one_users_files_leave_half_of_the_disk(
    uploads: Uploads, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of its bytes and of its files, where these are fewer than the config allows."""
    seen = os.statvfs(tmp_path)
    spared = uploads_module._SPARED // 4096
    little = os.statvfs_result((seen[0], 4096, *seen[2:4], spared + 4, *seen[5:10]))
    few = os.statvfs_result((seen[0], 4096, *seen[2:4], 1 << 30, 1 << 20, 10_001, 10_001, *seen[8:10]))
    for left in (little, few):
        monkeypatch.setattr(os, "statvfs", lambda _, left=left: left)
        assert "and of the disk" in refused(507, uploads.put, SHA, len(DATA), 0, DATA, "ann")
    assert files(tmp_path) == {}
    assert uploads.put(SHA, len(DATA), 0, DATA).complete
