"""Spark's event log is read; the one here was recorded of a real WordCount, and made shorter."""

from pathlib import Path

import pytest

from profiles.spark_event_log import EventLogError, find_log, read_log

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
    """What was complete counts, half a line does not, and nothing has ended."""
    text = RECORDED.read_text()
    (tmp_path / "app.inprogress").write_text(text[: text.index("SparkListenerStageCompleted") + 60])
    log = read_log(find_log(tmp_path))
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
    ],
)
def test_what_is_no_log(tmp_path: Path, text: str) -> None:
    """It is said which file is none."""
    path = tmp_path / "log"
    path.write_text(text)
    with pytest.raises(EventLogError, match=str(path)):
        read_log(path)


def test_a_folder_without_a_log(tmp_path: Path) -> None:
    """It is said which folder has none."""
    with pytest.raises(EventLogError, match="holds no event log"):
        find_log(tmp_path / "none")
