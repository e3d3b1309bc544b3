"""Encodes a view of a cluster, simulated or real, for an agent that was trained on the kernel's episodes.

`scene_of` takes the moment from the view, `put` moves it on executor by executor while a decision is made.
The kernel alone makes the observation of a scene. Importing this module imports numba.
"""

from collections.abc import Sequence
from itertools import islice

import numpy as np

from environment.kernel.observation import observation_length, write, write_legal
from environment.kernel.rule_options import ObservationOptions
from environment.kernel.scene import QUEUE_SEEN, Scene
from environment.kernel.state import PREFERENCES, BoolArray, Float32Array
from environment.resources import CPUS, MEMORY, THOUSANDTHS
from environment.types import PlacementRequest
from environment.view import ClusterView


def scene_of(
    view: ClusterView, queue: Sequence[PlacementRequest], options: ObservationOptions, number: int = 0
) -> Scene:
    """The moment in which the first request of the queue is decided about; `number` counts jobs from 0.

    A job of which nothing is known is taken to last for `options.unknown_seconds`.
    """
    request, vms = queue[0], view.index
    present = [vms[vm_id] for vm_id in request.present_on if vm_id in vms]
    job, upcoming = request.job, tuple(islice(queue, 1, 1 + options.upcoming))
    seconds, work, longest = sums_of(view, queue, options)
    openings = view.openings
    return Scene(
        milli_cpus=view.capacity.get(CPUS).copy(),
        memory_mib=view.capacity.get(MEMORY) // THOUSANDTHS,
        price_per_hour=view.prices_per_hour.copy(),
        free_milli_cpus=np.maximum(view.free.get(CPUS), 0),
        free_memory_mib=np.maximum(view.free.get(MEMORY) // THOUSANDTHS, 0),
        held=view.executors.copy(),
        busy_until=view.busy_until_assuming(options.unknown_seconds),
        ready_at=np.zeros(0) if openings is None else openings.ready_at.astype(np.float64),
        is_open=np.zeros(0, np.int64) if openings is None else openings.open.astype(np.int64),
        clock=float(view.at),
        waiting=len(queue),
        running=len(view.running),
        next_end=view.next_end_assuming(options.unknown_seconds),
        usual_seconds=seconds,
        waiting_work=work,
        longest_seconds=longest,
        number=number,
        type=type_of(request, options),
        job_milli_cpus=request.size.get(CPUS),
        job_memory_mib=request.memory_mib,
        executors=job.executors,
        left=request.count,
        arrival=float(job.submitted_at),
        seconds=expected_of(request, options),
        prefers=PREFERENCES[job.prefers],
        untouched=True,
        placed=np.array(present, np.int32),
        next_type=np.array([type_of(later, options) for later in upcoming], np.int64),
        next_milli_cpus=np.array([later.size.get(CPUS) for later in upcoming], np.int64),
        next_memory_mib=np.array([later.memory_mib for later in upcoming], np.int64),
        next_executors=np.array([later.count for later in upcoming], np.int64),
    )


def sums_of(
    view: ClusterView, queue: Sequence[PlacementRequest], options: ObservationOptions
) -> tuple[float, float, float]:
    """Mean seconds that jobs are believed to take, of those that run and the first that wait; and their work.

    That is how many thousandths of cpus times seconds those that wait ask for. Last, the most seconds of
    them. All are 0 where the observation shows none.
    """
    if options.name != "natural":
        return 0.0, 0.0, 0.0
    seconds, work, longest, count = 0.0, 0.0, 0.0, len(view.running)
    unknown = options.unknown_seconds
    for request in islice(queue, QUEUE_SEEN):  # which is done at each decision
        job = request.job
        known, size = job.expected_duration, request.size if request.sizes else job.size
        each = unknown if known is None else float(known)
        seconds += each
        longest = each if each > longest else longest
        work += each * (size.thousandths.get(CPUS, 0) * request.count)
        count += 1
    for running in view.running:
        seconds += unknown if running.expected is None else running.expected
    return seconds / max(count, 1), work, longest


def expected_of(request: PlacementRequest, options: ObservationOptions) -> float:
    """Seconds that the request's job is believed to take when placed well."""
    known = request.job.expected_duration
    return options.unknown_seconds if known is None else float(known)


def put(scene: Scene, vm: int) -> Scene:
    """The moment after an executor of the head was put on the VM; changes the arrays of the one before."""
    scene.free_milli_cpus[vm] -= scene.job_milli_cpus
    scene.free_memory_mib[vm] -= scene.job_memory_mib
    scene.held[vm] += 1
    scene.is_open[vm : vm + 1] = 1
    placed = np.append(scene.placed, np.int32(vm))
    return scene._replace(left=scene.left - 1, untouched=False, placed=placed)


def observation(scene: Scene, options: ObservationOptions) -> Float32Array:
    """An agent's observation of a scene; float32 [L], see `environment.kernel.observation`."""
    out = np.zeros(observation_length(len(scene.held), options.layout), np.float32)
    write(scene, options.layout, out)
    return out


def mask(scene: Scene, *, whole: bool = True) -> BoolArray:
    """Possible actions, bool [N + 1]: wait, or put an executor on each VM; see `write_mask` of the kernel."""
    out = np.zeros(len(scene.held) + 1, np.bool_)
    write_legal(scene, whole, out)
    return out


def type_of(request: PlacementRequest, options: ObservationOptions) -> int:
    """The job's place in the list of types counted from 1, 0 when it is not there."""
    types = options.types
    return types.index(request.job.type) + 1 if request.job.type in types else 0
