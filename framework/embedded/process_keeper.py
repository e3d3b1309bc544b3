"""Prevents the processes of an embedded Mesos from outliving it, however it or the keeper is ended.

The keeper is the parent of the process that does the work, and adopts the processes which that one leaves
behind: when the work is killed with SIGKILL, no task is left, in any session, once the keeper has ended too.
When the keeper is killed, the kernel signals the work to end, which then ends its tasks itself. Stopped work
is continued when it is to end; hanging work is killed.
"""

import contextlib
import math
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable

from framework.host.process_tree import adopt_orphans, end_with_parent, kill, kill_below, outlive_parent

#: The work sends it to its keeper.
_IS_READY = signal.SIGUSR1
_AWAITED = (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, _IS_READY)
#: Chosen: a killed process is gone in a moment, unless the disk hangs; then waiting gains nothing.
_END_SECONDS = 10.0
#: Chosen: longer than tasks and their executors have to end, all together.
_WORK_ENDS_SECONDS = 20.0
#: Seconds: a signal is waited for in turns, as sigtimedwait knows no infinity.
_LONGEST_WAIT = 3600.0


def keep(work: Callable[[Callable[[], None]], None], let_go: Callable[[], None]) -> int:
    """Do the work in a process below this one; return its exit code when all its processes are gone.

    That is 128 + N when signal N ended it. SIGTERM and SIGINT are passed on. The work gets a function to call
    when it is ready: a process that was to end with its parent outlives it from then on. `let_go` is called
    here once the work has inherited its resources, such as a socket. Must be called in the main thread of a
    process without other threads or children.
    """
    adopt_orphans()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _AWAITED)
    own = os.getpid()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    pid = os.fork()
    if pid == 0:
        _work(work, own, before)
    try:
        let_go()
        code = _see_through(pid)
        kill_below(own, _END_SECONDS)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return code


def _work(work: Callable[[Callable[[], None]], None], keeper: int, mask: set[int | signal.Signals]) -> None:
    code = 1
    try:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        end_with_parent(keeper, signal.SIGTERM)
        work(lambda: os.kill(keeper, _IS_READY))
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _see_through(pid: int) -> int:
    end = math.inf
    while True:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code
        left = min(end - time.monotonic(), _LONGEST_WAIT)
        received = signal.sigtimedwait(_AWAITED, max(left, 0.0))
        if received is not None and received.si_signo == _IS_READY:
            outlive_parent()
        elif received is not None and received.si_signo != signal.SIGCHLD:
            os.kill(pid, signal.SIGTERM)
            os.kill(pid, signal.SIGCONT)
            end = min(end, time.monotonic() + _WORK_ENDS_SECONDS)
        elif time.monotonic() >= end:
            kill(pid)
            end = math.inf
