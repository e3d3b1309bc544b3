"""The daemon's records of launches, in a folder that no job may use.

`records/JOB/launch.json` has the secret and the driver's ports, `records/JOB/driver/` the output of the
driver's supervisor. All records are read as if a job had changed them, since one that runs as the daemon's
user can.
"""

import contextlib
import json
import os
import random
import secrets
import shutil
import socket
import time
from dataclasses import dataclass
from pathlib import Path

from conf.util.whole_file import write_whole
from framework.host.untrusted_files import UntrustedFileError, read_whole

#: Where drivers on this host listen: below the range from which Linux takes ports for outgoing connections.
DRIVER_PORTS = range(10_000, 20_000)

#: Ports that are tried for a launch, and seconds until the next try where too few were free, since a job has
#: taken most: the scheduling loop waits meanwhile. By number, as a busy machine takes long for a few.
_TRIED, _PAUSE = 1000, 2.0
_LARGEST_LAUNCH = 1 << 12
#: Beside the records of a driver of an earlier version, whose supervisor writes into the job's folder.
_LEGACY = "in-the-job-folder"


class RecordsError(ValueError):
    """A job's records differ from those that the daemon wrote."""


class LaunchLostError(ValueError):
    """The address of the driver was given to executors and is now lost."""


@dataclass(frozen=True, slots=True)
class LaunchRecord:
    """Values shared by driver and executors of one job; `ports`: driver, block manager, UI.

    `by_job`: its application's key also depends on the job's id; False for a record of an earlier version.
    """

    secret: str
    ports: tuple[int, int, int]
    by_job: bool = True


class LaunchRecords:
    """The launches of all jobs, in `data_dir`; from any thread."""

    def __init__(self, data_dir: Path, driver_host: str) -> None:
        """`driver_host` is where drivers on this host listen. OSError when the folder cannot be made."""
        self._jobs = data_dir / "jobs"
        self._records = data_dir / "records"
        self._driver_host = driver_host
        #: Sockets that hold the ports of drivers without a supervisor yet, which holds them from then on.
        self._held: dict[str, tuple[socket.socket, ...]] = {}
        #: Until when (monotonic) no free port is looked for.
        self._none_until = 0.0
        _take_over(self._jobs, self._records)

    def records(self, job_id: str) -> Path:
        """Folder of the supervisor of the job's driver on this host."""
        if (self._records / job_id / _LEGACY).exists():
            return self._jobs / job_id / "driver"
        return self._records / job_id / "driver"

    def all(self) -> list[str]:
        """The jobs that were launched and not forgotten since."""
        return [path.parent.name for path in self._records.glob("*/launch.json")]

    def of(
        self, job_id: str, secret: str = "", *, by_job: bool = True, elsewhere: bool = False
    ) -> LaunchRecord:
        """The job's launch, a new one if it has none; `secret` is the secret of a new one, if given.

        One of a driver `elsewhere` has no ports of this host (0).

        RecordsError when the record was altered. OSError or ValueError when there is no disk space for it, or
        no free port.
        """
        kept = self.kept(job_id)
        if kept is not None:
            return kept
        self.release(job_id)
        ports = (0, 0, 0) if elsewhere else self._hold_ports(job_id)
        launch = LaunchRecord(secret or secrets.token_urlsafe(32), ports, by_job)
        path = self._records / job_id / "launch.json"
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        record = {"secret": launch.secret, "ports": launch.ports, "by_job": by_job}
        write_whole(path, json.dumps(record))
        return launch

    def kept(self, job_id: str) -> LaunchRecord | None:
        """The job's launch; None when it has none. RecordsError as `of`."""
        try:
            kept = json.loads(read_whole(self._records, f"{job_id}/launch.json", _LARGEST_LAUNCH))
            first, second, third = kept["ports"]
            if not all(type(port) is int and 0 <= port < 1 << 16 for port in (first, second, third)):
                raise ValueError
            by_job = kept.get("by_job") is True
            return LaunchRecord(str(kept["secret"]), (first, second, third), by_job)
        except FileNotFoundError:
            return None
        except (UntrustedFileError, ValueError, TypeError, KeyError, RecursionError) as error:
            raise RecordsError("the record of its launch is not as the daemon wrote it") from error

    def _hold_ports(self, job_id: str) -> tuple[int, int, int]:
        """Three free ports, kept from now on: a driver listens on them only when its executors run."""
        none = f"no free ports for a driver on {self._driver_host} in {DRIVER_PORTS}"
        held: list[socket.socket] = []
        if time.monotonic() < self._none_until:
            raise ValueError(none)
        for port in random.sample(DRIVER_PORTS, _TRIED):
            if (holder := _hold(self._driver_host, port)) is not None:
                held.append(holder)
            if len(held) == 3:
                self._held[job_id] = tuple(held)
                first, second, third = (one.getsockname()[1] for one in held)
                return first, second, third
        for holder in held:
            holder.close()
        self._none_until = time.monotonic() + _PAUSE
        raise ValueError(none)

    def release(self, job_id: str) -> None:
        """Release the job's reserved ports."""
        for holder in self._held.pop(job_id, ()):
            holder.close()

    def forget(self, job_id: str) -> None:
        """Its secret and its ports are of no more use."""
        self.release(job_id)
        (self._records / job_id / "launch.json").unlink(missing_ok=True)

    def put_aside(self, job_id: str) -> None:
        """Forget it; its driver has ended, and another may be started as if there had been none."""
        self.forget(job_id)  # first: without it no driver is started for executors of this launch
        (self._records / job_id / _LEGACY).unlink(missing_ok=True)
        for folder in (self._jobs / job_id / "driver", self._records / job_id / "driver"):
            if folder.exists():
                number = sum(1 for _ in folder.parent.glob("driver.*"))
                folder.rename(folder.with_name(f"driver.{number}"))


def _hold(host: str, port: int) -> socket.socket | None:
    """Reserve a port by binding it, so that only a process that knows of it shares it; None when in use."""
    holder = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        holder.bind((host, port))
    except OSError:
        holder.close()
        return None
    # Set only now: a socket with this option set before binding would share the port with another one's
    # holder.
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    return holder


def _take_over(jobs: Path, records: Path) -> None:
    """Create the records folder and copy an earlier version's records from the jobs' own folders.

    Its drivers may still run, with supervisors that continue to write there: `_LEGACY` marks them.
    """
    if records.exists():
        return
    draft = records.with_name(f"records.{os.getpid()}")
    draft.mkdir(mode=0o700, parents=True)
    kept = list(jobs.glob("*/launch.json"))
    for path in kept:
        own = draft / path.parent.name
        own.mkdir(mode=0o700)
        with contextlib.suppress(OSError):
            (own / "launch.json").write_bytes(read_whole(path.parent, path.name, _LARGEST_LAUNCH))
            (own / "launch.json").chmod(0o600)
            if (path.parent / "driver").exists():
                (own / _LEGACY).touch()
    try:
        draft.rename(records)  # another daemon finds all of it or nothing
    except OSError:
        shutil.rmtree(draft)
        if not records.is_dir():
            raise
    for path in kept:
        path.unlink(missing_ok=True)
