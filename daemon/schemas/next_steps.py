"""Reasons of failure as users read them: the error first, and the next step. Text in, text out.

`launch/driver_failures.py` makes a reason from a driver's output.
"""

import re
from collections.abc import Sequence

from environment.model.jobs.end_reasons import said_and_own

#: Names and messages of Spark, the JVM, Python and the system: only these count of what a program printed,
#: since its author's own words may mean anything.
_KNOWN = re.compile(
    r"\(\S+ executor \d+\)|ExecutorLostFailure \(executor \d+|executor \d+ on \S+ ended"
    r"|Memory limit exceeded: (?:it|the tasks of this VM) needed|OutOfMemoryError|\bMemoryError"
    r"|insufficient memory for the Java|reserve enough space"
    r"|unresolved dependency|resolve[sd]? dependenc|Failed to load class|UnsupportedClassVersionError"
    r"|No FileSystem for scheme|ClassNotFoundException|ModuleNotFoundError|ImportError"
    r"|No such file or directory|FileNotFound|PATH_NOT_FOUND|[Pp]ath does not exist"
    r"|PermissionError|Permission denied|AccessDenied|AccessControl|No space left on device"
)
#: What a reason says, and what to do then; the first that fits counts. `{id}` is the job's.
_STEPS: Sequence[tuple[str, str]] = (
    (
        r"\A(?=.*\bexecutor \d).*(?:SIGKILL|OutOfMemoryError|insufficient memory|[Mm]emory limit)",
        "Give each executor more memory (memory, --memory) or fewer cpus, or keep less in it; "
        "`stoker logs {id} --executor N --stderr` has the rest.",
    ),
    (
        r"SIGKILL|OutOfMemoryError|\bMemoryError|insufficient memory|OOMKilled|[Mm]emory limit"
        r"|reserve enough space",
        "Give the driver more memory (driver.memory, --driver-memory) or the executors (memory), or keep "
        "less in it; `stoker logs {id} --stderr` has the rest.",
    ),
    (
        r"SIGTERM|SIGINT|SIGHUP",
        "Find the sender of the signal, on the driver's machine; then submit it again.",
    ),
    (
        r"unresolved dependency|resolve[sd]? dependenc",
        "Check the coordinates in packages, and name a repository that has them (repositories).",
    ),
    (
        r"Failed to load class|main class that does not exist",
        "Name the main class with its package (main_class), and check that the jar has it and is whole: "
        "`jar tf`.",
    ),
    (
        r"UnsupportedClassVersionError",
        "Compile it for the Java of its Spark, or ask an operator for a newer one (java_home of "
        "spark.versions).",
    ),
    (r"No FileSystem for scheme|ClassNotFoundException", "Add the jar that has it: jars or packages."),
    (r"ModuleNotFoundError|ImportError", "Add the module: py_files, or an archive with a Python."),
    (
        r"No such file|FileNotFound|PATH_NOT_FOUND|does not exist",
        "Check the path: executors see their own machine's files and those that the job brings (files).",
    ),
    (r"[Pp]ermission ?(?:denied|Error)|AccessDenied|AccessControl", "Check the rights of the job's user."),
    (r"No space left", "Make room on the machine that the driver or executor ran on."),
    (
        r"this host failed its driver|could not be started here|folder takes nothing",
        "Ask an operator to run `stoker doctor` on the daemon's host; then submit it again.",
    ),
    (r"could not be started", "Fix the cause named in the reason; `stoker doctor` checks the daemon's host."),
    (
        r"max_runtime",
        "Raise max_runtime, or give it more executors; `stoker job {id}` shows how it was placed.",
    ),
    (
        r"max_cost",
        "Submit it again with a higher max_cost, or with fewer executors; `stoker job {id}` shows its cost.",
    ),
    (
        r"was not heard of|System\.exit",
        "Look at the log of the driver, which is where its user started it.",
    ),
    (
        r"vanished|records are not|does not lead any more|was given up: no answer|another daemon",
        "Look at the daemon's log of that time, then submit it again.",
    ),
    (
        r"lost \d+ executors|executor \d+\b(?!\))",
        "See why executors ended: `stoker job {id}` shows their VMs, `stoker logs {id} --executor N` their "
        "logs.",
    ),
    (
        r"exited with code|ended: Command|its driver",
        "Read its full log: `stoker logs {id} --stderr`.",
    ),
    (r"\bit comes after\b", "Fix the job that it comes after, then submit both again."),
    (
        r"queue|limit|quota|budget",
        "Request less, or ask an operator to raise the limit: `stoker queue list`.",
    ),
    (
        r"launches of it in a row|came to nothing|agent|offers",
        "Ask an operator to look at the agents: `stoker cluster`, `stoker job {id}`.",
    ),
)
_OTHERWISE = "`stoker job {id}` and `stoker logs {id}` show more."


def next_step(job_id: str, state: str, reason: str) -> str:
    """Advice to the user of a job that failed for this reason; empty for any other job."""
    if state != "failed":
        return ""
    said, own = said_and_own(reason)
    text = " ".join((*_KNOWN.findall(said), own))
    step = next((step for pattern, step in _STEPS if re.search(pattern, text)), _OTHERWISE)
    return step.format(id=job_id)
