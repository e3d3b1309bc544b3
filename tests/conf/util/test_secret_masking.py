"""Masked texts, and that no text of a job makes masking slow."""

import signal
from collections.abc import Iterator

import pytest

from conf.util.secret_masking import masked_arguments, masked_text, masked_values


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("http://me:pw@host/x?token=abc&n=1", "http://***@host/x?token=***&n=1"),
        ("s3a+x://u@h, jdbc:postgresql://u:p@h/db", "s3a+x://***@h, jdbc:postgresql://***@h/db"),
        ("-Ddb.password=abc -Dx=1", "-Ddb.password=*** -Dx=1"),
        ("url=token=abc", "url=token=***"),
        ('{"api_key" : "a b", "n": 1}', '{"api_key" : ***, "n": 1}'),
        ("MY.SECRET: 'x y' z", "MY.SECRET: *** z"),
        ("x-sig=abc design=abc", "x-sig=*** design=abc"),
        ("DB_PASS=abc PGPASS=b pass: c", "DB_PASS=*** PGPASS=*** pass: ***"),
        ("bypass=1 compass=2 passes=3", "bypass=1 compass=2 passes=3"),
        ("a secret is no assignment", "a secret is no assignment"),
        (
            f"Failed to fetch http://h:1/v1/fetch/job-1/{'0a' * 32}/a.py: refused",
            "Failed to fetch http://h:1/v1/fetch/job-1/***/a.py: refused",
        ),
    ],
)
def test_what_sounds_secret_is_masked(text: str, shown: str) -> None:
    """And nothing else."""
    assert masked_text(text) == shown


def test_the_argument_after_a_flag_that_sounds_secret_is_masked() -> None:
    """But no further flag."""
    given = ("--password", "a", "--api.key", "-x", "--size", "3", "--token")
    assert masked_arguments(given) == ("--password", "***", "--api.key", "-x", "--size", "3", "--token")


@pytest.fixture
def bounded_work() -> Iterator[None]:
    """End a test after 30 s of CPU, a hundred times the time it should take."""

    def give_up(*_: object) -> None:
        raise AssertionError("takes more than in proportion to the text")

    before = signal.signal(signal.SIGPROF, give_up)
    signal.setitimer(signal.ITIMER_PROF, 30.0)
    yield
    signal.setitimer(signal.ITIMER_PROF, 0.0)
    signal.signal(signal.SIGPROF, before)


@pytest.mark.parametrize(
    "part",
    [
        "y",
        "key",
        "/v1/fetch/",
        "/v1/fetch/a/0",
        "key=",
        "key ",
        " ",
        "a:",
        "://",
        "a://",
        "://a",
        "@",
        "key='",
        'key="',
        "-",
        ".sig",
        "a.b-",
    ],
)
@pytest.mark.usefixtures("bounded_work")
def test_no_text_takes_long(part: str) -> None:
    """A submitter writes the text, and while it is matched the daemon does nothing else."""
    text = part * (200_000 // len(part))
    masked_text(f"{text}@")
    masked_arguments((text, f"--{text}", f"--{text}!"))
    masked_values({"name": text, text: "value"})


def test_tokens_of_users_are_masked() -> None:
    """But for the id, which names its user."""
    token = f"stoker_{'0a' * 8}_{'x' * 43}"
    assert masked_text(f"got {token}, and stoker_x") == f"got stoker_{'0a' * 8}_***, and stoker_x"
