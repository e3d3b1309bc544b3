"""Frameworks as the master sees them: subscribing, failing over, disconnecting, changing, leaving."""

import time
from collections.abc import Iterable

from framework.embedded.master.calls import Call, FrameworkInfo, framework_info, framework_problem
from framework.embedded.master.launch_checks import id_problem
from framework.embedded.master.offers import MasterOffers
from framework.embedded.master.state import VERSION, Framework, MasterState, SubscriptionStream
from framework.embedded.master.tasks import EmbeddedTasks
from framework.embedded.messages import HEARTBEAT, Json, error_event

_KEPT_COMPLETED = 50  # Mesos' max_completed_frameworks


class Frameworks:
    """A state's frameworks and their streams."""

    def __init__(self, state: MasterState, offers: MasterOffers, tasks: EmbeddedTasks) -> None:
        self._state = state
        self._offers = offers
        self._tasks = tasks

    def subscribe(self, call: Call, stream: SubscriptionStream, principal: str | None) -> Framework | None:
        """Subscribe on a fresh stream; a refused one gets an ERROR event and its end, and is None."""
        message = call.body["framework_info"]
        problem = framework_problem(message)
        if problem is None and call.framework_id is not None:
            problem = self._id_problem(call.framework_id)
        if problem is not None:
            stream.send(error_event(problem))
            stream.end()
            return None
        framework = self._state.frameworks.get(call.framework_id or "")
        if framework is None:
            framework = self._new(call.framework_id, message)
            fresh = True
        else:
            fresh = framework.stream is None
            self._take_over(framework, framework_info(message))
        framework.principal = principal
        framework.suppressed = set(call.body.get("suppressed_roles", []))
        self._connect(framework, stream)
        if fresh:
            self._offers.allocate_soon()
        for agent in self._state.agents.values():
            agent.link.resend(framework.id)
        return framework

    def disconnect(self, framework: Framework, stream: SubscriptionStream) -> None:
        """Note that a stream was cut; the framework is removed when its failover timeout is over."""
        if framework.stream is not stream:
            return
        framework.stream = None
        _cancel(framework)
        self._offers.take_all(framework.offers.values())
        timeout = max(0.0, framework.info.failover_timeout)
        framework.failover = self._state.loop.call_later(timeout, self.remove, framework)

    def remove(self, framework: Framework) -> None:
        """End everything of a framework; its id is never taken again."""
        if self._state.frameworks.get(framework.id) is not framework:
            return
        self._offers.take_all(framework.offers.values())
        for task in list(framework.tasks.values()):
            task.state = "TASK_KILLED"
            self._tasks.forget(framework, task)
        for agent in self._state.agents.values():
            self._end_executors(agent.id, framework.id)
            agent.link.shutdown_framework(framework.id)
        del self._state.frameworks[framework.id]
        self._remember(framework)
        _cancel(framework)
        stream, framework.stream = framework.stream, None
        if stream is not None:
            stream.end()

    def suppress(self, framework: Framework, roles: Iterable[str]) -> None:
        """Stop offers to these roles of a framework, or to all when none is named."""
        named = set(roles)
        framework.suppressed |= (named or set(framework.info.roles)) & set(framework.info.roles)

    def revive(self, framework: Framework, roles: Iterable[str]) -> None:
        """Forget refusals and resume offers to these roles, or to all when none is named."""
        named = set(roles) or set(framework.info.roles)
        framework.suppressed -= named
        framework.filters = [refusal for refusal in framework.filters if refusal.role not in named]
        self._offers.revive()

    def update(self, framework: Framework, body: Json) -> str | None:
        """Change a framework's description; return the reason if that is refused, or None when it is done."""
        message = body["framework_info"]
        if (problem := framework_problem(message)) is not None:
            return f"Supplied FrameworkInfo is not valid: {problem}"
        if (problem := _change_problem(framework.info, framework_info(message))) is not None:
            return f"FrameworkInfo update is not valid: {problem}"
        self._change(framework, framework_info(message))
        framework.suppressed = set(body.get("suppressed_roles", []))
        self._offers.allocate_soon()
        return None

    def master_info(self) -> Json:
        """The `MasterInfo` message."""
        state = self._state
        capabilities = [{"type": name} for name in CAPABILITIES]
        return {
            "id": state.id,
            "ip": _ip_number(state.host),
            "port": state.port,
            "pid": f"master@{state.host}:{state.port}",
            "hostname": state.hostname,
            "version": VERSION,
            "address": {"hostname": state.hostname, "ip": state.host, "port": state.port},
            "capabilities": capabilities,
        }

    # inside

    def _id_problem(self, framework_id: str) -> str | None:
        if framework_id in self._state.removed_ids:
            return "Framework has been removed"
        problem = id_problem(framework_id)  # it becomes the name of a folder
        return None if problem is None else f"Framework ID is invalid: {problem}"

    def _new(self, framework_id: str | None, message: Json) -> Framework:
        identity = framework_id or self._state.next_id("")
        info = framework_info(message | {"id": {"value": identity}})
        framework = Framework(identity, info)
        self._state.frameworks[identity] = framework
        return framework

    def _take_over(self, framework: Framework, info: FrameworkInfo) -> None:
        """Prepare a known framework for a new stream; user and checkpoint stay as they were."""
        framework.reregistered_at = time.time()
        self._change(framework, info)
        old, framework.stream = framework.stream, None
        if old is not None:
            old.send(error_event("Framework failed over"))
            old.end()
        _cancel(framework)
        self._offers.take_all(framework.offers.values())

    def _change(self, framework: Framework, info: FrameworkInfo) -> None:
        """Apply a new description, and take back offers to roles that it no longer has."""
        before = framework.info
        kept = {"user": before.user, "checkpoint": before.checkpoint, "id": {"value": framework.id}}
        framework.info = framework_info(info.message | kept)
        lost = [offer for offer in framework.offers.values() if offer.role not in framework.info.roles]
        self._offers.rescind(reversed(lost))

    def _connect(self, framework: Framework, stream: SubscriptionStream) -> None:
        framework.stream = stream
        subscribed = {
            "framework_id": {"value": framework.id},
            "heartbeat_interval_seconds": self._state.options.heartbeat_interval,
            "master_info": self.master_info(),
        }
        framework.send({"type": "SUBSCRIBED", "subscribed": subscribed})
        self._beat(framework)

    def _beat(self, framework: Framework) -> None:
        framework.send(HEARTBEAT)
        interval = self._state.options.heartbeat_interval
        framework.heartbeat = self._state.loop.call_later(interval, self._beat, framework)

    def _end_executors(self, agent_id: str, framework_id: str) -> None:
        agent = self._state.agents[agent_id]
        for key in [key for key in agent.executors if key[0] == framework_id]:
            agent.allocated = agent.allocated - agent.executors.pop(key)

    def _remember(self, framework: Framework) -> None:
        framework.unregistered_at = time.time()
        self._state.removed_ids.add(framework.id)
        self._state.completed[framework.id] = framework
        while len(self._state.completed) > _KEPT_COMPLETED:
            self._state.completed.popitem(last=False)


CAPABILITIES = ("AGENT_UPDATE", "AGENT_DRAINING", "QUOTA_V2")


def _cancel(framework: Framework) -> None:
    for timer in (framework.heartbeat, framework.failover):
        if timer is not None:
            timer.cancel()
    framework.heartbeat = framework.failover = None


def _change_problem(before: FrameworkInfo, after: FrameworkInfo) -> str | None:
    if before.principal != after.principal:
        return "Changing framework's principal is not allowed."
    for name in ("user", "checkpoint"):
        old, new = getattr(before, name), getattr(after, name)
        if old != new and not (name == "checkpoint" and "checkpoint" not in after.message):
            shown = [str(value).lower() if isinstance(value, bool) else value for value in (old, new)]
            told = "attempted to update from '{}' to '{}'".format(*shown)
            return f"Updating 'FrameworkInfo.{name}' is unsupported; {told}"
    return None


def _ip_number(host: str) -> int:
    """An IPv4 address as the little-endian number that Mesos puts into `MasterInfo`."""
    return int.from_bytes(bytes(int(part) for part in host.split(".")), "little")
