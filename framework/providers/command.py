"""The provider that runs programs of the operator: a JSON object on stdin, one on stdout, an exit code.

docs/elastic.md describes requests and answers. Command lines contain only the words of the
config. An answer is bounded in time and size, and checked whole.
"""

import json
import os
import selectors
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field
from stoker.characters import visible

from conf.loader import ConfigError, build
from conf.schema import CommandProvider, Name, Strict, Text
from conf.units import LATEST, MOST_DOLLARS, MOST_PRICE
from conf.util.foreign_json import foreign_json
from framework.host.stop_signals import unblocked
from framework.providers.agent_join import Door, joining
from framework.providers.interface import Machine, Notice, ProviderError, Refusal, VmRequest

#: Reasons of a program's exit codes when nothing was opened. After any other code but 0 it is unknown whether
#: a VM was opened.
REFUSALS: Mapping[int, Refusal] = {10: "capacity", 11: "quota", 12: "invalid"}
#: Bytes of an answer, and of complaints that are read; characters of one that are passed on.
_MOST = 16 << 20
_MOST_COMPLAINTS = 64 << 10
_LONGEST_COMPLAINT = 300
#: Seconds for which its pipes are read when a program has ended: others may hold them.
_LINGER = 0.2

#: Dollars per hour, dollars, and seconds since the epoch: beyond these sums would not be numbers any more.
_Price = Annotated[float, Field(ge=0, le=MOST_PRICE, allow_inf_nan=False)]
_Dollars = Annotated[float, Field(ge=0, le=MOST_DOLLARS, allow_inf_nan=False)]
_Moment = Annotated[float, Field(ge=0, le=LATEST, allow_inf_nan=False)]


class _OpenAnswer(Strict):
    """Answer of `open`, and each entry of `list`, where lease and pool are required."""

    id: Name
    lease: Name | None = None
    pool: Name | None = None
    state: Literal["booting", "running", "closing"] = "running"
    opened_at: _Moment | None = None
    price_per_hour: _Price | None = None
    address: Annotated[str, Field(max_length=300)] = ""
    charged: _Dollars | None = None


class _CloseAnswer(Strict):
    charged: _Dollars | None = None


class _ListEntry(_OpenAnswer):
    lease: Name
    pool: Name


class _ListAnswer(Strict):
    machines: Annotated[tuple[_ListEntry, ...], Field(strict=False)]


class _Prices(Strict):
    prices: Mapping[Name, _Price]


class _Away(Strict):
    lease: Name
    at: _Moment
    why: Annotated[Text, Field(max_length=1000)] = ""


class _Notices(Strict):
    notices: Annotated[tuple[_Away, ...], Field(strict=False)]


_Answer = TypeVar("_Answer", bound=Strict)


class ProgramProvider:
    """Opens and closes VMs by programs; see `contract.Provider`. For any thread."""

    def __init__(self, options: CommandProvider, door: Door, folder: Path) -> None:
        """Programs run in that folder, and are looked for there when their names have a slash.

        ConfigError when one is not there, or is no program.
        """
        self._options = options
        self._door = door
        self._folder = folder
        for deed in ("open", "close", "list", "prices", "notices"):
            program: tuple[str, ...] | None = getattr(options, deed)
            if program is not None and not _found(program[0], folder):
                where = folder if "/" in program[0] else "PATH"
                raise ConfigError(f"provider.{deed}: {program[0]}: no such program (looked in {where})")

    def open(self, wanted: VmRequest) -> Machine:
        """Open a VM, or return the one that is open under this lease already."""
        answer = self._ask("open", self._options.open, self._request(wanted), _OpenAnswer)
        pool = _pool(wanted)
        for key, right, found in (("lease", wanted.lease, answer.lease), ("pool", pool, answer.pool)):
            if found not in (None, right):
                raise _wrong(self._named("open"), f"{key}: should be {right!r}, found {found!r}")
        return _machine(answer, wanted.lease, pool)

    def close(self, machine_id: str) -> float | None:
        """Close a VM; return its total cost, where the program reports it.

        The VM counts as closed for any other output of the program: an invalid cost must not cause a retry.
        """
        told = self._run("close", self._options.close, {"id": machine_id})
        try:
            return _read(self._named("close"), told, _CloseAnswer).charged
        except ProviderError:
            return None

    def list(self) -> Sequence[Machine]:
        """All VMs of this cluster that cost something now."""
        answer = self._ask("list", self._options.list, {}, _ListAnswer)
        return tuple(_machine(one, one.lease, one.pool) for one in answer.machines)

    def prices(self) -> Mapping[str, float]:
        """Present price of a VM by pool, dollars per hour; none without a program for it."""
        program = self._options.prices
        return {} if program is None else self._ask("prices", program, {}, _Prices).prices

    def notices(self) -> Sequence[Notice]:
        """The VMs that are going to be taken away; none without a program for it."""
        program = self._options.notices
        if program is None:
            return ()
        answer = self._ask("notices", program, {}, _Notices)
        return tuple(Notice(one.lease, one.at, one.why) for one in answer.notices)

    def account(self) -> str:
        """Unknown: programs have accounts of their own."""
        return ""

    def _request(self, wanted: VmRequest) -> Mapping[str, Any]:
        vm, told = wanted.vm, joining(wanted, self._door)
        return {
            "lease": wanted.lease,
            "pool": _pool(wanted),
            "name": vm.name,
            "type": vm.type,
            "resources": vm.resources.amounts,
            "price_per_hour": vm.price_per_hour,
            "spot": vm.terms is not None and vm.terms.spot is not None,
            "agent": {"master": told.master, "attributes": told.attributes, "resources": told.resources},
            "notice": {"url": told.notice_url, "key": told.key},
        }

    def _named(self, deed: str) -> str:
        return f"{deed} ({getattr(self._options, deed)[0]})"

    def _ask(
        self, deed: str, program: Sequence[str], request: Mapping[str, Any], schema: type[_Answer]
    ) -> _Answer:
        """A program's answer; ProviderError names the program and the fault."""
        return _read(self._named(deed), self._run(deed, program, request), schema)

    def _run(self, deed: str, program: Sequence[str], request: Mapping[str, Any]) -> bytes:
        named = self._named(deed)
        until = time.monotonic() + self._options.timeout
        try:
            code, answer, complaints = _run(program, self._folder, json.dumps(request).encode(), until)
        except TimeoutError:
            why = f"did not end within {self._options.timeout:g} s, and was killed"
            raise ProviderError("unavailable", f"{named}: {why}") from None
        except _TooMuchError:
            raise _wrong(named, f"more than {_MOST >> 20} MiB") from None
        except OSError as error:
            raise ProviderError("unavailable", f"{named}: cannot be run: {error.strerror}") from error
        if code != 0:
            how = f"exit code {code}" if code > 0 else f"ended by {_signal(-code)}"
            raise ProviderError(REFUSALS.get(code, "unavailable"), f"{named}: {_last(complaints) or how}")
        return answer


class _TooMuchError(Exception):
    """A program does not stop answering."""


def _found(name: str, folder: Path) -> bool:
    return shutil.which(folder / name if "/" in name else name) is not None


def _run(program: Sequence[str], folder: Path, request: bytes, until: float) -> tuple[int, bytes, bytes]:
    """Run a program to its end: exit code, its output, and the end of its error output.

    Raises TimeoutError, _TooMuchError (it is killed then, with all that it started), or OSError.
    """
    with os.fdopen(os.memfd_create("request", os.MFD_CLOEXEC), "w+b") as stdin:
        stdin.write(request)
        stdin.seek(0)
        with unblocked():
            process = subprocess.Popen(
                program, cwd=folder, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                start_new_session=True,
            )  # fmt: skip
    with process:
        try:
            said = _ProgramOutput(process)
            said.listen(until)
            return process.wait(), bytes(said.answer), bytes(said.complaints)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)  # not waited for yet: the number is still its own
            raise


class _ProgramOutput:
    """Output of a program while it runs."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.answer, self.complaints = bytearray(), bytearray()
        self._process = process

    def listen(self, until: float) -> None:
        """Read the output to its end, or a moment longer where another process holds its pipes."""
        pipes = [pipe for pipe in (self._process.stdout, self._process.stderr) if pipe is not None]
        ended = os.pidfd_open(self._process.pid)
        try:
            with selectors.DefaultSelector() as selector:
                selector.register(ended, selectors.EVENT_READ)
                for pipe, said in zip(pipes, (self.answer, self.complaints), strict=True):
                    selector.register(pipe, selectors.EVENT_READ, said)
                linger = False
                while selector.get_map():
                    found = selector.select(max(0.0, until - time.monotonic()))
                    if not found:
                        if linger:
                            return
                        raise TimeoutError
                    for key, _ in found:
                        if key.data is None:
                            linger, until = True, min(until, time.monotonic() + _LINGER)
                            selector.unregister(key.fileobj)
                        elif not self._take(key.fd, key.data):
                            selector.unregister(key.fileobj)
        finally:
            os.close(ended)

    def _take(self, pipe: int, said: bytearray) -> bool:
        part = os.read(pipe, 1 << 16)
        said += part
        if len(self.answer) > _MOST:
            raise _TooMuchError
        del self.complaints[:-_MOST_COMPLAINTS]
        return bool(part)


def _read(named: str, answer: bytes, schema: type[_Answer]) -> _Answer:
    try:
        value = foreign_json(answer)
    except RecursionError:
        raise _wrong(named, "nested too deeply") from None
    except ValueError as error:
        raise _wrong(named, f"not JSON in UTF-8: {error}") from None
    if not isinstance(value, dict):
        raise _wrong(named, "should be one JSON object")
    try:
        return build(schema, value, named)
    except ConfigError as error:
        raise ProviderError("unavailable", f"answer of {visible(str(error).splitlines()[0])}") from None


def _wrong(named: str, why: str) -> ProviderError:
    """Error for an invalid answer: the effect of the program is then unknown."""
    return ProviderError("unavailable", f"answer of {named}: {why}")


def _last(complaints: bytes) -> str:
    """The last line with text."""
    lines = [line.strip() for line in complaints.decode("utf-8", "replace").splitlines() if line.strip()]
    return visible(lines[-1])[:_LONGEST_COMPLAINT].replace("\t", " ") if lines else ""


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _pool(wanted: VmRequest) -> str:
    return wanted.vm.terms.pool if wanted.vm.terms is not None else ""


def _machine(answer: _OpenAnswer, lease: str, pool: str) -> Machine:
    return Machine(
        answer.id, lease, pool, answer.state, answer.opened_at, answer.price_per_hour, answer.address,
        answer.charged,
    )  # fmt: skip
