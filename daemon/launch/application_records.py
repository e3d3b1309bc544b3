"""Application records for drivers that run elsewhere or ask for executors themselves: address, key, secret.

They are in the job store, since any leading daemon, on any host, needs them. The key of an application that
is over is kept, so that its driver can get a reason, and its secret is not. `store/rows/applications.py`
converts them to rows.
"""

import hmac
import json
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from daemon.disk.launch_records import LaunchRecord, LaunchRecords, RecordsError
from daemon.store.job_store import Store
from daemon.store.rows.checksummed import UnreadableRowError, seal, unseal
from daemon.store.rows.database import StoreError
from framework.spark import ui_key


@dataclass(frozen=True, slots=True)
class ApplicationRecord:
    """Values that executors need to join a driver; `key` authorizes the driver to speak for its job."""

    key: str = field(repr=False)
    secret: str = field(default="", repr=False)
    """The secret by which driver and executors authenticate; empty when the application is over."""
    application_id: str = ""
    host: str = ""
    port: int = 0


def application_key(job_id: str, secret: str) -> str:
    """The key of this job's application with this secret; it tells nothing of the secret itself.

    A user's driver brings a secret of its own, which several of them may share: each has another key.
    """
    return hmac.digest(secret.encode(), f"the application's key of {job_id}".encode(), "sha256").hex()


def launched_key(job_id: str, launch: LaunchRecord) -> str:
    """The key of an application that the daemon launched, which may have been one of an earlier version."""
    if launch.by_job:
        return application_key(job_id, launch.secret)
    return hmac.digest(launch.secret.encode(), b"the application's key", "sha256").hex()


class ApplicationRecords:
    """The records of all applications; from any thread. All methods raise StoreError when the store does."""

    def __init__(self, store: Store | None, launches: LaunchRecords) -> None:
        """`launches` are this host's. Without a store nothing is stored: only a leader needs one."""
        self._store = store
        self._launches = launches

    def keep(self, job_id: str, record: ApplicationRecord) -> None:
        """Store the record of an application."""
        if self._store is not None:
            text = seal(json.dumps(asdict(record)))
            self._store.applications.keep(job_id, text, has_secret=bool(record.secret))

    def kept(self, job_id: str) -> ApplicationRecord | None:
        """The job's application; None when it has none. RecordsError when its record is unreadable."""
        text = None if self._store is None else self._store.applications.kept(job_id)
        try:
            return None if text is None else unseal(_record, text)
        except UnreadableRowError as error:
            raise RecordsError("the record of its application is not as the daemon wrote it") from error

    def key_of(self, job_id: str) -> str:
        """Key that authorizes a job's driver; empty when there is none.

        RecordsError when the job's records were altered.
        """
        launch = self._launches.kept(job_id)
        if launch is not None:
            return launched_key(job_id, launch)
        known = self.kept(job_id)
        return "" if known is None else known.key

    def name(self, job_id: str, launch: LaunchRecord) -> str:
        """Application id that the driver of this launch reported; empty before it has."""
        known = self.kept(job_id)
        return known.application_id if known and known.key == launched_key(job_id, launch) else ""

    def unname(self, job_id: str) -> None:
        """Another driver of the job is started, by the same secret and with a name and place of its own."""
        known = self.kept(job_id)
        if known is not None and known.application_id:
            self.keep(job_id, ApplicationRecord(known.key, known.secret))

    def launch_elsewhere(self, job_id: str) -> LaunchRecord:
        """Launch of a job with a driver on the cluster; it continues under any leading host."""
        launch = self._launches.kept(job_id)
        if launch is None:
            known = self.kept(job_id)
            secret = "" if known is None else known.secret
            by_job = known is None or not secret or known.key == application_key(job_id, secret)
            launch = self._launches.of(job_id, secret, by_job=by_job, elsewhere=True)
            if known is None:
                self.keep(job_id, ApplicationRecord(launched_key(job_id, launch), launch.secret))
        return launch

    def launch(self, job_id: str) -> LaunchRecord | None:
        """The job's launch, without ports where another host made it; None when it has none."""
        launch = self._launches.kept(job_id)
        if launch is not None:
            return launch
        known = self.kept(job_id)
        return LaunchRecord(known.secret, (0, 0, 0)) if known is not None and known.secret else None

    def secrets(self, job_id: str) -> tuple[str, ...]:
        """Secret and keys of the job's launch; none when it has none, or when that cannot be read now."""
        with suppress(OSError, ValueError, StoreError):
            if launch := self.launch(job_id):
                return launch.secret, ui_key(launch.secret), self.key_of(job_id)
        return ()

    def forget(self, job_id: str) -> None:
        """The application is over: its secret is of no more use."""
        try:
            record = self.kept(job_id)
        except RecordsError:
            if self._store is not None:
                self._store.applications.drop(job_id)
            return
        if record is not None and record.secret:
            self.keep(job_id, replace(record, secret=""))

    def with_secret(self) -> list[str]:
        """Ids of the jobs with a stored application secret."""
        return [] if self._store is None else self._store.applications.with_secret()


def _record(values: dict[str, Any]) -> ApplicationRecord:
    record = ApplicationRecord(**values)
    texts = (record.key, record.secret, record.application_id, record.host)
    if not record.key or not all(type(text) is str for text in texts) or type(record.port) is not int:
        raise ValueError("these are no values of an application")
    return record
