"""A small Mesos in one process: a master with the v1 scheduler API, and agents that run local processes.

For laptops, demonstrations and tests; any framework can use it. It answers as a real Mesos 1.12 does,
without reservations, quotas, containers and several masters. `serve` runs it; `faults` tells how it
misbehaves on request.
"""

from framework.embedded.options import AgentSpec, MasterOptions
from framework.embedded.server import serve

__all__ = ["AgentSpec", "MasterOptions", "serve"]
