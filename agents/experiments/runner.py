"""Runs in processes, stored as they end by the content of all that they depend on.

A report that was stopped continues with the runs that are missing. A stored run is used for the same function
and arguments under the same code and data; words, claims and pictures of reports are no code of runs.
"""

import contextlib
import functools
import hashlib
import pickle
import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, Protocol, TypeVar

from conf.util.counted import counted
from conf.util.process_pool import process_pool
from conf.util.whole_file import write_whole

_HERE = Path(__file__).parents[2]
_PACKAGES = ("agents", "conf", "environment", "profiles")
#: Files of `agents/experiments` that no run depends on.
_WORDS = frozenset(
    {
        "belief_report.py", "claims.py", "jobs_section.py", "paired.py", "plot.py", "plots.py", "report.py",
        "reports.py", "results.py", "revision.py", "runner.py", "seed_register.py", "seeds.yaml", "tables.py",
    }
)  # fmt: skip
_UNREADABLE = (OSError, pickle.UnpicklingError, EOFError, AttributeError, ImportError, IndexError, TypeError)
Result = TypeVar("Result")


class RunProgress(Protocol):
    """Callback for progress: amount done, total, and the run that ended."""

    def __call__(self, done: int, total: int, what: str) -> None:
        """Report progress."""

    def begin(self, done: int, total: int, what: str) -> None:
        """Report the amount that an earlier process did."""


@dataclass(frozen=True, slots=True)
class RunCall(Generic[Result]):
    """A function of a module, and its arguments: values with a `repr` that tells all of them.

    `weight` is proportional to the expected seconds. A run of code that the digest does not cover is not
    `stored`.
    """

    function: Callable[..., Result]
    arguments: tuple[Any, ...]
    name: str
    weight: int = 1
    stored: bool = True

    @property
    def key(self) -> str:
        """The content that tells this run from others under the same code."""
        text = f"{self.function.__module__}.{self.function.__qualname__}{self.arguments!r}"
        return hashlib.sha256(text.encode()).hexdigest()


class Runner:
    """A context in which runs are made; its processes end with it.

    `folder` stores results in a folder of its own, `.runs`; None: nothing is stored. `workers` is the number
    of processes, one for each core by default; 0 runs all in this one. OSError when results cannot be stored.
    """

    def __init__(
        self, folder: Path | None = None, progress: RunProgress | None = None, workers: int | None = None
    ) -> None:
        self._folder = None if folder is None else folder / ".runs" / code_digest()[:16]
        self._progress, self._workers = progress, workers
        self._stack = contextlib.ExitStack()
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> "Runner":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool = None
        self._stack.__exit__(kind, error, trace)

    def run(self, calls: Sequence[RunCall[Result]]) -> list[Result]:
        """The results of the calls, in their order; those of most weight are begun first."""
        found = {
            number: kept for number, call in enumerate(calls) if (kept := self._stored(call)) is not None
        }
        left = sorted(set(range(len(calls))) - set(found), key=lambda number: -calls[number].weight)
        total = sum(call.weight for call in calls)
        done = sum(calls[number].weight for number in found)
        if found and self._progress is not None:
            self._progress.begin(done, total, f"{len(found)} of {counted(len(calls), 'run')} are stored")
        for number, result in self._made(calls, left):
            self._store(calls[number], result)
            found[number] = (result,)
            done += calls[number].weight
            if self._progress is not None:
                self._progress(done, total, calls[number].name)
        return [found[number][0] for number in range(len(calls))]

    def _made(self, calls: Sequence[RunCall[Result]], left: Sequence[int]) -> Any:
        """Numbers and results of runs as they end."""
        if self._workers == 0:
            for number in left:
                yield number, calls[number].function(*calls[number].arguments)
        elif left:
            if self._pool is None:
                self._pool = self._stack.enter_context(process_pool(self._workers))
            futures: dict[Future[Result], int] = {
                self._pool.submit(calls[number].function, *calls[number].arguments): number for number in left
            }
            for future in as_completed(futures):
                yield futures[future], future.result()

    def _stored(self, call: RunCall[Result]) -> tuple[Result] | None:
        """The stored result in a tuple, as it may be None; None when there is none."""
        if self._folder is None or not call.stored:
            return None
        with contextlib.suppress(*_UNREADABLE):
            result: Result = pickle.loads(  # noqa: S301  this class wrote it
                (self._folder / call.key).read_bytes()
            )
            return (result,)
        return None

    def _store(self, call: RunCall[Result], result: Result) -> None:
        if self._folder is None or not call.stored:
            return
        if not self._folder.is_dir():
            # Results of other code are of no use any more.
            shutil.rmtree(self._folder.parent, ignore_errors=True)
            self._folder.mkdir(parents=True)
        write_whole(self._folder / call.key, pickle.dumps(result))


@functools.cache
def code_digest(root: Path = _HERE) -> str:
    """Digest of the code and data that runs depend on, wherever they are installed."""
    digest = hashlib.sha256()
    experiments = root / "agents" / "experiments"
    for package in _PACKAGES:
        for path in sorted((root / package).rglob("*")):
            is_word = path.name in _WORDS and experiments in path.parents
            if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".md" and not is_word:
                digest.update(f"{path.relative_to(root)}\0".encode())
                digest.update(path.read_bytes())
    return digest.hexdigest()
