"""Meanings of exit codes: the signal that ended a driver, with its usual sender, and codes of Spark's."""

import signal
from collections.abc import Mapping
from types import MappingProxyType

#: Codes above this are left by a signal of the rest's number.
_BY_SIGNAL = 128
#: Usual sender or cause of each signal, by its name.
_SENDERS: Mapping[str, str] = MappingProxyType(
    {
        "SIGHUP": "sent when a terminal or session is closed",
        "SIGINT": "sent by Ctrl-C",
        "SIGQUIT": "sent by a user who wants a thread dump or a core",
        "SIGILL": "a native library does not fit this processor",
        "SIGTRAP": "a native library or a debugger stopped it",
        "SIGABRT": "the JVM or a native library aborted: see hs_err_pid*.log and stderr",
        "SIGBUS": "a mapped file became shorter, or the disk of /dev/shm is full",
        "SIGFPE": "native code divided by zero",
        "SIGKILL": "usually sent by the kernel when memory is short, as dmesg says, by a limit of "
        "its container, or by kill -9",
        "SIGSEGV": "native code read or wrote at an invalid address: see hs_err_pid*.log",
        "SIGPIPE": "the reader of its output was gone",
        "SIGTERM": "usually sent by kill, by the end of a session, or when its machine is shut down",
        "SIGXCPU": "its limit of CPU time by ulimit -t is used up",
        "SIGXFSZ": "a file reached the limit of its size by ulimit -f",
        "SIGSYS": "a filter of system calls forbids a call that it made",
    }
)
#: Meaning of each exit code of Spark, the shell, and the script that starts drivers.
_MEANINGS: Mapping[int, str] = MappingProxyType(
    {
        50: "Spark's code for an uncaught exception",
        51: "Spark's code for an exception while another was handled",
        52: "Spark's code for OutOfMemoryError: the heap is too small",
        53: "Spark's code for a folder that it could not create",
        101: "Spark's code for a main class that does not exist",
        126: "a shell's code for a program that cannot be run",
        127: "a shell's code for a program that does not exist",
    }
)


def signal_of(code: int) -> str:
    """Name of the signal that ended a driver with this exit code; empty when none did."""
    try:
        return signal.Signals(code - _BY_SIGNAL).name if code > _BY_SIGNAL else ""
    except ValueError:
        return ""


def meaning_of(code: int) -> str:
    """The meaning of a code in brackets, a blank before them: ` (SIGKILL: ...)`; empty where it has none."""
    if name := signal_of(code):
        sender = _SENDERS.get(name, "")
        return f" ({name}: {sender})" if sender else f" ({name})"
    meaning = _MEANINGS.get(code)
    return "" if meaning is None else f" ({meaning})"


def exit_words(code: int) -> str:
    """The code and its meaning."""
    return f"{code}{meaning_of(code)}"
