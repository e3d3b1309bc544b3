"""Spark's event log is read; the one here was recorded of a real WordCount, and made shorter."""

from pathlib import Path

import pytest

from profiles.event_lines import EventLogError, parts_of
from profiles.spark_event_log import read_log

RECORDED = Path(__file__).with_name("eventlog.jsonl")


def test_a_recorded_log() -> None:
    """Times, stages and the sums over their tasks are those in the file."""
    log = read_log(RECORDED)
    assert log.spark_version.startswith("3.5")
    assert (log.started_at, log.working_at, log.ended_at) == (1795268409.039, 1795268417.469, 1795268428.429)
    assert [(stage.stage, stage.tasks) for stage in log.stages] == [(0, 3), (1, 3), (3, 3), (5, 3), (7, 3)]
    first, second = log.stages[:2]
    assert first.name == "reduceByKey at wordcount.py:99"
    assert first.seconds == pytest.approx(5.383)
    assert first.task_seconds == pytest.approx(3.812 + 3.943 + 0.619)
    assert first.gc_seconds == pytest.approx(0.128)
    assert first.shuffle_write_mib == pytest.approx(second.shuffle_read_mib) != 0
    # In one process nothing is read from other executors: what went over the network are results.
    assert second.network_mib == pytest.approx((19625 + 19185 + 19842) / 2**20)


def test_a_log_that_was_cut_short(tmp_path: Path) -> None:
    """Complete lines count, half a line does not, and nothing has ended."""
    text = RECORDED.read_text()
    (tmp_path / "app.inprogress").write_text(text[: text.index("SparkListenerStageCompleted") + 60])
    log = read_log(tmp_path / "app.inprogress")
    assert [(stage.stage, stage.tasks, stage.seconds) for stage in log.stages] == [(0, 3, 0.0)]
    assert log.ended_at is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no event\n",
        "[]\n",
        '{"Event": "SparkListenerLogStart", "Spark Version": "3"}\n',
        '{"Event": "SparkListenerApplicationStart"}\n',
        '{"Event": "SparkListenerApplicationStart", "Timestamp": "now"}\n',
        '{"Event": "SparkListenerTaskEnd", "Stage ID": [], "Stage Attempt ID": 0}\n',
        "[" * 100_000 + "\n",
        '{"Event": "SparkListenerApplicationStart", "Timestamp": 1e999}\n',
        '{"Event": "SparkListenerApplicationStart", "Timestamp": NaN}\n',
        '{"Event": "SparkListenerApplicationStart", "Timestamp": -1}\n',
        f'{{"Event": "SparkListenerApplicationStart", "Timestamp": 1{"0" * 400}}}\n',
    ],
)
def test_what_is_no_log(tmp_path: Path, text: str) -> None:
    """It is said which file is none."""
    path = tmp_path / "log"
    path.write_text(text)
    with pytest.raises(EventLogError, match=str(path)):
        read_log(path)


@pytest.mark.parametrize("codec", ["zstd", "lz4", "snappy", "lzf"])
def test_a_log_that_spark_packed(codec: str, tmp_path: Path) -> None:
    """Spark 3.5's own codecs are read; a cut-off log has its earlier events, and nonsense is no log."""
    packed = RECORDED.with_name(f"eventlog.jsonl.{codec}")
    assert read_log(packed) == read_log(RECORDED)
    whole = packed.read_bytes()
    twice = tmp_path / f"app.{codec}.inprogress"
    twice.write_bytes(whole * 20 + whole[: len(whole) // 2])
    stages = [(stage.stage, round(stage.tasks, -1)) for stage in read_log(twice).stages]
    assert stages == [(0, 60), (1, 60), (3, 60), (5, 60), (7, 60)], "but for the last lines"
    for number, nonsense in enumerate((b"no such stream" * 9, whole[:20] + b"\xff" * 200, b"\x7f" * 64)):
        path = tmp_path / f"{number}.{codec}"
        path.write_bytes(nonsense)
        with pytest.raises(EventLogError, match=str(path)):
            read_log(path)


def rolled(folder: Path, *names: str) -> Path:
    """The recorded log in a folder, cut into so many files in the way of Spark."""
    folder.mkdir()
    (folder / "appstatus_app-1").touch()
    lines = RECORDED.read_text().splitlines(keepends=True)
    size = -(-len(lines) // len(names))
    for number, name in enumerate(names):
        (folder / name).write_text("".join(lines[size * number : size * (number + 1)]))
    return folder


def test_a_log_of_several_files(tmp_path: Path) -> None:
    """In the order of their numbers, packed or not; a compacted one stands for those before it."""
    whole = read_log(RECORDED)
    ten = [f"events_{number}_app-1" for number in range(1, 12)]
    assert read_log(rolled(tmp_path / "eventlog_v2_app-1", *ten)) == whole
    old = rolled(tmp_path / "eventlog_v2_app-2", "events_3_app-2.compact", "events_4_app-2", "events_5_app-2")
    for number in (1, 2, 3):
        (old / f"events_{number}_app-2").write_text("nothing of it counts any more\n")
    assert read_log(old) == whole
    packed = tmp_path / "eventlog_v2_app-3"
    packed.mkdir()
    (packed / "events_1_app-3.zstd").write_bytes(RECORDED.with_name("eventlog.jsonl.zstd").read_bytes())
    (packed / "appstatus_app-3.inprogress").touch()
    assert read_log(packed) == whole


def test_a_log_of_which_files_are_missing_is_none(tmp_path: Path) -> None:
    """Sums over a part of its stages would be taken for all of them."""
    for number, gone in enumerate((1, 2)):
        names = [f"events_{number}_app-1" for number in (1, 2, 3)]
        folder = rolled(tmp_path / str(number), *names)
        (folder / f"events_{gone}_app-1").unlink()
        with pytest.raises(EventLogError, match=f"file {gone} of the event log is missing"):
            read_log(folder)
    with pytest.raises(EventLogError, match="no event log"):
        parts_of([])
    with pytest.raises(EventLogError, match="no event log"):
        read_log(tmp_path / "none")


@pytest.mark.parametrize("codec", ["plain", "zstd", "lz4", "snappy", "lzf"])
@pytest.mark.parametrize("cut", [0, 1, 2])
def test_a_log_of_which_a_part_is_cut_is_none(codec: str, cut: int, tmp_path: Path) -> None:
    """Unless it is the last one, which the driver may not have written to its end."""
    end = "" if codec == "plain" else f".{codec}"
    content = RECORDED.with_name(f"eventlog.jsonl{end}").read_bytes()
    whole, empty = tmp_path / "whole", tmp_path / "empty"
    names = [f"events_{number}_app-1{end}" for number in (1, 2, 3)]
    for folder in (whole, empty):
        folder.mkdir()
        for name in names:
            (folder / name).write_bytes(content)
    tasks = sum(stage.tasks for stage in read_log(whole).stages)
    assert tasks == 45
    # The end of a stream, too: not every cut goes through a line.
    (whole / names[cut]).write_bytes(content[: -1 if codec in ("zstd", "lz4") else len(content) * 2 // 3])
    (empty / names[cut]).write_bytes(b"")
    for folder in (whole, empty):
        if cut == 2:
            assert 30 <= sum(stage.tasks for stage in read_log(folder).stages) <= tasks
        else:
            with pytest.raises(EventLogError, match=f"{folder}: {names[cut]} of it is empty or cut short"):
                read_log(folder)
