"""Failures of policies in words: the error, and the file and line of the policy's code that raised it."""

import sysconfig
import traceback
from collections.abc import Sequence
from ctypes import c_ulong, py_object, pythonapi
from dis import opname
from pathlib import Path
from threading import Thread
from types import FrameType

from environment.types import Job, Wait

_HERE = Path(__file__).parents[1]
#: Policies that come with Stoker, and the packages that call policies.
_OURS = f"{_HERE / 'agents'}/"
_CALLERS = (_OURS, f"{_HERE / 'environment'}/", f"{_HERE / 'daemon'}/")
_PACKAGES, _PYTHON = (f"{sysconfig.get_path(name)}/" for name in ("purelib", "stdlib"))
#: Exceptions that end a policy's work alone, wherever they come from: `sys.exit()`, too.
_FOREIGN = (Exception, SystemExit, GeneratorExit)
#: Of an error's own text so much is kept. Chosen: a sentence and some values.
_LONGEST = 500


class InterruptedPolicyError(BaseException):
    """Ends the work of a policy that does not return. Not an `Exception`: policies may catch those."""


def interrupt(thread: Thread) -> None:
    """Raise `InterruptedPolicyError` in a policy's thread, at its next step in Python.

    Only a policy that catches even this goes on, and one that takes no such step, as in compiled code.
    """
    if thread.is_alive():
        pythonapi.PyThreadState_SetAsyncExc(c_ulong(thread.ident or 0), py_object(InterruptedPolicyError))


def foreign(error: BaseException) -> bool:
    """Whether this is a fault of a policy, and neither Ctrl-C nor a limit of ours that ended its work.

    Those are raised by no statement of its code: Ctrl-C between two of them, a limit in its own function.
    """
    if isinstance(error, _FOREIGN):
        return True
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    found = _place(list(traceback.walk_tb(error.__traceback__)))
    if last is None or found is None or found[0] is not last.tb_frame:
        return False
    return opname[last.tb_frame.f_code.co_code[last.tb_lasti]] == "RAISE_VARARGS"


def failure(error: BaseException) -> str:
    """Text for a failed policy: `the policy failed: ` and the error with its place."""
    return f"the policy failed: {placed(error)}"


def waits_in_vain(job: Job, wait: Wait) -> str:
    """Text for a policy that waits for nothing: a job fits, nothing runs that could end, and no VM boots."""
    return f"it waits although nothing runs and {job.id} fits: {wait.reason}"


def holds_back(job: Job, seconds: float, wait: Wait) -> str:
    """Report that a policy holds back a job that has fitted for so many seconds beside running jobs.

    0 seconds after it held back another job, and has placed none itself since then.
    """
    how = (
        f"has fitted for {seconds:,.0f} s"
        if seconds
        else "fits, and it held back an earlier job for too long"
    )
    return f"it waits although {job.id} {how}: {wait.reason}"


def placed(error: BaseException) -> str:
    """Error and its place in a policy's code: `KeyError: 'x' (/home/ann/a.py, line 12, in decide)`."""
    try:
        text = str(error)
    except BaseException as second:  # its class is the policy's, too
        if not foreign(second):
            raise
        text = ""
    told = f"{type(error).__name__}: {text}" if text else type(error).__name__
    short = told if len(told) <= _LONGEST else f"{told[:_LONGEST]}..."
    found = _place(list(traceback.walk_tb(error.__traceback__)))
    if found is None:
        return short
    frame, line = found
    return f"{short} ({frame.f_code.co_filename}, line {line}, in {frame.f_code.co_name})"


def _place(frames: Sequence[tuple[FrameType, int]]) -> tuple[FrameType, int] | None:
    """The last frame of the policy's own code, and not of a library that it calls; None where there is none.

    Its own code is the folder of the first file that is neither ours nor Python's.
    """
    files = [frame.f_code.co_filename for frame, _ in frames]
    theirs = [name for name in files if not name.startswith(_CALLERS) and not _is_of_python(name)]
    ours = [name for name in files if name.startswith(_OURS)]
    if theirs and not (ours and theirs[0].startswith(_PACKAGES)):
        home = str(Path(theirs[0]).parent)
    elif ours:
        home = _OURS
    else:
        return None
    return [each for each, name in zip(frames, files, strict=True) if name.startswith(home)][-1]


def _is_of_python(name: str) -> bool:
    return name.startswith("<") or (name.startswith(_PYTHON) and "site-packages" not in name)
