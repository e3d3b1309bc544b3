"""How fast the whole daemon is, on an embedded Mesos: executors, submissions, restarts. Prints only.

Real processes and real HTTP; Spark alone is replaced, by plain commands (see `daemon_of_commands`). The
figures hold for an otherwise idle machine: cores used by other programs are missing here.
"""

import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from pytest_benchmark.fixture import BenchmarkFixture
from stoker import Stoker

from conf.schema import JobSpec
from conf.util.gc_pause import uncollected
from daemon.store.job_store import Store
from daemon.store.queries.insert_jobs import SubmittedSpec
from environment.model.cluster_model import Changes
from environment.model.messages.records import JobRecord
from environment.resources import Resources
from environment.types import Job
from framework.embedded import AgentSpec
from tests.benchmarks.conftest import Show
from tests.benchmarks.measuring import timed
from tests.daemon.ports import free_port
from tests.framework.embedded.running import Mesos, running

PATIENCE = 240.0  # seconds after which a benchmark gives up

EXECUTORS_PER_SECOND = 200
RESIDENT_MIB = 300
FIRST_DECISION_SECONDS = 5.0
SUBMISSIONS_PER_SECOND = 500
SUBMISSION_P99_MS = 50


class Daemon:
    """A daemon that runs a command, on a folder that outlives it."""

    def __init__(self, folder: Path, mesos: Mesos, *command: str, **config: Any) -> None:
        self.database = f"sqlite:///{folder / 'stoker.db'}"
        self.url = f"http://127.0.0.1:{free_port()}"
        self._config = folder / "stoker.yaml"
        self._log = folder / "daemon.log"
        settings = {
            "listen": self.url.removeprefix("http://"),
            "data_dir": str(folder),
            "policy": {"name": "ff"},
            **config,
        }
        self._config.write_text(yaml.safe_dump({**settings, "mesos": {"master": mesos.address}}))
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> None:
        command = [sys.executable, "-m", "tests.benchmarks.daemon_of_commands", str(self._config)]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen([*command, *self._command], stdout=log, stderr=log)
        with Stoker(self.url) as client:
            wait(client.ready, self._log.read_text)

    def __exit__(self, *_: object) -> None:
        """Kill it."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def resident_mib(self, field: str = "VmHWM") -> float:
        """The most memory that it ever had resident, or another field of its status."""
        assert self._process is not None
        lines = Path(f"/proc/{self._process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(field))

    def cpu_seconds(self) -> float:
        """The CPU time that all its threads have taken so far."""
        assert self._process is not None
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def wait(condition: Callable[[], bool], otherwise: Callable[[], object] = str) -> None:
    """Wait until the condition holds."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, otherwise()
        time.sleep(0.05)


def agents(count: int, ports: int) -> list[AgentSpec]:
    """VMs of 32 cpus and 128 GiB."""
    return [
        AgentSpec(
            f"vm-{n}",
            "m1.large",
            32,
            131072,
            0.24,
            f"127.0.1.{n + 1}",
            (10_000 + n * ports, 9_999 + (n + 1) * ports),
        )
        for n in range(count)
    ]


def fill(store: Store, count: int, *, over: bool, executors: int = 1, cpus: float = 0.1) -> list[JobRecord]:
    """Keep so many jobs: queued ones, or such that are over."""
    spec = JobSpec(app="/apps/a.py", executors=executors, cpus=cpus, memory=64)

    def job(job_id: str) -> Job:
        return Job(job_id, "unknown", Resources.of(cpus, 64), executors, time.time(), name="a")

    records = [store.jobs.new.add_one(spec, job, None, time.time())[0] for _ in range(count)]
    if over:
        end(store, records)
    return records


def fill_queues(store: Store, count: int, queues: int, users: int) -> None:
    """Keep so many queued jobs, of so many users, in so many queues in turn; each takes most of a VM."""
    specs = [
        SubmittedSpec(
            JobSpec(app="/apps/a.py", cpus=30.0, memory=64, queue=queue_of(n % queues), owner=f"u{n % users}")
        )
        for n in range(count)
    ]

    def job(job_id: str, each: SubmittedSpec) -> Job:
        size, spec = Resources.of(30.0, 64), each.spec
        return Job(job_id, "unknown", size, 1, time.time(), name="a", owner=spec.owner, queue=spec.queue)

    for first in range(0, count, 10_000):
        store.jobs.new.add(specs[first : first + 10_000], job, time.time())


def queue_of(number: int) -> str:
    """The path of a queue: ten stand below each at the top."""
    return f"q{number // 10}.q{number}"


def tree(queues: int) -> dict[str, Any]:
    """So many queues that take jobs, of different weights, with limits of waiting jobs that none reaches."""
    top: dict[str, Any] = {}
    for number in range(queues):
        above, name = queue_of(number).split(".")
        below = top.setdefault(above, {"most": {"waiting": 1_000_000}, "queues": {}})["queues"]
        below[name] = {"weight": 1 + number % 4, "most_per_user": {"waiting": 1_000_000}}
    return top


def end(store: Store, records: list[JobRecord]) -> None:
    """These jobs are over."""
    over = [replace(record, state="finished", finished_at=time.time(), exit_code=0) for record in records]
    store.changes.save(Changes(tuple(over), ()))


@contextmanager
def opened(database: str) -> Iterator[Store]:
    """The store, while no daemon writes to it."""
    store = Store(database)
    yield store
    store.close()


def test_executors_launched_and_finished(benchmark: BenchmarkFixture, tmp_path: Path, show: Show) -> None:
    """Two thousand jobs of one executor each with the command `true`."""
    rate, resident = timed(benchmark, lambda: run_executors(tmp_path, 2000))
    show(f"executors launched and finished: {rate:.0f}/s (wanted {EXECUTORS_PER_SECOND})")
    show(f"  the daemon had at most {resident:.0f} MiB resident (wanted {RESIDENT_MIB})")


def run_executors(folder: Path, jobs: int) -> tuple[float, float]:
    """Run so many jobs: executors per second from the first launch to the last end, MiB resident."""
    with running(folder / "mesos", agents(12, 1000)) as mesos:
        daemon = Daemon(folder, mesos, "true")
        with opened(daemon.database) as store:
            fill(store, jobs, over=False)
            with daemon:
                wait(
                    lambda: store.jobs.count_by_state().get("finished", 0) == jobs, store.jobs.count_by_state
                )
                resident = daemon.resident_mib()
            tasks = [
                task for record in store.jobs.page(limit=jobs) for task in store.jobs.executors(record.job.id)
            ]
    assert len(tasks) == jobs
    first, last = min(task.launched_at for task in tasks), max(task.ended_at or 0.0 for task in tasks)
    return len(tasks) / (last - first), resident


def test_restart_under_load(benchmark: BenchmarkFixture, tmp_path: Path, show: Show) -> None:
    """10,000 jobs in the store, 1,000 executors running: from its start to its first decision."""
    seconds, resident = timed(benchmark, lambda: restart(tmp_path, 3))
    shown = ", ".join(f"{s:.1f}" for s in sorted(seconds))
    show(f"restart to first decision: {shown} s (wanted {FIRST_DECISION_SECONDS})")
    show(f"  the daemon had at most {resident:.0f} MiB resident")


def restart(folder: Path, times: int) -> tuple[list[float], float]:
    """Kill and start a daemon that has much to do: seconds to each first decision, MiB resident."""
    with running(folder / "mesos", agents(12, 1000)) as mesos:
        daemon = Daemon(folder, mesos, "sleep", "3600")
        with opened(daemon.database) as store:
            fill(store, 8900, over=True)
            fill(store, 100, over=False, executors=10)
            with daemon:
                wait(lambda: store.jobs.count_by_state().get("running", 0) == 100, store.jobs.count_by_state)
            seconds = []
            for _ in range(times):
                (first,) = fill(store, 1, over=False)
                waiting = fill(store, 999, over=False, executors=9999)
                began = time.time()
                with daemon:
                    seconds.append(placed_at(store, first.job.id) - began)
                    resident = daemon.resident_mib()
                end(store, waiting)
    return seconds, resident


def placed_at(store: Store, job_id: str) -> float:
    """Wait until the job is placed; when that was."""

    def at() -> float | None:
        record = store.jobs.get(job_id)
        return record.placed_at if record else None

    wait(lambda: at() is not None)
    return at() or 0.0


def drop_waiting(store: Store) -> None:
    """End the jobs that wait, so that the next one is the head of the queue."""
    waiting = store.jobs.page(states=("queued",), limit=10_000)
    store.changes.save(
        Changes(tuple(replace(job, state="killed", finished_at=time.time()) for job in waiting), ())
    )


def test_submissions(benchmark: BenchmarkFixture, tmp_path: Path, show: Show) -> None:
    """500 submissions a second for ten seconds, over 32 connections, with 10,000 jobs that are over."""
    show_answers(show, "over", timed(benchmark, lambda: submit(tmp_path, over=True)))


def test_submissions_behind_a_queue(benchmark: BenchmarkFixture, tmp_path: Path, show: Show) -> None:
    """The same with 10,000 jobs that wait, and a policy that decides about them again and again."""
    show_answers(show, "waiting", timed(benchmark, lambda: submit(tmp_path, over=False)))


@pytest.mark.parametrize("rate", [250, SUBMISSIONS_PER_SECOND])
def test_submissions_behind_many_queues(
    rate: int, benchmark: BenchmarkFixture, tmp_path: Path, show: Show
) -> None:
    """With 100,000 jobs that wait, of 1,000 users in 200 queues, in order of priority and share."""
    found = timed(benchmark, lambda: submit_into_queues(tmp_path, 100_000, 200, 1000, rate))
    show_answers(show, "waiting in 200 queues", found, 100_000, rate)


class Answer(NamedTuple):
    """When a submission was due, was sent, and was answered, seconds."""

    due: float
    sent: float
    at: float


def show_answers(
    show: Show,
    state: str,
    found: tuple[list[Answer], float],
    jobs: int = 10_000,
    wanted: int = SUBMISSIONS_PER_SECOND,
) -> None:
    """Print the answers' rate, delays and cost."""
    answers, cpu_seconds = found
    took = max(each.at for each in answers) - min(each.at for each in answers)
    show(f"submissions, {jobs:,} jobs {state}: {len(answers) / took:.0f}/s (wanted {wanted})")
    middle, late = middle_and_late(each.at - each.due for each in answers)
    show(f"  after {middle:.1f} ms in the middle, {late:.1f} ms at p99 (wanted {SUBMISSION_P99_MS})")
    sent, late_sent = middle_and_late(each.at - each.sent for each in answers)
    show(f"  since they were sent, on one of 32 connections: {sent:.1f} ms, {late_sent:.1f} ms")
    start = min(each.due for each in answers)
    seconds: dict[int, list[float]] = {}
    for each in answers:
        seconds.setdefault(int(each.due - start), []).append(each.at - each.due)
    worst = ", ".join(f"{middle_and_late(waits)[1]:.0f}" for _, waits in sorted(seconds.items()))
    show(f"  p99 of those due in each second, ms: {worst}")
    show(f"  CPU time of the daemon: {1000 * cpu_seconds / len(answers):.2f} ms for each")
    show(f"  load of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


def middle_and_late(waits: Iterable[float]) -> tuple[float, float]:
    """The median and the 99th percentile of seconds, in milliseconds."""
    ms = sorted(1000 * seconds for seconds in waits)
    return statistics.median(ms), ms[int(0.99 * len(ms))]


def submit(folder: Path, *, over: bool) -> tuple[list[Answer], float]:
    """Submit steadily; return each submission's answer, and CPU seconds of the daemon."""
    with running(folder / "mesos", agents(1, 1000)) as mesos:
        daemon = Daemon(folder, mesos, "sleep", "3600")
        with opened(daemon.database) as store:
            # One of those that wait would fit alone, so the first of them runs and the others are behind it.
            fill(store, 10_000, over=over, cpus=0.1 if over else 30.0)
            with daemon:
                began = daemon.cpu_seconds()
                answers = asyncio.run(submit_steadily(daemon.url, SUBMISSIONS_PER_SECOND, 10.0))
                took = daemon.cpu_seconds() - began
            assert sum(store.jobs.count_by_state().values()) == 10_000 + len(answers)
    return answers, took


def submit_into_queues(
    folder: Path, count: int, queues: int, users: int, rate: int
) -> tuple[list[Answer], float]:
    """Submit steadily behind so many jobs in so many queues; as `submit`."""
    config = {
        "queues": tree(queues),
        "sharing": {"order": ["priority", "fair"]},
        "max_queued_jobs": 2 * count,
    }
    with running(folder / "mesos", agents(1, 1000)) as mesos:
        daemon = Daemon(folder, mesos, "sleep", "3600", **config)
        with opened(daemon.database) as store:
            fill_queues(store, count, queues, users)
        with daemon:
            began = daemon.cpu_seconds()
            more = [{"queue": queue_of(n % queues), "owner": f"u{n % users}"} for n in range(1000)]
            answers = asyncio.run(submit_steadily(daemon.url, rate, 10.0, more))
            took = daemon.cpu_seconds() - began
    return answers, took


async def submit_steadily(
    url: str, rate: float, seconds: float, more: Sequence[Mapping[str, object]] = ({},)
) -> list[Answer]:
    """Send submissions at fixed times, however long answers take.

    `more` has the jobs' other fields, in turn.
    """
    host, _, port = url.removeprefix("http://").partition(":")
    head = f"POST /v1/jobs HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"

    def request(said: Mapping[str, object]) -> bytes:
        body = {"app": "/apps/a.py", "executors": 1, "cpus": 1.0, "memory": 1024, **said}
        sent = json.dumps(body).encode()
        return f"{head}Content-Length: {len(sent)}\r\n\r\n".encode() + sent

    requests = [request(said) for said in more]
    free: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = asyncio.Queue()
    for _ in range(32):
        free.put_nowait(await asyncio.open_connection(host, int(port)))
    answered: list[Answer] = []

    async def one(number: int, due: float) -> None:
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        reader, writer = await free.get()
        sent = time.monotonic()
        writer.write(requests[number % len(requests)])
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 201"), head
        length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        await reader.readexactly(int(length.partition(b":")[2]))
        free.put_nowait((reader, writer))
        answered.append(Answer(due, sent, time.monotonic()))

    with uncollected():  # or who sends is late himself: a tenth of a second to go over the jobs that he made
        start = time.monotonic() + 0.1
        await asyncio.gather(*(one(n, start + n / rate) for n in range(int(rate * seconds))))
    while not free.empty():
        free.get_nowait()[1].close()
    return answered
