"""Jobs that wait are counted by queue and user as they arrive, are placed, wait again and end."""

import sys
from dataclasses import replace
from typing import Any

from daemon.queues.waiting_counts import WaitingBook
from environment.model.messages.records import JobRecord
from environment.model.messages.states import JobState
from environment.queues.shares import ALL_QUEUES
from tests.builders import make_job


def record(number: int, queue: str, owner: str, state: JobState = "queued") -> JobRecord:
    """A job that came at that second."""
    return JobRecord(replace(make_job(f"job-{number}"), queue=queue, owner=owner, submitted_at=number), state)


def test_jobs_are_counted_in_their_queue_and_above_it() -> None:
    """A waiting job counts once in its queue and in each queue above, also after other changes.

    The jobs of each user have a count of their own.
    """
    book, first, second = WaitingBook(), record(1, "prod.etl", "ann"), record(2, "prod.ml", "bob")
    book.note([first, second, record(3, "default", "ann"), record(4, "dev", "ann", "running")])
    book.note([replace(first, reason="another")])
    assert [book.waiting(path) for path in ("prod", "prod.etl", "default", "dev", "x")] == [2, 1, 1, 0, 0]
    assert (book.waiting("prod", "ann"), book.waiting("prod", "cy")) == (1, 0)
    assert (book.waiting(ALL_QUEUES), book.waiting(ALL_QUEUES, "ann")) == (3, 2)
    assert book.longest()["prod"] == ("job-1", 1.0)
    assert book.waits_since() == 1.0
    book.note([replace(first, state="placing")])
    assert (book.waiting("prod"), book.longest()["prod"]) == (1, ("job-2", 2.0))
    book.note([replace(first, state="queued"), replace(second, state="killed")])
    assert (book.waiting("prod", "ann"), book.longest()["prod"]) == (1, ("job-1", 1.0))
    assert sorted(book.queues()) == ["default", "prod.etl"]
    book.note([replace(first, state="failed"), record(3, "default", "ann", "finished")])
    assert (book.longest(), book.queues(), book._counts) == ({}, [], {})


def test_who_is_held_is_counted_and_waits_for_nothing_yet() -> None:
    """A job with a time of its own has waited since that, however early it was submitted."""
    book, held = WaitingBook(), record(1, "prod", "ann")
    held = replace(held, job=replace(held.job, start_at=90.0))
    book.note([held, record(5, "prod", "bob")])
    assert (book.waiting("prod"), book.longest()["prod"]) == (2, ("job-5", 5.0))
    book.note([replace(held, released_at=90.0), record(5, "prod", "bob", "running")])
    assert (book.waiting("prod"), book.longest()["prod"]) == (1, ("job-1", 90.0))
    book.note([replace(held, released_at=90.0, state="killed")])
    assert (book.longest(), book.queues(), book._counts, book._queued) == ({}, [], {}, set())


def test_the_longest_wait_is_found_by_one_look_at_each_queue() -> None:
    """Where there are no queues, each job may name one of its own, of many levels."""
    book = WaitingBook()
    assert book.waits_since() is None
    for number in range(3, 600):
        book.note([record(number, ".".join([f"q{number}", *"a" * 90]), "ann")])
    lines = 0

    def count(*_: object) -> Any:
        nonlocal lines
        lines += 1
        return count

    sys.settrace(count)
    try:
        assert book.waits_since() == 3.0
    finally:
        sys.settrace(None)
    assert lines < 10_000
