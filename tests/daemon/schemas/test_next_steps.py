"""The failure text for users: the error before boilerplate, and the next step."""

import pytest

from daemon.launch.driver_failures import ended, failure_line
from daemon.schemas.next_steps import next_step
from environment.model.jobs.end_reasons import error_first
from framework.spark.driver.exit_codes import exit_words


@pytest.mark.parametrize(
    ("reason", "shown"),
    [
        ("its driver exited with code 1: ValueError: no", "ValueError: no (its driver exited with code 1)"),
        (
            "its driver exited with code 137 (SIGKILL: by kill -9): a.B: c",
            "a.B: c (its driver exited with code 137 (SIGKILL: by kill -9))",
        ),
        (
            "its driver exited with code 1; it printed last: no",
            "no (printed last; its driver exited with code 1)",
        ),
        (
            "its driver on vm-1 ended: Command exited with status 1: KeyError: 'a'",
            "KeyError: 'a' (its driver on vm-1 ended: Command exited with status 1)",
        ),
        (
            "its driver on vm-1 ended: Command terminated with signal Killed (SIGKILL: usually): x: y",
            "x: y (its driver on vm-1 ended: Command terminated with signal Killed (SIGKILL: usually))",
        ),
        (
            "lost 4 executors; the last, executor 3: Command exited with status 52 (Spark's code): a.B: c",
            "a.B: c (lost 4 executors; the last, executor 3: Command exited with status 52 (Spark's code))",
        ),
        (
            "executor 3 on vm-1 ended: Command exited with status 4; it printed last: no",
            "no (printed last; executor 3 on vm-1 ended: Command exited with status 4)",
        ),
        (
            "its driver on vm-1 (S3) ended: Command exited with status 1: KeyError: 'a'",
            "KeyError: 'a' (its driver on vm-1 (S3) ended: Command exited with status 1)",
        ),
        (
            "lost 4 executors; the last, executor 3 on vm-1 (a-S3): Command exited with status 1: a.B: c",
            "a.B: c (lost 4 executors; the last, executor 3 on vm-1 (a-S3): Command exited with status 1)",
        ),
        ("its driver exited with code 3", "its driver exited with code 3"),
        ("waits for its turn", "waits for its turn"),
        ("", ""),
    ],
)
def test_the_error_comes_first(reason: str, shown: str) -> None:
    """The error comes first, so that a shortened reason shows it."""
    assert error_first(reason) == shown


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (1, "1"), (137, "137 (SIGKILL: usually sent by the kernel when memory is"), (143, "143 (SIGTERM: "),
        (139, "139 (SIGSEGV: "), (134, "134 (SIGABRT: "), (129, "129 (SIGHUP: "), (130, "130 (SIGINT: sent"),
        (52, "52 (Spark's code for OutOfMemoryError"), (255, "255"), (128, "128"), (146, "146 (SIGCONT)"),
    ],
)  # fmt: skip
def test_an_exit_code_says_what_it_means(code: int, says: str) -> None:
    """An exit code is explained by its signal's name and its usual cause."""
    assert exit_words(code).startswith(says)
    assert says.isdecimal() is (exit_words(code) == str(code))


def test_a_driver_that_was_killed_quotes_no_banner() -> None:
    """It had no time to say why; an error that it did say is told."""
    banner = b"Welcome to\nmy program\n"
    assert failure_line(banner, b"row 4711\n", None, code=137) == ""
    assert failure_line(banner, b"row 4711\n", None, code=1) == "; it printed last: my program"
    said = failure_line(b"ValueError: x\n", b"", None, code=137)
    assert ended(137, said).endswith("or by kill -9): ValueError: x")


@pytest.mark.parametrize(
    ("reason", "says"),
    [
        ("its driver exited with code 137 (SIGKILL: usually)", "more memory"),
        ("its driver exited with code 1: java.lang.OutOfMemoryError: Java heap space", "driver.memory"),
        ("a.OutOfMemoryError (lost 4 executors; the last, executor 3: Command exited)", "each executor"),
        ("MemoryError (its driver exited with code 1)", "driver.memory"),
        ("Error: Failed to load class a.B. (its driver exited with code 101 (Spark's code))", "main_class"),
        (
            "java.lang.NoClassDefFoundError: B (its driver exited with code 101 (Spark's code for a main "
            "class that does not exist))",
            "main_class",
        ),
        ("java.lang.UnsupportedClassVersionError: B has been compiled by a more recent", "java_home"),
        ("its driver exited with code 1: ModuleNotFoundError: No module named 'x'", "py_files"),
        ("its driver exited with code 1: x: [unresolved dependency: a#b;1: not found]", "coordinates"),
        ("its driver exited with code 1: ValueError: no", "stoker logs job-7 --stderr"),
        ("its driver could not be started: /a.py: no such file", "doctor"),
        ("its driver vanished: its end was not observed", "daemon's log"),
        ("this host failed its driver 3 times; the last time: x", "operator"),
        ("lost 4 executors; the last, executor 2: Command exited with status 1", "--executor N"),
        ("it ran for longer than its max_runtime, 60 s", "max_runtime"),
        ("never began: it comes after job-3, which failed", "comes after"),
        ("its driver (http://h:1) was not heard of for 30 s", "log of the driver"),
        ("something new", "stoker job job-7"),
        ("something new (after 2 retries)", "stoker job job-7"),
        (
            "a.SparkException: aborted: Lost task 0.3 (TID 3) (vm-1 executor 1): java.lang.OutOfMemoryError: "
            "Java heap space (its driver exited with code 1)",
            "each executor",
        ),
        (
            "executor 3 on vm-1 ended: Memory limit exceeded: it needed more than its 64 MB; Py4JError: no "
            "(its driver exited with code 1)",
            "each executor",
        ),
        ("PermissionError: [Errno 13] Permission denied (its driver exited with code 1)", "rights"),
        (
            "AnalysisException: [PATH_NOT_FOUND] Path does not exist: /x (its driver exited with code 1)",
            "path",
        ),
    ],
)
def test_each_reason_has_a_next_step(reason: str, says: str) -> None:
    """Of a job that failed; others need none."""
    assert says in next_step("job-7", "failed", reason)
    assert next_step("job-7", "finished", reason) == next_step("job-7", "queued", reason) == ""


@pytest.mark.parametrize(
    "says",
    [
        "column x does not exist", "lost 3 executors", "executor 3 is odd", "no queue", "max_cost is below 0",
        "max_runtime", "SIGTERM", "over the memory limit", "the parser could not be started", "it vanished",
        "a.B (vm-1 executor 1): KeyError: 'quota'", "permission denied for 7", "it comes after job-3",
    ],
)  # fmt: skip
def test_a_programs_own_words_pick_no_step(says: str) -> None:
    """They may mean anything: `column x does not exist` is about no path."""
    for how in ("its driver exited with code 1", "its driver on vm-1 ended: Command exited with status 1"):
        step = next_step("job-7", "failed", f"ValueError: {says} ({how})")
        assert step == "Read its full log: `stoker logs job-7 --stderr`."
        assert step == next_step("job-7", "failed", f"{how}: ValueError: {says}")
    assert "Find the sender" in next_step(
        "job-7", "failed", f"its driver exited with code 143 (SIGTERM): {says}"
    )
