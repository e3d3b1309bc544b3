"""Cost of the page with 1,000 VMs and 10,000 jobs: for the daemon that serves it, and the browser.

`pytest tests/benchmarks/test_page.py --benchmark-only --override-ini addopts= -s` prints the numbers.
"""

import time
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from daemon.auth.permits import Permit
from daemon.http.app import create_app
from daemon.http.app_options import AppOptions
from daemon.page.page_state import PageScene
from daemon.store.job_store import Store
from tests.daemon.page.browser import PROGRAM, browser
from tests.daemon.page.crowd import Crowd, served

VMS, JOBS = 1000, 10_000
#: Seconds of looking, and changes of each: jobs that end, and others that begin in their places.
LOOKS, ENDS = 40, 10
_WATCH = """
new Promise((done) => { const long = []; const seen = new PerformanceObserver((list) =>
  long.push(...list.getEntries().map((each) => each.duration))); seen.observe({entryTypes: ["longtask"]});
  setTimeout(() => done(long), %d); })
"""


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Crowd:
    """The cluster and its jobs."""
    store = Store(f"sqlite:///{tmp_path_factory.mktemp('crowd') / 'stoker.db'}")
    return Crowd(store, VMS, JOBS)


def test_telling(benchmark: BenchmarkFixture, crowd: Crowd) -> None:
    """The daemon's part: processor time of two looks, as in each second, while jobs end and begin."""
    scene = PageScene(crowd, crowd.store)
    began = time.perf_counter()
    scene.begin()
    read = time.perf_counter() - began
    began = time.perf_counter()
    _, messages = scene.whole(Permit())
    size = sum(map(len, messages))
    whole = time.perf_counter() - began
    spent = 0.0
    for _ in range(LOOKS):
        crowd.step(ENDS)
        began = time.thread_time()
        difference = scene.look()
        assert difference is not None
        scene.told(difference, Permit())
        spent += time.thread_time() - began
    benchmark.pedantic(scene.look, rounds=20)  # type: ignore[no-untyped-call]
    print(
        f"\nstream, {VMS} VMs, {JOBS} jobs: {read:.2f} s to begin, a snapshot {1000 * whole:.0f} ms and "
        f"{size / 1e6:.1f} MB; {ENDS} jobs ending in each look: {2 * 100 * spent / LOOKS:.2f} % of a core"
    )
    scene.end()


@pytest.mark.skipif(PROGRAM is None, reason="Chromium is not installed (Debian: chromium)")
def test_showing(benchmark: BenchmarkFixture, crowd: Crowd, tmp_path: Path) -> None:
    """The browser's part: until the first paint, until all VMs are there, and the longest task afterwards."""
    app = create_app(crowd, crowd.store, AppOptions(token=None, version="1"))
    with served(app) as url, browser() as chromium:

        def first() -> None:
            page = chromium.page(url)
            page.until("document.querySelectorAll('.cell').length > 900")
            page.close()

        benchmark.pedantic(first, rounds=3)  # type: ignore[no-untyped-call]
        for address in ("#/", "#/jobs"):
            page = chromium.page(f"{url}/{address}")
            page.until("window.performance.getEntriesByType('mark').length")
            time.sleep(2)
            paint, there = page.run(
                "[performance.getEntriesByName('first-contentful-paint')[0].startTime,"
                "performance.getEntriesByName('snapshot')[0].startTime]"
            )
            before = page.metrics()
            page.run(f"window.long = null; {_WATCH % 6000}.then((found) => {{ window.long = found; }}); 1")
            for _ in range(10):
                crowd.step(ENDS)
                time.sleep(0.5)
            long = page.until("window.long")
            after = page.metrics()
            busy = 1000 * (after["TaskDuration"] - before["TaskDuration"]) / 12
            shown = page.run("document.querySelectorAll('main *').length")
            print(
                f"\npage {address}: first paint {paint:.0f} ms, snapshot shown {there:.0f} ms; then "
                f"{busy:.0f} ms of the main thread for each update, longest task "
                f"{f'{max(long):.0f} ms' if long else 'under 50 ms'} ({len(long)} over 50 ms); "
                f"{shown} elements"
            )
            assert page.complaints == []
            page.close()
