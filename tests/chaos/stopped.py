"""A daemon on VMs that come and go, stopped dead at every numbered point of its work, and started again.

    python -m tests.chaos.stopped [--every N]

The scheduling loop, its model, its store and the calls to the provider are real; cloud, master and time are
played, and nothing runs beside anything else, so that point 57 of a story is always the same moment. State
not on disk then is lost, and calls that were under way have come to pass or not. In the end each job has run
once, no VM is open, and under no lease more than one was opened.

Exit code 0 when nothing is lost, 1 when something is.
"""

import argparse
import logging
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import patch

import structlog

from conf.schema import Config, Driver, JobSpec, Keep
from daemon.core.clock import Clock
from daemon.core.event_queue import Item
from daemon.scheduler.build import service_of
from daemon.scheduler.foundation import TermInputs
from daemon.store.job_store import Store
from daemon.vms import vm_provisioner
from environment.model.messages import commands as cmd
from environment.model.messages import events as ev
from environment.resources import Resources
from environment.types import Job
from tests.benchmarks.daemon_of_commands import CommandLauncher
from tests.chaos.played import KEEP, PLACES, InTurn, Points, StoppedError, World
from tests.daemon.vms.scripted_provider import Fate

#: Steps after which a story that has not ended is stuck.
MOST_STEPS = 600
#: Two VMs' worth of executors and a driver; and one that comes while those run.
JOBS = (
    JobSpec(app="/apps/a.py", executors=2, cpus=3, memory=1024, driver=Driver(on="cluster", cpus=0.5)),
    JobSpec(app="/apps/b.py", executors=1, cpus=2, memory=1024, driver=Driver(on="cluster", cpus=0.5)),
)


class Run:
    """One life of the daemon."""

    def __init__(self, world: World, folder: Path) -> None:
        self.world = world
        world.connect()
        self.store = Store(f"sqlite:///{folder / 'stoker.db'}", at=world.now)
        config = Config(data_dir=str(folder), keep=Keep(name="timeout", seconds=KEEP))
        config = config.model_copy(update={"mesos": config.mesos.model_copy(update={"boot_timeout": 30.0})})
        link: Any = SimpleNamespace(
            execute=self._execute, all_lost=str, far=False, subscribed=True, measure=lambda _: True
        )
        self.service = service_of(
            TermInputs(
                config,
                self.store,
                CommandLauncher(config, folder, "127.0.0.1"),
                lambda *_: link,
                data_dir=folder,
                provider=world.cloud,
                places=PLACES,
                clock=Clock(
                    "", lambda: world.now, wall=lambda: world.now, boot=lambda: world.now, boot_id="x"
                ),
            )
        )
        self.crew = InTurn(world)
        service: Any = self.service
        self.office = service._parts.vms.provisioner
        self.office._crew = self.crew
        service._parts.launching.collector.ended = lambda tasks: None
        service._parts.launching.memory.begin = lambda: None
        self._save, service._parts.base.session.save = service._parts.base.session.save, self._saved
        self._effect, service._parts.commands._execute = service._parts.commands._execute, self._executed

    def _saved(self, *what: Any, **more: Any) -> bool:
        self.world.points("before a save")
        saved: bool = self._save(*what, **more)
        self.world.points("after a save")
        return saved

    def _executed(self, command: cmd.Command, subscription: int) -> None:
        self.world.points(f"before {type(command).__name__}")
        self._effect(command, subscription)
        self.world.points(f"after {type(command).__name__}")

    def _execute(self, command: cmd.Command, describe: Any, subscription: int | None = None) -> None:
        self.world.execute(command, describe)

    def submit(self, spec: JobSpec) -> None:
        """A user does."""

        def job(job_id: str) -> Job:
            driver = Resources.of(0.5, 1024)
            size = Resources.of(spec.most_cpus, spec.memory_mib)
            return Job(job_id, "a", size, cast("int", spec.executors), self.world.now, driver=driver)

        record, _ = self.store.jobs.new.add_one(spec, job, spec.app, self.world.now)
        self.service._parts.submissions._arrive(self.world.now, record.job)

    def restore(self) -> None:
        """Load the stored state."""
        self.service._loop._restore()

    def step(self) -> None:
        """One turn of the loop, and of the world."""
        service: Any = self.service
        self.world.advance()
        news, self.world.news = self.world.news, []
        items = [Item(event) for event in news]
        items += service._inbox.take(0.0)
        service._loop._handle([*items, Item(ev.Tick(self.world.now))])
        if service._parts.base.model.ready_to_decide():
            service._loop._decide()
        self.office.tend()
        self.crew.run()

    @property
    def over(self) -> bool:
        """Whether nothing is left to do."""
        model = self.service._parts.base.model
        quiet = not (self.world.cloud.machines or self.world._late or self.world.news)
        return quiet and model.idle and not model.leases()

    def close(self) -> None:
        """Nothing of it goes on."""
        service: Any = self.service
        service._parts.policies.close()
        service._parts.saver.event_log.close()
        self.store.close()


def story(folder: Path, fates: Sequence[Fate], *stops: int) -> tuple[list[str], list[str]]:
    """Faults at the end, in words, and the names of the points that were passed before the last stop.

    The daemon is stopped at these points, counted anew from each start.
    """
    left = [*stops, 0]
    points = Points(left.pop(0))
    world = World(fates, points)
    submitted = 0
    steps = 0
    with patch.object(vm_provisioner, "time", SimpleNamespace(monotonic=lambda: world.now)):
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
    for record in store.jobs.page():
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
    yield from (f"{lease.id} is {lease.state} in the store" for lease in store.vms.leases())


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

    Return how many stories were played, and their faults.
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
