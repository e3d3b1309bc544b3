"""A task's folder and environment: made, filled with fetched URIs, described in MESOS_ variables."""

import base64
import os
import shutil
import tarfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from framework.accounts import find_account, may_read

Json = dict[str, Any]

_INHERITED = ("PATH", "HOME", "LANG")
_DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
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
    """Copy `file://` URIs and absolute paths into a sandbox; SandboxError when one cannot be had.

    Nor is one copied that the user whom the task runs as (None: we ourselves) may not read.
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
    source = _source(uri["value"])
    name, source = source.name, source.resolve()
    if user is not None and not may_read(find_account(user), source):
        raise SandboxError(f"{uri['value']}: {user} may not read it")
    target = folder / uri.get("output_file", name)
    if not target.resolve().is_relative_to(folder.resolve()):
        raise SandboxError(f"{uri['value']}: output_file must stay in the sandbox, got {uri['output_file']}")
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    if uri.get("executable"):
        target.chmod(0o755)
    elif uri.get("extract", True):
        _extract(target, folder)


def _source(value: str) -> Path:
    parts = urlsplit(value)
    if parts.scheme == "file" and parts.netloc in {"", "localhost"}:
        return Path(unquote(parts.path))
    if not parts.scheme and value.startswith("/"):
        return Path(value)
    raise SandboxError(f"{value}: the embedded Mesos fetches file:// URIs and absolute paths only")


def _extract(archive: Path, folder: Path) -> None:
    """Unpack a fetched file where its name says that it is an archive; the archive stays."""
    if archive.name.endswith(".zip"):
        with zipfile.ZipFile(archive) as zipped:
            zipped.extractall(folder)  # noqa: S202 (zipfile keeps members inside the folder)
    elif archive.name.endswith(_TAR):
        with tarfile.open(archive) as tarred:
            tarred.extractall(folder, filter="data")
