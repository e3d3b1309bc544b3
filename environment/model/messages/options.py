"""Delays after which the cluster model acts on its own. Its parts define the actions.

Delays that no option sets are constants. So a log of events replays to the same commands as long as these
stay as they are; logs of earlier versions, which name them, have the same ones. All are in seconds, and due
at ticks.
"""

from dataclasses import dataclass

from conf.util.backoff import Backoff
from environment.clusters.commitments import Commitment
from environment.pools import BREAK_EVEN, NO_MOVES, Consolidation, IdleTimeout
from environment.types import Vm

#: How long to wait for the offers that are still missing before deciding on those at hand. Mesos allocates
#: once a second.
SETTLE = 1.5
#: For how long the offers are refused that a waiting queue cannot use.
REFUSE = 5.0
#: For how long offers are kept that the first job does not fit into, but would together with resources that
#: are free and not offered, as when another framework holds the rest. Then they are left to others for as
#: long.
KEEP = 30.0
#: Resources that are free and not offered for so long while offers are wanted are in another framework's
#: hands: longer than we keep and refuse them.
WITHHELD = 60.0
#: How long to wait for offers before asking again: the first call may have been lost.
ASK_AGAIN = 30.0
#: Pauses between two calls for offers, longer after each call in vain.
REVIVE = Backoff(first=0.5, longest=ASK_AGAIN)
#: An executor that ends with an error may only be the first sign that its driver is ending.
RELAUNCH_GRACE = 2.0
#: Pauses before executors are placed again, longer with each that ended by itself.
RELAUNCH = Backoff(first=RELAUNCH_GRACE, longest=30.0)
#: The pause before a job whose launches never ran is placed again, from the second on.
RETRY = Backoff(first=1.0, longest=60.0)
#: Number of launches in a row that never ran after which a VM is left out, and for how long.
LEAVE_OUT_AFTER = 3
LEAVE_OUT = Backoff(first=30.0, longest=300.0)
#: Seconds for which a job avoids VMs that would cost too much with its others. Chosen: so a job that never
#: fits a limit costs the others one decision in that time.
TOO_DEAR = 300.0
#: How long executors that a running job asks for keep the place before new jobs when there is no room for one
#: of them: then they stand behind all waiting jobs.
GROWTH_PATIENCE = 10.0
#: How long a job that gets no more executors may be without any before it is ended.
NO_EXECUTORS = 30.0
#: Pauses between two questions about the same tasks.
RECONCILE = Backoff(first=2.0, longest=60.0)
#: Between two questions about all tasks that the master knows, by which forgotten ones are found.
SWEEP = 300.0
#: Pauses of a pool after a refused VM.
REFUSED = Backoff(first=10.0, longest=600.0)
#: The same after VMs that were paid for and did not join. Chosen: one VM that tries such a pool once an hour
#: and is given up after six minutes costs a tenth of a VM.
NOT_JOINED = Backoff(first=60.0, longest=3600.0)
#: Seconds of earlier connections to the master that each second without one takes away. Chosen: agents need
#: minutes to come back to a master that was away for minutes.
BREAK_COUNTS = 0.25
#: For how long a VM may be only in the provider's list, or only in ours, since messages may be on their way.
ORPHAN_GRACE, VANISHED_AFTER = 60.0, 60.0
#: How long a job waits for offers of VMs that are up and of which its part is kept for it.
RESERVED_PATIENCE = 30.0
#: An idle VM that is to be closed is kept for so long at most for a decision that is due.
DECISION_PATIENCE = 30.0


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """Options from the daemon's config and its host; recorded in the log of events."""

    #: The name of the daemon's host that is stored with jobs whose driver runs there.
    host: str = ""
    #: How many executors and drivers may run at once, as all of them share one machine; None: any number.
    jvms: int | None = None
    #: How long a launch or a kill may stay without an answer before the master is asked, or the call
    #: repeated.
    launch_timeout: float = 30.0
    #: How long an executor that cannot be reached is waited for before another takes its place.
    unreachable_timeout: float = 60.0
    #: No task is started on a VM whose planned maintenance begins within so many seconds.
    maintenance_margin: float = 0.0
    #: The VMs of pools, which are opened when something is placed there; their ids are their names.
    places: tuple[Vm, ...] = ()
    #: For how long one is kept that is idle.
    keeping: IdleTimeout = BREAK_EVEN
    #: By which rule executors are moved so that VMs of pools close.
    moves: Consolidation = NO_MOVES
    #: How much longer than its pool says it may take until the agent of a VM is there that was asked for.
    boot_timeout: float = 300.0
    #: Limits on what open VMs cost, dollars per hour, by pool; an empty name means all VMs, fixed ones too.
    per_hour: tuple[tuple[str, float], ...] = ()
    #: What is paid in any case.
    commitments: tuple[Commitment, ...] = ()
