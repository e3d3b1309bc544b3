"""Environments of the bench: jobs, the model of their ports and their arrivals; made, saved, loaded.

They are generated or made from Alibaba's files. `jobs` defines the jobs of a model.

Capacities and requests are in cpus, units of 8 GiB, and devices, so that resources are of like size: the
utilities of Zhao 2023, eq. 51 have no units of their own, and with memory in MiB nothing else would count.
"""

import zipfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from agents.oga.bipartite import UTILITIES, Model, ModelError, Request, build_model
from agents.oga.port_jobs import PortJobs, jobs_of
from conf.util.counted import counted
from environment.types import FloatArray, IntArray
from profiles.workloads.traces import AlibabaTask, read_alibaba_machines, read_alibaba_tasks

#: MiB of a unit of memory.
MEMORY_UNIT = 8192
#: Machines and requests are drawn like those of Alibaba's GPU cluster of 2023: 32 to 128 cpus, 4 to 8 GiB for
#: each, none to eight devices of a kind. The paper names the trace, not the values taken from it.
_CPUS, _MEMORY_PER_CPU, _DEVICES = (32, 64, 96, 104, 128), (0.5, 0.75, 1.0), (0, 2, 4, 8)
#: Request of a task at contention level 1, of cpus and memory, and of a device. Chosen: at the default level
#: of 10, present ports ask their instances for about all cpus and memory, and thrice the devices.
_TASK, _TASK_DEVICES = (1.0, 8.0), (0.0, 1.0)
#: Tasks of a job, where a request is the job's in all. Chosen: as much is requested then, too.
_TASKS = (8, 24)

#: Maximum number of jobs of a type in a slot, as the numbers of a file hold it.
_MOST_JOBS = 255

Arrivals = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class EnvironmentOptions:
    """Parameters of an environment; defaults are Zhao 2023, Table 2, with the T of 4.1."""

    #: |L|, |R|, K and T.
    types: int = 10
    instances: int = 128
    resources: int = 6
    slots: int = 8000
    seed: int = 0
    #: Ranges that alpha and beta are drawn from, evenly.
    alpha: tuple[float, float] = (1.0, 1.5)
    beta: tuple[float, float] = (0.3, 0.5)
    #: Probability that a port has a job in a slot.
    arrival: float = 0.7
    #: Multiplies requests.
    contention: float = 10.0
    #: Edges per instance on average; 0 joins every port with every instance.
    density: float = 3.0
    #: One of UTILITIES, or mixed: drawn for every (instance, resource).
    utility: str = "mixed"
    request: Request = "per_channel"
    #: J_l: up to so many jobs of each type come in a slot, each with probability `arrival` (3.4).
    jobs_per_type: int = 1
    #: |Q_l|: how many tasks a job has, each of which asks for an equal part of its request (3.5).
    tasks: int = 1
    #: m_l: how many of them start together, or none; 0 for no minimum. None: all tasks of jobs with several.
    gang: int | None = None
    #: The least share of its request of every resource with which a task counts as scheduled.
    floor: float = 0.5

    @property
    def minimum(self) -> int:
        """m_l: the least number of scheduled tasks of a job, or else none; 0 for no minimum."""
        if self.gang is None:
            return self.tasks if self.tasks > 1 else 0
        return self.gang

    def __post_init__(self) -> None:
        for name in ("types", "instances", "resources", "slots", "tasks"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: at least 1 expected, found {getattr(self, name)}")
        if not 0 <= self.arrival <= 1:
            raise ValueError(f"arrival: a probability expected, found {self.arrival}")
        if not self.contention > 0:
            raise ValueError(f"contention: should be positive, found {self.contention}")
        if not 0 <= self.density <= self.types:
            raise ValueError(
                f"density: between 0 and the {counted(self.types, 'type')}, found {self.density}"
            )
        if self.utility not in ("mixed", *UTILITIES):
            raise ValueError(f"utility: mixed or one of {', '.join(UTILITIES)}, found {self.utility}")
        if not 1 <= self.jobs_per_type <= _MOST_JOBS:
            raise ValueError(f"jobs_per_type: between 1 and {_MOST_JOBS}, found {self.jobs_per_type}")
        if not 0 <= self.minimum <= self.tasks:
            raise ValueError(
                f"gang: between 0 and the {counted(self.tasks, 'task')} of a job, found {self.gang}"
            )
        if not 0 < self.floor <= 1:
            raise ValueError(f"floor: more than 0 and at most 1 expected, found {self.floor:g}")


@dataclass(frozen=True, slots=True)
class Environment:
    """Jobs, and the number of each type that comes in each slot: counts [T, types]."""

    name: str
    jobs: PortJobs
    counts: Arrivals

    @property
    def model(self) -> Model:
        """The model to allocate: its ports are the tasks of all jobs that may come in a slot."""
        return self.jobs.model

    @property
    def arrivals(self) -> Arrivals:
        """Ports that have a task, by slot: [T, L], 0 or 1."""
        return self.jobs.arrivals(self.counts)


def generate(options: EnvironmentOptions) -> Environment:
    """Draw an environment; equal options yield equal ones."""
    draw = np.random.default_rng(options.seed)
    capacities = _machines(draw, options.instances, options.resources)
    tasks = _task_requests(draw, options.types, options.resources)
    requests = options.contention * tasks
    counts = draw.integers(_TASKS[0], _TASKS[1] + 1, size=(options.types, 1))
    if options.request == "total":
        requests = requests * counts
    model = _model(draw, options, requests, capacities)
    there = np.full((options.slots, options.types), options.jobs_per_type)
    name = f"{options.types} x {options.instances} x {options.resources}, seed {options.seed}"
    return _environment(draw, options, name, model, there)


def from_alibaba(folder: Path, options: EnvironmentOptions) -> Environment:
    """Machines, requests and arrivals of Alibaba's GPU cluster of 2023 (three resources: cpus, memory, GPUs).

    Instances are machines drawn at random, types the kinds of task that occur most. A type has a job in a
    slot for each task of its kind that is there, up to `jobs_per_type`, if, as in Zhao 2023, 4, a coin of
    `arrival` permits it. The slots are of equal length and cover the last nine tenths of all tasks. Where
    requests are totals, a job has a multiple of a task's request: the mean number of tasks that run at once,
    at most 24.
    """
    draw = np.random.default_rng(options.seed)
    machines = read_alibaba_machines(folder / "openb_node_list_all_node.csv")
    tasks = read_alibaba_tasks(folder / "openb_pod_list_default.csv")
    if len(machines) < options.instances:
        raise ValueError(f"instances: the trace has {len(machines)} machines, {options.instances} asked for")
    chosen = [machines[i] for i in draw.choice(len(machines), options.instances, replace=False)]
    capacities = np.array([[m.cpus, m.memory_mib / MEMORY_UNIT, m.gpus] for m in chosen])
    kinds = [kind for kind, _ in Counter(map(_kind, tasks)).most_common(options.types)]
    if len(kinds) < options.types:
        raise ValueError(f"types: the trace has {len(kinds)} kinds of task, {options.types} asked for")
    requests = options.contention * np.array(kinds)
    times = _slots(tasks, options.slots)
    there = np.stack([_running(tasks, kind, times) for kind in kinds], axis=1)
    if options.request == "total":
        requests = requests * np.clip(there.mean(axis=0), 1.0, _TASKS[1])[:, None]
    model = _model(draw, options, requests, capacities)
    name = f"Alibaba 2023, {options.types} x {options.instances} x 3, seed {options.seed}"
    return _environment(draw, options, name, model, there)


def save_environment(environment: Environment, path: Path) -> None:
    """Write one npz file, from which `load_environment` makes the same environment."""
    jobs, model, graph = environment.jobs, environment.model, environment.model.graph
    with path.open("wb") as file:
        np.savez_compressed(
            file,
            name=np.array(environment.name),
            request=np.array(model.request),
            edges=np.stack([graph.port, graph.instance], axis=1),
            requests=graph.bounds.T,
            capacities=graph.capacity.T,
            utilities=graph.kinds.T,
            alphas=graph.alphas.T,
            beta=graph.beta,
            jobs=graph.job,
            types=jobs.type,
            positions=jobs.position,
            minimum=jobs.minimum,
            floor=np.array(jobs.floor),
            arrivals=environment.counts,
        )


def load_environment(path: Path) -> Environment:
    """Read a file of `save_environment`; ModelError names the fault of the file."""
    try:
        with np.load(path, allow_pickle=False) as data:
            arrays = dict(data)
        model = build_model(
            arrays["edges"],
            arrays["requests"],
            arrays["capacities"],
            utilities=arrays["utilities"],
            alphas=arrays["alphas"],
            beta=arrays["beta"],
            request=cast("Request", str(arrays["request"])),
            jobs=arrays["jobs"],
        )
        counts = arrays["arrivals"]
        jobs = _jobs_in(arrays, model)
        name = str(arrays["name"])
    except KeyError as error:
        raise ModelError(f"{path}: not an environment: {error.args[0]}") from error
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise ModelError(f"{path}: {error}") from error
    shape = counts.shape
    if len(shape) != 2 or not shape[0] or shape[1] != jobs.types or counts.dtype != np.uint8:
        raise ModelError(
            f"{path}: arrivals: slots of small numbers for {counted(jobs.types, 'type')} expected"
        )
    return Environment(name, jobs, counts)


def _jobs_in(arrays: "Mapping[str, NDArray[Any]]", model: Model) -> PortJobs:
    """The jobs of a saved environment; one for each type, without a minimum, where the file has none."""
    if "types" not in arrays:
        return jobs_of(model)
    types, positions, minimum = (
        np.asarray(arrays[name], np.int64) for name in ("types", "positions", "minimum")
    )
    return PortJobs(model, types, positions, minimum, float(arrays["floor"]))


def _environment(
    draw: np.random.Generator, options: EnvironmentOptions, name: str, model: Model, there: IntArray
) -> Environment:
    """Jobs of a model of types; of those `there` [T, types], each of the first few comes by a coin."""
    coins = draw.random((*there.shape, options.jobs_per_type)) < options.arrival
    counts = (coins & (np.arange(options.jobs_per_type) < there[..., None])).sum(axis=2, dtype=np.uint8)
    several, tasks, least = options.jobs_per_type, options.tasks, options.minimum
    split = [np.tile(request / tasks, (tasks, 1)) for request in model.graph.bounds.T]
    jobs = jobs_of(
        model,
        [several] * options.types if several > 1 else None,
        split if tasks > 1 else None,
        [least] * options.types,
        options.floor,
    )
    if several > 1:
        name += f", up to {counted(several, 'job')} of a type"
    if tasks > 1:
        name += f", {counted(tasks, 'task')} a job"
    if least:
        name += f", gangs of {least}"
    return Environment(name, jobs, counts)


def _machines(draw: np.random.Generator, count: int, resources: int) -> FloatArray:
    cpus = draw.choice(_CPUS, count).astype(np.float64)
    memory = cpus * draw.choice(_MEMORY_PER_CPU, count)
    devices = [draw.choice(_DEVICES, count).astype(np.float64) for _ in range(resources - 2)]
    had: FloatArray = np.stack([cpus, memory, *devices], axis=1)[:, :resources]
    return had


def _task_requests(draw: np.random.Generator, types: int, resources: int) -> FloatArray:
    both = draw.uniform(*_TASK, size=(types, min(2, resources)))
    devices = draw.uniform(*_TASK_DEVICES, size=(types, max(resources - 2, 0)))
    return np.concatenate([both, devices], axis=1)


def _model(
    draw: np.random.Generator, options: EnvironmentOptions, requests: FloatArray, capacities: FloatArray
) -> Model:
    shape = capacities.shape
    if options.utility == "mixed":
        utilities: IntArray = draw.integers(0, len(UTILITIES), size=shape)
    else:
        utilities = np.full(shape, UTILITIES.index(options.utility))
    alphas = draw.uniform(*options.alpha, size=shape)
    beta = draw.uniform(*options.beta, size=shape[1])
    edges = _edges(draw, options)
    return build_model(
        edges, requests, capacities, utilities=utilities, alphas=alphas, beta=beta, request=options.request
    )


def _edges(draw: np.random.Generator, options: EnvironmentOptions) -> IntArray:
    """Edges [E, 2]: instances join floor(density) ports or one more, drawn at random."""
    types, density = options.types, options.density or float(options.types)
    extra = draw.random(options.instances) < density - int(density)
    pairs = []
    for instance in range(options.instances):
        ports = draw.choice(types, int(density) + int(extra[instance]), replace=False)
        pairs.append(np.stack([ports, np.full(ports.size, instance)], axis=1))
    return np.concatenate(pairs)


def _kind(task: AlibabaTask) -> tuple[float, float, float]:
    return (task.cpus, task.memory_mib / MEMORY_UNIT, float(task.gpus))


def _slots(tasks: tuple[AlibabaTask, ...], count: int) -> FloatArray:
    """The middles of slots of equal length."""
    begin, end = np.quantile([task.created_at for task in tasks], (0.1, 1.0))
    middles: FloatArray = begin + (end - begin) * (np.arange(count) + 0.5) / count
    return middles


def _running(tasks: tuple[AlibabaTask, ...], kind: tuple[float, float, float], times: FloatArray) -> IntArray:
    """Number of tasks of the kind at each time."""
    mine = [task for task in tasks if _kind(task) == kind]
    created = np.sort([task.created_at for task in mine])
    deleted = np.sort([task.deleted_at for task in mine])
    there = np.searchsorted(created, times, side="right") - np.searchsorted(deleted, times, side="right")
    return there.astype(np.int64)
