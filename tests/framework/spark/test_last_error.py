"""Why a driver failed, found in what it printed."""

import time

import pytest

from framework.spark.last_error import TAIL, LastWords, last_words

LOGGED = "26/01/02 03:04:05 INFO ShutdownHookManager: Deleting directory /tmp/spark-1\n"

PYTHON = f"""26/01/02 03:04:05 WARN NativeCodeLoader: Unable to load native-hadoop library
Traceback (most recent call last):
  File "/apps/app.py", line 3, in <module>
    main()
  File "/apps/app.py", line 2, in main
    1 / 0
ZeroDivisionError: division by zero
{LOGGED}"""

WORKER = f"""Traceback (most recent call last):
  File "/apps/app.py", line 9, in <module>
    print(rdd.sum())
py4j.protocol.Py4JJavaError: An error occurred while calling z:org.example.PythonRDD.collect.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 failed 4 times:
Traceback (most recent call last):
  File "/spark/worker.py", line 1247, in main
    process()
ValueError: no number: 'x'

\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:572)

Driver stacktrace:
\tat org.apache.spark.scheduler.DAGScheduler.failJobAndIndependentStages(DAGScheduler.scala:2898)
{LOGGED}"""

OF_JAVA = f"""Traceback (most recent call last):
  File "/apps/app.py", line 9, in <module>
    df.count()
py4j.protocol.Py4JJavaError: An error occurred while calling o42.count.
: org.apache.spark.SparkException: Job aborted.
\tat org.apache.spark.sql.Dataset.count(Dataset.scala:3615)
Caused by: java.io.FileNotFoundException: /data/x.csv (No such file)
\tat java.base/java.io.FileInputStream.open0(Native Method)
\t... 12 more
{LOGGED}java.lang.IllegalStateException: RPC environment already stopped
"""

JAVA = f"""26/01/02 03:04:05 ERROR Executor: Exception in task 0.0 in stage 0.0 (TID 0)
java.lang.RuntimeException: early, and mended since
\tat org.example.Main$.main(Main.scala:3)
Exception in thread "main" java.lang.IllegalArgumentException: wrong input
\tat org.example.Main$.main(Main.scala:7)
{LOGGED}"""

UNRESOLVED = """:: USE VERBOSE OR DEBUG MESSAGE LEVEL FOR MORE DETAILS
Exception in thread "main" java.lang.RuntimeException: [unresolved dependency: org.a#nope;1.0: not found]
\tat org.apache.spark.deploy.SparkSubmitUtils$.resolveMavenCoordinates(SparkSubmit.scala:1613)
"""


@pytest.mark.parametrize(
    ("printed", "line"),
    [
        (PYTHON, "ZeroDivisionError: division by zero"),
        (WORKER, "ValueError: no number: 'x'"),
        (OF_JAVA, "java.io.FileNotFoundException: /data/x.csv (No such file)"),
        (JAVA, "java.lang.IllegalArgumentException: wrong input"),
        (UNRESOLVED, "java.lang.RuntimeException: [unresolved dependency: org.a#nope;1.0: not found]"),
        (
            '  File "/apps/app.py", line 1\n    def\n       ^\nSyntaxError: invalid syntax\n' + LOGGED,
            "SyntaxError: invalid syntax",
        ),
        (PYTHON.replace("ZeroDivisionError: division by zero", "KeyboardInterrupt"), "KeyboardInterrupt"),
        (LOGGED + "the input is empty\n" + LOGGED, "the input is empty"),
        ("26/01/02 03:04:05 ERROR Main: gone wrong\n" + LOGGED, "gone wrong"),
        ("\x1b[31mred\x1b[0m\n", "red"),
        (LOGGED, ""),
        ("", ""),
    ],
)
def test_the_last_error_is_found(printed: str, line: str) -> None:
    """Of Python, or of Java where Python only tells of Java; else the last line that is no log entry."""
    assert last_words(printed.encode(), b"").text == line


def test_a_python_driver_complains_on_stdout() -> None:
    """There its traceback comes first; what a driver only printed is not taken for an error."""
    assert last_words(JAVA.encode(), PYTHON.encode()) == LastWords(
        "ZeroDivisionError: division by zero", True
    )
    assert last_words(JAVA.encode(), b"SUM 14\n").text == "java.lang.IllegalArgumentException: wrong input"
    assert last_words(LOGGED.encode(), b"SUM 14\nno input\n") == LastWords("no input", False)
    assert last_words(b"", b"") == LastWords("", False)


@pytest.mark.parametrize(
    "printed",
    [
        b"x" * (1 << 20),
        b"\xff" * (1 << 18),
        b"a." * TAIL,
        b"Traceback (most recent call last):\n" * TAIL,
        b'Exception in thread "' * TAIL,
        b"Caused by: \n" * TAIL,
        b"a\n" * TAIL,
        b"\x1b[" + b"1;" * TAIL,
        (b"\x1b[" + b"1" * 19) * TAIL,
    ],
)
def test_it_is_found_in_time(printed: bytes) -> None:
    """Whatever a job prints, it is looked at within a part of a second, and a line of it is short."""
    began = time.process_time()
    assert len(last_words(printed, printed).text) <= 2000
    assert time.process_time() - began < 1.0
