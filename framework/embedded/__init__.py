"""A small Mesos in one process: a master with the v1 scheduler API, and agents that run local processes.

For laptops, demonstrations and tests; any framework can use it. It answers as a real Mesos 1.12 does, without
reservations, quotas, containers and several masters. `serve` runs it; `faults` describes its faults on
request.
"""

from typing import TYPE_CHECKING, Any

from framework.embedded.settings import AgentSpec, MasterOptions

if TYPE_CHECKING:
    from framework.embedded.mesos_server import serve

__all__ = ["AgentSpec", "MasterOptions", "serve"]


def __getattr__(name: str) -> Any:
    """Import `serve` on demand: callers that only describe agents need not wait for asyncio."""
    if name == "serve":
        from framework.embedded.mesos_server import serve

        return serve
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
