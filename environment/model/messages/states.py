"""States of jobs and of their executors, by name. `model/jobs/lifecycle.py` defines the transitions."""

from typing import Literal

JobState = Literal["queued", "placing", "starting", "running", "relaunching", "finished", "failed", "killed"]
ExecutorState = Literal[
    "launching", "starting", "running", "unreachable", "finished", "failed", "killed", "lost"
]

ENDED_JOB: frozenset[str] = frozenset({"finished", "failed", "killed"})
ENDED_EXECUTOR: frozenset[str] = frozenset({"finished", "failed", "killed", "lost"})
