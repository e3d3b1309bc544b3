"""Jobs that ran with memory as each way of asking has it, and the file that holds them.

`daemon.cli.profile.memory_on_spark` runs the jobs.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from conf.errors import ReportedError
from conf.util.whole_file import write_whole

RUNS = "runs.json"
#: As the plan has it, what the median job of its type needs at least, and `memory: auto`.
Way = Literal["asked", "median", "auto"]
WAYS: tuple[Way, ...] = get_args(Way)


class MemoryRunsError(ReportedError, ValueError):
    """A file of runs that cannot be read; the text names it."""


@dataclass(frozen=True, slots=True)
class MemoryJob:
    """A job that ended, with the memory of each executor at first and at the end.

    `failures` are those for memory. `paid_mib_seconds` is the memory of all its executors, also of failed
    attempts, by the time that they had it.
    """

    type: str
    input_mib: float
    state: str
    first_mib: int
    last_mib: int
    failures: int
    seconds: float
    paid_mib_seconds: float


@dataclass(frozen=True, slots=True)
class MemoryRuns:
    """Jobs by way, for each the same ones, of a type in order of their submission.

    `needs` has the least memory (MiB) with which the median job of a type finished. `about` describes the
    plan, the machine and the isolation of its VMs.
    """

    needs: Mapping[str, int] = field(default_factory=dict)
    ways: Mapping[Way, Sequence[MemoryJob]] = field(default_factory=dict)
    about: Mapping[str, Any] = field(default_factory=dict)


def write_memory_runs(folder: Path, runs: MemoryRuns) -> None:
    """Write the file; a writer that is killed meanwhile leaves the earlier one. OSError."""
    write_whole(folder / RUNS, json.dumps(asdict(runs), indent=1) + "\n", 0o644)


def read_memory_runs(folder: Path) -> MemoryRuns:
    """The runs of a folder, none where it has no such file; MemoryRunsError when that cannot be read."""
    path = folder / RUNS
    if not path.is_file():
        return MemoryRuns()
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        ways = {way: tuple(MemoryJob(**job) for job in values["ways"][way]) for way in values["ways"]}
        return MemoryRuns(values["needs"], ways, values["about"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise MemoryRunsError(f"{path}: cannot be read: {error}") from None
