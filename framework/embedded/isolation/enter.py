"""Enters a VM, that is its cgroups and its network namespace, and becomes the command. A program of its own.

Shared memory and semaphores, of System V and in /dev/shm, are the command's own, and end with its last
process: else they would stay, count towards the VM's memory, and use up the machine's.

    python enter.py NAMESPACE USER EXECUTABLE CGROUP_PROCS... -- ARGV... < environment

USER is UID:GID:GROUP..., or empty for the present one.

The command's environment is JSON on standard input. It is never this program's own: a job chooses it, and the
loader and Python obey it while this program still is root. The command's standard input is empty.

It imports next to nothing but the standard library, so that it starts at once. An error goes to standard
error with exit code 1, as Mesos reports a program that is not there.
"""

import ctypes
import errno
import json
import os
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[3]))  # isolated as it is, it knows no folder of ours

from framework.host.process_tree import become

_SHM = "/dev/shm"  # noqa: S108 (a mount of its own comes there)
_CLONE_NEWNET, _CLONE_NEWIPC, _CLONE_NEWNS = 0x40000000, 0x08000000, 0x00020000  # linux/sched.h
_MS_NOSUID, _MS_NODEV, _MS_REC, _MS_SLAVE = 2, 4, 1 << 14, 1 << 19  # linux/mount.h


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
        _own_shared_memory()
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
    descriptor = os.open(namespace, os.O_RDONLY)
    _checked("setns", _libc().setns(descriptor, _CLONE_NEWNET), namespace)
    os.close(descriptor)


def _own_shared_memory() -> None:
    """Have own ones. What is mounted later on this machine is seen here too, and nothing the other way."""
    libc = _libc()
    _checked("unshare", libc.unshare(_CLONE_NEWIPC | _CLONE_NEWNS), "ipc")
    _checked("mount", libc.mount(b"none", b"/", None, _MS_REC | _MS_SLAVE, None), "/")
    flags = _MS_NOSUID | _MS_NODEV
    made = libc.mount(b"tmpfs", _SHM.encode(), b"tmpfs", flags, b"mode=1777")
    if not (made and ctypes.get_errno() == errno.ENOENT):  # a machine may have no such folder
        _checked("mount", made, _SHM)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _checked(call: str, result: int, what: str) -> None:
    if result:
        raise OSError(ctypes.get_errno(), f"{call}: {os.strerror(ctypes.get_errno())}", what)


if __name__ == "__main__":
    main(sys.argv[1:])
