"""Faults on request, for tests and for experiments with their effects.

`POST /stoker/faults` takes one JSON object; `GET /stoker/faults` returns the active faults and each agent's
state.

    {"fault": "drop_stream"}                            cut every event stream; or only that of "framework_id"
    {"fault": "delay", "what": "events", "seconds": 2}  delay "events" or "calls"; 0 seconds ends it
    {"fault": "lose", "what": "calls", "count": 1}      drop the next "events" or "calls", as if lost on the
                                                        way; only those of "type", such as "ACCEPT", "UPDATE"
    {"fault": "stop_agent", "agent": "NAME"}            its process stops answering, its tasks go on
    {"fault": "continue_agent", "agent": "NAME"}
    {"fault": "kill_agent", "agent": "NAME"}            tasks of frameworks with checkpointing live on
    {"fault": "shutdown_agent", "agent": "NAME"}        it unregisters, its tasks are killed
    {"fault": "start_agent", "agent": "NAME"}           after either of the two
    {"fault": "offer_at", "agent": "NAME",              it is offered only once per period, from then on,
     "phase": 0.7, "period": 6}                         and when REVIVE is called, as if it was refused
                                                        meanwhile; a period of 0 ends it
    {"fault": "interrupt_vm", "agent": "NAME",          a notice, as from a cloud, that a VM of a pool will
     "seconds": 120}                                    be taken away
    {"fault": "refuse_vms", "kind": "capacity",         the next VMs of pools are not opened
     "count": 1}
    {"fault": "kill_executor", "task_id": "ID"}         the executor of a running task crashes
    {"fault": "restart_master", "away_seconds": 1,      kill the master; an empty one follows, to which the
     "agents_after_seconds": 2}                         agents return later
    {"fault": "reset"}                                  end delays, losses and refusals

A lost call was answered with 202 all the same, as 202 only means that it was read.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from framework.embedded.agent.agent import Agent
from framework.embedded.cluster import EmbeddedCluster
from framework.embedded.master.calls import CallError, parse_json
from framework.embedded.master.http_server import EventStream, Request, Response, json_response, text_response
from framework.embedded.pool_vms import VmRefusedError

Json = dict[str, Any]

_WAYS = ("calls", "events")


@dataclass(slots=True)
class _Loss:
    """A number of messages of a direction and a type (None: any) still to lose."""

    what: str
    type: str | None
    count: int


class Faults:
    """The active faults, and the methods that switch them."""

    def __init__(self, cluster: EmbeddedCluster, restart_master: Callable[[float, float], None]) -> None:
        self._cluster = cluster
        self._restart_master = restart_master
        self._delays = dict.fromkeys(_WAYS, 0.0)
        self._losses: list[_Loss] = []

    def delay(self, what: str) -> float:
        """Delay of calls or events, seconds."""
        return self._delays[what]

    def loses(self, what: str, kind: str) -> bool:
        """Whether this message gets lost; it is counted."""
        for loss in self._losses:
            wanted = loss.type is None and kind not in {"SUBSCRIBE", "SUBSCRIBED"}
            if loss.what == what and (wanted or loss.type == kind):
                loss.count -= 1
                if loss.count <= 0:
                    self._losses.remove(loss)
                return True
        return False

    def handle(self, request: Request) -> Response:
        """Answer `/stoker/faults`."""
        if request.method == "GET":
            return json_response(self._report())
        if request.method != "POST":
            return text_response(405, "Give a fault by POST, or GET what is switched on", Allow="GET, POST")
        try:
            body = parse_json(request.body)
            if not isinstance(body, dict):
                raise CallError("Expecting a JSON object with the key 'fault'")
            self._apply(body)
        except CallError as error:
            return text_response(400, str(error))
        return json_response(self._report())

    def _apply(self, body: Json) -> None:
        name, cluster = body.get("fault"), self._cluster
        actions: dict[str, Callable[[], None]] = {
            "drop_stream": lambda: self._drop(body.get("framework_id")),
            "delay": lambda: self._set_delay(_way(body), _number(body, "seconds")),
            "lose": lambda: self._losses.append(_loss(body)),
            "stop_agent": lambda: self._agent(body).stop(),
            "continue_agent": lambda: self._agent(body).go_on(),
            "kill_agent": lambda: self._agent(body).kill(),
            "shutdown_agent": lambda: self._agent(body).shutdown(),
            "start_agent": lambda: self._agent(body).start(),
            "offer_at": lambda: self._offer_at(body),
            "interrupt_vm": lambda: cluster.pools.interrupt(self._agent(body), _number(body, "seconds")),
            "refuse_vms": lambda: self._refuse(str(body.get("kind")), int(_number(body, "count", 1))),
            "kill_executor": lambda: self._kill_executor(body.get("task_id")),
            "restart_master": lambda: self._restart_soon(
                _number(body, "away_seconds", 0.0), _number(body, "agents_after_seconds", 0.0)
            ),
            "reset": self._reset,
        }
        if name not in actions:
            raise CallError(f"Unknown fault {name!r}; the faults are: {', '.join(sorted(actions))}")
        actions[name]()

    def _restart_soon(self, away: float, agents_after: float) -> None:
        """Restart the master once this request is answered."""
        asyncio.get_running_loop().call_soon(self._restart_master, away, agents_after)

    def _drop(self, framework_id: object) -> None:
        frameworks = {} if self._cluster.master is None else self._cluster.master.state.frameworks
        if framework_id is not None and framework_id not in frameworks:
            raise CallError(f"No framework {framework_id!r}; there are: {', '.join(frameworks) or 'none'}")
        for framework in list(frameworks.values()):
            if framework_id in {None, framework.id} and framework.stream is not None:
                framework.stream.cut()

    def _set_delay(self, what: str, seconds: float) -> None:
        self._delays[what] = seconds

    def _refuse(self, kind: str, count: int) -> None:
        self._cluster.pools.refusals += [VmRefusedError(kind, f"refused on request: {kind}")] * count

    def _kill_executor(self, task_id: object) -> None:
        if not any(agent.kill_executor(str(task_id)) for agent in self._cluster.agents.values()):
            raise CallError(f"No running command task {task_id!r}")

    def _offer_at(self, body: Json) -> None:
        name, master = self._agent(body).spec.name, self._cluster.master
        phase, period = _number(body, "phase", 0.0), _number(body, "period")
        if master is None:
            raise CallError("There is no master that could offer it")
        for agent in master.state.agents.values():
            if agent.spec.name == name:
                master.offers.offer_at(agent, phase, period)

    def _agent(self, body: Json) -> Agent:
        agent = self._cluster.agents.get(str(body.get("agent")))
        if agent is None:
            names = ", ".join(self._cluster.agents)
            raise CallError(f"No agent {body.get('agent')!r}; there are: {names}")
        return agent

    def _reset(self) -> None:
        self._delays = dict.fromkeys(_WAYS, 0.0)
        self._losses.clear()
        self._cluster.pools.refusals.clear()

    def _report(self) -> Json:
        return {
            "delays_seconds": dict(self._delays),
            "losses": [{"what": loss.what, "type": loss.type, "count": loss.count} for loss in self._losses],
            "agents": {name: agent.condition.value for name, agent in self._cluster.agents.items()},
            "master": "away" if self._cluster.master is None else "up",
        }


class FaultyStream:
    """An event stream that loses and delays events as `Faults` demands; delayed events stay in order."""

    def __init__(self, stream: EventStream, faults: Faults, loop: asyncio.AbstractEventLoop) -> None:
        self._stream = stream
        self._faults = faults
        self._loop = loop
        self._clear_at = 0.0

    @property
    def id(self) -> str:
        """The Mesos-Stream-Id."""
        return self._stream.id

    def send(self, event: Mapping[str, Any]) -> None:
        """Send one event, unless it gets lost."""
        if not self._faults.loses("events", event["type"]):
            self._in_order(lambda: self._stream.send(event))

    def end(self) -> None:
        """End the stream after the delayed events."""
        self._in_order(self._stream.end)

    def cut(self) -> None:
        """Break the connection at once."""
        self._stream.cut()

    def _in_order(self, action: Callable[[], None]) -> None:
        now = self._loop.time()
        due = max(now + self._faults.delay("events"), self._clear_at)
        if due <= now:
            action()
        else:
            self._clear_at = due
            self._loop.call_at(due, action)


def _way(body: Json) -> str:
    what = body.get("what")
    if what not in _WAYS:
        raise CallError(f"'what' must be one of {', '.join(_WAYS)}, got {what!r}")
    return str(what)


def _number(body: Json, name: str, default: float | None = None) -> float:
    value = body.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
        raise CallError(f"'{name}' must be a number of at least 0, got {value!r}")
    return float(value)


def _loss(body: Json) -> _Loss:
    kind = body.get("type")
    return _Loss(_way(body), None if kind is None else str(kind), int(_number(body, "count", 1)))
