"""Mesos JSON into events and back: offers, status updates, tasks. Pure; sends and receives nothing."""

import base64
import re
import signal
from collections.abc import Iterable, Mapping, Sequence
from math import nan
from typing import Any, get_args

from conf.units import MOST_AMOUNT, MOST_PRICE
from conf.util.secret_masking import masked_urls
from environment.model.messages.events import InverseOffer, TaskChanged
from environment.model.messages.records import ExecutorRecord
from environment.model.messages.snapshot import Offer, VmSize
from environment.model.messages.task_states import TaskState
from environment.resources import THOUSANDTHS, Resources, thousandths, total
from environment.types import Vm
from framework.spark import ProcessSpec

Json = dict[str, Any]

#: Type of a VM whose agent states no type or price.
UNKNOWN_TYPE = "unknown"
_EXITED = re.compile(r"(?:Command|Container) exited with status (?P<code>\d{1,3})\b")
_TERMINATED = re.compile(r"(?:Command|Container) terminated with signal (?P<name>[\w /-]*\w)")
_SIGNALS = {signal.strsignal(number): int(number) for number in signal.valid_signals()}
#: Reason why a task was ended, by the update's reason, for messages that state only the exit.
_REASONS = {
    "agent_draining": "its agent is being drained",
    "agent_removed_by_operator": "an operator has removed its agent",
    "framework_removed": "the master has removed our framework",
    "max_completion_time_reached": "it ran for longer than its limit",
}
#: The ports that there are.
_FIRST_PORT, _LAST_PORT = 1, 65535
_STATES: dict[str, TaskState] = {state: state for state in get_args(TaskState)}


def offer_from_json(offer: Mapping[str, Any]) -> Offer:
    """Read an offer. An agent's attributes define the VM's type (`vm`), `price` per hour, and `lease`."""
    resources, attributes = offer.get("resources", ()), _attributes(offer.get("attributes", ()))
    amounts = total_of((r["name"], r["scalar"]["value"]) for r in resources if _is_amount(r))
    price, note = price_of(attributes.get("price"))
    hostname = str(offer["hostname"])
    vm = Vm(
        id=str(offer["agent_id"]["value"]),
        name=hostname,
        type=str(attributes.get("vm", UNKNOWN_TYPE)),
        resources=amounts,
        price_per_hour=price,
        address=_address(offer) or hostname,
        note=note,
        lease=str(attributes.get("lease", "")),
    )
    ports, window = tuple(_ports(resources)), _unavailability(offer)
    return Offer(str(offer["id"]["value"]), vm, vm.resources, ports, window)


def inverse_offer_from_json(offer: Mapping[str, Any]) -> InverseOffer:
    """Read an inverse offer: the wish to have a VM back for a while. Without an agent it is about no VM."""
    vm_id = str(offer.get("agent_id", {}).get("value", ""))
    return InverseOffer(str(offer["id"]["value"]), vm_id, _unavailability(offer) or (0.0, None))


def agent_from_json(agent: Mapping[str, Any], size: VmSize) -> Vm:
    """Read an entry of a master's `/slaves`, with the resources that we may use."""
    attributes, hostname = agent.get("attributes", {}), str(agent["hostname"])
    price, note = price_of(attributes.get("price"))
    _, _, address = str(agent.get("pid", "")).partition("@")
    return Vm(
        id=size.vm_id,
        name=hostname,
        type=str(attributes.get("vm", UNKNOWN_TYPE)),
        resources=size.resources,
        price_per_hour=price,
        address=address.rpartition(":")[0] or hostname,
        note=note,
        lease=str(attributes.get("lease", "")),
    )


def role_of(offer: Mapping[str, Any]) -> str:
    """The role that an offer is made to."""
    return str(offer.get("allocation_info", {}).get("role", ""))


def agent_url(offer: Mapping[str, Any]) -> tuple[str, str]:
    """The agent's id, and the URL of its HTTP API (`http://10.0.0.1:5051`; empty when missing)."""
    url = offer.get("url", {})
    address = url.get("address", {})
    host = address.get("ip") or address.get("hostname")
    base = f"{url.get('scheme', 'http')}://{host}:{address.get('port', 5051)}" if host else ""
    return str(offer["agent_id"]["value"]), base


def task_changed_from_json(status: Mapping[str, Any], at: float) -> TaskChanged:
    """Read a status update; a state that is not known to us counts as unknown."""
    state = str(status["state"]).removeprefix("TASK_").lower()
    message, reason = str(status.get("message", "")), _reason(status)
    return TaskChanged(
        at,
        task_id=str(status["task_id"]["value"]),
        state=_STATES.get(state, "unknown"),
        vm_id=str(status.get("agent_id", {}).get("value", "")),
        reason=reason,
        message=masked_urls(_why(reason, message)),
        exit_code=_exit_code(message),
    )


def task_to_json(
    task: ExecutorRecord,
    process: ProcessSpec,
    name: str,
    resources: list[Json],
    *,
    user: str | None = None,
    secret_variables: bool = True,
    grace_seconds: float = 10.0,
) -> Json:
    """A TaskInfo that runs the process with exactly these resources, which come out of offers.

    With `secret_variables` secrets travel as SECRET variables, which operators are not shown; only agents
    with the isolator `environment_secret` hand those to tasks. Without, they are variables like others.
    """
    command: Json = {
        "shell": False,
        "value": process.argv[0],
        "arguments": list(process.argv),
        "environment": {"variables": [*_variables(process, secret_variables)]},
        "uris": [
            {"value": uri.value, "extract": uri.extract} | ({"output_file": uri.name} if uri.name else {})
            for uri in process.uris
        ],
    }
    if user:
        command["user"] = user
    info: Json = {
        "name": name,
        "task_id": {"value": task.task_id},
        "agent_id": {"value": task.vm_id},
        "resources": resources,
        "command": command,
        "kill_policy": {"grace_period": {"nanoseconds": int(grace_seconds * 1e9)}},
        "labels": {"labels": [{"key": "job", "value": task.job_id}]},
    }
    if process.image:
        docker = {"type": "DOCKER", "docker": {"name": process.image}}
        info["container"] = {"type": "MESOS", "mesos": {"image": docker}}
    return info


def amount_of(value: Any) -> float:
    """An amount that another program states, as far as `MOST_AMOUNT`; ValueError when it is no number."""
    return max(-MOST_AMOUNT, min(float(value), MOST_AMOUNT))


def total_of(amounts: Iterable[tuple[str, Any]]) -> Resources:
    """The sum of amounts by name that another program states, without those below zero."""
    sums = total(Resources.named({name: amount_of(value)}) for name, value in amounts).positive
    return sums & Resources.named(dict.fromkeys(sums, MOST_AMOUNT))


class OfferAllocator:
    """The resources of the offers of one agent, from which tasks are paid.

    Resources are handed out as they came, with their role and reservations, as a master demands it.
    """

    def __init__(self, offers: Iterable[Mapping[str, Any]]) -> None:
        everything = [dict(resource) for offer in offers for resource in offer.get("resources", ())]
        # Resources reserved for our role are of no use to others, so they go first.
        self._resources = sorted(everything, key=_is_unreserved)

    def pay(self, amounts: Resources, ports: Sequence[int]) -> list[Json]:
        """Take this much out; ValueError when it is not there."""
        return [
            *(part for name in amounts for part in self._scalars(name, amounts.get(name))),
            *(self._port(port) for port in ports),
        ]

    def _scalars(self, name: str, amount: int) -> list[Json]:
        """Parts that make up an amount, thousandths."""
        taken, missing = [], amount
        for resource in self._resources:
            if resource["name"] != name or missing <= 0 or not _is_amount(resource):
                continue
            has = thousandths(amount_of(resource["scalar"]["value"]))
            part = min(has, missing)
            if part > 0:
                taken.append({**resource, "scalar": {"value": part / THOUSANDTHS}})
                resource["scalar"] = {"value": (has - part) / THOUSANDTHS}
                missing -= part
        if missing > 0:
            lacks, asked = missing / THOUSANDTHS, amount / THOUSANDTHS
            raise ValueError(f"the offers lack {lacks:g} of {asked:g} {name}")
        return taken

    def _port(self, port: int) -> Json:
        for resource in self._resources:
            if resource["name"] == "ports" and any(a <= port <= b for a, b in _ranges(resource)):
                return {**resource, "ranges": {"range": [{"begin": port, "end": port}]}}
        raise ValueError(f"port {port} is not offered")


def _is_amount(resource: Mapping[str, Any]) -> bool:
    """Whether any part of it can be taken; of a disk that is a volume or has a source of its own none can."""
    return "scalar" in resource and "disk" not in resource


def _is_unreserved(resource: Mapping[str, Any]) -> bool:
    return resource.get("role", "*") == "*" and not resource.get("reservations")


def _variables(process: ProcessSpec, secret_variables: bool) -> Iterable[Json]:
    for name, value in process.environment.items():
        yield {"name": name, "type": "VALUE", "value": value}
    for name, value in process.secrets.items():
        if secret_variables:
            secret = {"type": "VALUE", "value": {"data": _base64(value)}}
            yield {"name": name, "type": "SECRET", "secret": secret}
        else:
            yield {"name": name, "type": "VALUE", "value": value}


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _attributes(attributes: Iterable[Mapping[str, Any]]) -> dict[str, str | float]:
    return {a["name"]: (a.get("text") or a.get("scalar") or {}).get("value", "") for a in attributes}


def _reason(status: Mapping[str, Any]) -> str:
    return str(status.get("reason", "")).removeprefix("REASON_").lower()


def _why(reason: str, message: str) -> str:
    """The message, after the reason where the message only describes how a process ended."""
    if not reason or (message and not (_EXITED.fullmatch(message) or _TERMINATED.fullmatch(message))):
        return message
    told = _REASONS.get(reason, reason.replace("_", " "))
    return f"{told}: {message}" if message else told


def _exit_code(message: str) -> int | None:
    """Exit code of a process from the message of Mesos' executors; None for other messages."""
    if found := _EXITED.match(message):
        return int(found["code"])
    number = _SIGNALS.get(found["name"]) if (found := _TERMINATED.match(message)) else None
    return None if number is None else 128 + number


def price_of(value: object) -> tuple[float, str]:
    """An agent's attribute `price` in dollars per hour, also with a dollar sign; and its fault, if any.

    An invalid price counts as 0.
    """
    if value is None or value == "":
        return 0.0, ""
    try:
        price = float(str(value).strip().removeprefix("$"))
    except ValueError:
        price = nan
    if 0 <= price <= MOST_PRICE:
        return price, ""
    right = "not a number of dollars per hour, such as price:0.48"
    return 0.0, f"its attribute price is {str(value)[:40]!r}, {right}; it counts as 0"


def _unavailability(offer: Mapping[str, Any]) -> tuple[float, float | None] | None:
    """Begin and duration of planned maintenance of the VM (None: for ever), seconds."""
    told = offer.get("unavailability")
    if not told:
        return None
    duration = told.get("duration")
    return int(told["start"]["nanoseconds"]) / 1e9, int(duration["nanoseconds"]) / 1e9 if duration else None


def _address(offer: Mapping[str, Any]) -> str:
    return str(offer.get("url", {}).get("address", {}).get("ip", ""))


def _ports(resources: Iterable[Mapping[str, Any]]) -> Iterable[tuple[int, int]]:
    """Ranges of ports that can be listened on: agents offer any ranges that their operators configured."""
    for resource in resources:
        if resource["name"] == "ports":
            for first, last in _ranges(resource):
                if (begin := max(first, _FIRST_PORT)) <= (end := min(last, _LAST_PORT)):
                    yield begin, end


def _ranges(resource: Mapping[str, Any]) -> Iterable[tuple[int, int]]:
    return ((int(r["begin"]), int(r["end"])) for r in resource.get("ranges", {}).get("range", ()))
