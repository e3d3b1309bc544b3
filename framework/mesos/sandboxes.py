"""Files that a task leaves in its Mesos sandbox, local or remote: parts of its logs, and whole files.

The task's user wrote the files, and the agent's operator answers for them. So links are not followed out of a
sandbox, reads never wait, and no more is read than requested.
"""

import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any

from framework.host.folder_sandbox import FolderSandbox
from framework.host.untrusted_files import MOST_LISTED
from framework.mesos.bounded_http import NOBODY, Credentials, RefusedAnswerError, read_into, read_json

#: Seconds that an agent has to answer; for a whole file.
PATIENCE, FILE_PATIENCE = 10.0, 60.0
#: Bytes, 16 TiB: no log is so long, and an agent may answer an error to a position beyond its reach.
_LONGEST = 1 << 44
#: Bytes of JSON that a byte of a log becomes at most, and those around all of them.
_ESCAPED, _FRAME = 6, 4096
#: Bytes of a list of files.
_LISTED = 1 << 20


def local_sandbox(agent_dir: Path, framework_id: str, task_id: str) -> FolderSandbox:
    """Sandbox of a task's latest run, below the folder of an agent on this machine; FileNotFoundError."""
    runs = PurePosixPath("frameworks", framework_id, "executors", task_id, "runs")
    try:
        latest = max(
            (path for path in (agent_dir / runs).iterdir() if path.name != "latest"),
            key=lambda path: path.lstat().st_mtime,
        )
    except (FileNotFoundError, NotADirectoryError, ValueError):
        raise FileNotFoundError(f"{task_id} has no sandbox") from None
    return FolderSandbox(agent_dir, str(runs / latest.name))


@dataclass(frozen=True, slots=True)
class RemoteSandbox:
    """Sandbox on an agent, read over HTTP."""

    agent_url: str
    framework_id: str
    task_id: str
    credentials: Credentials = NOBODY

    def read(self, name: str, offset: int, limit: int) -> bytes:
        """See `Sandbox`."""
        if offset >= _LONGEST:
            return b""
        answer = self._ask("read", name, _ESCAPED * limit + _FRAME, offset=offset, length=limit)
        try:
            return str(answer["data"]).encode()[:limit]
        except (KeyError, TypeError) as error:
            raise self._odd() from error

    def size(self, name: str) -> int:
        """See `Sandbox`."""
        answer = self._ask("read", name, _FRAME, offset=-1)
        try:
            return max(0, int(answer["offset"]))
        except (KeyError, TypeError, ValueError) as error:
            raise self._odd() from error

    def copy(self, name: str, to: int, most: int) -> int:
        """See `Sandbox`."""
        url = f"{self.agent_url}/files/download?{urllib.parse.urlencode({'path': self._path(name)})}"
        try:
            return read_into(to, url, self.credentials, seconds=FILE_PATIENCE, most=most)
        except RefusedAnswerError as error:
            raise self._refused(error, name) from error

    def files(self, folder: str) -> list[str]:
        """See `Sandbox`."""
        top = self._path("")
        found = islice(self._below(self._path(folder), 2), MOST_LISTED)
        return [path.removeprefix(top) for path in found]

    def _below(self, path: str, depth: int) -> Iterator[str]:
        answer = self._ask("browse", path.removeprefix(self._path("")), _LISTED)
        try:
            found = [(str(entry["mode"]), str(entry["path"])) for entry in answer[:MOST_LISTED]]
        except (KeyError, TypeError) as error:
            raise self._odd() from error
        for mode, entry in found:
            name = entry.rpartition("/")[2]  # wherever else it says that it is
            if name in ("", ".", ".."):
                continue
            if mode.startswith("d") and depth > 1:
                yield from self._below(f"{path}/{name}", depth - 1)
            elif mode.startswith("-"):
                yield f"{path}/{name}"

    def _path(self, name: str) -> str:
        # The agent's own name for a task's latest sandbox; a command task's executor has the task's id.
        return f"/frameworks/{self.framework_id}/executors/{self.task_id}/runs/latest/{name}"

    def _ask(self, what: str, name: str, most: int, **more: int) -> Any:
        query = urllib.parse.urlencode({"path": self._path(name), **more})
        try:
            return read_json(
                f"{self.agent_url}/files/{what}?{query}", self.credentials, seconds=PATIENCE, most=most
            )
        except RefusedAnswerError as error:
            raise self._refused(error, name) from error
        except ValueError as error:
            raise self._odd() from error

    def _refused(self, error: RefusedAnswerError, name: str) -> OSError:
        if error.status == 404:
            return FileNotFoundError(f"{name or 'the sandbox'} does not exist any more, or not yet")
        cure = ""
        if error.status == 401:
            cure = "; it requires mesos.principal and mesos.secret_file" + (
                " of a principal that it knows" if self.credentials.principal else ""
            )
        return OSError(f"agent {self.agent_url} answers {error.status}{cure}")

    def _odd(self) -> OSError:
        return OSError(f"agent {self.agent_url} does not answer as a Mesos agent does")
