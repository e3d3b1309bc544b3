"""Enters a VM, that is its cgroups and its network namespace, and becomes the command. A program of its own.

    python enter.py NAMESPACE USER EXECUTABLE CGROUP_PROCS... -- ARGV... < environment

USER is UID:GID:GROUP..., or empty for the present one.

The command's environment is JSON on standard input. It is never this program's own: a job chooses it, and the
loader and Python obey it while this program still is root. The command's standard input is empty.

It imports next to nothing but the standard library, so that it starts at once. An error goes to standard
error with exit code 1, as Mesos reports a program that is not there.
"""

import ctypes
import json
import os
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[3]))  # isolated as it is, it knows no folder of ours

from framework.host.process_tree import become

_CLONE_NEWNET = 0x40000000  # linux/sched.h


def main(arguments: list[str]) -> None:
    """Enter, drop root where another user is named, and execute."""
    namespace, user, executable, *rest = arguments
    files, argv = rest[: rest.index("--")], rest[rest.index("--") + 1 :]
    try:
        environment = json.load(sys.stdin)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for path in files:
            _write(path, "0")
        _enter(namespace)
        if user:
            uid, gid, *groups = map(int, user.split(":"))
            become(uid, gid, groups)
        os.execvpe(executable, argv, environment)  # noqa: S606 (no shell is wanted)
    except (OSError, ValueError) as error:  # ValueError: a NUL among the arguments or the environment
        sys.exit(f"Failed to execute command: {error}")


def _write(path: str, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY)
    os.write(descriptor, text.encode())
    os.close(descriptor)


def _enter(namespace: str) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = os.open(namespace, os.O_RDONLY)
    if libc.setns(descriptor, _CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), f"setns: {os.strerror(ctypes.get_errno())}", namespace)
    os.close(descriptor)


if __name__ == "__main__":
    main(sys.argv[1:])
