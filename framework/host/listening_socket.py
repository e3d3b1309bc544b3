"""Listening sockets that processes hand on: a port that is never free cannot become a stranger's.

A stranger that listened on the port of a server which has just ended would receive its clients' secrets.
"""

import ctypes
import errno
import os
import socket
from pathlib import Path

from framework.host.process_tree import children

_LIBRARY = ctypes.CDLL(None, use_errno=True)
#: pidfd_getfd(2), of Linux 5.6 and later, on all processors.
_PIDFD_GETFD = 438
#: Connections that wait to be accepted.
_BACKLOG = 1024


def listen(host: str, port: int) -> socket.socket:
    """Listen on an address, port 0 for any free one; OSError with the fault in words."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            told = f"port {port} of {host} is taken: is another Mesos master running? Choose another port"
            raise OSError(error.errno, told) from None
        raise OSError(error.errno, f"cannot listen on {host}:{port}: {error.strerror}") from None
    listener.setblocking(False)
    return listener


def inherited(descriptor: int) -> socket.socket:
    """The listening socket that this process was started with; its own children do not get it."""
    os.set_inheritable(descriptor, False)
    listener = socket.socket(fileno=descriptor)
    listener.setblocking(False)
    return listener


def listener_of(pid: int, address: tuple[str, int]) -> socket.socket | None:
    """A duplicate of the socket at which a child of this process listens, a child of our user.

    None where no child does, or the kernel does not permit it.
    """
    for child in children(pid):
        try:
            ours = Path(f"/proc/{child}").stat().st_uid == os.geteuid()
            if ours and (found := _listener(child, address)):
                return found
        except OSError:
            continue  # it has ended, or may not be looked into
    return None


def _listener(pid: int, address: tuple[str, int]) -> socket.socket | None:
    process = os.pidfd_open(pid)
    try:
        for file in Path(f"/proc/{pid}/fd").iterdir():
            if not str(file.readlink()).startswith("socket:"):
                continue
            descriptor = _LIBRARY.syscall(_PIDFD_GETFD, process, int(file.name), 0)
            if descriptor < 0:
                raise OSError(ctypes.get_errno(), "pidfd_getfd")
            duplicate = socket.socket(fileno=descriptor)
            listens = duplicate.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
            if listens and duplicate.family == socket.AF_INET and duplicate.getsockname() == address:
                return duplicate
            duplicate.close()
        return None
    finally:
        os.close(process)
