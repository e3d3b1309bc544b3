"""A daemon on VMs that come and go, stopped dead at every numbered point of what it does, and started again.

    python -m tests.chaos.stopped [--every N]

The scheduling loop, its model, its store and the calls to the provider are real; cloud, master and time are
played, and nothing runs beside anything else, so that point 57 of a story is always the same moment. What is
not on disk then is lost, and calls that were under way have come to pass or not. In the end each job has run
once, no VM is open, and under no lease more than one was opened.

Exit code 0 when nothing is lost, 1 when something is.
"""

import argparse
import contextlib
import logging
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import patch

import structlog

from conf.schema import Config, Driver, JobSpec, Keep
from daemon import machines
from daemon.clock import Clock
from daemon.inbox import Item
from daemon.service import Service
from daemon.store import Store
from environment.model import events as ev
from environment.model.moment import Offer, VmSize
from environment.pools import Terms
from environment.resources import Resources
from environment.types import Job, Vm
from framework.providers.contract import ProviderError
from framework.session import SessionOptions
from tests.benchmarks.daemon_of_commands import CommandLauncher
from tests.daemon.scripted_provider import Fate, ScriptedProvider

BOOT, WORK, KEEP, STEP = 5.0, 8.0, 4.0, 1.0  # seconds of the played time
#: Steps after which a story that has not ended is stuck.
MOST_STEPS = 600
PLACES = tuple(
    Vm(f"p-{n}", f"p-{n}", "m1.large", Resources.of(4, 8192), 0.24, terms=Terms("p", BOOT, 60.0, 1.0))
    for n in range(1, 5)
)
#: Two VMs' worth of executors and a driver; and one that comes while those run.
JOBS = (
    JobSpec(app="/apps/a.py", executors=2, cpus=3, memory=1024, driver=Driver(on="cluster", cpus=0.5)),
    JobSpec(app="/apps/b.py", executors=1, cpus=2, memory=1024, driver=Driver(on="cluster", cpus=0.5)),
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
    state: ev.TaskState = "running"
    ends_at: float = float("inf")


class Cloud(ScriptedProvider):
    """One in whose calls the daemon may be stopped; what is late comes to pass, and is never answered."""

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
    """What goes on whatever becomes of the daemon: time, the cloud, and the master with its agents."""

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
        """What becomes of a call."""
        self.points(f"before {call}")
        if call not in ("open", "close") or not self._fates:
            return "ok"
        return self._fates.pop(0)

    def later(self, act: Callable[[], object]) -> None:
        """Have it come to pass, though nobody hears of it."""
        self._late.append((self.now + 20.0, act))

    def advance(self) -> None:
        """Time goes by: VMs boot and go, tasks end, what was late comes."""
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
        """What the master says of its agents."""
        vms = tuple(self.agents.values())
        return ev.VmsMeasured(self.now, tuple(VmSize(vm.id, vm.resources) for vm in vms), vms)

    def tell(self, task_id: str, state: ev.TaskState, reason: str = "") -> None:
        """A task is in this state now."""
        self.tasks[task_id].state = state
        self.news.append(ev.TaskChanged(self.now, task_id, state, self.tasks[task_id].vm_id, reason))

    def connect(self) -> None:
        """Another daemon is there, or the same again: what was offered is void."""
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

    def execute(self, command: ev.Command, describe: Any) -> None:
        """The master is told something."""
        match command:
            case ev.Launch(vm=vm, offer_ids=offer_ids, task_ids=task_ids):
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
            case ev.KillTask(task_id=task_id):
                if task_id in self.tasks and self.tasks[task_id].state == "running":
                    self.tell(task_id, "killed")
            case ev.Decline(offer_ids=offer_ids):
                for offer_id in offer_ids:
                    self._offers.pop(offer_id, None)
            case ev.Suppress():
                self.wanted = False
            case ev.Revive():
                self.wanted = True
            case ev.Reconcile(tasks=asked):
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
        """See `Crew`."""
        self._work.append((key, work))

    def overdue(self) -> list[str]:
        """See `Crew`."""
        late = [key for key, since in self._hanging.items() if self._world.now - since > 10.0]
        for key in late:
            del self._hanging[key]
            self._work = [(of, work) for of, work in self._work if of != key]
        return late

    def run(self) -> None:
        """Do what can be done."""
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
        """See `Crew`."""


class Run:
    """One life of the daemon."""

    def __init__(self, world: World, folder: Path) -> None:
        self.world = world
        world.connect()
        self.store = Store(f"sqlite:///{folder / 'stoker.db'}", at=world.now)
        config = Config(data_dir=str(folder), keep=Keep(name="timeout", seconds=KEEP))
        config = config.model_copy(update={"mesos": config.mesos.model_copy(update={"boot_timeout": 30.0})})
        self.service = Service(
            config,
            self.store,
            CommandLauncher(config, folder, "127.0.0.1"),
            SessionOptions(master="played", user="root"),
            data_dir=folder,
            provider=world.cloud,
            places=PLACES,
            clock=Clock("", lambda: world.now, wall=lambda: world.now, boot=lambda: world.now, boot_id="x"),
        )
        self.crew = InTurn(world)
        service: Any = self.service
        self.office = service._machines
        self.office._crew = self.crew
        link = SimpleNamespace(execute=self._execute, acknowledge=lambda status: None, subscribed=True)
        service._link = service._effects._link = link
        service._log_keeper.ended = lambda tasks: None
        self._save, service._tenure.save = service._tenure.save, self._saved
        self._effect, service._effects.execute = service._effects.execute, self._executed

    def _saved(self, *what: Any, **more: Any) -> bool:
        self.world.points("before a save")
        saved: bool = self._save(*what, **more)
        self.world.points("after a save")
        return saved

    def _executed(self, command: ev.Command, subscription: int) -> None:
        self.world.points(f"before {type(command).__name__}")
        self._effect(command, subscription)
        self.world.points(f"after {type(command).__name__}")

    def _execute(self, command: ev.Command, describe: Any, subscription: int | None = None) -> None:
        self.world.execute(command, describe)

    def submit(self, spec: JobSpec) -> None:
        """A user does."""

        def job(job_id: str) -> Job:
            driver = Resources.of(0.5, 1024)
            size = Resources.of(spec.cpus, spec.memory)
            return Job(job_id, "a", size, cast("int", spec.executors), self.world.now, driver=driver)

        record, _ = self.store.add_job(spec, job, spec.app, self.world.now)
        self.service._arrive(self.world.now, record.job)

    def restore(self) -> None:
        """Take up what is there."""
        self.service._restore()

    def step(self) -> None:
        """One turn of the loop, and of the world."""
        service: Any = self.service
        self.world.advance()
        news, self.world.news = self.world.news, []
        items = [Item(event) for event in news]
        items += service._inbox.take(0.0)
        service._handle([*items, Item(ev.Tick(self.world.now))])
        if service._model.ready_to_decide():
            service._decide()
        self.office.tend()
        self.crew.run()

    @property
    def over(self) -> bool:
        """Whether nothing is left to do."""
        model = self.service._model
        quiet = not (self.world.cloud.machines or self.world._late or self.world.news)
        return quiet and model.idle and not model.leases()

    def close(self) -> None:
        """Nothing of it goes on."""
        service: Any = self.service
        service._policies.close()
        service._journal.close()
        self.store.close()


def story(folder: Path, fates: Sequence[Fate], *stops: int) -> tuple[list[str], list[str]]:
    """What is wrong in the end, in words, and the names of the points that were passed before the last stop.

    The daemon is stopped at these points, counted anew from each start.
    """
    left = [*stops, 0]
    points = Points(left.pop(0))
    world = World(fates, points)
    submitted = 0
    steps = 0
    with patch.object(machines, "time", SimpleNamespace(monotonic=lambda: world.now)):
        while steps < MOST_STEPS:
            run = Run(world, folder)
            try:
                run.restore()
                while steps < MOST_STEPS and not (submitted == len(JOBS) and run.over):
                    steps += 1
                    if submitted < len(JOBS) and steps >= 1 + 10 * submitted:
                        run.submit(JOBS[submitted])
                        submitted += 1
                    run.step()
                return list(wrong(world, run.store)), points.names
            except StoppedError:
                points.stop_at, points.passed = left.pop(0), 0
            finally:
                run.close()
    return [f"it has not ended after {MOST_STEPS} steps"], points.names


def wrong(world: World, store: Store) -> Iterator[str]:
    """Everything that is not as it must be."""
    for record in store.jobs():
        if record.state != "finished":
            yield f"{record.job.id} is {record.state}: {record.reason}"
    yield from (f"{task_id} was launched {n} times" for task_id, n in world.launches.items() if n > 1)
    ran = Counter(
        task_id.partition(".")[0]
        for task_id, task in world.tasks.items()
        if ".driver" in task_id and task.state == "finished"
    )
    yield from (f"{job_id} has run {n} times" for job_id, n in ran.items() if n > 1)
    yield from (f"{m.id} of {m.lease} is left open" for m in world.cloud.machines.values())
    for lease, number in world.cloud.opened.items():
        if number > 1 and not world.opens_twice:
            yield f"{lease} was opened {number} times"
    yield from (f"{lease.id} is {lease.state} in the store" for lease in store.leases())


#: What the provider does with the openings and closings of each story, in turn; then all is well.
STORIES: dict[str, tuple[Fate, ...]] = {
    "all is well": (),
    "errors": ("fails after", "fails", "ok", "fails after", "fails", "fails after"),
    "refusals": ("capacity", "ok", "quota"),
    "late": ("late", "ok", "late", "ok", "late", "never", "ok", "never"),
    "twice": ("twice", "twice"),
}


def stopped_everywhere(every: int, first: int = 1) -> tuple[int, list[str]]:
    """Each story without a stop, then stopped at every so many of its points, and some steps later again.

    How many stories were played, and what was wrong with them.
    """
    shared = Path("/dev/shm")
    where = str(shared) if shared.is_dir() else None
    played, found = 0, []
    for name, fates in STORIES.items():
        points, at = 0, 0
        while at <= points:
            again = 1 + at * 7 % 23
            with tempfile.TemporaryDirectory(prefix="stoker-stopped-", dir=where) as folder:
                told, names = story(Path(folder), fates, *([at, again] if at else []))
            played += 1
            if not at:
                points = len(names)
            where_to = f"stopped {names[at - 1]} (point {at}), and {again} later" if at else "not stopped"
            found += [f"{name}, {where_to}: {what}" for what in told]
            at = at + every if at else first
    return played, found


def main() -> int:
    """Play all of them."""
    logging.disable()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    parser = argparse.ArgumentParser(description="Stop a daemon at every point, then count.")
    parser.add_argument("--every", type=int, default=1, help="of so many points one")
    options = parser.parse_args()
    played, found = stopped_everywhere(options.every)
    print(*found, sep="\n")
    print(f"{played} lives and deaths, {len(found)} losses")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
