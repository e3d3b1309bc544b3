"""Reasons why a driver failed, found in its output."""

import time

import pytest

from framework.spark.driver.last_error import TAIL, LastWords, last_words

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
    """There its traceback comes first; other output of a driver is not taken for an error."""
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
    """Any output of a job is searched within a part of a second, and the found line is short."""
    began = time.process_time()
    assert len(last_words(printed, printed).text) <= 2000
    assert time.process_time() - began < 10.0


BANNER = r"""Using Spark's default log4j profile: org/apache/spark/log4j2-defaults.properties
Setting default log level to "WARN".
To adjust logging level use sc.setLogLevel(newLevel). For SparkR, use setLogLevel(newLevel).
Welcome to
      ____              __
     / __/__  ___ _____/ /__
    _\ \/ _ \/ _ `/ __/  '_/
   /___/ .__/\_,_/_/ /_/\_\   version 3.5.9
      /_/

Using Python version 3.11.7 (main, Dec  4 2023 18:10:11)
Spark context Web UI available at http://127.0.0.1:4040
SparkSession available as 'spark'.
=========================
*** Nightly import 4.2 ***
[Stage 0:>                                                          (0 + 1) / 2]
"""

SUBMIT = """Error: Unrecognized option: --qeue

Usage: spark-submit [options] <app jar | python file | R file> [app arguments]
Usage: spark-submit --kill [submission ID] --master [spark://...]

Options:
  --master MASTER_URL         spark://host:port, mesos://host:port, yarn,
                              k8s://https://host:port, or local (Default: local[*]).
  --help, -h                  Show this help message and exit.

 Cluster deploy mode only:
  --driver-cores NUM          Number of cores used by the driver, only in cluster mode
                              (Default: 1).

 Spark on YARN only:
  --queue QUEUE_NAME          The YARN queue to submit to (Default: "default").
"""

ARGPARSE = """usage: app.py [-h] --rows ROWS [--queue QUEUE]
              [--size SIZE]
app.py: error: the following arguments are required: --rows
"""

CRASHED = """#
# A fatal error has been detected by the Java Runtime Environment:
#
#  SIGSEGV (0xb) at pc=0x00007f1c2d3e4f50, pid=4711, tid=4712
#
# JRE version: OpenJDK Runtime Environment (17.0.9+9) (build 17.0.9+9)
# Problematic frame:
# C  [libfast.so+0x1f50]  sum+0x10
#
# If you would like to submit a bug report, please visit:
#   https://bugreport.java.com/bugreport/crash.jsp
#
"""


@pytest.mark.parametrize(
    ("printed", "line"),
    [
        (SUBMIT, "Error: Unrecognized option: --qeue"),
        (BANNER + SUBMIT, "Error: Unrecognized option: --qeue"),
        (ARGPARSE, "app.py: error: the following arguments are required: --rows"),
        (
            "Unrecognized VM option 'UseG2GC'\nError: Could not create the Java Virtual Machine.\n"
            "Error: A fatal exception has occurred. Program will exit.\n",
            "Unrecognized VM option 'UseG2GC'",
        ),
        (
            "Error occurred during initialization of VM\nToo small maximum heap\n",
            "Error occurred during initialization of VM: Too small maximum heap",
        ),
        (
            "Error: Could not find or load main class a.B\n"
            "Caused by: java.lang.ClassNotFoundException: a.B\n",
            "java.lang.ClassNotFoundException: a.B",
        ),
        (
            CRASHED,
            "A fatal error has been detected by the Java Runtime Environment: "
            "SIGSEGV (0xb) at pc=0x00007f1c2d3e4f50, pid=4711, tid=4712",
        ),
        (
            "#\n# There is insufficient memory for the Java Runtime Environment to continue.\n"
            "# Native memory allocation (mmap) failed to map 2097152 bytes\n",
            "There is insufficient memory for the Java Runtime: "
            "Native memory allocation (mmap) failed to map 2097152 bytes",
        ),
        (
            BANNER + "Terminating due to java.lang.OutOfMemoryError: Java heap space\n",
            "Terminating due to java.lang.OutOfMemoryError: Java heap space",
        ),
        (
            "Fatal Python error: Aborted\n\nCurrent thread",
            "Fatal Python error: Aborted",
        ),
        (BANNER, ""),
        (BANNER + "the input is empty\n" + BANNER, "the input is empty"),
        ("the input is empty\n" + SUBMIT.partition("\n\n")[2], "the input is empty"),
        ("the input is empty\n--queue QUEUE_NAME   x\n", "--queue QUEUE_NAME   x"),
        (
            PYTHON + "Exception ignored in: <_io.TextIOWrapper name='<stdout>'>\n"
            "Traceback (most recent call last):\nBrokenPipeError: [Errno 32] Broken pipe\n",
            "ZeroDivisionError: division by zero",
        ),
        (
            "Traceback (most recent call last):\n  File 'a', line 1\n"
            "ValueError: three rows are bad:\n  row 7\n  row 9\n",
            "ValueError: three rows are bad: ... row 9",
        ),
        (
            "Traceback (most recent call last):\n  File 'a', line 1\nAnalysisException: [NO] no table t;\n"
            "'Project [*]\n+- 'UnresolvedRelation [t]\n\nJVM stacktrace:\n\tat a.b(C.scala:1)\n",
            "AnalysisException: [NO] no table t; ... +- 'UnresolvedRelation [t]",
        ),
    ],
)
def test_the_cause_comes_before_boilerplate(printed: str, line: str) -> None:
    """Banners, usage and hints say nothing of a failure, wherever they stand."""
    assert last_words(printed.encode(), b"").text == line
    assert last_words(b"", printed.encode()).text == line or "\tat " in printed or "Caused by" in printed


@pytest.mark.parametrize("text", ["-", "- a", "/_/ version 1", "usage: a\n -a", "Error: ", "#", "a: ", " \t"])
def test_boilerplate_is_found_in_time(text: str) -> None:
    """However long its lines are, and however many there are."""
    began = time.process_time()
    for printed in (text * TAIL, f"{text * 500}a{text * 500}\n" * (TAIL // 100)):
        last_words(printed.encode(), printed.encode())
    assert time.process_time() - began < 10.0


def test_an_error_that_names_no_cause_is_told_with_it() -> None:
    """Spark names what it could not make, and the reason far below."""
    printed = f"""Traceback (most recent call last):
  File "/apps/app.py", line 2, in <module>
    s.range(1000).count()
pyspark.errors.IllegalArgumentException: Error while instantiating 'SessionStateBuilder':

JVM stacktrace:
org.apache.spark.SparkException: Error while instantiating 'SessionStateBuilder':
\tat org.apache.spark.sql.SparkSession.build(SparkSession.scala:1208)
Caused by: org.apache.spark.SparkIllegalArgumentException: The value 'abc' is invalid.
\t... 18 more
{LOGGED}"""
    assert last_words(b"", printed.encode()).text == (
        "pyspark.errors.IllegalArgumentException: Error while instantiating 'SessionStateBuilder': "
        "org.apache.spark.SparkIllegalArgumentException: The value 'abc' is invalid."
    )


GROUP = """  + Exception Group Traceback (most recent call last):
  |   File "/apps/app.py", line 3, in <module>
  |     f()
  | ExceptionGroup: two tables failed (2 sub-exceptions)
  +-+---------------- 1 ----------------
    | ValueError: bad row 7
    +---------------- 2 ----------------
    | Traceback (most recent call last):
    |   File "/apps/app.py", line 5, in read
    |     raise KeyError("orders")
    | KeyError: 'orders'
    +------------------------------------
"""
WARNED = """Traceback (most recent call last):
  File "/apps/app.py", line 3, in <module>
    raise ValueError("no orders")
ValueError: no orders
/apps/app.py:2: ResourceWarning: unclosed session
  atexit.register(close)
"""
MINOR = (
    "2026-01-02 03:04:06.678 | INFO     | app:3 - closing",
    "2026-01-02T03:04:06Z WARN closing",
    "[INFO] closing",
    "INFO:root:closing",
    '{"time": 1, "level": "info", "msg": "closing"}',
)


@pytest.mark.parametrize(
    ("stderr", "text"),
    [
        (GROUP, "KeyError: 'orders'"),
        (WARNED, "ValueError: no orders"),
        *((f"2026-01-02 03:04:05 | ERROR | no bucket\n{line}\n", "2026-01-02 03:04:05 | ERROR | no bucket")
          for line in MINOR),
    ],
)  # fmt: skip
def test_frames_warnings_and_other_loggers_hide_no_error(stderr: str, text: str) -> None:
    """An exception of a group is read in its frame, and entries below ERROR explain no failure."""
    assert last_words(stderr.encode(), b"").text == text


@pytest.mark.parametrize(
    "says",
    [
        "py4j.protocol.Py4JError: An error occurred while calling o59.add",
        "py4j.protocol.Py4JNetworkError: Answer from Java side is empty",
        "ConnectionRefusedError: [Errno 111] Connection refused",
    ],
)
def test_what_ended_java_explains_what_python_says_then(says: str) -> None:
    """Python only knows that Java answers no more; where Java says nothing either, that is what is told."""
    python = f"Traceback (most recent call last):\n  File 'a', line 1\n{says}\n".encode()
    java = b'Exception in thread "Thread-4" java.lang.OutOfMemoryError: Java heap space\n\tat a.b(C.java:1)\n'
    assert last_words(java, python).text == "java.lang.OutOfMemoryError: Java heap space"
    assert last_words(b"", python + CRASHED.encode()).text.startswith("A fatal error has been detected")
    assert last_words(b"java.io.IOException: a retry\n", python).text == says


@pytest.mark.parametrize(
    ("stderr", "text"),
    [
        (
            'Exception in thread "main" a.B: ignored\nException in thread "main" java.lang.'
            f"IllegalArgumentException: keys are missing:\n  bucket\n  region\n\tat a.B(C.java:1)\n{LOGGED}",
            "java.lang.IllegalArgumentException: keys are missing: ... region",
        ),
        (
            f"a.NoStackException: keys are missing:\n  bucket\n  region\n{LOGGED}",
            "a.NoStackException: keys are missing: ... region",
        ),
        (
            'Exception in thread "main" a.BException\n\tat a.B(C.scala:1)\nCaused by: a.ParseException: \n'
            "[PARSE_SYNTAX_ERROR] Syntax error at 'x'. (line 1)\n\n== SQL ==\nselect\n\tat a.B(C.scala:2)\n",
            "a.ParseException: ... [PARSE_SYNTAX_ERROR] Syntax error at 'x'. (line 1)",
        ),
        *((f"a.BException: no bucket\n{line}\n", "a.BException: no bucket") for line in (*MINOR, LOGGED)),
    ],
)
def test_a_message_of_java_with_several_lines_has_its_end(stderr: str, text: str) -> None:
    """As one of Python: the last line says most; what is logged behind it is not part of the message."""
    assert last_words(stderr.encode(), b"").text == text


LOST = """26/01/02 03:04:05 WARN TaskSetManager: Lost task 0.0 in stage 0.0 (TID 0): a.BException: tried again
\tat a.B(C.scala:1)
Caused by: org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/spark/worker.py", line 1, in main
ValueError: tried again

\tat a.B(C.scala:1)
\t... 3 more
"""


@pytest.mark.parametrize(
    ("printed", "text"),
    [
        (LOST + "no rows in orders\n", "no rows in orders"),
        (LOST + LOGGED + LOST + "no rows in orders\n" + LOGGED, "no rows in orders"),
        (LOST + JAVA, "java.lang.IllegalArgumentException: wrong input"),
        (LOST + PYTHON.partition("\n")[2], "ZeroDivisionError: division by zero"),
        (LOST + OF_JAVA, "java.io.FileNotFoundException: /data/x.csv (No such file)"),
        (
            PYTHON + "Error in atexit._run_exitfuncs:\nTraceback (most recent call last):\n"
            "  File 'a', line 1\nOSError: closed\n",
            "ZeroDivisionError: division by zero",
        ),
        (
            PYTHON + "Exception in thread Thread-4 (run):\nTraceback (most recent call last):\n"
            "  File 'a', line 1\nOSError: closed\n",
            "ZeroDivisionError: division by zero",
        ),
    ],
)
def test_what_was_got_over_explains_no_failure(printed: str, text: str) -> None:
    """Tasks that were tried again, and errors of threads and at the end of the program."""
    assert last_words(printed.encode(), b"").text == text


def test_a_cause_that_names_no_file_is_told_by_the_exception_that_does() -> None:
    """Java's own says only that there is no file."""
    printed = f"""Exception in thread "a" java.io.IOException: Cannot run program "/no/py": error=2, No file
\tat java.base/java.lang.ProcessBuilder.start(ProcessBuilder.java:1143)
Caused by: java.io.IOException: error=2, No file
\tat java.base/java.lang.ProcessImpl.forkAndExec(Native Method)
{LOGGED}"""
    assert last_words(printed.encode(), b"").text == (
        'java.io.IOException: Cannot run program "/no/py": error=2, No file'
    )


def test_the_last_line_that_calls_itself_fatal_counts() -> None:
    """An earlier one, which calls itself an error, may have been got over."""
    printed = b"Error: not this one, it was tried again\nfatal: no quota for bucket logs\n"
    assert last_words(printed, b"") == ("fatal: no quota for bucket logs", True)
