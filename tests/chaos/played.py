"""The world of a daemon that is stopped anywhere: a cloud, a master with its agents, and time, all played."""

import contextlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from environment.model.messages import commands as cmd
from environment.model.messages import events as ev
from environment.model.messages import task_states
from environment.model.messages.snapshot import Offer, VmSize
from environment.pools import Terms
from environment.resources import Resources
from environment.types import Vm
from framework.providers.interface import ProviderError
from tests.daemon.vms.scripted_provider import Fate, ScriptedProvider

BOOT, WORK, KEEP, STEP = 5.0, 8.0, 4.0, 1.0  # seconds of the played time
PLACES = tuple(
    Vm(f"p-{n}", f"p-{n}", "m1.large", Resources.of(4, 8192), 0.24, terms=Terms("p", BOOT, 60.0, 1.0))
    for n in range(1, 5)
)


class StoppedError(BaseException):
    """The daemon is killed: nothing of it goes on."""


class HangError(BaseException):
    """A call does not return."""


@dataclass
class Points:
    """Counts the moments at which the daemon may be stopped, and stops it at one."""

    stop_at: int = 0
    passed: int = 0
    names: list[str] = field(default_factory=list)

    def __call__(self, name: str) -> None:
        """One is passed."""
        self.passed += 1
        self.names.append(name)
        if self.passed == self.stop_at:
            raise StoppedError(name)


@dataclass
class Task:
    """A task that an agent runs or ran."""

    vm_id: str
    resources: Resources
    state: task_states.TaskState = "running"
    ends_at: float = float("inf")


class Cloud(ScriptedProvider):
    """A provider that may stop the daemon in its calls; late calls take effect, and are never answered."""

    def __init__(self, world: "World") -> None:
        super().__init__(world.fate, done=lambda call: world.points(f"after {call}"), now=lambda: world.now)
        self._world = world

    def carry_out(self, fate: Fate, act: Callable[[Fate], Any]) -> Any:
        """As a call does that returns, or not."""
        if fate == "late":
            self._world.later(lambda: act("ok"))
        if fate in ("late", "never"):
            raise HangError
        return super().carry_out(fate, act)


class World:
    """The world outside the daemon: time, the cloud, and the master with its agents."""

    def __init__(self, fates: Sequence[Fate], points: Points) -> None:
        self.now = 1_800_000_000.0
        self.points = points
        self._fates = list(fates)
        #: The cloud does so, whatever it is asked.
        self.opens_twice = "twice" in fates
        #: Calls that did not return and come to pass later: when, and what.
        self._late: list[tuple[float, Callable[[], object]]] = []
        self.cloud = Cloud(self)
        self._up_at: dict[str, float] = {}
        self.agents: dict[str, Vm] = {}
        self.tasks: dict[str, Task] = {}
        self.launches: Counter[str] = Counter()
        #: What the master has to tell the daemon that is there.
        self.news: list[ev.Event] = []
        self._offers: dict[str, tuple[str, Resources]] = {}
        self._number = 0
        self.wanted = True

    def fate(self, call: str, of: str) -> Fate:
        """The fate of a call."""
        self.points(f"before {call}")
        if call not in ("open", "close") or not self._fates:
            return "ok"
        return self._fates.pop(0)

    def later(self, act: Callable[[], object]) -> None:
        """Have it come to pass, though nobody hears of it."""
        self._late.append((self.now + 20.0, act))

    def advance(self) -> None:
        """Advance the time: VMs boot and go, tasks end, late effects occur."""
        self.now += STEP
        for at, act in [late for late in self._late if late[0] <= self.now]:
            self._late.remove((at, act))
            with contextlib.suppress(ProviderError):
                act()
        there = {machine.id: machine for machine in self.cloud.machines.values()}
        for machine_id, machine in there.items():
            if self._up_at.setdefault(machine_id, self.now + BOOT) <= self.now:
                place = next(vm for vm in PLACES if vm.name == machine.lease.rpartition(".")[0])
                agent = replace(place, id=f"agent-{machine_id}", lease=machine.lease, terms=None)
                if self.agents.setdefault(machine_id, agent) is agent:
                    self.news.append(self.measured())
        for machine_id in self.agents.keys() - there.keys():
            vm = self.agents.pop(machine_id)
            self.news.append(ev.VmLost(self.now, vm.id))
            self.news.append(self.measured())
            for task_id, task in self.tasks.items():
                if task.vm_id == vm.id and task.state == "running":
                    self.tell(task_id, "lost", "agent_removed")
        for task_id, task in self.tasks.items():
            if task.state == "running" and task.ends_at <= self.now:
                self.tell(task_id, "finished")
        self._offer()

    def measured(self) -> ev.VmsMeasured:
        """The master's report of its agents."""
        vms = tuple(self.agents.values())
        return ev.VmsMeasured(self.now, tuple(VmSize(vm.id, vm.resources) for vm in vms), vms)

    def tell(self, task_id: str, state: task_states.TaskState, reason: str = "") -> None:
        """A task is in this state now."""
        self.tasks[task_id].state = state
        self.news.append(ev.TaskChanged(self.now, task_id, state, self.tasks[task_id].vm_id, reason))

    def connect(self) -> None:
        """Connect another daemon, or the same again: earlier offers are void."""
        self._offers.clear()
        self.wanted = True
        self.news = [ev.Subscribed(self.now, "F-1", 1), self.measured()]

    def _offer(self) -> None:
        offers = []
        for vm in self.agents.values() if self.wanted else ():
            held = [task.resources for task in self.tasks.values() if _runs_on(task, vm)]
            held += [amount for vm_id, amount in self._offers.values() if vm_id == vm.id]
            free = vm.resources
            for amount in held:
                free = free - amount
            if free.positive.cpus and free.positive.memory_mib:
                self._number += 1
                offers.append(Offer(f"O{self._number}", vm, free.positive, ((31000, 31999),)))
                self._offers[offers[-1].id] = (vm.id, free.positive)
        if offers:
            self.news.append(ev.OffersReceived(self.now, tuple(offers)))

    def execute(self, command: cmd.Command, describe: Any) -> None:
        """The master is told something."""
        match command:
            case cmd.Launch(vm=vm, offer_ids=offer_ids, task_ids=task_ids):
                good = all(offer_id in self._offers for offer_id in offer_ids)
                for offer_id in offer_ids:
                    self._offers.pop(offer_id, None)
                for task_id in task_ids:
                    record, _, _ = describe(task_id)
                    self.launches[task_id] += 1
                    self.tasks[task_id] = Task(vm.id, record.resources)
                    there = good and any(agent.id == vm.id for agent in self.agents.values())
                    if there and record.number is None:
                        self.tasks[task_id].ends_at = self.now + WORK
                    self.tell(task_id, "running" if there else "dropped")
            case cmd.KillTask(task_id=task_id):
                if task_id in self.tasks and self.tasks[task_id].state == "running":
                    self.tell(task_id, "killed")
            case cmd.Decline(offer_ids=offer_ids):
                for offer_id in offer_ids:
                    self._offers.pop(offer_id, None)
            case cmd.Suppress():
                self.wanted = False
            case cmd.Revive():
                self.wanted = True
            case cmd.Reconcile(tasks=asked):
                for task_id in [task_id for task_id, _ in asked] or [
                    i for i, task in self.tasks.items() if task.state == "running"
                ]:
                    if task_id in self.tasks:
                        self.tell(task_id, self.tasks[task_id].state)
                    else:
                        self.news.append(ev.TaskChanged(self.now, task_id, "gone", "", "reconciliation"))


def _runs_on(task: Task, vm: Vm) -> bool:
    return task.vm_id == vm.id and task.state == "running"


class InTurn:
    """A crew of nobody: work is done when the story says so, one piece after the other."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._work: list[tuple[str, Callable[[], None]]] = []
        self._hanging: dict[str, float] = {}

    def hand(self, key: str, work: Callable[[], None]) -> None:
        """See `JobWorkers`."""
        self._work.append((key, work))

    def overdue(self) -> list[str]:
        """See `JobWorkers`."""
        late = [key for key, since in self._hanging.items() if self._world.now - since > 10.0]
        for key in late:
            del self._hanging[key]
            self._work = [(of, work) for of, work in self._work if of != key]
        return late

    def run(self) -> None:
        """Do the possible work."""
        waiting, self._work = self._work, []
        for key, work in waiting:
            if key in self._hanging:
                self._work.append((key, work))
                continue
            try:
                work()
            except HangError:
                self._hanging[key] = self._world.now

    def close(self, patience: float) -> None:
        """See `JobWorkers`."""
