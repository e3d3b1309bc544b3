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
        #: Whether a log needs the event for a replay to be the same: it led to commands, or later events
        #: depend on it. Most ticks do neither.
        self.matters = False
        self._commands: list[Command] = []

    def begin(self, at: float) -> None:
        """The next event is handled; one with an older time happens now."""
        self.number += 1
        self.now = max(self.now, at)
        self._commands, self.matters = [], False

    def command(
        self, kind: Callable[Concatenate[int, Fields], Command], *fields: Fields.args, **named: Fields.kwargs
    ) -> None:
        """The event leads to this command."""
        self._commands.append(kind(self.number, *fields, **named))

    def note(self) -> None:
        """The event leads to no command, but later events depend on it."""
        self.matters = True

    def end(self, *, counted: bool) -> list[Command]:
        """The commands, in order. An event that does not matter gives its number back, unless `counted`."""
        self.matters = counted or self.matters or bool(self._commands)
        if not self.matters:
            self.number -= 1
        return self._commands
