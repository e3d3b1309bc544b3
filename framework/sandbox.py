"""What executors write: stdout and stderr out of Mesos sandboxes, near or far."""

import json
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

#: Seconds that an agent has to answer.
PATIENCE = 10.0


def sandbox_path(framework_id: str, task_id: str) -> str:
    """The agent's own name for a task's latest sandbox; a command task's executor has the task's id."""
    return f"/frameworks/{framework_id}/executors/{task_id}/runs/latest"


def read_local(
    agent_dir: Path, framework_id: str, task_id: str, stream: str, offset: int, limit: int
) -> bytes:
    """Read a log in the sandbox folder of an agent on this machine; empty when there is none yet."""
    runs = agent_dir / "frameworks" / framework_id / "executors" / task_id / "runs"
    try:
        latest = max((p for p in runs.iterdir() if p.name != "latest"), key=lambda p: p.stat().st_mtime)
        return read_part(latest / stream, offset, limit)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return b""


def read_part(path: Path, offset: int, limit: int) -> bytes:
    """At most `limit` bytes of a file from `offset` on; empty when it is not there."""
    try:
        with path.open("rb") as file:
            file.seek(offset)
            return file.read(limit)
    except FileNotFoundError:
        return b""


def read_remote(
    agent_url: str, framework_id: str, task_id: str, stream: str, offset: int, limit: int
) -> bytes:
    """Read a log through the HTTP API of a Mesos agent; OSError when it cannot be reached or refuses."""
    path = f"{sandbox_path(framework_id, task_id)}/{stream}"
    query = urllib.parse.urlencode({"path": path, "offset": offset, "length": limit})
    try:
        with urllib.request.urlopen(f"{agent_url}/files/read?{query}", timeout=PATIENCE) as answer:  # noqa: S310 - http, from the offer
            return str(json.load(answer)["data"]).encode()
    except urllib.error.HTTPError as error:
        if error.code == 404:
            return b""
        raise OSError(f"agent {agent_url} answers {error.code}") from error
    except (ValueError, KeyError) as error:
        raise OSError(f"agent {agent_url} does not answer as a Mesos agent does") from error
