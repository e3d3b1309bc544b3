"""Jobs come, run, are drained late or never, end and are killed at random, and take from each other."""

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from environment.model.cluster_model import ClusterModel
from environment.model.event_log import replay
from environment.model.messages import commands as cmd
from environment.model.messages import events as ev
from environment.model.messages.records import JobRecord
from environment.queues.preemption import TAKING_PATIENCE
from environment.resources import Resources
from environment.types import Dynamic
from tests.builders import make_job, make_vms
from tests.environment.queues.holding import guaranteed, sharing
from tests.environment.two_worlds.world import World

PAUSE = 40.0
QUEUES = [guaranteed("prod", 6.0), guaranteed("lab", 3.0), guaranteed("adhoc")]


class Walk:
    """One walk; task states arrive late, and drained executors perhaps never end."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.world = World(make_vms(3, cpus=4.0))
        by = [("priority",), ("guarantee",), ("priority", "guarantee")][seed % 3]
        self.world.send(ev.SharingChanged(self.world.now, sharing(*by, queues=QUEUES, pause=PAUSE)))
        self.world.subscribe()
        self.jobs = 0
        self.records: dict[str, JobRecord] = {}
        self.launched: dict[str, list[float]] = {}
        #: What is yet to happen: (when, what), and what came out so far.
        self.later: list[tuple[float, ev.Event]] = []
        self.seen = 0

    def submit(self) -> None:
        """A job of any kind."""
        self.jobs += 1
        rng, executors = self.rng, int(self.rng.integers(1, 6))
        job = make_job(f"job-{self.jobs}", executors, float(rng.integers(1, 3)), submitted_at=self.world.now)
        kind = rng.random()
        more: dict[str, Any] = {"queue": str(rng.choice(["prod", "lab", "adhoc"]))}
        if kind < 0.4:
            more["min_executors"] = int(rng.integers(1, executors + 1))
        elif kind < 0.6:
            more["dynamic"] = Dynamic(int(rng.integers(0, executors)), executors)
        if rng.random() < 0.3:
            more["driver"] = Resources.of(1.0, 512)
        self.world.submit(
            replace(job, priority=int(rng.integers(0, 4)), retries=int(rng.integers(2)), **more)
        )

    def step(self) -> None:
        """Apply a random event, and the due ones."""
        world, rng = self.world, self.rng
        world.now += float(rng.exponential(2.0))
        due = [event for at, event in self.later if at <= world.now]
        self.later = [(at, event) for at, event in self.later if at > world.now]
        for event in due:
            world.send(replace(event, at=world.now))
        world.send(ev.Tick(world.now))
        if rng.random() < 0.15:
            self.submit()
        open_jobs = [record for record in self.records.values() if not record.ended]
        if open_jobs and rng.random() < 0.03:
            world.kill(str(rng.choice([record.job.id for record in open_jobs])))
        running = [record for record in open_jobs if record.state == "running" and record.job.driver is None]
        if running and rng.random() < 0.06:
            world.driver_ends(running[int(rng.integers(len(running)))].job.id, int(rng.random() < 0.2))
        for offer in world.model._parts.vms.book.state().offers:
            world.send(ev.OfferRescinded(world.now, offer.id))
        world.offer()
        if world.model.ready_to_decide():
            world.decide()
        if world.model.seeks_room(world.now):
            world.send(ev.RoomSought(world.now))
        self.see()

    def see(self) -> None:
        """Schedule the effects of commands for later, and note the reservations."""
        rng, now = self.rng, self.world.now
        while self.seen < len(self.world.log):
            _, commands = self.world.log[self.seen]
            self.seen += 1
            for command in commands:
                self.obey(command, now + float(rng.exponential(3.0)))
        for record in self.world.model.take_changes().jobs:
            self.records[record.job.id] = record
        for vm in self.world.vms:
            assert vm.resources.contains(self.world.model.ledger.held(vm.id))

    def obey(self, command: cmd.Command, at: float) -> None:
        """Schedule the command's effects."""
        if isinstance(command, cmd.Launch):
            for task_id in command.task_ids:
                self.launched.setdefault(task_id.partition(".")[0], []).append(self.world.now)
                self.later.append((at, ev.TaskChanged(at, task_id, "running", command.vm.id)))
        elif isinstance(command, cmd.KillTask):
            self.later.append((at + 4.0, ev.TaskChanged(at, command.task_id, "killed", command.vm_id)))
        elif isinstance(command, cmd.YieldDriver) and self.rng.random() < 0.95:
            self.later.append((at, ev.DriverEnded(at, command.job_id, None, requeue=True)))
        elif isinstance(command, cmd.Decommission) and self.rng.random() < 0.9:
            for number in command.numbers:
                ended = ev.TaskChanged(at, f"{command.job_id}.{number}", "finished", "")
                self.later.append((at + 4.0 + 20.0 * float(self.rng.random()), ended))


@pytest.mark.parametrize("seed", range(12))
def test_nobody_takes_back_and_whoever_takes_has_it_or_says_why_not(seed: int) -> None:
    """No two jobs take from each other; pauses hold; every taking ends in a launch or in a reason."""
    walk = Walk(seed)
    for _ in range(400):
        walk.step()
    walk.world.wait(TAKING_PATIENCE + 1.0)
    walk.see()
    assert not walk.world.model._parts.preempting
    given = {(record.job.id, gave.to) for record in walk.records.values() for gave in record.gave}
    assert given, "nobody gave way"
    assert not {(to, of) for of, to in given} & given
    for record in walk.records.values():
        times = [gave.at for gave in record.gave]
        assert all(later - earlier >= PAUSE for earlier, later in itertools.pairwise(times))
        for took in record.took:
            until = took.at + TAKING_PATIENCE + 31.0
            had = any(took.at <= at <= until for at in walk.launched.get(record.job.id, ()))
            assert had or took.given_up, f"{record.job.id} took in vain, and nobody knows why"
            assert not any(at <= took.at < at + PAUSE for at in times)
    model = ClusterModel()
    for event, commands in replay(walk.world.lines()):
        assert model.handle(event) == commands
