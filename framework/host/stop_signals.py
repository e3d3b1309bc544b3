"""Signals that end this process: one thread waits for them and identifies the sender; others block them.

Python's own handlers are not told the sender. Processes started here would inherit the blocked signals, so
they are started within `unblocked`; a signal during that time is reported by its handler.
"""

import os
import pwd
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from conf.util.printable import visible
from conf.util.secret_masking import masked_arguments

STOPS = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT})
#: Characters of a sender's command that are told.
_LONGEST = 200
#: Seconds that telling may take before the signal has its effect all the same.
_TELLING = 1.0
#: What `si_code` says of a signal that no process sent.
_OF_KERNEL = 0x80


class SignalSender(NamedTuple):
    """The process that sent a signal; `command` is a description where it is unknown, or gone."""

    signal: str
    pid: int
    uid: int
    user: str
    command: str


class Hearing:
    """Tells of signals, whichever way they come."""

    def __init__(self, tell: Callable[[SignalSender], None]) -> None:
        self._tell = tell
        self._told = set[int]()

    def tell(self, sender: SignalSender, seconds: float) -> None:
        """Tell of a signal, on a thread of its own, which is waited for that long at most."""
        self._told.add(signal.Signals[sender.signal])
        telling = threading.Thread(target=self._tell, args=(sender,), name="told", daemon=True)
        telling.start()
        telling.join(seconds)  # whoever reads the log may stand still

    def handled(self, number: int) -> None:
        """Report a signal whose handler runs, unless it was reported; to be called by the handler."""
        if number not in self._told:
            self.tell(SignalSender(signal.Signals(number).name, 0, -1, "", _MISSED), 0)


@contextmanager
def told_of(tell: Callable[[SignalSender], None]) -> Iterator[Hearing]:
    """Have `tell` hear of each such signal before it has its effect; within this, in the main thread alone.

    Threads that are started within have them blocked, too. An ignored one, such as SIGHUP under nohup, ends
    nothing, and is not heard of. Handlers call `handled` of what comes out of this.
    """
    hearing = Hearing(tell)
    if threading.current_thread() is not threading.main_thread():
        yield hearing
        return
    stops = frozenset(number for number in STOPS if signal.getsignal(number) is not signal.SIG_IGN)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, stops)
    threading.Thread(target=_listen, args=(hearing, stops), name="signals", daemon=True).start()
    try:
        yield hearing
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def unblocked() -> Iterator[None]:
    """Unblock these signals for processes that this thread starts within."""
    before = signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _listen(hearing: Hearing, stops: frozenset[signal.Signals]) -> None:
    while True:
        info = signal.sigwaitinfo(stops)
        try:
            hearing.tell(sender_of(info), _TELLING)
        finally:
            # Whatever the signal does is done as ever: by a handler in the main thread, or by the kernel.
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {info.si_signo})
            signal.raise_signal(info.si_signo)
            signal.pthread_sigmask(signal.SIG_BLOCK, stops)


def sender_of(info: signal.struct_siginfo) -> SignalSender:
    """The sender of a signal, as far as the kernel reports it and the process still exists."""
    name = signal.Signals(info.si_signo).name
    if info.si_code == _OF_KERNEL or info.si_pid == 0:
        why = "the kernel: a key of its terminal or its end" if info.si_code == _OF_KERNEL else _OUTSIDE
        return SignalSender(name, info.si_pid, info.si_uid, _user(info.si_uid), why)
    return SignalSender(name, info.si_pid, info.si_uid, _user(info.si_uid), _command(info.si_pid))


_OUTSIDE = "a process outside of this one's container"
_MISSED = "not known: it came while a process was being started"


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return ""


def _command(pid: int) -> str:
    """The command of a process, without secrets; `this process` for ourselves."""
    if pid == os.getpid():
        return "this process"
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").rstrip("\0").split("\0")
        command = " ".join(masked_arguments(words)) or Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return "gone already"
    command = visible(command)
    return command if len(command) <= _LONGEST else f"{command[: _LONGEST - 4]} ..."
