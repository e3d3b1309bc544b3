"""openat2(2), of Linux 5.6 and later: opens a path within limits on the way to it."""

import ctypes
import errno
import os

_LIBRARY = ctypes.CDLL(None, use_errno=True)
#: Its number, on all processors.
_OPENAT2 = 437
#: In place of a folder's descriptor: the folder in which this process works (linux/fcntl.h).
_HERE = -100
#: What is not crossed or followed (linux/openat2.h). Mounts: a file system may be one of a stranger's own,
#: which answers when it likes. Links of /proc, such as /proc/PID/cwd: they lead to a place without a look at
#: the rights on the way to it, by the rights that this process has on others, or as one that is our own.
NO_MOUNTS, NO_MAGIC_LINKS = 0x01, 0x02


def openat2(path: str | os.PathLike[str], flags: int, limits: int, at: int = _HERE) -> int | None:
    """Open a path, a relative one below the folder `at`, within `limits`; its descriptor.

    None where a kernel lacks the call (ENOSYS), or a container forbids it (EPERM). OSError as `os.open` has
    it, EXDEV at a mount and ELOOP at a link of /proc that are not to be passed.
    """
    how = (ctypes.c_uint64 * 3)(flags, 0, limits)
    descriptor: int = _LIBRARY.syscall(_OPENAT2, at, os.fsencode(path), how, ctypes.sizeof(how))
    if descriptor >= 0:
        return descriptor
    number = ctypes.get_errno()
    if number in (errno.ENOSYS, errno.EPERM):
        return None
    raise OSError(number, os.strerror(number), str(path))
