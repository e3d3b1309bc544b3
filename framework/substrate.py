"""Substrate: the system that launches tasks on VMs, as a protocol, and the files that tasks leave there.

The daemon sends it the commands of `environment/model/messages/commands.py` and receives the events of
`events.py` beside it. `framework/mesos/master_link.py` is the substrate that ships.
"""

from collections.abc import Callable, Mapping
from typing import Protocol

from environment.model.messages import commands as cmd
from environment.model.messages import events as ev
from environment.model.messages.records import ExecutorRecord
from framework.spark import ProcessSpec

#: A task's record by its id, its process, and its displayed name. ValueError, OSError: the task must not run.
Describe = Callable[[str], tuple[ExecutorRecord, ProcessSpec, str]]
#: Called in the loop's thread once the result of an event is stored; returns at once.
Stored = Callable[[], object]
#: Accepts an event from any thread, and returns at once. An event whose `stored` was not called when the
#: subscription ends may be lost, so the substrate sends it again on the next one.
Emit = Callable[[ev.Event, Stored | None], None]

#: Bytes of a file that are read at once.
_PART = 1 << 16


class Sandbox(Protocol):
    """The folder of one task. All methods raise FileNotFoundError for a missing file, else OSError.

    They block, for some seconds at most; `copy` for a minute.
    """

    def read(self, name: str, offset: int, limit: int) -> bytes:
        """At most `limit` bytes of a file from `offset` on."""
        ...

    def size(self, name: str) -> int:
        """Bytes of a file."""
        ...

    def copy(self, name: str, to: int, most: int) -> int:
        """Copy at most `most` bytes of a file to a descriptor; return their number."""
        ...

    def files(self, folder: str) -> list[str]:
        """The regular files in a folder of it, and in those below, some hundreds at most."""
        ...


class Substrate(Protocol):
    """Launches tasks on VMs. `start`, `execute` and `stop` are for the loop's thread, the rest for any.

    Only `measure`, `stop` and the methods of a sandbox may wait for the system behind it. Other calls to that
    system are made in threads of the substrate, in the order of the commands, each only while this daemon
    certainly leads (`may_act` in `Connect`).

    It emits these events:

    - `Subscribed`: it accepts commands. All earlier offers are void, and the daemon asks for the states of
      all open tasks (`Reconcile`). `Disconnected`: it accepts none for now.
    - `OffersReceived`: capacity of VMs that nobody else gets until a command or event ends the offer.
      `OfferRescinded` ends one; `VmLost` says that a VM is gone, which is no proof that its tasks are.
    - `VmsMeasured`: what VMs have in all, others' part included, so that a job which fits no VM is told so.
    - `InverseOffersReceived`: VMs are wanted back. Only systems with planned maintenance emit it.
    - `TaskChanged`: state of a task. It is emitted again until its `stored` was called.
    """

    @property
    def name(self) -> str:
        """Name of the check in /readyz that is bad while this is not `subscribed`."""
        ...

    @property
    def subscribed(self) -> bool:
        """Whether commands would be carried out now."""
        ...

    @property
    def far(self) -> bool:
        """Whether VMs may disappear with the files of their tasks, which are then copied while tasks run."""
        ...

    def checks(self) -> Mapping[str, str]:
        """States in words, for /readyz; the one of `name` describes the connection."""
        ...

    def start(self) -> None:
        """Subscribe, and again whenever the connection is lost."""
        ...

    def stop(self) -> None:
        """Leave within some seconds. Tasks go on running, and a later daemon finds them."""
        ...

    def execute(self, command: cmd.Command, describe: Describe, subscription: int) -> None:
        """Carry a command out after those before it; a failure is an event.

        - `Launch`: start tasks on one VM, with the capacity of its offers; the rest of that is offered again.
          A task that is certainly not started gets `TaskChanged`, state `dropped`. `describe` may be called
          during the call alone.
        - `KillTask`: end a task; its end is a `TaskChanged`.
        - `Reconcile`: emit the present state of these tasks, of all where none is named; `gone` for one that
          certainly does not run, `unknown` where that is uncertain.
        - `Decline`: end offers; their capacity is offered again after `refuse_seconds`. `Suppress`: offer
          nothing, `Revive`: offer all that is free, what was declined too.
        - `AnswerInverse`: answer to `InverseOffersReceived`.

        A command of an earlier `subscription` than the present one is dropped, except for `KillTask` and
        `Reconcile`.
        """
        ...

    def measure(self, seconds: float) -> bool:
        """Emit `VmsMeasured` now if VMs have changed; whether that was done within so many seconds.

        False at once while it is not `subscribed`.
        """
        ...

    def sandbox(self, task: ExecutorRecord) -> Sandbox:
        """Folder of a task; OSError when its location is unknown."""
        ...

    def all_lost(self) -> str:
        """Reason why all tasks and VMs have ended since this was last asked; empty when they have not.

        Only for a system that dies with its tasks and so cannot report their ends.
        """
        ...


#: Makes the substrate of a term, which does nothing before its `start`, from four arguments: where events go;
#: the `framework_id` of the last stored `Subscribed`, None at first; a function that tells any thread whether
#: this daemon certainly leads (`may_act`); and the clock of events, in seconds since the epoch.
Connect = Callable[[Emit, str | None, Callable[[], bool], Callable[[], float]], Substrate]


def read_end(sandbox: Sandbox, name: str, limit: int) -> tuple[int, bytes]:
    """The last `limit` bytes of a file that grows no more, and the offset at which they begin."""
    first = offset = max(0, sandbox.size(name) - limit)
    data = b""
    while len(data) < limit and (part := sandbox.read(name, offset, min(_PART, limit - len(data)))):
        data += part
        offset += len(part)
    return first, data
