"""The event that the cluster model handles: its time, its number, and the commands that it led to."""

from collections.abc import Callable
from typing import Concatenate, ParamSpec

from environment.model.messages.commands import Command

Fields = ParamSpec("Fields")


class EventContext:
    """One event after another. `now` (seconds) never goes back; every command names the event's number."""

    def __init__(self) -> None:
        self.now = 0.0
        #: How many events were counted so far.
        self.number = 0
        self._commands: list[Command] = []

    def begin(self, at: float) -> None:
        """The next event is handled; one with an older time happens now."""
        self.number += 1
        self.now = max(self.now, at)
        self._commands = []

    def command(
        self, kind: Callable[Concatenate[int, Fields], Command], *fields: Fields.args, **named: Fields.kwargs
    ) -> None:
        """The event leads to this command."""
        self._commands.append(kind(self.number, *fields, **named))

    def end(self, *, counted: bool) -> list[Command]:
        """The commands, in order. An event without any gives its number back, unless it is counted anyway."""
        if not (counted or self._commands):
            self.number -= 1
        return self._commands
