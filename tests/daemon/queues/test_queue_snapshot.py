"""The reason of a waiting job in queues: the number of jobs before it, or the limit."""

from dataclasses import replace

import pytest

from conf.loader import build
from conf.schema import SharingFile
from daemon.queues.queue_snapshot import QueueSnapshot, next_look
from environment.model.messages.records import JobRecord
from environment.queues.types import queues_of
from environment.resources import Resources
from tests.builders import make_job
from tests.daemon.queues.snapshots import seen

QUEUES = queues_of(
    build(
        SharingFile,
        {
            "queues": {
                "prod": {"queues": {"etl": {"most": {"cpus": 4}}, "ml": {}}},
                "dev": {"most": {"running": 1}},
            }
        },
        "queues",
    ).queues
)
HOLDS = (("prod.etl", "ann", Resources.of(3.0, 1024)), ("dev", "bob", Resources.of(1.0, 1024)))


def job(name: str, queue: str, executors: int = 1) -> JobRecord:
    """A job of executors with one cpu."""
    return JobRecord(replace(make_job(name, executors), queue=queue, owner="ann"))


@pytest.mark.parametrize(
    ("name", "queue", "executors", "why"),
    [
        ("first", "prod.etl", 1, ""),
        ("second", "prod.ml", 1,
         "1 job is before it (order: priority, fair); queue prod has had 1.5 times its share by weight"),
        ("third", "default", 1, "2 jobs are before it (order: priority, fair)"),
        ("other", "prod.etl", 2,
         "queue prod.etl may have 4 cpus at most and has 3; this takes 2; jobs behind it do not wait for it"),
        ("other", "dev", 1,
         "queue dev may have 1 running job at most and has 1; jobs behind it do not wait for it"),
        ("other", "prod.etl", 1, ""),
    ],
)  # fmt: skip
def test_why_a_job_waits(name: str, queue: str, executors: int, why: str) -> None:
    """The reason is the limit that blocks the job; a job just arrived has no reason yet."""
    sight = seen(QUEUES, *HOLDS, first=["first", "second", "third"])
    assert sight.why(job(name, queue, executors)) == why


def test_only_the_first_have_places() -> None:
    """A job behind the window has no place, only "more than N jobs are before it"."""
    sight = seen(QUEUES, first=["first", "second"], window=2, order=["shortest"])
    assert [sight.place(name) for name in ("first", "second", "third")] == [0, 1, None]
    assert sight.why(job("third", "prod.ml")) == "more than 2 jobs are before it (order: shortest)"
    assert QueueSnapshot(sight.standings).why(job("third", "prod.ml")) == ""


def test_dear_looks_are_rare() -> None:
    """Expensive snapshots use a fortieth of the time, unless the last one would grow too old."""
    assert next_look(10.0, 10.001) == pytest.approx(10.501)
    assert next_look(10.0, 10.03) == pytest.approx(11.23)
    assert next_look(10.0, 20.0) == pytest.approx(25.0)
