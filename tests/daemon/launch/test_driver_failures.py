"""The line that explains a job's failure: its contents and its exclusions."""

from typing import Any

import pytest

from conf.schema import JobSpec
from daemon.launch.driver_failures import failure_line


@pytest.mark.parametrize(
    ("printed", "spec", "line"),
    [
        ("ValueError: cannot reach http://me:hunter2@db/x", {}, "ValueError: cannot reach http://***@db/x"),
        ("ValueError: password=hunter2 is wrong", {}, "ValueError: password=*** is wrong"),
        ("ValueError: no account 4711", {"env": {"DB_PASSWORD": "4711"}}, "ValueError: no account ***"),
        ("ValueError: bad s3kr1t", {"conf": {"spark.hadoop.secret": "s3kr1t"}}, "ValueError: bad ***"),
        ("ValueError: bad s3kr1t", {"args": ["--token", "s3kr1t"]}, "ValueError: bad ***"),
        ("ValueError: of the job itself: LAUNCH", {}, "ValueError: of the job itself: ***"),
        ("KeyError: 'name'", {}, "KeyError: 'name'"),
        ("KeyError: 'token=hunter2'", {}, "KeyError: 'token=***'"),
        ("org.a.AuthException: denied", {}, "org.a.AuthException: denied"),
        ("ValueError: in a x.zip", {"env": {"A_KEY": "a"}}, "ValueError: in a x.zip"),
        (
            "ValueError: \x1b]0;title\x07 \u202egnp.exe \x00\x01",
            {},
            r"ValueError: \x1b]0;title\x07 \u202egnp.exe \x01",
        ),
        ("ValueError:   much\t\tspace ", {}, "ValueError: much space"),
        ("ValueError: " + "x" * 1000, {}, "ValueError: " + "x" * 284 + " ..."),
        ("26/01/02 03:04:05 INFO Main: all is well", {}, ""),
    ],
)
def test_the_line_is_fit_for_everybody(printed: str, spec: dict[str, Any], line: str) -> None:
    """The line has no secret and no terminal control sequence, and it is short."""
    tail = f"26/01/02 03:04:05 INFO Main: first\n{printed}\n".encode()
    expected = f": {line}" if line else ""
    assert failure_line(tail, b"", JobSpec(app="/a.py", **spec), ["LAUNCH"]) == expected


def test_what_a_driver_only_printed_is_no_error() -> None:
    """Its last line may help all the same, and hides as much."""
    spec = JobSpec(app="/a.py", env={"DB_PASSWORD": "4711"})
    assert failure_line(b"", b"SUM 4711\n", spec) == "; it printed last: SUM ***"
