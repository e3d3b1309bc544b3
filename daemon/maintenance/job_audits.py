"""Audits of the daemon's own ended jobs: the report of `stoker audit --html`, made by a process of its own.

The event logs were written by jobs, so that process has limits of time and memory, and it reads copies of
regular files alone. One report is made at a time, in turn for users, and kept for some minutes.
"""

import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Literal, NamedTuple

import structlog
from stoker.bounded_read import read_bounded
from stoker.characters import visible

from audit.log_files import ARCHIVES
from conf.util.counted import counted
from daemon.core.cluster_status import PoolStatus, VmStatus
from daemon.core.errors import RejectedError
from daemon.disk.job_folders import temporary_folder
from daemon.launch.event_log_export import SparkEventLog, copy_event_logs, find_event_logs
from daemon.store.job_store import Store
from daemon.what_if.fair_queue import FairQueue
from framework.host.stop_signals import unblocked

Period = Literal["day", "week", "month"]
_DAY = 86_400.0
#: Seconds of each.
_PERIODS: Mapping[Period, float] = MappingProxyType({"day": _DAY, "week": 7 * _DAY, "month": 30 * _DAY})
#: Jobs that are read, the last that ended, and bytes of their logs. Chosen: a core takes a minute for them.
_MOST_JOBS, _MOST_BYTES = 2000, 512 << 20
#: Seconds that making a report may take, and that a question waits for its turn.
_SECONDS, _TURN = 300.0, 30.0
#: Limits of each of its processes: seconds of a core, and bytes of memory. Chosen: far more than logs take.
_LIMITS = ((resource.RLIMIT_CPU, 300), (resource.RLIMIT_DATA, 4 << 30))
_NICE = 10
#: Bytes of a report: it has few rows of each table.
_LONGEST = 16 << 20
#: Seconds for which a report is given again, and number of reports that are kept.
_FRESH, _KEPT = 300.0, 16
_LATER = {"Retry-After": "60"}
#: Exit code of the command for logs that are none.
_WRONG_INPUT = 2
log = structlog.get_logger("audits")


class _Report(NamedTuple):
    """A report as HTML, and when it was made, by the monotonic clock."""

    html: str
    made_at: float


class JobAudits:
    """Makes reports and keeps them; for any thread."""

    def __init__(self, store: Store, data_dir: Path | None) -> None:
        """`data_dir` has the event logs; None where there are none."""
        self._store, self._data_dir = store, data_dir
        self._turns = FairQueue()
        self._kept: dict[tuple[str, ...], _Report] = {}

    def report(
        self,
        period: Period,
        owners: Collection[str],
        who: str,
        vms: Sequence[VmStatus | PoolStatus],
    ) -> str:
        """The report as HTML on jobs of these owners (empty: all) that ended in the last day, week or month.

        `vms` have the prices of executors whose logs have none. RejectedError when there is nothing to report
        on, when it takes too long, or when this user (`who`) or all ask for too much at once.
        """
        key = (period, *sorted(owners))
        if (kept := self._fresh(key)) is not None:
            return kept
        with self._turns.turn(who, _TURN):
            # Somebody else may have asked for the same meanwhile.
            if (kept := self._fresh(key)) is not None:
                return kept
            found = _Report(self._made(period, owners, vms), time.monotonic())
            self._kept.pop(key, None)
            while len(self._kept) >= _KEPT:
                del self._kept[next(iter(self._kept))]
            self._kept[key] = found
            return found.html

    def _fresh(self, key: tuple[str, ...]) -> str | None:
        kept = self._kept.get(key)
        return kept.html if kept is not None and time.monotonic() - kept.made_at < _FRESH else None

    def _made(self, period: Period, owners: Collection[str], vms: Sequence[VmStatus | PoolStatus]) -> str:
        since = time.time() - _PERIODS[period]
        job_ids, ended = self._store.jobs.recent.ended(since, owners, _MOST_JOBS)
        logs = [each for job_id in job_ids for each in self._logs(job_id)]
        with temporary_folder("stoker-audit-") as scratch:
            folder, prices, html = (scratch / name for name in ("logs", "prices.yaml", "report.html"))
            folder.mkdir()
            copied = copy_event_logs(logs, folder, _MOST_BYTES)
            jobs = f"{counted(ended, 'job')} that ended in the last {period}"
            if not copied.logs:
                raise RejectedError(404, "Nothing to audit", f"of {jobs}, none has an event log here")
            read = len({each.job_id for each in copied.logs.values()})
            left_out = "" if read == ended else "; the others have no event log here, or there are too many"
            prices.write_text(_prices(vms, f"this daemon's VMs. In the report: {read:,} of {jobs}{left_out}"))
            command = ["audit", str(folder), "--prices", str(prices), "--html", str(html)]
            _run([sys.executable, "-m", "daemon.cli", *command], str(scratch))
            return read_bounded(html, _LONGEST)

    def _logs(self, job_id: str) -> list[SparkEventLog]:
        """Logs of a job, without archives, which would be unpacked."""
        found = [] if self._data_dir is None else find_event_logs(self._data_dir, job_id)
        return [each for each in found if not any(name.endswith(ARCHIVES) for name in each.files)]


def _prices(vms: Sequence[VmStatus | PoolStatus], source: str) -> str:
    """A price list of these VMs, as YAML, for executors without a price in their logs.

    Of a type with several prices, on demand and spot, it has the highest; an executor on a VM of another type
    pays their least by core.
    """
    if not vms:
        raise RejectedError(503, "Not now", "no VM is known, so there are no prices", _LATER)
    types = {
        each.type: {
            "cpus": each.cpus,
            "memory": each.memory_mib,
            "price_per_hour": each.price_per_hour,
            "resources": dict(each.resources),
        }
        for each in sorted(vms, key=lambda vm: vm.price_per_hour)
    }
    least = min(each.price_per_hour / each.cpus for each in vms)
    several = sorted(kind for kind in types if len({vm.price_per_hour for vm in vms if vm.type == kind}) > 1)
    if several:
        source += f". Executors pay the price in their log; without one, on {', '.join(several)}, the highest"
    return json.dumps({"source": source, "types": types, "per_core_hour": least})


def _run(command: Sequence[str], scratch: str) -> None:
    """Run the command at low priority; RejectedError when it fails, or does not end in time."""
    with unblocked():
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    try:
        with contextlib.suppress(ProcessLookupError):
            os.setpriority(os.PRIO_PROCESS, process.pid, _NICE)
            for limit, most in _LIMITS:
                resource.prlimit(process.pid, limit, (most, most))
        _, told = process.communicate(timeout=_SECONDS)
    except subprocess.TimeoutExpired:
        why = f"the event logs take more than {_SECONDS:g} s: ask for a shorter period, or use stoker audit"
        raise RejectedError(503, "Too much to audit", why, _LATER) from None
    finally:
        if process.poll() is None:
            # Its session has the processes that it started.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    if process.returncode:
        said = told.decode(errors="replace").replace(scratch, "").strip().rpartition("\n")[2]
        log.warning("a report on jobs failed", exit_code=process.returncode, said=visible(said))
        why = f"the event logs cannot be audited: {visible(said)[:500] or 'the process was ended'}"
        if process.returncode == _WRONG_INPUT:
            raise RejectedError(404, "Nothing to audit", why)
        raise RejectedError(503, "Too much to audit", why, _LATER)
