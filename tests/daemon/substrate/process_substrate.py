"""A substrate without Mesos, for tests: its VMs are names on this machine, its tasks are processes.

Its memory is a folder with a record of each task, and the folder where the task runs and leaves its exit
code. So tasks go on without a daemon, and the next one finds them.
"""

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any
from urllib.parse import urlsplit
from urllib.request import urlretrieve

from environment.model.messages import commands as cmd
from environment.model.messages import events as ev
from environment.model.messages.records import ExecutorRecord
from environment.model.messages.snapshot import Offer, VmSize
from environment.model.messages.task_states import ENDED, TaskState
from environment.resources import Resources, total
from environment.types import Vm
from framework.host.folder_sandbox import FolderSandbox
from framework.host.process_tree import identity
from framework.host.stop_signals import unblocked
from framework.host.unix_users import find_account
from framework.spark import ProcessSpec
from framework.substrate import Describe, Emit, Sandbox, Stored

#: Runs a task and writes its exit code down, also when the whole process group gets SIGTERM.
_RUN = 'trap : TERM; "$@" > stdout 2> stderr; echo $? > code && mv code exit'
_PORTS, _FIRST_PORT, _END_PORT = 16, 20_000, 30_000
#: Seconds between two looks at tasks, and until the end of a task that is not stored is told again.
_LOOK, _AGAIN = 0.05, 5.0


@dataclass(slots=True)
class _Task:
    """A task whose end is not stored yet: what it takes of its VM, and its process."""

    vm_id: str
    resources: Resources
    process: Mapping[str, int | str]
    #: The state that was last emitted, and when, by the monotonic clock.
    told: TaskState = "staging"
    at: float = 0.0


class ProcessSubstrate:
    """See `framework.substrate.Substrate`. One thread does all the work, call by call."""

    name, far = "processes", False

    def __init__(
        self, folder: Path, vms: Sequence[Vm], user: str | None,
        emit: Emit, _: str | None, may_act: Callable[[], bool], now: Callable[[], float],
    ) -> None:  # fmt: skip
        """See `Connect`. Tasks run below `folder`, as `user` if their job names no other one."""
        self._folder, self._vms, self._user = folder, vms, user
        self._emit, self._may_act, self._now = emit, may_act, now
        self.subscribed = False
        self._calls: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work)
        self._numbers, self._offers, self._tasks = count(1), dict[str, Offer](), dict[str, _Task]()
        #: Until when nothing is offered of a VM, by the monotonic clock.
        self._declined: dict[str, float] = {}
        self._wanted = True

    def start(self) -> None:
        """Begin with the tasks that an earlier daemon left."""
        self._thread.start()

    def stop(self) -> None:
        """Emit nothing more; tasks go on."""
        if self._thread.is_alive():
            self._calls.put(None)
            self._thread.join()

    def checks(self) -> Mapping[str, str]:
        """One check."""
        return {self.name: "ok" if self.subscribed else "not started"}

    def all_lost(self) -> str:
        """Tasks never end with this."""
        return ""

    def sandbox(self, task: ExecutorRecord) -> Sandbox:
        """The task's folder."""
        return FolderSandbox(self._folder, task.task_id)

    def measure(self, seconds: float) -> bool:
        """VMs never change."""
        return self.subscribed

    def execute(self, command: cmd.Command, describe: Describe, subscription: int) -> None:
        """Hand a command to the thread; there is one subscription."""
        match command:
            case cmd.Launch(vm=vm, offer_ids=offer_ids, task_ids=task_ids):
                for task_id in task_ids:
                    try:
                        task, process, _ = describe(task_id)
                        self._calls.put(partial(self._launch, task, process))
                    except (OSError, ValueError) as error:
                        self._drop(task_id, vm.id, error)
                self._calls.put(partial(self._release, offer_ids))
            case cmd.Decline(offer_ids=offer_ids, refuse_seconds=seconds):
                self._calls.put(partial(self._release, offer_ids, seconds))
            case cmd.Suppress() | cmd.Revive():
                self._calls.put(partial(self._want, wanted=isinstance(command, cmd.Revive)))
            case cmd.KillTask(task_id=task_id):
                self._calls.put(partial(self._kill, task_id))
            case cmd.Reconcile(tasks=tasks):
                for task_id in [task_id for task_id, _ in tasks] or list(self._tasks):
                    self._calls.put(partial(self._tell, task_id))

    def _work(self) -> None:
        for record in self._folder.glob("*.json"):
            values = json.loads(record.read_text())
            self._tasks[record.stem] = _Task(
                values["vm"], Resources.read(values["resources"]), values["process"]
            )
        now, sizes = self._now(), tuple(VmSize(vm.id, vm.resources) for vm in self._vms)
        self._emit(ev.Subscribed(now, self.name, 1), None)
        self._emit(ev.VmsMeasured(now, sizes, tuple(self._vms)), None)
        self.subscribed = True
        while True:
            with suppress(Empty):
                if (call := self._calls.get(timeout=_LOOK)) is None:
                    return
                if self._may_act():
                    call()
            for task_id, task in self._tasks.items():
                state, _ = self._state(task_id)
                if state != task.told or (state in ENDED and time.monotonic() - task.at > _AGAIN):
                    self._tell(task_id)
            self._offer()

    def _offer(self) -> None:
        for vm in self._vms:
            taken = [task.resources for task in self._tasks.values() if task.vm_id == vm.id]
            offered = [offer.resources for offer in self._offers.values() if offer.vm.id == vm.id]
            free = (vm.resources - total(taken) - total(offered)).positive
            if self._wanted and free.cpus and time.monotonic() >= self._declined.get(vm.id, 0.0):
                number = next(self._numbers)
                port = _FIRST_PORT + number * _PORTS % (_END_PORT - _FIRST_PORT)
                offer = Offer(str(number), vm, free, ((port, port + _PORTS - 1),))
                self._offers[offer.id] = offer
                self._emit(ev.OffersReceived(self._now(), (offer,)), None)

    def _release(self, offer_ids: Sequence[str], seconds: float = 0.0) -> None:
        for offer in [self._offers.pop(offer_id) for offer_id in offer_ids]:
            self._declined[offer.vm.id] = time.monotonic() + seconds

    def _want(self, *, wanted: bool) -> None:
        self._wanted = wanted
        self._declined.clear()

    def _launch(self, task: ExecutorRecord, process: ProcessSpec) -> None:
        folder, name = self._folder / task.task_id, process.user or self._user
        rights: dict[str, Any] = {}
        try:
            folder.mkdir()
            for uri in process.uris:
                urlretrieve(uri.value, folder / (uri.name or Path(urlsplit(uri.value).path).name))  # noqa: S310
            if name:
                account = find_account(name)
                rights = {"user": account.uid, "group": account.gid, "extra_groups": account.groups}
                for path in (folder, *folder.iterdir()):
                    os.chown(path, account.uid, account.gid)
            variables = {"PATH": os.environ["PATH"], **process.environment, **process.secrets}
            command = ["bash", "-c", _RUN, "task", *process.argv]
            with unblocked():  # else they would inherit that SIGTERM is blocked here
                run = subprocess.Popen(command, cwd=folder, env=variables, start_new_session=True, **rights)
        except OSError as error:
            self._drop(task.task_id, task.vm_id, error)
            return
        started = _Task(task.vm_id, task.resources, identity(run.pid) or {"pid": run.pid})
        values = {"vm": started.vm_id, "resources": started.resources.amounts, "process": started.process}
        folder.with_name(f"{task.task_id}.json").write_text(json.dumps(values))
        self._tasks[task.task_id] = started

    def _drop(self, task_id: str, vm_id: str, why: Exception) -> None:
        self._emit(ev.TaskChanged(self._now(), task_id, "dropped", vm_id, "launch_not_sent", str(why)), None)

    def _kill(self, task_id: str) -> None:
        if self._state(task_id)[0] == "running":
            os.killpg(int(self._tasks[task_id].process["pid"]), signal.SIGTERM)

    def _state(self, task_id: str) -> tuple[TaskState, int | None]:
        """The state of a task, and its exit code."""
        task = self._tasks.get(task_id)
        runs = task is not None and identity(int(task.process["pid"])) == task.process
        with suppress(FileNotFoundError):
            code = int((self._folder / task_id / "exit").read_text())
            return "finished" if code == 0 else "killed" if code == 143 else "failed", code
        return "running" if runs else "gone", None

    def _tell(self, task_id: str) -> None:
        """Emit a task's state; it is forgotten once its end is stored."""
        stored: Stored | None = None
        state, code = self._state(task_id)
        if task := self._tasks.get(task_id):
            task.told, task.at = state, time.monotonic()
        if state in ENDED:
            stored = partial(self._calls.put, partial(self._tasks.pop, task_id, None))
        message = "" if code is None else f"exited with status {code}"
        self._emit(ev.TaskChanged(self._now(), task_id, state, "", "", message, code), stored)
