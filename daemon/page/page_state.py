"""The cluster and the jobs as the page shows them, and their changes since a moment ago.

One scene serves all readers. Its cost is that of the changes: a job's row is made when the store has written
the job, a VM's when the loop's snapshot of it changes. `stream.py` sends the scene.
"""

import json
import math
import threading
from collections.abc import Callable, Collection, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import nsmallest
from typing import Any

from daemon.auth.permits import Permit
from daemon.core.cluster_status import ClusterStatus, VmStatus
from daemon.core.estimate import Estimate
from daemon.core.job_ids import job_number
from daemon.http.server.scheduler_interface import Leadership
from daemon.page.rows import (
    JOB,
    VM,
    JobRow,
    budget_part,
    dumped,
    estimate_part,
    job_row,
    policy_part,
    pools_part,
    vm_row,
)
from daemon.store.job_store import Store
from daemon.store.rows.tables import OPEN_JOB
from environment.model.messages.states import ENDED_JOB

#: Jobs that are not over, and that are: the newest. Others are found in lists, page by page.
MOST_OPEN, MOST_ENDED = 20_000, 1000
#: Jobs read from the store at once, each of which may come after thousands; and rows in one message.
_READ, _PAGE = 100, 500
#: How many jobs at the head of the queue are told in their order.
_LINE = 200
#: Where in a job's row the reason is.
_REASON = JOB.index("reason")
#: Of how many looks one tells what running jobs cost by now.
_COSTS_EVERY = 10


@dataclass(frozen=True, slots=True, eq=False)
class Difference:
    """Changes from one look to the next."""

    number: int
    jobs: Sequence[JobRow] = ()
    gone: Sequence[str] = ()
    #: With their rows for those who see everybody's jobs.
    vms: Sequence[tuple[VmStatus, str]] = ()
    gone_vms: Sequence[str] = ()
    #: By the name of a part, as JSON.
    parts: Mapping[str, str] = field(default_factory=dict)
    #: What running jobs cost by now, dollars; empty in most.
    costs: Mapping[str, float] = field(default_factory=dict)


class PageScene:
    """Looked at by one thread at a time, told to any."""

    def __init__(self, leadership: Leadership, store: Store) -> None:
        self._leadership, self._store = leadership, store
        self._lock = threading.Lock()
        self._number = self._looks = 0
        self._forget()

    def _forget(self) -> None:
        self._jobs: dict[str, JobRow] = {}
        self._ended: dict[str, None] = {}
        self._queued: set[str] = set()
        self._line_stands = False
        self._vms: dict[str, VmStatus] = {}
        self._vm_rows: dict[str, str] = {}
        self._parts: dict[str, str] = {}
        self._paused: frozenset[str] = frozenset()
        #: Those at the head of the queue, and what was expected of whom, when that was last told.
        self._line: Sequence[str] = ()
        self._estimates: Mapping[str, Estimate] | None = None

    def begin(self) -> None:
        """Read the current state; RejectedError, StoreError."""
        self._leadership.leader()  # where another daemon leads, there is nothing to be read for
        self._store.news.begin()
        self._read(OPEN_JOB, MOST_OPEN)
        self._read(tuple(ENDED_JOB), MOST_ENDED)
        self.look()

    def end(self) -> None:
        """Forget all of it, until `begin`."""
        self._store.news.end()
        with self._lock:
            self._forget()

    def look(self) -> Difference | None:
        """Changes since the last look; None without any. RejectedError."""
        news = self._store.news.take()
        cluster = self._leadership.leader().cluster()
        rows = {job_id: job_row(record) for job_id, record in news.items()}
        vms = [vm for vm in cluster.vms if (old := self._vms.get(vm.id)) is not vm and old != vm]
        vm_rows = {vm.id: vm_row(vm) for vm in vms}
        shown = [(vm, vm_rows[vm.id]) for vm in vms]
        there = {vm.id for vm in cluster.vms}
        gone_vms = [vm_id for vm_id in self._vms if vm_id not in there]
        self._looks += 1
        with self._lock:
            gone = self._take(rows)
            self._vms |= {vm.id: vm for vm in vms}
            self._vm_rows |= vm_rows
            for vm_id in gone_vms:
                del self._vms[vm_id], self._vm_rows[vm_id]
            parts = self._changed_parts(cluster)
            costs = self._costs() if self._looks % _COSTS_EVERY == 0 else {}
            if not (rows or gone or vms or gone_vms or parts or costs):
                return None
            self._number += 1
            return Difference(self._number, list(rows.values()), gone, shown, gone_vms, parts, costs)

    def whole(self, permit: Permit) -> tuple[int, Sequence[str]]:
        """The number of the last difference, and all that is known by then: messages."""
        shown = self._shown(permit)
        with self._lock:
            running = [
                _told(permit, row) for row in self._jobs.values() if _is_on(row) and permit.sees(row.owner)
            ]
            line = [_told(permit, row) for row in self._in_line() if permit.sees(row.owner)]
            over = [
                _told(permit, row)
                for row in map(self._jobs.__getitem__, reversed(self._ended))
                if permit.sees(row.owner)
            ]
            rows = [*running, *line, *over]
            vms = list(self._vm_rows.values()) if shown is None else [
                permit.told(vm_row(vm, shown), _Own(shown)) for vm in self._vms.values()
            ]  # fmt: skip
            parts = {name: self._part(name, text, permit) for name, text in self._parts.items()}
            costs = {key: at for key, at in self._costs().items() if shown is None or shown(key)}
            number = self._number
        return number, [*_in_parts(rows, vms, parts, costs)]

    def told(self, difference: Difference, permit: Permit) -> str:
        """A difference as JSON, as far as somebody is shown of it."""
        shown = self._shown(permit)
        jobs = [_told(permit, row) for row in difference.jobs if permit.sees(row.owner)]
        texts = {name: self._part(name, text, permit) for name, text in difference.parts.items()}
        parts = [f'"{name}":{text}' for name, text in texts.items()]
        if jobs:
            parts.append(f'"jobs":[{",".join(jobs)}]')
        if difference.gone:
            parts.append(f'"gone":{dumped(difference.gone)}')
        if difference.vms:
            vms = (
                text if shown is None else permit.told(vm_row(vm, shown), _Own(shown))
                for vm, text in difference.vms
            )
            parts.append(f'"vms":[{",".join(vms)}]')
        if difference.gone_vms:
            parts.append(f'"gone_vms":{dumped(difference.gone_vms)}')
        if costs := {key: at for key, at in difference.costs.items() if shown is None or shown(key)}:
            parts.append(f'"costs":{dumped(costs)}')
        return f"{{{','.join(parts)}}}"

    # ---- helpers ---------------------------------------------------------------------------------

    def _read(self, states: Collection[str], most: int) -> None:
        """The newest jobs in these states."""
        rows: list[JobRow] = []
        more = True
        while more and len(rows) < most:
            found = self._store.jobs.page(states=states, limit=_READ, before=rows[-1].id if rows else None)
            rows += map(job_row, found)
            more = len(found) == _READ
        with self._lock:
            self._take({row.id: row for row in reversed(rows)})

    def _take(self, rows: Mapping[str, JobRow]) -> list[str]:
        """Take rows up; the jobs that are not shown any more, as enough others are over."""
        for job_id, row in rows.items():
            self._jobs[job_id] = row
            if row.state == "queued":
                self._line_stands = self._line_stands and job_id in self._queued
                self._queued.add(job_id)
            elif job_id in self._queued:
                self._queued.discard(job_id)
                self._line_stands = False
            if row.state in ENDED_JOB:
                self._ended[job_id] = None
        gone = list(self._ended)[: max(0, len(self._ended) - MOST_ENDED)]
        for job_id in gone:
            del self._ended[job_id], self._jobs[job_id]
        return gone

    def _changed_parts(self, cluster: ClusterStatus) -> dict[str, str]:
        scheduler = self._leadership.leader()
        standing = scheduler.standing()
        paused = frozenset[str]() if standing is None else standing.paused
        found: dict[str, Any] = {
            "pools": pools_part(cluster.pools),
            "provider": cluster.provider.trouble,
            "machine": cluster.note,
            "policy": policy_part(scheduler.policy()),
            "budget": budget_part(scheduler.budget()),
        }
        before = self._line
        if (sight := scheduler.sight()) is not None:
            found["line"] = self._line = sight.first[:_LINE]
        elif not self._line_stands or paused != self._paused:
            self._paused = paused
            found["line"] = self._line = nsmallest(_LINE, self._queued - paused, key=_number)
            self._line_stands = True
        estimates = scheduler.estimates()
        if estimates is not self._estimates or self._line != before:
            self._estimates = estimates
            found["estimates"] = estimate_part(estimates, self._line)
        texts = {name: dumped(value) for name, value in found.items()}
        changed = {name: text for name, text in texts.items() if self._parts.get(name) != text}
        self._parts |= changed
        return changed

    def _in_line(self) -> Iterator[JobRow]:
        yield from (self._jobs[job_id] for job_id in sorted(self._queued, key=_number))

    def _costs(self) -> dict[str, float]:
        return {
            job_id: round(row.cost + math.fsum(due.values()), 6)
            for job_id, due in self._leadership.live().due().items()
            if (row := self._jobs.get(job_id)) is not None and row.state not in ENDED_JOB
        }

    def _shown(self, permit: Permit) -> Callable[[str], bool] | None:
        """Whether a job is shown to somebody; None: each is."""
        if not permit.limited:
            return None

        def shown(job_id: str) -> bool:
            row = self._jobs.get(job_id)
            return row is not None and permit.sees(row.owner)

        return shown

    def _part(self, name: str, text: str, permit: Permit) -> str:
        """A part for a user that may see less: without money, and without other users' jobs in the line."""
        shown = self._shown(permit)
        if shown is None:
            return text
        if name == "estimates":
            return dumped({job_id: told for job_id, told in json.loads(text).items() if shown(job_id)})
        if name not in ("budget", "line"):
            return permit.told(text, ())
        if name == "budget":
            return "null"
        return dumped([job_id if shown(job_id) else None for job_id in json.loads(text)])


def _in_parts(
    rows: Sequence[str], vms: Sequence[str], parts: Mapping[str, str], costs: Mapping[str, float]
) -> Iterator[str]:
    columns = f'"columns":{{"jobs":{dumped(JOB)},"vms":{dumped(VM)}}}'
    told = [columns, *(f'"{name}":{text}' for name, text in parts.items()), f'"vms":[{",".join(vms)}]']
    told += [f'"jobs":[{",".join(rows[:_PAGE])}]', f'"number_of_jobs":{len(rows)}']
    yield f"{{{','.join(told)}}}"
    for begin in range(_PAGE, len(rows), _PAGE):
        yield f'{{"jobs":[{",".join(rows[begin : begin + _PAGE])}]}}'
    if costs:
        yield f'{{"costs":{dumped(costs)}}}'


def _is_on(row: JobRow) -> bool:
    return row.state != "queued" and row.state not in ENDED_JOB


class _Own(Container[str]):
    """The jobs that somebody is shown."""

    def __init__(self, shown: Callable[[str], bool]) -> None:
        self._shown = shown

    def __contains__(self, job_id: object) -> bool:
        return self._shown(str(job_id))


def _told(permit: Permit, row: JobRow) -> str:
    """A row with the ids of other users' jobs hidden in the daemon's texts."""
    text = permit.told(row.text, {row.id})
    if text == row.text:
        return text
    values = json.loads(row.text)
    values[_REASON] = permit.told(values[_REASON], {row.id})
    return dumped(values)


def _number(job_id: str) -> int:
    return job_number(job_id) or 0
