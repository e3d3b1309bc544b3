"""A scheduler without a cluster for the page's tests: as many VMs and jobs as are wanted, which come and go.

`python -m tests.daemon.page.crowd` serves one, to be looked at.
"""

import random
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from conf.schema import Http, JobSpec
from daemon.core.cluster_status import ClusterStatus, PoolStatus, VmStatus
from daemon.core.status import BudgetStatus, QueuePositions
from daemon.http.app import create_app
from daemon.http.app_options import AppOptions
from daemon.http.server.uvicorn_server import make_server
from daemon.store.job_store import Store
from daemon.store.queries.insert_jobs import SubmittedSpec
from environment.decisions.explain import CandidateVm, Choice, Explanation
from environment.model.cluster_model import Changes
from environment.model.messages.records import ExecutorRecord, JobRecord
from environment.resources import Resources
from environment.types import Job
from tests.daemon.small_scheduler import SmallScheduler

TYPES = (("m1.large", 4.0, 16384, 0.24), ("m1.xlarge", 8.0, 32768, 0.48), ("m2.xlarge", 8.0, 65536, 0.39))
APPS = ("wordcount", "pagerank", "sort", "kmeans", "etl-hourly", "clicks", "features")
PEOPLE = ("ann", "bob", "carol", "")
QUEUES = ("default", "prod.etl", "prod.ml", "adhoc")


class Crowd(SmallScheduler):
    """So many VMs, three of four jobs waiting; `step` lets some end, and others begin."""

    #: Whether its VMs are always there, and of no pool.
    fixed = False
    #: How many JVMs its machine carries, if jobs wait for that.
    carries: int | None = None

    def __init__(self, store: Store, vms: int, jobs: int, seed: int = 1) -> None:
        super().__init__(store)
        self._random = random.Random(seed)  # noqa: S311
        self._vms = [self._vm(n) for n in range(vms)]
        self._running: list[JobRecord] = []
        self._held: dict[str, list[int]] = {}
        self._queue: list[str] = []
        self.submit_some(jobs)
        self.step(0)

    def submit_some(self, number: int) -> None:
        """More jobs, which wait."""
        specs = [
            SubmittedSpec(JobSpec(app=f"/apps/{app}.py", type=app), None)
            for app in self._random.choices(APPS, k=number)
        ]
        now = time.time()

        def job(job_id: str, each: SubmittedSpec) -> Job:
            number = int(job_id.rpartition("-")[2])
            size = Resources.of(self._random.choice((1.0, 2.0)), 2048)
            owner, queue = self._random.choice(PEOPLE), self._random.choice(QUEUES)
            count, at = self._random.choice((1, 2, 2, 3, 4)), now - self._random.random() * 900
            name = f"{each.spec.type}-{number % 97:02d}"
            return Job(job_id, str(each.spec.type), size, count, at, name=name, owner=owner, queue=queue)

        for begin in range(0, number, 500):
            added = self._store.jobs.new.add(specs[begin : begin + 500], job, now)
            self._queue += [one[0].job.id for one in added if isinstance(one, tuple)]

    def step(self, ends: int = 3) -> None:
        """Some jobs end, the next begin."""
        for _ in range(min(ends, len(self._running))):
            self._end(self._running.pop(self._random.randrange(len(self._running))))
        while self._begin_next():
            pass
        self._picture = [replace(vm) for vm in self._vms]

    @property
    def waiting(self) -> list[str]:
        """Ids of the waiting jobs, in order."""
        return list(self._queue)

    def _vm(self, n: int) -> VmStatus:
        kind, cpus, memory, price = TYPES[n % len(TYPES)]
        pool = f"{kind}-pool"
        state: Any = "booting" if n % 29 == 5 else "draining" if n % 41 == 7 else "up"
        ready = time.time() + 40 if state == "booting" else None
        name = f"{kind}-{n // len(TYPES) + 1}"
        note = "its agent offers no disk" if n % 97 == 11 else ""
        seen = (f"S{n}", name, kind, "10.0.0.1", cpus, memory, price, 0.0, 0, ())
        return VmStatus(*seen, note=note, state=state, pool=pool, ready_at=ready)

    def _begin_next(self) -> bool:
        if not self._queue:
            return False
        record = self._store.jobs.get(self._queue[0])
        assert record is not None
        places: list[int] = []
        free: dict[int, float] = {}
        for _ in range(record.job.executors):
            start = self._random.randrange(len(self._vms))
            for i in range(min(len(self._vms), 60)):
                n = (start + i) % len(self._vms)
                vm = self._vms[n]
                left = free.get(n, vm.cpus - vm.used_cpus)
                if vm.state == "up" and left >= record.job.cpus:
                    free[n] = left - record.job.cpus
                    places.append(n)
                    break
        if len(places) < record.job.executors:
            why = f"needs {record.job.cpus:g} cores on one VM: the largest piece that is free has fewer"
            self._store.changes.save(Changes((replace(record, reason=why),), ()))
            return False
        self._queue.pop(0)
        now = time.time()
        tasks = []
        for number, n in enumerate(places):
            vm, task = self._vms[n], f"{record.job.id}.{number}"
            self._vms[n] = _holding(vm, record.job, 1, (*vm.executors, task))
            where = (vm.id, vm.name, vm.type, vm.address, vm.price_per_hour, record.job.size, ())
            tasks.append(ExecutorRecord(task, record.job.id, number, *where, now - 5, "running", now - 3))
        why = "all its executors run"
        began = replace(record, state="running", reason=why, placed_at=now - 5, started_at=now - 3, cost=0.01)
        self._held[record.job.id] = places
        self._running.append(began)
        self._store.changes.save(Changes((began,), tuple(tasks)), (self._why(record, places, now),))
        return True

    def _why(self, record: JobRecord, places: list[int], now: float) -> Explanation:
        def choice(number: int, chosen: int) -> Choice:
            others = sorted({chosen, *self._random.sample(range(len(self._vms)), min(5, len(self._vms)))})
            looked = []
            for n in others:
                vm = self._vms[n]
                free = {"cpus": vm.cpus - vm.used_cpus, "mem": float(vm.memory_mib - vm.used_memory_mib)}
                fits = n == chosen or free["cpus"] >= record.job.cpus
                lacks, score = ((), -vm.price_per_hour) if fits else ((f"cpus: has {free['cpus']:g}",), None)
                looked.append(CandidateVm(vm.name, vm.type, free, lacks, score, n == chosen))
            vm = self._vms[chosen]
            why = f"the cheapest that holds it: {vm.price_per_hour:g} $/h"
            return Choice(number, vm.name, why, tuple(looked), 0, record.job.size)

        names = ", ".join(self._vms[n].name for n in places)
        choices = tuple(choice(i, n) for i, n in enumerate(places))
        told = f"{len(places)} placed: {names}"
        return Explanation(now, record.job.id, "greedy", "place", told, (), choices)

    def _end(self, record: JobRecord) -> None:
        now, failed = time.time(), self._random.random() < 0.05
        why = "KeyError: 'amount' in clean.py, line 31" if failed else "its driver exited with code 0"
        over = replace(record, reason=why, finished_at=now, exit_code=int(failed), cost=0.04)
        over.state = "failed" if failed else "finished"
        there = self._store.jobs.executors(record.job.id)
        tasks = [replace(task, state="finished", ended_at=now, cost=0.01) for task in there]
        self._free(record.job)
        self._store.changes.save(Changes((over,), tuple(tasks)))

    def _free(self, job: Job) -> None:
        for n in self._held.pop(job.id):
            vm = self._vms[n]
            left = tuple(task for task in vm.executors if task.partition(".")[0] != job.id)
            self._vms[n] = _holding(vm, job, -1, left)

    def kill(self, job_id: str) -> JobRecord:
        """End the job at once, wherever it is."""
        running = [one for one in self._running if one.job.id == job_id]
        if running:
            self._running.remove(running[0])
            self._free(running[0].job)
            self._picture = [replace(vm) for vm in self._vms]
        elif job_id in self._queue:
            self._queue.remove(job_id)
        return super().kill(job_id)

    # ---- what the API asks -----------------------------------------------------------------------

    def cluster(self) -> ClusterStatus:
        """The VMs as they are now, each a new value, as the loop's picture has them."""
        if self.fixed:
            vms = tuple(replace(vm, pool="", state="up") for vm in self._picture)
            return ClusterStatus(vms, jvms=self.carries, crowded=self.carries is not None)
        pools = tuple(
            PoolStatus(
                f"{kind}-pool",
                kind,
                cpus,
                memory,
                {},
                price,
                40.0,
                0,
                len(self._vms),
                sum(vm.type == kind for vm in self._vms),
            )
            for kind, cpus, memory, price in TYPES
        )
        crowded = self.carries is not None
        return ClusterStatus(tuple(self._picture), pools, jvms=self.carries, crowded=crowded)

    def budget(self) -> BudgetStatus | None:
        """A tenth of it is spent."""
        return BudgetStatus(time.strftime("%Y-%m-%d", time.gmtime()), 200.0, 20.0, hold=False)

    def standing(self) -> QueuePositions:
        """First come, first served."""
        return QueuePositions(self._queue[0] if self._queue else "")

    def due(self) -> Mapping[str, Mapping[str, float]]:
        """A bit of each."""
        now = time.time()
        return {
            one.job.id: {f"{one.job.id}.0": (now - (one.started_at or now)) * 1e-4}
            for one in list(self._running)
        }


def _holding(vm: VmStatus, job: Job, sign: int, executors: tuple[str, ...]) -> VmStatus:
    cpus, memory = vm.used_cpus + sign * job.cpus, vm.used_memory_mib + sign * job.memory_mib
    return replace(vm, used_cpus=cpus, used_memory_mib=memory, executors=executors)


@contextmanager
def served(app: ASGIApp) -> Iterator[str]:
    """An app on a port of its own, by the daemon's own server; its URL."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        stream = getattr(getattr(app, "state", None), "stream", None)
        ending = stream.close if stream else lambda: None
        server: uvicorn.Server = make_server(app, listener, Http(), ending=ending)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            while not server.started:
                time.sleep(0.01)
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


def main(vms: int = 24, jobs: int = 120) -> None:
    """Serve until Ctrl-C."""
    with (
        tempfile.TemporaryDirectory() as folder,
        closing(Store(f"sqlite:///{Path(folder) / 'stoker.db'}")) as store,
    ):
        crowd = Crowd(store, vms, jobs)
        with served(create_app(crowd, store, AppOptions(token=None, version="1"))) as url:
            print(url, flush=True)
            while True:
                time.sleep(1)
                crowd.step(max(1, vms // 20))
                crowd.submit_some(max(1, vms // 25))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
