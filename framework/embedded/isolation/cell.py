"""Cell for the tasks of one agent: a VM's cgroup and network namespace, or no isolation."""

import contextlib
import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from framework.embedded.isolation import enter
from framework.host.cgroups import ControlGroup
from framework.host.unix_users import ids_of

#: How much of idle cores a container may use for each of its cpus. Chosen: an executor runs one task there,
#: that is a thread of the JVM and a worker of Python, which wait for each other now and then. Cores cannot be
#: made slow: without this bound a single task on a big VM would have all that the VM has.
BURST = 1.5


@dataclass(frozen=True, slots=True)
class Entry:
    """A command to start: `executable` None where argv names it, `user` None for the present one.

    `given` is on its standard input.
    """

    argv: Sequence[str]
    executable: str | None
    user: str | None
    environment: Mapping[str, str]
    given: bytes = b""


#: The environment of a program that is still root when it starts on behalf of a job. The job's own reaches it
#: as data: the loader and Python would obey it.
FIXED = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}


class Cell(Protocol):
    """Environment of the tasks of one agent."""

    def wrap(self, entry: Entry, container: str, cpus: float, memory_mib: float) -> Entry:
        """The command that starts `entry` inside; OSError when that cannot be prepared.

        Commands of one `container` belong together; containers share the VM's cores by their `cpus`, and get
        up to `BURST` times these while the cores are idle. One that needs more than its memory is killed; 0:
        no less than the VM's is its limit.
        """

    def end_starved(self) -> bool:
        """Kill all of each container of which the kernel killed a process for memory.

        Returns whether that has to be repeated: not where none runs, or the kernel does it itself.
        """

    def leave(self, container: str) -> str | None:
        """Take a container down once its first process has ended; return a message if memory ran out."""

    def clear(self) -> bool:
        """Kill processes that containers left behind; return whether all are gone.

        To be repeated until they are: a process may start others between a look and a kill.
        """


class NoIsolation:
    """Tasks run without isolation, as processes of this machine."""

    def wrap(
        self,
        entry: Entry,
        container: str,  # noqa: ARG002 (as in Cell)
        cpus: float,  # noqa: ARG002
        memory_mib: float,  # noqa: ARG002
    ) -> Entry:
        """The command as it is."""
        return entry

    def end_starved(self) -> bool:
        """No container has a limit."""
        return False

    def leave(self, container: str) -> str | None:  # noqa: ARG002 (as in Cell)
        """Nothing is there to take down."""
        return None

    def clear(self) -> bool:
        """Nothing is known to be left."""
        return True


@dataclass(frozen=True, slots=True)
class CellSize:
    """A VM's cpus, the cores of this machine for each, and the processes and threads that it may have."""

    cpus: float
    scale: float
    processes: int


class VmCell:
    """One VM's group and network namespace."""

    def __init__(self, group: ControlGroup, namespace: Path, address: str, size: CellSize) -> None:
        #: The VM's address on the bridge.
        self.address = address
        #: The VM's own group, with its limits.
        self.group = group
        self._size = size
        self._namespace = namespace
        #: Groups of running containers, by container id.
        self._containers: dict[str, ControlGroup] = {}
        #: Groups whose last processes are about to end.
        self._left: list[ControlGroup] = []

    def wrap(self, entry: Entry, container: str, cpus: float, memory_mib: float) -> Entry:
        """A command that enters the VM and then becomes `entry`."""
        self.clear()
        group = self._containers.get(container)
        if group is None:
            group = self._containers[container] = self.group.child(container)
            group.share(cpus)
            group.limit_cores(min(cpus * BURST, self._size.cpus) * self._size.scale)
            group.limit_processes(self._size.processes // 2)  # one that multiplies leaves others room
            if memory_mib:
                group.limit_memory(math.ceil(memory_mib))
            group.end_together()
        user = "" if entry.user is None else ids_of(entry.user)
        told = (str(self._namespace), user, entry.executable or entry.argv[0])
        files = [str(folder / "cgroup.procs") for folder in group.folders]
        argv = [sys.executable, "-I", "-S", enter.__file__, *told, *files, "--", *entry.argv]
        return Entry(argv, None, None, FIXED, json.dumps(dict(entry.environment)).encode())

    def end_starved(self) -> bool:
        """See `Cell`."""
        for group in self._containers.values():
            with contextlib.suppress(OSError):  # it is gone already
                if group.killed_for_memory():
                    group.kill()
        return bool(self._containers) and not self.group.unified

    def leave(self, container: str) -> str | None:
        """Take a container's group down; return a message if the kernel killed processes in it for memory."""
        group = self._containers.pop(container, None)
        if group is None:
            return None
        limit, most = group.memory_limit_mib, self.group.memory_limit_mib
        killed, at_its_limit = group.killed_for_memory(), group.was_at_its_limit()
        if not group.remove():
            self._left.append(group)
        if not killed:
            return None
        if limit < most and at_its_limit:
            return f"Memory limit exceeded: it needed more than its {limit} MB of memory"
        return f"Memory limit exceeded: the tasks of this VM needed more than its {most} MB of memory"

    def clear(self) -> bool:
        """See `Cell`."""
        self._left = [group for group in self._left if not group.remove()]
        return not self._left
