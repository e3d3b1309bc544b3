"""One decision of a policy on a small made-up cluster, to find out whether it decides at all."""

from collections.abc import Callable
from threading import Thread, Timer

import numpy as np

from environment.decisions.decision_round import decide_once
from environment.decisions.sizing import Sizes, sizing_for
from environment.decisions.vain_waits import watched
from environment.policy import Policy, counts_of
from environment.policy_faults import failure, interrupt
from environment.resource_arrays import ResourceArrays
from environment.resources import Resources
from environment.types import Job, PlacementRequest, Vm
from environment.view import ClusterView, RunningJob

_LARGE, _SMALL = Resources.of(8, 32768), Resources.of(4, 16384)
_EXECUTOR = Resources.of(1, 2048)
#: Seconds after which a policy that has not returned is interrupted: imports and compilers need some once.
_ENDLESS = 120.0


def trial(make: Callable[[], Policy], seconds: float) -> str:
    """Why the policy could not decide within so many seconds, of two jobs on three VMs; empty if it could.

    `make` makes it for this alone, since a decision may change its state, within the same time.
    """
    found: list[str] = []

    def decide() -> None:
        view, queue = _scene()
        try:
            policy = make()
            sizing, held = sizing_for(policy, Sizes()), watched(policy)
            faults = decide_once(policy.decide, view, queue, sizing=sizing, held=held).faults
            counts_of(policy)
        except BaseException as error:  # SystemExit and its like
            faults = (failure(error),)
        found.append("; ".join(faults))
        late.cancel()

    # As a daemon, so that a policy that never returns does not keep the process from ending.
    thread = Thread(target=decide, name="trial of a policy", daemon=True)
    late = Timer(_ENDLESS, interrupt, (thread,))
    late.daemon = True
    thread.start()
    thread.join(seconds)
    if not found:
        late.start()  # or is cancelled already
    return found[0] if found else f"the policy did not decide within {seconds:g} s"


def _scene() -> tuple[ClusterView, list[PlacementRequest]]:
    """A job that runs on the first of three VMs, and two that wait and fit."""
    vms = tuple(
        Vm(f"trial-{number}", f"trial-{number}", kind, size, price)
        for number, (kind, size, price) in enumerate(
            (("large", _LARGE, 0.4), ("small", _SMALL, 0.2), ("small", _SMALL, 0.2)), 1
        )
    )
    runs, *wait = (
        Job(f"trial-job-{number}", "sort", _EXECUTOR, count, 60.0 * number, expected_duration=300.0)
        for number, count in enumerate((1, 2, 1), 1)
    )
    free = [_LARGE - _EXECUTOR, _SMALL, _SMALL]
    executors = np.array([1, 0, 0], np.int64)
    running = (RunningJob(runs, ("trial-1",), 100.0, 300.0),)
    view = ClusterView(200.0, vms, ResourceArrays.of(free, ()), executors, running)
    return view, [PlacementRequest(job, job.executors) for job in wait]
