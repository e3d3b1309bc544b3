"""Signals that end this process: one thread waits for them and identifies the sender; others block them.

Python's own handlers are not told the sender. Processes started here would inherit the blocked signals, so
they are started within `unblocked`. A signal during that time is read from Python's wakeup descriptor, which
the handler in C writes: the main thread, which runs Python's handlers, may hang.
"""

import os
import pwd
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from stoker.characters import visible

from conf.util.secret_masking import masked_arguments

STOPS = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT})
#: Characters of a sender's command that are logged.
_LONGEST = 200
#: Bytes of it that are read.
_MOST_READ = 1 << 16
#: Seconds that telling may take before the signal has its effect all the same.
_TELLING = 1.0
#: Interrupts the main thread's wait, so that it runs handlers; nothing else uses it.
_WAKE = signal.SIGURG
#: Meaning of `si_code` for a signal that no process sent.
_OF_KERNEL = 0x80


class SignalSender(NamedTuple):
    """The process that sent a signal; `command` is a description where it is unknown, or gone."""

    signal: str
    pid: int
    uid: int
    user: str
    command: str


class _Hearing:
    """Tells of signals, whichever way they come."""

    def __init__(self, tell: Callable[[SignalSender], None]) -> None:
        self._tell = tell
        self._told = set[int]()

    def tell(self, sender: SignalSender, seconds: float) -> None:
        """Tell of a signal, on a thread of its own, which is waited for that long at most."""
        self._told.add(signal.Signals[sender.signal])
        telling = threading.Thread(target=self._tell, args=(sender,), name="told", daemon=True)
        telling.start()
        telling.join(seconds)  # the reader of the log may stand still

    def handled(self, number: int) -> None:
        """Report a signal that has a handler, unless it was reported."""
        if number not in self._told:
            self.tell(SignalSender(signal.Signals(number).name, 0, -1, "", _MISSED), 0)


@contextmanager
def told_of(tell: Callable[[SignalSender], None]) -> Iterator[None]:
    """Have `tell` hear of each such signal before it has its effect; within this, in the main thread alone.

    Threads that are started within have them blocked, too. An ignored one, such as SIGHUP under nohup, ends
    nothing, and is not heard of.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    hearing = _Hearing(tell)
    stops = frozenset(number for number in STOPS if signal.getsignal(number) is not signal.SIG_IGN)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, stops)
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    woken = signal.signal(_WAKE, lambda *_: None)
    waking = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    for target, heard in ((_listen, stops), (_read_handled, reading)):
        threading.Thread(target=target, args=(hearing, heard), name="signals", daemon=True).start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(waking)
        signal.signal(_WAKE, woken)
        os.close(writing)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def unblocked() -> Iterator[None]:
    """Unblock these signals for processes that this thread starts within."""
    before = signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _listen(hearing: _Hearing, stops: frozenset[signal.Signals]) -> None:
    while True:
        info = signal.sigwaitinfo(stops)
        try:
            hearing.tell(sender_of(info), _TELLING)
        finally:
            # The signal has its effect: by a handler in the main thread, or by the kernel.
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {info.si_signo})
            signal.raise_signal(info.si_signo)
            signal.pthread_kill(threading.main_thread().ident or 0, _WAKE)
            signal.pthread_sigmask(signal.SIG_BLOCK, stops)


def _read_handled(hearing: _Hearing, wakeups: int) -> None:
    """Report signals that come in `unblocked`, until the other end of the descriptor is closed."""
    with os.fdopen(wakeups, "rb", buffering=0) as numbers:
        while number := numbers.read(1):
            if number[0] in STOPS:
                hearing.handled(number[0])


def sender_of(info: signal.struct_siginfo) -> SignalSender:
    """The sender of a signal, as far as the kernel reports it and the process still exists."""
    name = signal.Signals(info.si_signo).name
    if info.si_code == _OF_KERNEL or info.si_pid == 0:
        why = "the kernel: a key of its terminal or its end" if info.si_code == _OF_KERNEL else _OUTSIDE
        return SignalSender(name, info.si_pid, info.si_uid, _user(info.si_uid), why)
    return SignalSender(name, info.si_pid, info.si_uid, _user(info.si_uid), _command(info.si_pid))


_OUTSIDE = "a process outside of this one's container"
_MISSED = "not known: it arrived while a process was being started"


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
        with Path(f"/proc/{pid}/cmdline").open("rb", buffering=0) as file:  # as long as the process likes
            words = file.read(_MOST_READ).decode(errors="replace").rstrip("\0").split("\0")
        command = " ".join(masked_arguments(words)) or Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return "already gone"
    command = visible(command)
    return command if len(command) <= _LONGEST else f"{command[: _LONGEST - 4]} ..."
