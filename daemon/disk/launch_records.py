"""What the daemon writes down of launches, in a folder that no job has any business in.

`records/JOB/launch.json` has the secret and the driver's ports, `records/JOB/driver/` what the driver's
supervisor writes. All of it is read as if a job had been there, since one that runs as the daemon's user can.
"""

import contextlib
import json
import os
import random
import secrets
import shutil
import socket
from dataclasses import dataclass
from pathlib import Path

from framework.host.untrusted_files import UntrustedFileError, read_whole

#: Where drivers on this host listen: below the range from which Linux takes ports for outgoing connections.
DRIVER_PORTS = range(10_000, 20_000)

_LARGEST_LAUNCH = 1 << 12
#: Beside the records of a driver of an earlier version, whose supervisor writes into the job's folder.
_LEGACY = "in-the-job-folder"


class RecordsError(ValueError):
    """What stands in a job's records is not what the daemon wrote there."""


class LaunchLostError(ValueError):
    """Executors were told where their driver would be, and nobody knows any more where that was."""


@dataclass(frozen=True, slots=True)
class LaunchRecord:
    """What driver and executors of one job must agree on; `ports`: driver, block manager, UI.

    `by_job`: the key of its application follows from the job's id, too; of an earlier version it does not.
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
        #: What keeps the ports of drivers that have no supervisor yet, which keeps them from then on.
        self._held: dict[str, tuple[socket.socket, ...]] = {}
        _take_over(self._jobs, self._records)

    def records(self, job_id: str) -> Path:
        """Where the supervisor of the job's driver on this host writes."""
        if (self._records / job_id / _LEGACY).exists():
            return self._jobs / job_id / "driver"
        return self._records / job_id / "driver"

    def all(self) -> list[str]:
        """The jobs that were launched and not forgotten since."""
        return [path.parent.name for path in self._records.glob("*/launch.json")]

    def of(self, job_id: str, secret: str = "", *, by_job: bool = True) -> LaunchRecord:
        """The job's launch, a new one if it has none, with that secret if it has one already.

        RecordsError when what is written of it is not what was written. OSError or ValueError when there is
        no room for it, or no port.
        """
        kept = self.kept(job_id)
        if kept is not None:
            return kept
        self.release(job_id)
        launch = LaunchRecord(secret or secrets.token_urlsafe(32), self._hold_ports(job_id), by_job)
        path = self._records / job_id / "launch.json"
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = path.with_suffix(".draft")
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            json.dump({"secret": launch.secret, "ports": launch.ports, "by_job": by_job}, file)
        draft.rename(path)
        return launch

    def kept(self, job_id: str) -> LaunchRecord | None:
        """The job's launch; None when it has none. RecordsError as `of`."""
        try:
            kept = json.loads(read_whole(self._records, f"{job_id}/launch.json", _LARGEST_LAUNCH))
            first, second, third = kept["ports"]
            if not all(type(port) is int and 0 < port < 1 << 16 for port in (first, second, third)):
                raise ValueError
            by_job = kept.get("by_job") is True
            return LaunchRecord(str(kept["secret"]), (first, second, third), by_job)
        except FileNotFoundError:
            return None
        except (UntrustedFileError, ValueError, TypeError, KeyError, RecursionError) as error:
            raise RecordsError("the record of its launch is not what the daemon wrote") from error

    def _hold_ports(self, job_id: str) -> tuple[int, int, int]:
        """Three free ports, kept from now on: a driver listens on them only when its executors run."""
        held: list[socket.socket] = []
        for port in random.sample(DRIVER_PORTS, len(DRIVER_PORTS)):
            if (holder := _hold(self._driver_host, port)) is not None:
                held.append(holder)
            if len(held) == 3:
                self._held[job_id] = tuple(held)
                first, second, third = (one.getsockname()[1] for one in held)
                return first, second, third
        for holder in held:
            holder.close()
        raise ValueError(f"no free ports for a driver on {self._driver_host} in {DRIVER_PORTS}")

    def release(self, job_id: str) -> None:
        """Its ports need not be kept any more."""
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
    """Bind a port, so that only who knows of it can have it too; None when somebody has it already."""
    holder = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        holder.bind((host, port))
    except OSError:
        holder.close()
        return None
    # Said only now: whoever said it before binding would share the port with another one's holder.
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    return holder


def _take_over(jobs: Path, records: Path) -> None:
    """Make the folder of records; in it, what an earlier version kept of its jobs in their own folders.

    Its drivers may still run, under supervisors that go on writing there: `_LEGACY` says so.
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
