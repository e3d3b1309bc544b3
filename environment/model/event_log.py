"""Events and commands as JSON, one object a line, and back: a recorded day is a test or a workload."""

import json
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

from pydantic import TypeAdapter

from environment.model.messages import commands as cmd
from environment.model.messages import events
from environment.model.messages.snapshot import VmSize

#: Fields that list sizes of VMs, and the parts of an executor's size in logs of the first Stoker.
_VM_SIZES = frozenset({"sizes", "told", "others"})
_AMOUNTS = frozenset({"cpus", "memory_mib"})

#: Number of values that become JSON at once, without interruption: some milliseconds.
_SLICE = 200
_json = json.JSONEncoder(separators=(",", ":")).encode

_KINDS: dict[str, type] = {
    name: kind
    for name, kind in (*vars(events).items(), *vars(cmd).items())
    if isinstance(kind, type) and issubclass(kind, events.Event | cmd.Command)
}


@cache
def _adapter(kind: str) -> TypeAdapter[Any]:
    """Serializer and validator of entries of this kind, created on first use, as many kinds never occur."""
    return TypeAdapter(_KINDS[kind])


def encode(entry: events.Event | cmd.Command) -> str:
    """Encode an entry as a line of JSON (without its end) that `decode` turns into an equal value."""
    kind = type(entry).__name__
    fields = {"type": kind, **_adapter(kind).dump_python(entry)}
    return "{" + ",".join(f"{_json(name)}:{_sliced(value)}" for name, value in fields.items()) + "}"


def _sliced(value: Any) -> str:
    """A value as JSON; one of 100,000 jobs in slices, between which other threads have their turn."""
    if not isinstance(value, list | tuple) or len(value) <= _SLICE:
        return _json(value)
    slices = (value[first : first + _SLICE] for first in range(0, len(value), _SLICE))
    return "[" + ",".join(_json(part)[1:-1] for part in slices) + "]"


def decode(line: str) -> events.Event | cmd.Command:
    """The event or command of one line; ValueError when it is none."""
    fields = json.loads(line)
    if not isinstance(fields, dict):
        raise ValueError(f"an event or command is a JSON object, found {line[:60]}")
    kind = fields.pop("type", None)
    if kind not in _KINDS:
        raise ValueError(f"unknown event or command {kind!r}")
    entry: events.Event | cmd.Command = _adapter(kind).validate_python(_as_written_now(fields))
    return entry


def _as_written_now(value: Any) -> Any:
    """Convert JSON of a log of an earlier Stoker to the present format.

    The first version separated cpus, memory and others; launches contained copies of their tasks' records.
    """
    if isinstance(value, list):
        return [_as_written_now(item) for item in value]
    if not isinstance(value, dict):
        return value
    found = {name: _as_written_now(item) for name, item in value.items()}
    for name in _VM_SIZES & found.keys():
        if isinstance(found[name], list):
            found[name] = [_vm_size(item) for item in found[name]]
    if "orphans" in found and "lost" in found:  # VMs of leases that ended otherwise were not remembered
        found["paid"] = found.pop("lost")
    if "offer_ids" in found and "tasks" in found:
        found["task_ids"] = [task["task_id"] for task in found.pop("tasks")]
    if "memory_mib" in found and found.keys() - _AMOUNTS:
        amounts = {name: found.pop(name) for name in ("cpus", "memory_mib")}
        found["size" if "executors" in found else "resources"] = amounts | found.pop("resources", {})
    return found


def _vm_size(item: Any) -> Any:
    if isinstance(item, list) and len(item) > len(VmSize._fields):
        vm_id, cpus, memory_mib, *others = item
        return [vm_id, {"cpus": cpus, "memory_mib": memory_mib, **(others[0] if others else {})}]
    return item


def replay(lines: Iterable[str]) -> Iterator[tuple[events.Event, list[cmd.Command]]]:
    """Go through a log: each event with the commands that were recorded after it."""
    event: events.Event | None = None
    commands: list[cmd.Command] = []
    for line in lines:
        entry = decode(line)
        if isinstance(entry, cmd.Command):
            commands.append(entry)
            continue
        if event is not None:
            yield event, commands
        event, commands = entry, []
    if event is not None:
        yield event, commands
