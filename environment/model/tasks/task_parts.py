"""Builds the parts of the cluster model that know tasks: reports, losses, drivers and launches."""

from environment.model.jobs.job_parts import JobParts
from environment.model.tasks.decisions import Decisions
from environment.model.tasks.drivers import Drivers
from environment.model.tasks.task_loss import TaskLoss
from environment.model.tasks.tasks import Tasks
from environment.model.vms.vm_parts import VmParts


class TaskParts:
    """The starts and ends of tasks on VMs, and their consequences for jobs."""

    def __init__(self, vms: VmParts, jobs: JobParts) -> None:
        losing = TaskLoss(vms, jobs)
        self.drivers = Drivers(vms, jobs, losing)
        self.reports = Tasks(vms, jobs, losing, self.drivers)
        self.decisions = Decisions(vms, jobs)
