"""Finding, opening and reading logs: every format, folders, archives, S3; unreadable ones are named."""

import bz2
import contextlib
import errno
import gzip
import hashlib
import io
import json
import lzma
import math
import os
import tarfile
import tracemalloc
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow
import pytest

from audit.applications import LoggedApplication
from audit.log_files import LogFiles, LogsError, Unread, find_logs
from audit.read_logs import ReadLogs, read_log, read_logs
from profiles.event_lines import EventLogError, parts_of
from tests.audit.made_logs import (
    ETL,
    SHARED,
    added,
    app_end,
    app_start,
    environment,
    log_start,
    stage,
    task,
    text_of,
    written,
)
from tests.profiles.test_spark_event_log import RECORDED

TEXT = text_of(ETL).encode()
#: The log of another application, as long.
OTHER = TEXT.replace(b'"app-1"', b'"app-2"')


def packed(codec: str, text: bytes = TEXT) -> bytes:
    """The log, packed as Spark packs it."""
    if codec == "gz":
        return gzip.compress(text)
    block: bytes = pyarrow.Codec("lz4_raw" if codec == "lz4" else codec).compress(text, asbytes=True)
    if codec == "zstd":
        return block
    if codec == "snappy":
        return b"\x82SNAPPY\x00" + b"\0\0\0\1" * 2 + len(block).to_bytes(4, "big") + block
    sizes = len(block).to_bytes(4, "little") + len(text).to_bytes(4, "little")
    return b"LZ4Block" + b"\x25" + sizes + b"\0\0\0\0" + block + b"LZ4Block" + b"\x15" + b"\0" * 12


def dollars(read: ReadLogs) -> list[float]:
    """Core-seconds of all applications."""
    return [each.paid_core_seconds for each in read.applications]


@pytest.mark.parametrize("codec", ["gz", "zstd", "snappy", "lz4"])
@pytest.mark.parametrize("name", ["app-1", "app-1.{}", "app-1.{}.inprogress"])
def test_packed_logs(tmp_path: Path, codec: str, name: str) -> None:
    """Packed in any way, and under any name: copies lose their ends."""
    (tmp_path / name.format(codec)).write_bytes(packed(codec))
    assert dollars(read_logs([str(tmp_path)])) == [186]


@pytest.mark.parametrize("codec", ["zstd", "lz4", "snappy", "lzf"])
def test_logs_that_spark_packed(codec: str) -> None:
    """Spark's own files are read; see `tests/profiles`."""
    one, other = (read_logs([f"{RECORDED}{end}"]).applications[0] for end in ("", f".{codec}"))
    assert one.executors == other.executors
    assert one.log_bytes == other.log_bytes


def test_packed_logs_that_were_cut_short(tmp_path: Path) -> None:
    """They count until the last line that can be unpacked."""
    for codec, text in (("gz", TEXT), ("zstd", OTHER)):
        whole = packed(codec, text)
        path = tmp_path / codec
        path.write_bytes(whole[: len(whole) * 3 // 4])
    (tmp_path / "small").write_bytes(packed("gz", OTHER.replace(b'"app-2"', b'"app-4"'))[:-8])
    long = TEXT.replace(b'"app-1"', b'"app-3"') * 501
    (tmp_path / "long").write_bytes(gzip.compress(long)[:-100])
    read = read_logs([str(tmp_path)])
    found = {Path(each.log).name: each for each in read.applications}
    # Of the small one the trailer alone is missing.
    assert found.keys() == {"gz", "small", "long"}
    assert (found["small"].tasks, found["gz"].tasks > 0, found["long"].tasks > 2000) == (5, True, True)
    assert [name for name, each in found.items() if each.cut_short] == ["gz"]
    assert [Path(each.name).name for each in read.unread] == ["zstd"]  # one block, of which nothing is whole


def test_folders_of_one_log(tmp_path: Path) -> None:
    """Rolled logs of Spark and of Databricks are one application each; a missing part is named."""
    lines, others = TEXT.splitlines(keepends=True), OTHER.splitlines(keepends=True)
    spark, bricks, broken = (tmp_path / name for name in ("eventlog_v2_app-1", "123/eventlog", "v2_app-2"))
    for folder in (spark, bricks, broken):
        folder.mkdir(parents=True)
    (spark / "appstatus_app-1").touch()
    (spark / "events_1_app-1").write_bytes(b"".join(lines[:6]))
    (spark / "events_2_app-1.gz").write_bytes(gzip.compress(b"".join(lines[6:])))
    (bricks / "eventlog-2026-11-01--00-10.gz").write_bytes(gzip.compress(b"".join(others[:4])))
    (bricks / "eventlog-2026-11-01--00-20.gz").write_bytes(gzip.compress(b"".join(others[4:8])))
    (bricks / "eventlog").write_bytes(b"".join(others[8:]))
    (broken / "events_2_app-2").write_bytes(TEXT)
    read = read_logs([str(tmp_path)])
    assert dollars(read) == [186, 186]
    assert [each.why for each in read.unread] == [f"{broken}: file 1 of the event log is missing"]


LOST = ["plain", "empty", "gz", "zstd", "snappy", "lz4"]


def in_parts(folder: Path, codec: str, cut: int | None) -> list[str]:
    """The log in a folder, in three files, one of which is cut by a quarter; the files' names."""
    folder.mkdir(parents=True)
    lines = TEXT.splitlines(keepends=True)
    end = "" if codec in ("plain", "empty") else f".{codec}"
    names = [f"events_{number}_app-1{end}" for number in (1, 2, 3)]
    for number, (name, part) in enumerate(zip(names, (lines[:6], lines[6:10], lines[10:]), strict=True)):
        content = packed(codec, b"".join(part)) if end else b"".join(part)
        left = 0 if codec == "empty" else len(content) * 3 // 4
        (folder / name).write_bytes(content[:left] if number == cut else content)
    return names


@pytest.mark.parametrize("codec", LOST)
def test_a_part_of_a_log_that_is_cut_is_named(tmp_path: Path, codec: str) -> None:
    """Its application counts as cut; complete logs have no note, and the last part may be cut."""
    whole, middle, last = (tmp_path / f"{name}/eventlog_v2_app-1" for name in ("whole", "middle", "last"))
    in_parts(whole, codec, None)
    (app,) = read_logs([str(whole)]).applications
    assert (app.paid_core_seconds, app.cut_short, app.notes, app.lost_parts) == (186, False, (), ())
    name = in_parts(middle, codec, 1)[1]
    (app,) = read_logs([str(middle)]).applications
    assert (app.cut_short, app.lost_parts, app.seconds) == (True, (name,), 60)
    assert app.notes == (f"{name} of its log is empty or cut short: events are missing",)
    in_parts(last, codec, 2)
    (app,) = read_logs([str(last)]).applications
    assert (app.cut_short, app.lost_parts) == (True, ())


@pytest.mark.parametrize("codec", LOST)
def test_a_first_part_that_is_cut_is_named(tmp_path: Path, codec: str) -> None:
    """Also where it would have told that an application has started."""
    folder = tmp_path / "eventlog_v2_app-1"
    name = in_parts(folder, codec, 0)[0]
    if codec in ("plain", "gz"):
        (app,) = read_logs([str(folder)]).applications
        assert (app.cut_short, app.lost_parts) == (True, (name,))
    else:
        with pytest.raises(LogsError, match=rf"{name}: empty or cut short"):
            read_logs([str(folder)])


def test_a_cut_part_in_an_archive_is_named(tmp_path: Path) -> None:
    """By its own name, and not by that under which it was unpacked."""
    name = in_parts(tmp_path / "eventlog_v2_app-1", "lz4", 1)[1]
    with tarfile.open(tmp_path / "logs.tar", "w") as tar:
        tar.add(tmp_path / "eventlog_v2_app-1", "eventlog_v2_app-1")
    (app,) = read_logs([str(tmp_path / "logs.tar")]).applications
    assert app.lost_parts == (name,)


def test_parts_without_a_last_line_end_are_complete(tmp_path: Path) -> None:
    """A program that copied them left it out: the line is an event."""
    folder = tmp_path / "eventlog_v2_app-1"
    for name in in_parts(folder, "plain", None):
        (folder / name).write_bytes((folder / name).read_bytes()[:-1])
    (app,) = read_logs([str(folder)]).applications
    assert (app.paid_core_seconds, app.cut_short, app.notes) == (186, False, ())


@pytest.mark.parametrize("suffix", [".tar", ".tar.gz", ".tgz"])
def test_archives(tmp_path: Path, suffix: str) -> None:
    """The logs in them are read, and named by the archive."""
    written(tmp_path / "logs", ETL)
    archive = tmp_path / f"month{suffix}"
    with tarfile.open(archive, "w:gz" if "gz" in suffix else "w") as tar:
        tar.add(tmp_path / "logs", "logs")
    (read,) = read_logs([str(archive)]).applications
    assert (read.log, read.paid_core_seconds) == (f"{archive}/logs/app-1", 186)
    archive.write_bytes(archive.read_bytes()[:200])
    with pytest.raises(LogsError, match="cannot be unpacked"):
        read_logs([str(archive)])


def test_s3(monkeypatch: pytest.MonkeyPatch) -> None:
    """Objects below a prefix are read; what S3 says of a bucket that is not there is told."""
    moto = pytest.importorskip("moto")
    boto3 = pytest.importorskip("boto3")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with moto.mock_aws():
        client = boto3.client("s3")
        client.create_bucket(Bucket="spark-logs")
        client.put_object(Bucket="spark-logs", Key="spark/app-1", Body=TEXT)
        client.put_object(Bucket="spark-logs", Key="spark/v2/events_1_app-2.gz", Body=gzip.compress(OTHER))
        client.put_object(Bucket="spark-logs", Key="other/app-3", Body=TEXT)
        read = read_logs(["s3://spark-logs/spark/"])
        names = [each.log.removeprefix("s3://spark-logs/spark/") for each in read.applications]
        assert names == ["app-1", "v2"]
        assert dollars(read) == [186, 186]
        with pytest.raises(LogsError, match="s3://none/: "):
            read_logs(["s3://none/"])


def test_what_is_no_log_is_named(tmp_path: Path) -> None:
    """Nothing is dropped silently."""
    written(tmp_path, ETL)
    written(tmp_path, ETL, "app-2")
    (tmp_path / "notes.txt").write_text("no log\n")
    (tmp_path / "empty").touch()
    (tmp_path / "_SUCCESS").touch()
    (tmp_path / "random").write_bytes(bytes(range(256)) * 99)
    read = read_logs([str(tmp_path)])
    assert len(read.applications) == 2
    assert {Path(each.name).name: each.why for each in read.unread} == {
        "notes.txt": "no application has started in it; 1 line of 1 without an event",
        "empty": "empty",
        "_SUCCESS": "a file of the file system, not of Spark",
        "random": "no application has started in it; 99 lines of 99 without an event",
    }


def test_a_run_counts_once(tmp_path: Path) -> None:
    """Copies, an unfinished log beside the complete one, and places within others cost nothing more."""
    written(tmp_path, ETL)
    (tmp_path / "app-1.inprogress").write_bytes(TEXT[:-200])
    (tmp_path / "b").mkdir()
    (tmp_path / "b/copy.gz").write_bytes(packed("gz"))
    written(tmp_path, [app_start(at=9, attempt="2"), *ETL[3:]], "app-1.second")
    read = read_logs([str(tmp_path), str(tmp_path / "b")])
    assert [Path(each.log).name for each in read.applications] == ["app-1", "app-1.second"]
    same = [Path(each.name).name for each in read.unread if each.why == f"the same run as {tmp_path}/app-1"]
    assert sorted(same) == ["app-1.inprogress", "copy.gz", "copy.gz"]


def test_logs_of_several_applications_are_not_mixed(tmp_path: Path) -> None:
    """Rolled ones in one folder are read apart; of a file with several, none is taken for the whole."""
    lines, others = TEXT.splitlines(keepends=True), OTHER.splitlines(keepends=True)
    for name, parts in (("app-1", lines), ("app-2", others)):
        (tmp_path / f"appstatus_{name}").touch()
        (tmp_path / f"events_1_{name}").write_bytes(b"".join(parts[:6]))
        (tmp_path / f"events_2_{name}.gz").write_bytes(gzip.compress(b"".join(parts[6:])))
    (tmp_path / "joined").write_bytes(TEXT + OTHER)
    read = read_logs([str(tmp_path)])
    assert dollars(read) == [186, 186]
    assert [each.log for each in read.applications] == [f"{tmp_path}/app-1", f"{tmp_path}/app-2"]
    (unread,) = read.unread
    assert unread.why == "2 applications started in it: app-1, app-2; give each a log of its own"
    with pytest.raises(EventLogError, match=r"of 2 applications \(app-1, app-2\)"):
        parts_of([str(each) for each in tmp_path.glob("events_*")])


def test_what_cannot_be_looked_into_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders that are linked or closed, and links that lead nowhere."""
    written(tmp_path / "logs", ETL)
    written(tmp_path / "elsewhere", ETL, "app-2")
    (tmp_path / "logs/link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "logs/gone").symlink_to(tmp_path / "none")
    closed = tmp_path / "logs/closed"
    closed.mkdir()
    scandir = os.scandir

    def refused(path: Any) -> Any:
        if path == str(closed):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refused)
    read = read_logs([str(tmp_path / "logs")])
    assert len(read.applications) == 1
    assert {Path(each.name).name: each.why for each in read.unread} == {
        "link": "a link to a folder; name that as well",
        "gone": "no regular file, or a link to none",
        "closed": "cannot be listed: Permission denied",
    }


def test_places_without_a_log(tmp_path: Path) -> None:
    """Each is one line with what to do."""
    with pytest.raises(LogsError, match="does not exist; name a folder"):
        find_logs([str(tmp_path / "none")], tmp_path)
    with pytest.raises(LogsError, match=r"holds no event log; name the folder of spark\.eventLog\.dir"):
        read_logs([str(tmp_path)])
    (tmp_path / "notes").write_text("hello\n")
    with pytest.raises(LogsError, match="none of 1 file is an event log of Spark"):
        read_logs([str(tmp_path)])


def test_since(tmp_path: Path) -> None:
    """Applications that ended before are left out and counted."""
    written(tmp_path, ETL)
    written(tmp_path, [app_start(at=1e6), *ETL[3:-1]], "app-2")
    read = read_logs([str(tmp_path)], since=ETL[-1]["Timestamp"] / 1000 + 1)
    assert [Path(each.log).name for each in read.applications] == ["app-2"]
    assert [each.why for each in read.unread] == ["it ended before --since"]
    with pytest.raises(LogsError, match="all 2 applications ended before --since"):
        read_logs([str(tmp_path)], since=4e9)


def test_many_logs_in_several_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The result is the same, and progress reaches the end."""
    monkeypatch.setattr("audit.read_logs._WORTH_PROCESSES", 0)
    for number in range(4):
        written(tmp_path, ETL, f"app-{number}")
    (tmp_path / "none").write_text("no log\n")
    told: list[tuple[int, int, str]] = []
    read = read_logs([str(tmp_path)], None, lambda *each: told.append(each), processes=2)
    assert dollars(read) == [186] * 4
    assert len(read.unread) == 1
    assert told[-1][0] == told[-1][1] == 4 * len(TEXT) + 7


@pytest.mark.skipif(not SHARED.is_dir(), reason="the recorded event logs are not on this machine")
def test_recorded_logs_of_other_platforms() -> None:
    """All are read: EMR, Databricks, YARN with GPUs and dynamic allocation, local, rolled, cut short."""
    read = read_logs([str(SHARED)])
    assert [each.why for each in read.unread] == []
    assert len(read.applications) == read.logs == 7
    gpus = next(each for each in read.applications if each.id == "application_1707709865217_0493")
    assert (len(gpus.executors), gpus.tasks, gpus.dynamic, gpus.queue) == (15, 235, True, "default")
    assert {each.gpus for each in gpus.executors} == {1.0}
    assert {each.memory_mib for each in gpus.executors} == {28672}
    assert all(each.executors for each in read.applications)


def test_an_archive_is_not_unpacked_without_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The member with which it would be too large is not written, and the error names the bound."""
    archive = tmp_path / "logs.tar"
    with tarfile.open(archive, "w") as tar:
        for name in ("small", "large"):
            log = tmp_path / name
            log.write_bytes(b"x" * (100 if name == "small" else 5000))
            tar.add(log, name)
    monkeypatch.setattr("audit.log_files._MOST_UNPACKED", 1 << 12)
    with pytest.raises(LogsError, match=r"logs.tar: cannot be unpacked: it holds more than .* GiB; unpack"):
        find_logs([str(archive)], tmp_path / "scratch")
    assert [path.stat().st_size for path in (tmp_path / "scratch").iterdir()] == [100]


def test_members_of_an_archive_lead_nowhere(tmp_path: Path) -> None:
    """Links, absolute names and `..` write nothing outside of the scratch folder, nor read anything there."""
    written(tmp_path / "logs", ETL)
    outside = tmp_path / "outside"
    outside.write_text("mine")
    steps, folder = "abcdefghijklmnop", "d" * 247
    with tarfile.open(tmp_path / "logs/evil.tar", "w") as tar:

        def link(name: str, to: str, kind: bytes = tarfile.SYMTYPE) -> None:
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, to
            tar.addfile(member)

        # A path that is too long for the interpreter to follow leads out in spite of its filter.
        for number, step in enumerate(steps):
            path = "/".join([folder] * number)
            member = tarfile.TarInfo(f"{path}/{folder}")
            member.type = tarfile.DIRTYPE
            tar.addfile(member)
            link(f"{path}/{step}", folder)
        far = "/".join(steps) + "/" + "l" * 254
        link(far, "../" * len(steps))
        link("escape", f"{far}{'/..' * 40}{outside}")
        link("again", "escape", tarfile.LNKTYPE)
        for name in ("again", str(outside), f"../../../..{outside}", "escape"):
            member = tarfile.TarInfo(name)
            member.size = 5
            tar.addfile(member, io.BytesIO(b"owned"))
    read = read_logs([str(tmp_path / "logs")])
    assert [each.id for each in read.applications] == ["app-1"]
    assert outside.read_text() == "mine"
    assert not any("mine" in each.why for each in read.unread)


def test_archives_in_one_another_have_one_limit(tmp_path: Path) -> None:
    """One can be made that contains itself; one that cannot be unpacked does not keep others from it."""
    written(tmp_path / "logs", ETL)
    inner = tmp_path / "logs/app-1"
    for number in range(6):
        outer = tmp_path / f"{number}.tar"
        with tarfile.open(outer, "w") as tar:
            tar.add(inner, inner.name)
        inner = outer
    (tmp_path / "logs/deep.tar").write_bytes(inner.read_bytes())
    read = read_logs([str(tmp_path / "logs")])
    assert len(read.applications) == 1
    (unread,) = read.unread
    assert "it lies in 4 others" in unread.why


def header(size: int, kind: bytes, content: bytes = b"") -> bytes:
    """A member of an archive."""
    told = tarfile.TarInfo("log")
    told.size, told.type = size, kind
    return told.tobuf(tarfile.USTAR_FORMAT) + content + bytes(-len(content) % 512)


def attributes(**pairs: str) -> bytes:
    """A header with attributes of the next member, each shorter than a hundred characters."""
    lines = (f" {name.replace('_', '.')}={value}\n" for name, value in pairs.items())
    content = "".join(f"{len(line) + 2}{line}" for line in lines).encode()
    return header(len(content), tarfile.XHDTYPE, content)


#: Archives that would fill the memory, end the command, or raise the limit of all others.
HEADERS = {
    "a thousand names": (header(5, tarfile.GNUTYPE_LONGNAME, b"abcd\0") * 1000, "more than 16 headers"),
    "a thousand attributes": (attributes(comment="12345") * 1000, "more than 16 headers"),
    "attributes of all": (
        header(12, tarfile.XGLTYPE, b"12 a=123456\n") * 9 + header(0, tarfile.REGTYPE)
        + header(12, tarfile.XGLTYPE, b"12 a=123456\n") * 9,
        "more than 16 headers",
    ),
    "below nothing": (attributes(size="-1000000") + header(0, tarfile.REGTYPE), "a member of -1000000 bytes"),
    "holes": (
        attributes(GNU_sparse_major="1", GNU_sparse_minor="0", GNU_sparse_realsize="10")
        + header(1 << 20, tarfile.REGTYPE, b"100000\n" + b"0\n" * 200_000),
        "a sparse file",
    ),
    "holes of GNU": (header(512, tarfile.GNUTYPE_SPARSE, bytes(512)), "a sparse file"),
}  # fmt: skip


@pytest.mark.parametrize("content", HEADERS)
def test_no_headers_of_an_archive_fill_the_memory_or_end_the_command(content: str, tmp_path: Path) -> None:
    """Names and attributes in a row are read by a call in a call, and lists of holes have no end."""
    packed, why = HEADERS[content]
    (tmp_path / "a.tar").write_bytes(packed + header(3, tarfile.REGTYPE, b"{}\n") + bytes(1024))
    with pytest.raises(LogsError, match=why):
        find_logs([str(tmp_path / "a.tar")], tmp_path / "scratch")


@pytest.mark.parametrize("kind", [tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE])
def test_a_name_in_an_archive_is_bounded(tmp_path: Path, kind: bytes) -> None:
    """It is read whole before it is a name: a small archive could take all memory."""
    header = tarfile.TarInfo("long")
    header.type, header.size = kind, 1 << 40
    (tmp_path / "evil.tar").write_bytes(header.tobuf(tarfile.GNU_FORMAT))
    with pytest.raises(LogsError, match="a name or attributes of 1099511627776 bytes"):
        find_logs([str(tmp_path / "evil.tar")], tmp_path / "scratch")


def of_zeros(mib: int) -> bytes:
    """An archive with one member of so many MiB, all zeros."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as tar:
        member = tarfile.TarInfo("log")
        member.size = mib << 20
        tar.addfile(member, io.BytesIO(bytes(member.size)))
    return raw.getvalue()


def many_attributes() -> bytes:
    """An archive of small members, each with attributes of 60 kB."""
    member = tarfile.TarInfo("log")
    member.pax_headers = {"comment": "x" * 60_000}
    return member.tobuf(tarfile.PAX_FORMAT) * 500 + bytes(1024)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.tar.bz2", bz2.compress(of_zeros(32))),
        ("a.tar.xz", lzma.compress(of_zeros(32))),
        ("a.tar.gz", gzip.compress(many_attributes(), 1)),
    ],
)
def test_no_archive_takes_memory_with_its_size(tmp_path: Path, name: str, content: bytes) -> None:
    """A packed one holds thousands of times its bytes, and its members' attributes are forgotten."""
    (tmp_path / name).write_bytes(content)
    tracemalloc.start()
    try:
        with contextlib.suppress(LogsError):
            find_logs([str(tmp_path / name)], tmp_path / "scratch")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 20 << 20


def test_an_xz_that_asks_for_gigabytes_is_refused(tmp_path: Path) -> None:
    """By its header, which says how far back its content may refer."""
    packed = bytearray(lzma.compress(of_zeros(1)))
    header = packed[12:20]  # of its first block: length, flags, filter and length of its properties; one byte
    header[4] = 40  # 4 GiB
    packed[12:20] = header
    packed[20:24] = zlib.crc32(header).to_bytes(4, "little")
    (tmp_path / "a.tar.xz").write_bytes(packed)
    with pytest.raises(LogsError, match="cannot be unpacked: Memory usage limit exceeded"):
        find_logs([str(tmp_path / "a.tar.xz")], tmp_path / "scratch")


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_a_damaged_archive_ends_no_audit(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    """For any error of its library, and for damage anywhere."""
    written(tmp_path / "logs", ETL)
    whole = pack(
        of_zeros(1)[:512] + bytes(range(256)) * 40 + hashlib.shake_128(b"1").hexdigest(40_000).encode()
    )
    for at in range(20, len(whole), 997):
        damaged = bytearray(whole)
        damaged[at] ^= 1 << at % 8
        (tmp_path / "logs/damaged.tar.gz").write_bytes(damaged)
        assert len(read_logs([str(tmp_path / "logs")]).applications) == 1


def test_parts_of_a_packed_archive_are_one(tmp_path: Path) -> None:
    """As several processes pack them, one after the other."""
    for pack in (bz2.compress, lzma.compress):
        whole = of_zeros(1)
        (tmp_path / "a.tar.bz2").write_bytes(pack(whole[:5000]) + pack(whole[5000:]))
        scratch = tmp_path / pack.__module__
        (log,) = find_logs([str(tmp_path / "a.tar.bz2")], scratch).logs
        assert log.size == 1 << 20


def test_a_log_that_becomes_a_fifo_is_not_waited_for(tmp_path: Path) -> None:
    """The writer of a log can exchange it after it was found."""
    found = find_logs([str(written(tmp_path / "logs", ETL))], tmp_path / "scratch")
    (tmp_path / "logs/app-1").unlink()
    os.mkfifo(tmp_path / "logs/app-1")
    (log,) = found.logs
    assert read_log(log) == Unread(log.name, "not a regular file")


_HOSTILE = [-1, 1e300, float("inf"), float("nan"), 10**400, "x", None, [], {}, 1 << 60]


@pytest.mark.parametrize("value", _HOSTILE, ids=lambda value: str(value)[:5])
def test_no_value_of_one_log_spoils_the_others(tmp_path: Path, value: object) -> None:
    """A log that anybody may have written is read in part or not at all; every number stays finite."""
    events = [*ETL, added("9", 1), task("9", 2, 3, stage=1)]
    for number, event in enumerate(events):
        for path in _paths(event):
            changed = json.loads(json.dumps(event))
            *parents, last = path
            inner = changed
            for parent in parents:
                inner = inner[parent]
            inner[last] = value
            log = written(tmp_path, [*events[:number], changed, *events[number + 1 :]])
            found = read_log(LogFiles("log", (str(log),), 1))
            if isinstance(found, LoggedApplication):
                assert 0 <= found.seconds < 1e10
                assert math.isfinite(found.paid_core_seconds + found.input_mib + found.spilled_mib)


def _paths(event: Mapping[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for key, value in event.items():
        yield (*above, key)
        if isinstance(value, Mapping):
            yield from _paths(value, (*above, key))


def test_a_damaged_pack_is_one_unread_log(tmp_path: Path) -> None:
    """Whatever its library raises."""
    written(tmp_path / "logs", ETL)
    packed = bytearray(gzip.compress(b'{"Event":"SparkListenerLogStart"}\n' * 100))
    packed[10:30] = b"\xff" * 20
    (tmp_path / "logs/damaged").write_bytes(packed)
    assert [each.name for each in read_logs([str(tmp_path / "logs")]).unread] == [f"{tmp_path}/logs/damaged"]


@pytest.mark.parametrize(
    ("cores", "conf"),
    [
        (4, {"executor__memory": "1p"}),
        (4, {"executor__memory": "40000g"}),
        (10**12, {}),
        (0, {"task__cpus": "1e9"}),
    ],
)
def test_executors_that_cannot_be_are_refused(tmp_path: Path, cores: int, conf: dict[str, str]) -> None:
    """A VM type for them would end the report on all logs."""
    events = [log_start(), environment(**conf), app_start(), added("1", 2, cores=cores)]
    path = written(tmp_path, [*events, task("1", 3, 9), stage(0, 3, 9), app_end(10)])
    found = read_log(LogFiles(path.name, (str(path),), path.stat().st_size))
    assert isinstance(found, Unread)
    assert "an executor of it cannot be" in found.why
