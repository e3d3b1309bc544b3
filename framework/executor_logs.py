"""What executors write: stdout and stderr out of Mesos sandboxes, near or far."""

import urllib.parse
from pathlib import Path, PurePosixPath

from framework.asking import NOBODY, Credentials, RefusedAnswerError, read_json
from framework.hostile_files import read_part

#: Seconds that an agent has to answer.
PATIENCE = 10.0
#: Bytes, 16 TiB: no log is so long, and an agent may answer an error to what it cannot seek to.
_LONGEST = 1 << 44
#: Bytes of JSON that a byte of a log becomes at most, and those around all of them.
_ESCAPED, _FRAME = 6, 4096


def sandbox_path(framework_id: str, task_id: str) -> str:
    """The agent's own name for a task's latest sandbox; a command task's executor has the task's id."""
    return f"/frameworks/{framework_id}/executors/{task_id}/runs/latest"


def read_local(
    agent_dir: Path, framework_id: str, task_id: str, stream: str, offset: int, limit: int
) -> bytes:
    """Read a log in the sandbox folder of an agent on this machine; empty when there is none yet."""
    runs = PurePosixPath("frameworks", framework_id, "executors", task_id, "runs")
    try:
        latest = max(
            (path for path in (agent_dir / runs).iterdir() if path.name != "latest"),
            key=lambda path: path.lstat().st_mtime,
        )
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return b""
    return read_part(agent_dir, str(runs / latest.name / stream), offset, limit)


def read_remote(
    agent_url: str,
    framework_id: str,
    task_id: str,
    stream: str,
    offset: int,
    limit: int,
    credentials: Credentials = NOBODY,
) -> bytes:
    """Read a log through the HTTP API of a Mesos agent; OSError when it cannot be reached or refuses."""
    if offset >= _LONGEST:
        return b""
    path = f"{sandbox_path(framework_id, task_id)}/{stream}"
    query = urllib.parse.urlencode({"path": path, "offset": offset, "length": limit})
    most = _ESCAPED * limit + _FRAME
    try:
        answer = read_json(f"{agent_url}/files/read?{query}", credentials, seconds=PATIENCE, most=most)
        return str(answer["data"]).encode()[:limit]
    except RefusedAnswerError as error:
        if error.status == 404:
            return b""
        cure = ""
        if error.status == 401:
            cure = "; it wants mesos.principal and mesos.secret_file" + (
                " that it knows" if credentials.principal else ""
            )
        raise OSError(f"agent {agent_url} answers {error.status}{cure}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise OSError(f"agent {agent_url} does not answer as a Mesos agent does") from error
