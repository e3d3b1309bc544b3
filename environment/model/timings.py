"""For how long the cluster model waits before it acts on its own. What it does then is in its parts."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """Times, in seconds, after which the model acts on its own at a tick; where drivers start; bounds."""

    #: The name of the daemon's host that is kept with jobs whose driver runs there.
    host: str = ""

    #: How many executors and drivers may run at once, as all of them share one machine; None: any number.
    jvms: int | None = None

    #: How long to wait for the offers that are still missing before deciding on what is there. Mesos
    #: allocates once a second.
    settle: float = 1.5
    #: For how long the offers are refused that a waiting queue cannot use.
    refuse: float = 5.0
    #: Shortest pause between two calls for offers.
    revive_pause: float = 0.5
    #: How long to wait for offers before asking again: the first call may have been lost.
    ask_again: float = 30.0
    #: How long a launch or a kill may stay without an answer before the master is asked, or told again.
    launch_timeout: float = 30.0
    #: How long an executor that cannot be reached is waited for before another takes its place.
    unreachable_timeout: float = 60.0
    #: An executor that ends with an error may only be the first sign that its driver is ending.
    relaunch_grace: float = 2.0
    #: The pause before executors are placed again doubles with each that ended by itself, up to this.
    relaunch_longest: float = 30.0
    #: The pause before a job is placed again whose launches never ran: from the second on, doubling.
    retry_first: float = 1.0
    retry_longest: float = 60.0
    #: After so many launches in a row that never ran, a VM is left out for so long, doubling.
    leave_out_after: int = 3
    leave_out_first: float = 30.0
    leave_out_longest: float = 300.0
    #: How long executors that a running job asks for keep the place before new jobs when there is no room
    #: for one of them: then they stand behind all who wait.
    growth_patience: float = 10.0
    #: First and longest pause between two questions about the same tasks.
    reconcile_first: float = 2.0
    reconcile_longest: float = 60.0
    #: On a VM whose planned maintenance begins within so much time nothing new is begun.
    maintenance_margin: float = 0.0
    #: Between two questions about all tasks that the master knows, by which forgotten ones are found.
    sweep: float = 300.0
