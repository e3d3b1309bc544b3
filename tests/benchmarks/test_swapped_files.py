"""Submissions of one user while another's name files that are swapped as they are read. Prints only.

The reference, in turns with it, are as many submissions by the other user of as many ordinary files. The same
process swaps links meanwhile, so that both have the same processor to themselves.
"""

import asyncio
import contextlib
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
from pytest_benchmark.fixture import BenchmarkFixture

from tests.benchmarks.conftest import Show
from tests.benchmarks.measuring import timed
from tests.benchmarks.test_service import Answer, middle_and_late, submit_steadily
from tests.chaos.strangers import exchanged
from tests.daemon.fleet import Daemon, fleets

#: Turns of each kind, seconds of each, and submissions a second of the two users: 1,000 with swapped files.
TURNS, SECONDS, ATTACKS, ORDINARY = 8, 5.0, 25.0, 20.0
#: What the paths of a submission lead to in turn. The paths are swapped independently of each other.
BAD = ("fifo", "/dev/zero", "/proc/self/fd/0", "secret", "socket", "circle", "nothing")
TARGETS = tuple(target for bad in BAD for target in ("good.jar", "good.jar", bad))
PATHS = 5


def test_submissions_beside_swapped_files(benchmark: BenchmarkFixture, show: Show) -> None:
    """A thousand submissions of five swapped paths each, and 800 of an ordinary user beside them."""
    found, answers, threads = timed(benchmark, compare)
    ordinary, swapped = (delays(turns) for turns in found)
    show(f"another user's submissions, beside ordinary files: {words(ordinary)}")
    show(f"  beside swapped files: {words(swapped)}")
    ratios = [beside / alone for beside, alone in zip(swapped, ordinary, strict=True)]
    show("  ratios to ordinary files: " + ", ".join(f"{ratio:.2f}" for ratio in ratios))
    show(
        f"  swapped files: {answers[201]} accepted, {answers[422]} rejected; "
        f"the daemon had {threads[0]} threads, then {threads[1]}"
    )
    show(f"  load of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


def delays(turns: list[list[Answer]]) -> tuple[float, float, float]:
    """Milliseconds since submissions were due: the median, p99, and p99 of the middle turn.

    One stall of the machine is enough for the p99 of all.
    """
    middle, late = middle_and_late(each.at - each.due for answers in turns for each in answers)
    of_turns = [middle_and_late(each.at - each.due for each in answers)[1] for answers in turns]
    return middle, late, statistics.median(of_turns)


def words(found: tuple[float, float, float]) -> str:
    """The delays in words."""
    return "{:.1f} ms at p50, {:.1f} ms at p99, {:.1f} ms at p99 of the middle turn".format(*found)


def compare() -> tuple[tuple[list[list[Answer]], list[list[Answer]]], Counter[int], tuple[int, int]]:
    """Turns of answers beside ordinary files and beside swapped ones, the attacks' statuses, and threads.

    The threads are the daemon's after the first and after the last turn.
    """
    with scene() as folder, fleets(folder) as make:
        daemon = make().add(max_queued_jobs=100_000)
        # A process of its own, so that it delays no request that is measured here.
        swapping = subprocess.Popen([sys.executable, "-m", __name__, str(folder)])
        found: tuple[list[list[Answer]], list[list[Answer]]] = ([], [])
        statuses: dict[bool, Counter[int]] = {False: Counter(), True: Counter()}
        threads = []
        try:
            turn(daemon, folder, attacked=False, statuses=Counter())  # neither is the first
            for number in range(2 * TURNS):
                attacked = (
                    number + number // 2
                ) % 2 == 1  # A B B A, or what comes later would pay for more jobs
                found[attacked].append(turn(daemon, folder, attacked=attacked, statuses=statuses[attacked]))
                threads.append(thread_count(daemon))
        except Exception as error:
            error.add_note(daemon.log()[-2000:])
            raise
        finally:
            swapping.kill()
            swapping.wait()
        assert set(statuses[False]) == {201}
        assert set(statuses[True]) <= {201, 422}, statuses
        assert daemon.leads()
    return found, statuses[True], (threads[0], threads[-1])


def turn(daemon: Daemon, folder: Path, *, attacked: bool, statuses: Counter[int]) -> list[Answer]:
    """Both users submit for `SECONDS`; the answers to the ordinary one."""
    names = [folder / f"path-{n}.jar" if attacked else folder / f"good-{n}.jar" for n in range(PATHS)]
    other = threading.Thread(target=submit_files, args=(daemon.url, names, statuses))
    other.start()
    try:
        ordinary = {"app": str(folder / "good-0.jar"), "main_class": "Main", "start_at": "in 1h"}
        return asyncio.run(submit_steadily(daemon.url, ORDINARY, SECONDS, [ordinary]))
    finally:
        other.join()


def submit_files(url: str, names: list[Path], statuses: Counter[int]) -> None:
    """Submit jobs of these files steadily."""
    spec: dict[str, Any] = {
        "app": str(names[0]),
        "main_class": "Main",
        "jars": [str(name) for name in names[1:]],
    }
    spec |= {"executors": 1, "cpus": 1.0, "memory": 1024, "start_at": "in 1h"}
    start = time.monotonic()
    with httpx.Client(base_url=url, timeout=60.0) as client:
        for number in range(int(ATTACKS * SECONDS)):
            time.sleep(max(0.0, start + number / ATTACKS - time.monotonic()))
            statuses[client.post("/v1/jobs", json=spec).status_code] += 1


@contextlib.contextmanager
def scene() -> Iterator[Path]:
    """A folder of good files and of what should never be read; others may pass through it."""
    with (
        tempfile.TemporaryDirectory() as made,
        contextlib.closing(socket.socket(socket.AF_UNIX)) as listening,
    ):
        folder = Path(made)
        folder.chmod(0o711)
        for name in ("good.jar", *(f"good-{n}.jar" for n in range(PATHS))):
            with zipfile.ZipFile(folder / name, "w") as jar:
                jar.writestr("Main.class", bytes(10_000))
        (folder / "secret").write_text("a secret of the daemon's")
        (folder / "secret").chmod(0o600)
        (folder / "circle").symlink_to("circle")
        os.mkfifo(folder / "fifo")
        listening.bind(str(folder / "socket"))
        yield folder


def swap(folder: Path) -> None:
    """Have each path lead to one target after the other, until this process is killed."""
    with contextlib.ExitStack() as swapped:
        for number in range(PATHS):
            swapped.enter_context(exchanged(folder / f"path-{number}.jar", TARGETS, 0.001 * (number + 1)))
        signal.pause()


def thread_count(daemon: Daemon) -> int:
    """Threads of the daemon: the median of several looks, as one is started for each job's files."""
    counts = []
    for _ in range(5):
        status = Path(f"/proc/{daemon.pid}/status").read_text()
        counts.append(int(status.partition("Threads:")[2].split()[0]))
        time.sleep(0.1)
    return int(statistics.median(counts))


if __name__ == "__main__":
    swap(Path(sys.argv[1]))
