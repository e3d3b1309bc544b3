"""A million ended jobs: the daemon's start-up time with them, and times of the most frequent requests.

Prints only. Each figure stands beside that of a store of a thousandth of the jobs: growth with the store
is seen despite other load of the machine.
"""

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from pytest_benchmark.fixture import BenchmarkFixture

from conf.schema import Retention
from daemon.maintenance.pruning import Pruner
from daemon.store.job_store import Store
from tests.benchmarks.conftest import Show
from tests.benchmarks.many_jobs import fill
from tests.benchmarks.measuring import timed

JOBS = int(os.environ.get("STOKER_MANY_JOBS", "1000000"))
START_SECONDS = 5.0
LIST_MS = 100.0


def test_a_million_jobs(benchmark: BenchmarkFixture, tmp_path: Path, show: Show) -> None:
    """Start, lists of all kinds, metrics, one job, a step of pruning."""
    few, many = timed(benchmark, lambda: measure_both(tmp_path))
    for name, took in many.items():
        show(f"{name}: {took:.1f} ms with {JOBS} jobs, {took / few[name]:.1f} times that with {JOBS // 1000}")
    show(f"wanted: opened and taken up within {START_SECONDS:g} s, lists within {LIST_MS:g} ms")
    show(f"load of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


def measure_both(folder: Path) -> tuple[dict[str, float], dict[str, float]]:
    """Milliseconds of everything, with few jobs and with many."""
    figures = []
    for name, count in (("few", JOBS // 1000), ("many", JOBS)):
        (folder / name).mkdir()
        path = folder / name / "stoker.db"
        fill(path, count)
        figures.append(dict(measure(path, count)))
    return figures[0], figures[1]


def measure(path: Path, count: int) -> Iterator[tuple[str, float]]:
    """Names and milliseconds, the quickest of three but for the start."""
    begin = time.perf_counter()
    with contextlib.closing(Store(f"sqlite:///{path}")) as store:
        store.jobs.open.take_up(0.0)
        yield "opened and taken up", 1000 * (time.perf_counter() - begin)
        middle = f"job-{count // 2}"

        def metrics() -> None:
            store.jobs.count_by_state()
            store.jobs.totals()

        asked: dict[str, Callable[[], object]] = {
            "newest 100": lambda: store.jobs.page(limit=100),
            "100 from the middle": lambda: store.jobs.page(limit=100, before=middle),
            "100 finished or failed": lambda: store.jobs.page(limit=100, states=("finished", "failed")),
            "100 queued, of none": lambda: store.jobs.page(limit=100, states=("queued",)),
            "metrics": metrics,
            "one job": lambda: (
                store.jobs.get(middle),
                store.jobs.executors(middle),
                store.jobs.explanations(middle),
            ),
            "readiness": store.check,
        }
        for name, ask in asked.items():
            yield name, min(_milliseconds(ask) for _ in range(3))
        pruner = Pruner(store, path.parent, Retention(jobs=0))
        yield "prune 50", min(_milliseconds(lambda: pruner.step(time.time())) for _ in range(3))


def _milliseconds(ask: Callable[[], object]) -> float:
    begin = time.perf_counter()
    ask()
    return 1000 * (time.perf_counter() - begin)
