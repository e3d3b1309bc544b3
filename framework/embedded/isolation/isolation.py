"""One run's isolation as a whole: everything made, or nothing; removed at the end, or by the next run.

Each run has an id and a record under /run that names its process. A record of a dead process belongs to a run
that was killed: the next run that starts removes everything that carries its id.
"""

import contextlib
import dataclasses
import json
import os
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from conf.util.whole_file import write_whole
from framework.embedded.isolation import bridge
from framework.embedded.isolation.bridge import VmNetwork
from framework.embedded.isolation.cell import CellSize, VmCell
from framework.embedded.settings import AgentSpec
from framework.host.cgroups import ControlGroup, make_group, most_processes_here
from framework.host.process_tree import identity

RECORDS = Path("/run/stoker-isolation")  # emptied when the machine starts, as all that the records name

#: A VM's network card; scaled with the cpus, so that computing and sending keep their ratio. Chosen, and low
#: for a cloud: in jobs as short as a small machine runs them, the JVMs' start outweighs a faster card's time.
#: Measured with PageRank of 48 MiB: with 100 its four executors take as long on four VMs as on one.
CARD_MBIT = 40.0

#: Processes and threads that a VM may have at least, where an equal part for each is fewer. Chosen: an
#: executor with PySpark has some hundred.
LEAST_PROCESSES = 2048


class IsolationError(Exception):
    """VMs cannot be isolated here; the text names the missing part."""


@dataclasses.dataclass(frozen=True, slots=True)
class IsolationOptions:
    """Actual size of the VMs."""

    scale: float | None = None
    """Cores of this machine for each cpu of a VM; None: all its cores for all cpus, at most one for each."""
    bandwidth_mbit: float | None = None
    """Of a VM's network card, each way; None: `CARD_MBIT` times the scale."""
    delay_ms: float = 0.0
    """Delay of a packet that leaves a VM, where the kernel has netem."""


class Isolation:
    """The VMs of these agents, from `with` to its end.

    Opening it again under the same `name` yields the same addresses, unless another run has taken them.
    Memory is not scaled: the heaps of executors keep their real size, so a VM's limit is its size.
    """

    def __init__(self, agents: Sequence[AgentSpec], options: IsolationOptions, name: str) -> None:
        _check_prerequisites()
        remove_leftovers()
        self._name = name
        #: The options with the numbers that were None filled in.
        self.options = _filled(options, agents)
        #: Requested limits that this machine cannot apply, with the reason.
        self.notes: tuple[str, ...] = ()
        try:
            #: Part of the names of everything that is made here.
            self.id = _register()
        except OSError as error:
            raise IsolationError(str(error)) from error
        try:
            self._network = self._make_network(len(agents))
            processes = most_processes_here()
            self._group = self._make_group(processes)
            each = max(processes // max(len(agents), 1), LEAST_PROCESSES)
            #: Where their tasks run, by the agent's name.
            self.cells: Mapping[str, VmCell] = {
                agent.name: self._make_cell(number, agent, each) for number, agent in enumerate(agents)
            }
        except OSError as error:  # CgroupError and NetworkError among them
            self.close()
            raise IsolationError(str(error)) from error
        #: This machine's address as the VMs see it.
        self.host = self._network.host
        #: The agents, with the addresses of their VMs.
        self.agents = [dataclasses.replace(agent, address=self.cells[agent.name].address) for agent in agents]

    def __enter__(self) -> "Isolation":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Kill the processes in the VMs, and remove the VMs."""
        _remove(self.id)

    def summary(self) -> str:
        """Description of the VMs."""
        options = self.options
        text = f"{options.scale:.3g} cores a cpu, {options.bandwidth_mbit:.6g} Mbit/s between VMs"
        delay = f", {options.delay_ms:g} ms delay" if options.delay_ms else ""
        return "; ".join([text + delay, *self.notes])

    def _make_network(self, vms: int) -> VmNetwork:
        if self.options.delay_ms and not bridge.has_delay():
            self.options = dataclasses.replace(self.options, delay_ms=0.0)
            self.notes = ("no delay: the kernel has no netem (CONFIG_NET_SCH_NETEM)",)
        made = VmNetwork(self.id, vms, self._name)
        made.make(self.options.bandwidth_mbit, self.options.delay_ms)
        return made

    def _make_group(self, processes: int) -> ControlGroup:
        group = make_group(_group_name(self.id), *map(_proc, ("mountinfo", "cgroup")))
        _record(self.id, group)
        group.share(_cores())  # without a group each task would weigh as much as any process of this machine
        group.limit_processes(processes)
        return group

    def _make_cell(self, number: int, agent: AgentSpec, processes: int) -> VmCell:
        group = self._group.child(str(number))
        assert self.options.scale is not None  # noqa: S101 (filled in)
        group.limit_cores(agent.cpus * self.options.scale)
        group.limit_memory(agent.memory_mib)
        group.limit_processes(processes)
        group.share(agent.cpus)
        group.open_to_children()
        addresses, namespaces = self._network.addresses, self._network.namespaces
        size = CellSize(agent.cpus, self.options.scale, processes)
        return VmCell(group, namespaces[number], addresses[number], size)


def remove_leftovers() -> list[str]:
    """Remove everything that killed runs left on this machine; return their ids."""
    dead = []
    for path in RECORDS.glob("*.json") if RECORDS.is_dir() else ():
        process = _read(path).get("process")
        if process is not None and identity(process["pid"]) != process:
            _remove(path.stem)
            dead.append(path.stem)
    return dead


def _check_prerequisites() -> None:
    lacks = [] if os.geteuid() == 0 else ["it needs root"]
    lacks += [f"`{name}` is not installed (package iproute2)" for name in bridge.missing_tools()]
    if lacks:
        raise IsolationError("; ".join(lacks))


def _filled(options: IsolationOptions, agents: Sequence[AgentSpec]) -> IsolationOptions:
    scale = options.scale or min(1.0, _cores() / sum(agent.cpus for agent in agents))
    bandwidth = options.bandwidth_mbit or CARD_MBIT * scale
    return dataclasses.replace(options, scale=scale, bandwidth_mbit=bandwidth)


def _cores() -> int:
    return len(os.sched_getaffinity(0))


def _register() -> str:
    """Claim an id by writing its record, before anything carries it."""
    RECORDS.mkdir(mode=0o700, parents=True, exist_ok=True)
    while True:
        run = secrets.token_hex(2)
        with contextlib.suppress(FileExistsError):
            os.close(os.open(_path(run), os.O_CREAT | os.O_EXCL, 0o600))
            _record(run, None)
            return run


def _record(run: str, group: ControlGroup | None) -> None:
    folders = [] if group is None else [str(path) for path in (group.cpu, group.memory, group.pids) if path]
    write_whole(_path(run), json.dumps({"process": identity(os.getpid()), "group": folders}))


def _remove(run: str) -> None:
    """Remove all of a run; its record goes last, and stays while anything else does."""
    folders = _read(_path(run)).get("group")
    gone = not folders or ControlGroup(*map(Path, folders)).remove_all()
    bridge.remove_network(run)
    if gone:
        _path(run).unlink(missing_ok=True)


def _read(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_text() or "{}"))
    except FileNotFoundError:
        return {}


def _path(run: str) -> Path:
    return RECORDS / f"{run}.json"


def _group_name(run: str) -> str:
    return f"stoker-{run}"


def _proc(name: str) -> str:
    return Path("/proc/self", name).read_text()
