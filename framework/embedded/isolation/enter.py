"""Enters a VM, that is its cgroups and its network namespace, and becomes the command. A program of its own.

    python enter.py NAMESPACE UID:GID EXECUTABLE CGROUP_PROCS... -- ARGV...

It imports nothing but the standard library, so that it starts at once. What prevents it from becoming the
command it says on standard error, and exits with 1, as Mesos does for a program that is not there.
"""

import ctypes
import os
import sys

_CLONE_NEWNET = 0x40000000  # linux/sched.h


def main(arguments: list[str]) -> None:
    """Enter, give up root where another user is named, and execute."""
    namespace, identity, executable, *rest = arguments
    files, argv = rest[: rest.index("--")], rest[rest.index("--") + 1 :]
    try:
        for path in files:
            _write(path, "0")
        _enter(namespace)
        _become(*map(int, identity.split(":")))
        os.execvp(executable, argv)  # noqa: S606 (no shell is wanted)
    except OSError as error:
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


def _become(uid: int, gid: int) -> None:
    if (uid, gid) != (os.geteuid(), os.getegid()):
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)


if __name__ == "__main__":
    main(sys.argv[1:])
