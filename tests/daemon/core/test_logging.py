"""The daemon logs every event, unless one kind arrives by the thousand."""

import logging
from asyncio import CancelledError

import pytest
import structlog

from daemon.core.logging import Throttle, configure_logging, say_suppressed


def events(throttle: Throttle, text: str, count: int) -> list[dict[str, object]]:
    """Those of so many events that are let through."""
    through = []
    for _ in range(count):
        try:
            through.append(dict(throttle(None, "info", {"event": text})))
        except structlog.DropEvent:
            continue
    return through


def test_one_kind_is_limited_and_the_others_are_not() -> None:
    """A burst of ten seconds' worth is logged, then the rate; dropped events are counted in the next line."""
    now = [0.0]
    throttle = Throttle(5.0, lambda: now[0])
    assert len(events(throttle, "Invalid HTTP request received.", 1000)) == 50
    assert len(events(throttle, "job accepted", 50)) == 50
    now[0] = 2.0
    late = events(throttle, "Invalid HTTP request received.", 1000)
    assert len(late) == 10
    assert late[0]["suppressed_before"] == 950
    assert "suppressed_before" not in late[1]


def test_what_nothing_followed_is_told_of_all_the_same() -> None:
    """Once it is over."""
    now = [0.0]
    throttle = Throttle(5.0, lambda: now[0])
    events(throttle, "again and again", 80)
    assert throttle.suppressed() == []
    now[0] = 60.0
    assert throttle.suppressed() == [("again and again", 30)]
    assert throttle.suppressed() == []


def test_kinds_without_end_take_no_memory() -> None:
    """Texts that somebody makes up share one account."""
    throttle = Throttle(5.0, lambda: 0.0)
    assert sum(len(events(throttle, f"{number} is new", 1)) for number in range(5000)) == 1050
    assert len(throttle._kinds) <= 1001


def test_libraries_log_through_it(capsys: pytest.CaptureFixture[str]) -> None:
    """Warnings of asyncio and uvicorn stand in the same log, under the same limit."""
    throttle = configure_logging("info", 1.0)
    for _ in range(1000):
        logging.getLogger("asyncio").error("socket.accept() out of %s", "system resource")
    say_suppressed(throttle)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 10
    assert "socket.accept() out of system resource" in lines[0]
    assert "asyncio" in lines[0]


def test_nobody_steers_the_terminal_of_whoever_reads_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    """Texts of jobs are escaped, and none looks like another line."""
    configure_logging("info", 1000.0)
    evil = "a\x1b]52;c;x\x07\u202eb"
    structlog.get_logger("x").warning(f"of a library: {evil}", error=f"{evil}\n2026 [info] all is well")
    structlog.get_logger("x").warning("of a path", file=evil, files=[evil])
    try:
        raise ValueError(evil)
    except ValueError:
        structlog.get_logger("x").exception("it failed")
    first, *more = capsys.readouterr().err.replace("\\\\", "\\").splitlines()
    escaped = "a\\x1b]52;c;x\\x07\\u202eb"
    assert first.count(escaped) == 2
    assert f"file={escaped} files=['{escaped}']" in more[0]
    assert "all is well" in first
    assert [evil[1] in line or evil[-2] in line for line in (first, *more)] == [False] * (1 + len(more))


def test_a_request_that_is_cut_off_leaves_no_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    """A client could otherwise fill the log of a daemon that stops; other exceptions are logged whole."""
    configure_logging("info", 1000.0)
    for error in (CancelledError("Task cancelled"), ValueError("a fault")):
        logging.getLogger("uvicorn.error").error("Exception in ASGI application", exc_info=error)
    told = capsys.readouterr().err
    assert "Task cancelled" not in told
    assert told.count("Exception in ASGI application") == 1
    assert "ValueError: a fault" in told
