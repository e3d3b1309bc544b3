"""Events and commands as JSON, one object a line, and back: a recorded day is a test or a workload."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

from pydantic import TypeAdapter

from environment.model import events

_TYPES: dict[str, TypeAdapter[Any]] = {
    name: TypeAdapter(kind)
    for name, kind in vars(events).items()
    if isinstance(kind, type) and issubclass(kind, events.Event | events.Command)
}


def encode(entry: events.Event | events.Command) -> str:
    """One line of JSON (without its end) that `decode` turns into an equal value."""
    kind = type(entry).__name__
    return json.dumps({"type": kind, **_TYPES[kind].dump_python(entry)}, separators=(",", ":"))


def decode(line: str) -> events.Event | events.Command:
    """The event or command of one line; ValueError when it is none."""
    fields = json.loads(line)
    if not isinstance(fields, dict):
        raise ValueError(f"an event or command is a JSON object, found {line[:60]}")
    kind = fields.pop("type", None)
    if kind not in _TYPES:
        raise ValueError(f"unknown event or command {kind!r}")
    entry: events.Event | events.Command = _TYPES[kind].validate_python(fields)
    return entry


def replay(lines: Iterable[str]) -> Iterator[tuple[events.Event, list[events.Command]]]:
    """Go through a log: each event with the commands that were recorded after it."""
    event: events.Event | None = None
    commands: list[events.Command] = []
    for line in lines:
        entry = decode(line)
        if isinstance(entry, events.Command):
            commands.append(entry)
            continue
        if event is not None:
            yield event, commands
        event, commands = entry, []
    if event is not None:
        yield event, commands
