"""A task's folder and environment: made, filled with fetched URIs, described in MESOS_ variables."""

import base64
import os
import shutil
import tarfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit
from urllib.request import ProxyHandler, build_opener

from framework.accounts import find_account, may_read

Json = dict[str, Any]

_INHERITED = ("PATH", "HOME", "LANG")
_DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_REMOTE = ("http", "https")
#: Seconds in which something has to come of a file that is fetched.
_PATIENCE = 60.0
_TAR = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz")


class SandboxError(Exception):
    """A sandbox that cannot be prepared; its text says what was wrong."""


@dataclass(frozen=True, slots=True)
class Context:
    """Whose sandbox it is."""

    agent_id: str
    agent_address: str
    framework_id: str
    executor_id: str
    container_id: str
    role: str
    checkpoint: bool
    folder: Path


def run_folder(agent_folder: Path, framework_id: str, executor_id: str, container_id: str) -> Path:
    """Where an executor's run has its sandbox."""
    return agent_folder / "frameworks" / framework_id / "executors" / executor_id / "runs" / container_id


def environment(command: Json, context: Context, task_id: str | None) -> dict[str, str]:
    """A command's environment; SandboxError for a secret that is not given by value."""
    inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    folder = str(context.folder)
    mesos = {
        "LIBPROCESS_IP": context.agent_address,
        "LIBPROCESS_PORT": "0",
        "MESOS_AGENT_ENDPOINT": f"{context.agent_address}:5051",
        "MESOS_ALLOCATION_ROLE": context.role,
        "MESOS_CHECKPOINT": "1" if context.checkpoint else "0",
        "MESOS_CONTAINER_ID": context.container_id,
        "MESOS_DIRECTORY": folder,
        "MESOS_EXECUTOR_ID": context.executor_id,
        "MESOS_EXECUTOR_SHUTDOWN_GRACE_PERIOD": "5secs",
        "MESOS_FRAMEWORK_ID": context.framework_id,
        "MESOS_HTTP_COMMAND_EXECUTOR": "0",
        "MESOS_SANDBOX": folder,
        "MESOS_SLAVE_ID": context.agent_id,
        "MESOS_SLAVE_PID": f"slave(1)@{context.agent_address}:5051",
    }
    task = {} if task_id is None else {"MESOS_TASK_ID": task_id}
    variables = command.get("environment", {}).get("variables", [])
    own = {variable["name"]: _value(variable) for variable in variables}
    return {"PATH": _DEFAULT_PATH} | inherited | mesos | task | own


def fetch(uris: Sequence[Json], folder: Path, user: str | None) -> None:
    """Bring files of this machine and of HTTP servers into a sandbox; SandboxError when one cannot be had.

    Nor is one of this machine copied that the user whom the task runs as (None: we ourselves) may not read.
    """
    for uri in uris:
        try:
            _fetch_one(uri, folder, user)
        except (OSError, shutil.Error, tarfile.TarError, zipfile.BadZipFile) as error:
            raise SandboxError(f"{uri['value']}: {error}") from None


def _value(variable: Mapping[str, Any]) -> str:
    if variable.get("type") != "SECRET":
        return str(variable.get("value", ""))
    secret = variable.get("secret", {})
    if "value" not in secret:
        raise SandboxError("Default secret resolver cannot resolve references")
    return base64.b64decode(secret["value"]["data"]).decode("utf-8", "surrogateescape")


def _fetch_one(uri: Json, folder: Path, user: str | None) -> None:
    source = None if urlsplit(uri["value"]).scheme in _REMOTE else _source(uri["value"])
    name = unquote(PurePosixPath(urlsplit(uri["value"]).path).name) if source is None else source.name
    if source is not None and user is not None and not may_read(find_account(user), source.resolve()):
        raise SandboxError(f"{uri['value']}: {user} may not read it")
    target = folder / uri.get("output_file", name)
    if not target.resolve().is_relative_to(folder.resolve()):
        raise SandboxError(f"{uri['value']}: output_file must stay in the sandbox, got {uri['output_file']}")
    target.parent.mkdir(parents=True, exist_ok=True)
    if source is None:
        _download(uri["value"], target)
    else:
        shutil.copyfile(source.resolve(), target)
    if uri.get("executable"):
        target.chmod(0o755)
    elif uri.get("extract", True):
        _extract(target, folder)


def _download(url: str, target: Path) -> None:
    """As Mesos' fetcher does; what does not come in time, or not as a whole, is an error."""
    try:
        # Proxies of the environment are for others: what is fetched is in the cluster's own network.
        with build_opener(ProxyHandler({})).open(url, timeout=_PATIENCE) as answer, target.open("wb") as file:
            shutil.copyfileobj(answer, file, 1 << 20)
            length = answer.headers.get("Content-Length")
            if length is not None and file.tell() != int(length):
                raise OSError(f"{file.tell()} of {length} bytes came")
    except HTTPException as error:
        raise OSError(f"{type(error).__name__}: {error}") from error


def _source(value: str) -> Path:
    parts = urlsplit(value)
    if parts.scheme == "file" and parts.netloc in {"", "localhost"}:
        return Path(unquote(parts.path))
    if not parts.scheme and value.startswith("/"):
        return Path(value)
    raise SandboxError(
        f"{value}: the embedded Mesos fetches http(s):// and file:// URIs and absolute paths only"
    )


def _extract(archive: Path, folder: Path) -> None:
    """Unpack a fetched file where its name says that it is an archive; the archive stays."""
    if archive.name.endswith(".zip"):
        with zipfile.ZipFile(archive) as zipped:
            zipped.extractall(folder)  # noqa: S202 (zipfile keeps members inside the folder)
    elif archive.name.endswith(_TAR):
        with tarfile.open(archive) as tarred:
            tarred.extractall(folder, filter="data")
