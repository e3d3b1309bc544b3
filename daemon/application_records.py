"""What is written down of applications whose driver asks for executors itself: where it is, their secrets.

`records/JOB/application.json` lies where no job has any business, and is read as if a job had been there
all the same. Of an application that is over the key is kept, so that its driver can be told why.
"""

import hmac
import json
import os
import threading
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from daemon.launch_records import RecordsError
from framework.hostile_files import UntrustedFileError, read_whole

_NAME = "application.json"
#: Bytes; what is written holds less than a tenth.
_LARGEST = 1 << 14


@dataclass(frozen=True, slots=True)
class ApplicationRecord:
    """What executors need to join a driver; `key` is what it shows to speak for its job."""

    key: str = field(repr=False)
    secret: str = field(default="", repr=False)
    """By which driver and executors know each other; empty when the application is over."""
    application_id: str = ""
    host: str = ""
    port: int = 0


def application_key(secret: str) -> str:
    """The key of the application with this secret; it tells nothing of the secret itself."""
    return hmac.digest(secret.encode(), b"the application's key", "sha256").hex()


class ApplicationRecords:
    """The records of all applications, in `data_dir`; from any thread."""

    def __init__(self, data_dir: Path) -> None:
        self._records = data_dir / "records"
        self._lock = threading.Lock()

    def keep(self, job_id: str, record: ApplicationRecord) -> None:
        """Write down an application; OSError when that cannot be."""
        folder = self._records / job_id
        with self._lock:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            draft = folder / f"{_NAME}.draft"
            with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
                json.dump(asdict(record), file)
            draft.rename(folder / _NAME)

    def kept(self, job_id: str) -> ApplicationRecord | None:
        """The job's application; None when it has none. RecordsError when that is not what was written."""
        try:
            found = json.loads(read_whole(self._records, f"{job_id}/{_NAME}", _LARGEST))
            record = ApplicationRecord(**found)
            texts = (record.key, record.secret, record.application_id, record.host)
            if not record.key or not all(type(text) is str for text in texts) or type(record.port) is not int:
                raise ValueError
        except FileNotFoundError:
            return None
        except (UntrustedFileError, ValueError, TypeError, RecursionError) as error:
            raise RecordsError("the record of its application is not what the daemon wrote") from error
        return record

    def remove(self, job_id: str) -> None:
        """Another driver of the job is started, with a name of its own, and perhaps another key."""
        (self._records / job_id / _NAME).unlink(missing_ok=True)

    def forget(self, job_id: str) -> None:
        """The application is over: its secret is of no more use."""
        try:
            record = self.kept(job_id)
        except RecordsError:
            (self._records / job_id / _NAME).unlink(missing_ok=True)
            return
        if record is not None and record.secret:
            self.keep(job_id, replace(record, secret=""))

    def going_on(self) -> Iterator[str]:
        """The jobs whose application was not forgotten."""
        for path in self._records.glob(f"*/{_NAME}"):
            job_id = path.parent.name
            try:
                record = self.kept(job_id)
            except RecordsError:
                continue
            if record is not None and record.secret:
                yield job_id
