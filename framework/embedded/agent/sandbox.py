"""A task's folder, the fetching of files into it, and its environment, described in MESOS_ variables."""

import base64
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from framework.embedded.agent import fetch
from framework.embedded.isolation import FIXED, Entry
from framework.host.unix_users import ids_of

Json = dict[str, Any]

_INHERITED = ("PATH", "HOME", "LANG")
#: Of our own environment, the certificates that a fetch trusts.
_TRUST = ("SSL_CERT_FILE", "SSL_CERT_DIR")


class SandboxError(Exception):
    """A sandbox that cannot be prepared; its text names the fault."""


@dataclass(frozen=True, slots=True)
class Context:
    """Owner of a sandbox."""

    agent_id: str
    agent_address: str
    framework_id: str
    executor_id: str
    container_id: str
    role: str
    checkpoint: bool
    folder: Path


def run_folder(agent_folder: Path, framework_id: str, executor_id: str, container_id: str) -> Path:
    """Path of the sandbox of an executor's run."""
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
    return FIXED | inherited | mesos | task | own


def fetching(uris: Sequence[Json], user: str | None) -> Entry:
    """The command that fetches URIs into the folder in which it runs, with the rights of the task's user.

    It becomes the user by itself: the user may not be able to start our Python. KeyError for no such user.
    """
    argv = [sys.executable, "-I", "-S", fetch.__file__, *([] if user is None else [ids_of(user)])]
    trust = {name: os.environ[name] for name in _TRUST if name in os.environ}
    return Entry(argv, None, None, FIXED | trust, json.dumps(uris).encode())


def _value(variable: Mapping[str, Any]) -> str:
    if variable.get("type") != "SECRET":
        return str(variable.get("value", ""))
    secret = variable.get("secret", {})
    if "value" not in secret:
        raise SandboxError("Default secret resolver cannot resolve references")
    return base64.b64decode(secret["value"]["data"]).decode("utf-8", "surrogateescape")
