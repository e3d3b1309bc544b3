"""VMs of pools, as a cloud would have them: opened under a lease, booting, running, closed, taken away.

`GET /stoker/vms` lists the open ones, and the notices of those that are going to be taken away;
`POST /stoker/vms` takes one JSON object:

    {"open": {"lease": "general-3.17", "name": "general-3"}}  or return the VM that is open under this lease;
                                                              more keys define its properties: "cpus", ...
    {"close": {"id": "vm-8c0f21"}}                            with all its tasks; it may be gone

A lease is for one VM: once that is closed, nothing more is opened under it. A VM that is not opened is
answered with `{"refused": {"kind": ..., "message": ...}}`.
"""

import asyncio
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from framework.embedded.agent.agent import Agent
from framework.embedded.master.calls import CallError, parse_json
from framework.embedded.master.http_server import Request, Response, json_response, text_response
from framework.embedded.settings import AgentSpec

Json = dict[str, Any]

#: Properties that an opening may state of its VM; an opening with other values is refused.
_CHECKED = ("type", "cpus", "memory_mib", "price_per_hour")


class VmRefusedError(Exception):
    """A VM is not opened; `kind` is the reason in a word, the text explains it."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(slots=True)
class _OpenVm:
    """A VM that is open; `notice` is when it is taken away, seconds since the epoch."""

    id: str
    agent: Agent
    opened_at: float
    boot: asyncio.TimerHandle
    notice: float | None = None
    taken: asyncio.TimerHandle | None = None

    @property
    def spec(self) -> AgentSpec:
        return self.agent.spec


class PoolVms:
    """Opens and closes VMs of these pools; their agents are in `agents` while they are open, by name."""

    def __init__(
        self, specs: Sequence[AgentSpec], agents: dict[str, Agent], make: Callable[[AgentSpec], Agent]
    ) -> None:
        self._specs = {spec.name: spec for spec in specs}
        self._agents = agents
        self._make = make
        self._loop = asyncio.get_running_loop()
        #: By id.
        self._open: dict[str, _OpenVm] = {}
        #: The leases whose VMs were closed.
        self._over: set[str] = set()
        #: Answers to the next openings, for tests.
        self.refusals: list[VmRefusedError] = []

    def handle(self, request: Request) -> Response:
        """Answer `/stoker/vms`."""
        if request.method == "GET":
            return json_response({"vms": self._list(), "notices": self._notices()})
        if request.method != "POST":
            return text_response(405, "GET the open VMs, or POST an opening or closing", Allow="GET, POST")
        try:
            match parse_json(request.body):
                case {"open": {"lease": str(lease), "name": str(name), **wanted}} if lease:
                    return json_response({"vm": _told(self.open(lease, name, wanted))})
                case {"close": {"id": str(machine_id)}}:
                    self.close(machine_id)
                    return json_response({})
                case _:
                    raise CallError("Expecting 'open' with 'lease' and 'name', or 'close' with 'id'")
        except CallError as error:
            return text_response(400, str(error))
        except VmRefusedError as refused:
            return json_response({"refused": {"kind": refused.kind, "message": str(refused)}})

    def open(self, lease: str, name: str, wanted: Mapping[Any, object]) -> _OpenVm:
        """Open a VM, once for each lease; RefusedError."""
        for vm in self._open.values():
            if vm.spec.lease == lease:
                return vm
        if self.refusals:
            raise self.refusals.pop(0)
        spec = self._specs.get(name)
        if spec is None:
            raise VmRefusedError("invalid", f"no pool has a VM {name}")
        for key in _CHECKED:
            if wanted.get(key, getattr(spec, key)) != getattr(spec, key):
                told = f"{name} has {key} {getattr(spec, key)!r} here, and not {wanted[key]!r}"
                raise VmRefusedError("invalid", told)
        if lease in self._over:
            raise VmRefusedError("invalid", f"the VM of the lease {lease} was closed")
        if name in self._agents:
            raise VmRefusedError("capacity", f"{name} is open under another lease")
        agent = self._agents[name] = self._make(replace(spec, lease=lease))
        boot = self._loop.call_later(spec.boot, agent.start)
        vm = _OpenVm(f"vm-{secrets.token_hex(4)}", agent, time.time(), boot)
        self._open[vm.id] = vm
        return vm

    def close(self, machine_id: str) -> None:
        """Close a VM and end its tasks, if it is open."""
        vm = self._open.pop(machine_id, None)
        if vm is None:
            return
        self._over.add(vm.spec.lease)
        vm.boot.cancel()
        if vm.taken is not None:
            vm.taken.cancel()
        del self._agents[vm.spec.name]
        vm.agent.terminate()

    def interrupt(self, agent: Agent, seconds: float) -> None:
        """Announce that a VM will be taken away, and take it away after some seconds; CallError."""
        for vm in self._open.values():
            if vm.agent is agent:
                vm.notice = time.time() + seconds
                vm.taken = self._loop.call_later(seconds, self.close, vm.id)
                return
        raise CallError(f"{agent.spec.name} belongs to no pool")

    def _list(self) -> list[Json]:
        return [_told(vm) for vm in self._open.values()]

    def _notices(self) -> list[Json]:
        given = [(vm.spec.lease, vm.notice) for vm in self._open.values()]
        return [{"lease": lease, "at": at} for lease, at in given if at is not None]


def _told(vm: _OpenVm) -> Json:
    state = "running" if vm.agent.id else "booting"
    told = {"id": vm.id, "lease": vm.spec.lease, "pool": vm.spec.pool, "name": vm.spec.name, "state": state}
    return told | {"opened_at": vm.opened_at, "address": vm.spec.address}
