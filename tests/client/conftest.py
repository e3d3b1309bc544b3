"""A daemon's real API with a scheduler that obeys the test, as the commands have it."""

from tests.daemon.cli.conftest import cast, daemon

__all__ = ["cast", "daemon"]
