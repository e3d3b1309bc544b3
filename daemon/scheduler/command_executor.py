"""Executes the scheduling loop's commands: starts and ends drivers and VMs, passes the rest to the substrate.

The cluster model decides the commands, and they are stored before they come here.
"""

from collections.abc import Iterable

from daemon.disk.launch_records import RecordsError
from daemon.launch.launching import Launching
from daemon.scheduler.foundation import Foundation
from daemon.store.rows.database import StoreError
from daemon.vms.vm_provisioner import VmProvisioner
from environment.model.messages import commands as cmd
from environment.model.messages import events as ev
from environment.model.messages.records import ExecutorRecord
from framework.spark import ProcessSpec


class CommandExecutor:
    """Carries commands out; for the loop's thread, which owns the model."""

    def __init__(self, base: Foundation, launching: Launching, provisioner: VmProvisioner | None) -> None:
        self._base, self._model, self._substrate = base, base.model, launching.substrate
        self._drivers, self._launcher, self._provisioner = launching.drivers, launching.launcher, provisioner

    def carry_out(self, commands: Iterable[tuple[cmd.Command, int]]) -> bool:
        """Carry commands out, each with the subscription under which it was decided; False if not all."""
        for command, subscription in commands:
            if not self._base.session.sure():
                return False
            self._execute(command, subscription)
        return True

    def _execute(self, command: cmd.Command, subscription: int) -> None:
        match command:
            case cmd.StartDriver(job_id=job_id):
                self._start_driver(job_id)
            case cmd.KillDriver(job_id=job_id):
                self._drivers.stop(job_id)
            case cmd.YieldDriver(job_id=job_id):
                self._drivers.give_way(job_id)
            case cmd.Decommission():
                pass  # its driver gets them whenever it asks: the executors' records have them
            case cmd.OpenVm(lease_id=lease_id):
                self._open(lease_id)
            case cmd.CloseVm(lease_id=lease_id, machine_id=machine_id):
                if self._provisioner is not None:
                    self._provisioner.close(lease_id, machine_id)
            case _:
                self._substrate.execute(command, self._describe, subscription)

    def _open(self, lease_id: str) -> None:
        lease = self._model.lease(lease_id)
        if self._provisioner is not None and lease is not None and lease.state == "opening":
            self._provisioner.open(lease)

    def _start_driver(self, job_id: str) -> None:
        job = self._model.job(job_id)
        if job is not None and not job.ended:
            self._drivers.start(job.job)

    def _describe(self, task_id: str) -> tuple[ExecutorRecord, ProcessSpec, str]:
        """See `framework.substrate.Describe`."""
        if not self._base.session.sure():
            raise ValueError("this daemon does not lead any more, or stops")
        task = self._model.task(task_id)
        job = self._model.job(task.job_id) if task is not None else None
        if task is None or task.ended or job is None:
            raise ValueError(f"{task_id} is over")
        try:
            spec = self._drivers.spec(task.job_id)
        except StoreError as error:
            raise ValueError(str(error)) from error  # the launch is dropped, and decided again
        except ValueError as error:  # damaged since it was taken up
            self._fail(task.job_id, f"{error} that can be read")
            raise
        try:
            process, name = self._launcher.describe(task, job.job, spec, self._model.tasks(task.job_id))
        except StoreError as error:
            raise ValueError(str(error)) from error
        except RecordsError as error:  # no other launch would do better
            self._fail(task.job_id, str(error))
            raise
        return task, process, name

    def _fail(self, job_id: str, why: str) -> None:
        self._base.inbox.put(ev.DriverEnded(self._base.clock.now(), job_id, None, why))
