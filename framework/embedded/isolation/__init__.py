"""VMs that are more than processes: each agent's tasks in a cgroup and a network namespace of their own.

A VM gets a cpu quota and a memory limit by its size, and a network card on a bridge with a limited bandwidth.
So executors of one VM share its cores and reach each other freely, and those of different VMs pay for the
data that they send. Linux only, for root only, with iproute2 (`ip` and `tc`); where something is missing,
`IsolationError` names it. `Isolation` is the whole public interface; it does not run tasks.
"""

from framework.embedded.isolation.cell import FIXED, Cell, Entry, NoIsolation
from framework.embedded.isolation.isolation import (
    Isolation,
    IsolationError,
    IsolationOptions,
    remove_leftovers,
)

__all__ = [
    "FIXED",
    "Cell",
    "Entry",
    "Isolation",
    "IsolationError",
    "IsolationOptions",
    "NoIsolation",
    "remove_leftovers",
]
