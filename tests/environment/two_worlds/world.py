"""A hand-driven cluster model: tests send it events, in the words of the field."""

from collections.abc import Sequence
from dataclasses import replace

from agents.baselines.first_fit import FirstFit
from environment.decisions.decision_round import decide_in_turn
from environment.model.cluster_model import Changes, ClusterModel, ModelOptions
from environment.model.event_log import encode
from environment.model.messages import commands as cmd
from environment.model.messages import events as ev
from environment.model.messages import task_states
from environment.model.messages.records import JobRecord
from environment.model.tasks.launches import decided
from environment.resources import Resources
from environment.types import Job, Vm
from tests.builders import make_offer


class World:
    """Time, offers and task states around a model; each method returns the commands that followed."""

    def __init__(self, vms: Sequence[Vm], options: ModelOptions | None = None) -> None:
        self.vms = tuple(vms)
        self.model = ClusterModel(options)
        self.now = 100.0
        self.log: list[tuple[ev.Event, list[cmd.Command]]] = []
        self._offers = 0
        self._stored: dict[str, JobRecord] = {}

    def send(self, event: ev.Event) -> list[cmd.Command]:
        """Any event."""
        commands = self.model.handle(event)
        self.log.append((event, commands))
        return commands

    def lines(self, begin: int = 0) -> list[str]:
        """The log of all events and commands, or of those from an entry on, as text."""
        return [line for event, told in self.log[begin:] for line in (encode(event), *map(encode, told))]

    def wait(self, seconds: float) -> list[cmd.Command]:
        """Time goes by, and a tick says so."""
        self.now += seconds
        return self.send(ev.Tick(self.now))

    def kept(self) -> Changes:
        """The store's contents so far: submitted jobs, as submitted or changed since."""
        changes = self.model.take_changes()
        self._stored |= {record.job.id: record for record in changes.jobs}
        return replace(changes, jobs=tuple(self._stored.values()))

    def restore(self, kept: Changes) -> list[cmd.Command]:
        """Start another daemon from the stored state."""
        return self.send(ev.Restored(self.now, kept.jobs, kept.executors, self.model.options))

    def subscribe(self) -> list[cmd.Command]:
        """The master takes the framework."""
        return self.send(ev.Subscribed(self.now))

    def submit(self, *jobs: Job) -> list[cmd.Command]:
        """Jobs come in, and are stored before."""
        self._stored |= {job.id: JobRecord(job) for job in jobs}
        return [command for job in jobs for command in self.send(ev.JobSubmitted(self.now, job))]

    def offer(self, *vms: Vm, cpus: float | None = None, memory_mib: int | None = None) -> list[cmd.Command]:
        """Offer the resources that our tasks leave on these VMs (all VMs, when none is named), or so much."""
        offers = []
        for vm in vms or self.vms:
            left = (vm.resources - self.model.ledger.held(vm.id)).positive
            if left.cpus or left.memory_mib:
                self._offers += 1
                basic = (
                    left.cpus if cpus is None else cpus,
                    left.memory_mib if memory_mib is None else memory_mib,
                )
                offer = make_offer(f"offer-{self._offers}", vm)
                offers.append(replace(offer, resources=Resources.of(*basic, left.others)))
        return self.send(ev.OffersReceived(self.now, tuple(offers)))

    def decide(self) -> list[cmd.Command]:
        """First fit decides, whether it is time or not."""
        verdicts = tuple(decide_in_turn(FirstFit().decide, self.model.view(), self.model.requests()))
        return self.send(decided(verdicts, self.now))

    def place(self, job_id: str, *vms: Vm, driver: Vm | None = None) -> list[cmd.Command]:
        """Somebody decided so."""
        placement = ev.Placement(job_id, tuple(vm.id for vm in vms), driver.id if driver else None)
        return self.send(ev.Decided(self.now, (placement,)))

    def tell(self, state: task_states.TaskState, *task_ids: str, message: str = "") -> list[cmd.Command]:
        """The master tells these tasks' state."""
        return [
            command
            for task_id in task_ids
            for command in self.send(ev.TaskChanged(self.now, task_id, state, "", "", message))
        ]

    def driver_ends(self, job_id: str, exit_code: int | None = 0, message: str = "") -> list[cmd.Command]:
        """The driver on the host is gone."""
        return self.send(ev.DriverEnded(self.now, job_id, exit_code, message))

    def kill(self, job_id: str) -> list[cmd.Command]:
        """A user wants it ended."""
        return self.send(ev.KillRequested(self.now, job_id))

    def run(self, *jobs: Job) -> None:
        """Subscribe, and bring these jobs to where all executors run and the drivers too."""
        self.subscribe()
        self.submit(*jobs)
        self.offer()
        self.decide()
        for job in jobs:
            self.tell("running", *self.open_tasks(job.id))
            self.send(ev.DriverStarted(self.now, job.id))

    def job(self, job_id: str = "job-1") -> JobRecord:
        """The job's record."""
        record = self.model.job(job_id)
        assert record is not None
        return record

    def open_tasks(self, job_id: str = "job-1") -> list[str]:
        """Ids of the job's tasks that have not ended."""
        return [task.task_id for task in self.model.tasks(job_id) if not task.ended]


def names(commands: Sequence[cmd.Command]) -> list[str]:
    """Class names of these commands."""
    return [type(command).__name__ for command in commands]


def killed(commands: Sequence[cmd.Command]) -> list[str]:
    """The tasks that are to be killed."""
    return [command.task_id for command in commands if isinstance(command, cmd.KillTask)]


def launched(commands: Sequence[cmd.Command]) -> dict[str, list[str]]:
    """The tasks that are to be launched, by VM name."""
    launches = [command for command in commands if isinstance(command, cmd.Launch)]
    assert all(launch.offer_ids for launch in launches)
    return {launch.vm.name: list(launch.task_ids) for launch in launches}


def costs(model: ClusterModel, at: float) -> dict[str, float]:
    """Dollars by job id that each job holding a VM has cost up to that time."""
    due = model.due(at)
    return {job_id: job.cost + sum(due[job_id].values()) for job_id in due if (job := model.job(job_id))}
