"""A cluster and its queue as slots of Zhao 2023: types are ports, VMs instances, VM resources resources.

Cpus and memory are resources from the start, other VM resources from the first request of a job for them.

Here the model follows the cluster, and the learned state moves along with it. `cutting` makes executors from
an allocation; `ogasched_policy` chooses the job that gets them.
"""

import io
import zipfile
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from agents.oga.bipartite import UTILITIES, Model, Request, build_model
from agents.oga.learner import AllocationLearner, LearnerOptions
from environment.resources import BASIC, MEMORY, Resources
from environment.types import EndedJob, FloatArray, Job, PlacementRequest, Vm
from environment.view import ClusterView

#: MiB that weigh as much as a cpu, so that steps of both are of like size. Chosen: the memory per core of the
#: paper's VMs.
MIB_PER_UNIT = 4096.0
#: Types are users' words, so there may be any number: the one that was longest away is forgotten. Chosen.
PORTS_KEPT = 256

_UNITS = np.array([1.0, MIB_PER_UNIT])
#: Shown resources with their units, and how many of these a unit of the model is.
_SHOWN = (("cpus", 1.0), ("GiB", MIB_PER_UNIT / 1024))
_STEPS = ("y", "gradient", "projected")


class Slots:
    """The learner of a cluster that changes. Amounts that go in and out are cpus, MiB and so on."""

    def __init__(
        self, learner: LearnerOptions, utility: str, alpha: float, beta: float, request: Request
    ) -> None:
        #: None until there is a type and a VM that can take an executor of it.
        self.learner: AllocationLearner | None = None
        self._options = learner
        self._utility, self._alpha, self._beta = UTILITIES.index(utility), alpha, beta
        self._request: Request = request
        #: The allocated resources: cpus, memory, and all others that jobs have asked for and VMs had.
        self.resources: tuple[str, ...] = BASIC
        #: How much of each is a unit of the model, [K].
        self._units: FloatArray = _UNITS
        #: By type, in order of its last appearance: the most that a job of it asked for in all, [K] in units,
        #: and the least that an executor of it needs.
        self._bounds: dict[str, FloatArray] = {}
        self._needs: dict[str, FloatArray] = {}
        self._vms: tuple[Vm, ...] = ()
        self._index: dict[str, int] = {}
        self._left: FloatArray = np.zeros((len(BASIC), 0))
        #: Whether the learner's model is that of the cluster as it is.
        self._fits = False
        self._compile()

    def begin(
        self, view: ClusterView, oldest: Sequence[PlacementRequest], floors: Sequence[Resources]
    ) -> None:
        """A slot begins in which these requests are there, one of each type, with the least they can use."""
        changed = self._take_up(view)
        if self._follow(view.vms, oldest, floors) or changed or not self._fits:
            self._rebuild()
        if learner := self._active:
            present = {request.job.type for request in oldest}
            arrivals = np.array([float(port in present) for port in learner.model.ports])
            self._left = learner.step(arrivals).copy()

    def wanted(self, kind: str) -> dict[str, FloatArray]:
        """Amounts of this slot's allocation for the type that no job has taken yet: [N] by resource."""
        out = np.zeros((len(self.resources), len(self._vms)))
        if (learner := self._active) and kind in learner.model.ports:
            model = learner.model
            edges = model.edges_of(model.ports.index(kind))
            out[:, model.graph.instance[edges]] = self._left[:, edges]
        out *= self._units[:, None]
        return dict(zip(self.resources, out, strict=True))

    def take(self, job: Job, placement: Collection[int], sizes: Sequence[Resources]) -> None:
        """The job takes these executors out of the slot's allocation for its type."""
        learner = self._active
        if learner is None or job.type not in learner.model.ports:
            return
        model = learner.model
        for vm, size in zip(placement, sizes, strict=True):
            edge = model.edge(model.ports.index(job.type), vm)
            if edge is not None:
                taken = self._in_units(size)
                self._left[:, edge] = np.maximum(self._left[:, edge] - taken, 0.0)

    def observe(self, ended: EndedJob) -> None:
        """Learn from a job that is over: it was faster or slower than promised.

        The promise is the gain of its executors by the utility. The achievement is the promise times its
        expected duration on its number of cpus over the actual one; so nothing is learned from a job of
        unknown duration.
        """
        expected, took = ended.job.duration_on(ended.sizes), ended.ended_at - ended.started_at
        learner = self._active
        if learner is None or not ended.finished or expected is None or took <= 0:
            return
        model = learner.model
        if ended.job.type not in model.ports:
            return
        port = model.ports.index(ended.job.type)
        had = np.zeros(model.shape)
        for vm_id, size in zip(ended.vm_ids, ended.sizes, strict=False):
            edge = model.edge(port, self._index[vm_id]) if vm_id in self._index else None
            if edge is not None:
                had[:, edge] += self._in_units(size)
        arrivals = np.zeros(len(model.ports))
        arrivals[port] = 1.0
        promised = float(model.gains(arrivals, had)[port])
        learner.observe(port, promised, promised * expected / took)

    def details(self, kind: str) -> Mapping[str, tuple[float, ...]]:
        """Numbers of the slot's step for the type, one for each VM.

        These are y, its gradient (Zhao 2023, eq. 30), and the step's projection, which is the next slot's y.
        """
        learner = self._active
        if learner is None or kind not in learner.model.ports:
            return {}
        model = learner.model
        others = zip(self.resources[2:], self._units[2:].tolist(), strict=True)
        shown = (*_SHOWN, *others)
        columns = {f"{what} {unit}": np.zeros(len(self._vms)) for unit, _ in shown for what in _STEPS}
        port = model.ports.index(kind)
        places = model.graph.instance[model.edges_of(port)].tolist()
        for vm, edge in zip(places, learner.explain(port), strict=True):
            steps = (edge.before, edge.gradient, edge.after)
            for what, values in zip(_STEPS, steps, strict=True):
                for (unit, scale), value in zip(shown, values, strict=True):
                    columns[f"{what} {unit}"][vm] = value if what == "gradient" else value * scale
        return {name: tuple(values.tolist()) for name, values in columns.items()}

    # ---- saved state -------------------------------------------------------------------------------

    def state(self) -> bytes:
        """All that was learned, as an npz file; empty when that is nothing."""
        if self.learner is None:
            return b""
        kept = {
            "types": np.array(list(self._bounds), dtype=np.str_),
            "asked": np.array(list(self._bounds.values())),
            "needed": np.array([self._needs[kind] for kind in self._bounds]),
            "units": self._units,
        }
        file = io.BytesIO()
        np.savez_compressed(file, **self.learner.state(), **kept)
        return file.getvalue()

    def restore(self, state: bytes) -> None:
        """Restore the state returned by `state`; ValueError for other bytes."""
        if not state:
            return
        try:
            with np.load(io.BytesIO(state), allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
            learner = self._learner_of(arrays)
        except (KeyError, IndexError, OSError, EOFError, zipfile.BadZipFile) as error:
            raise ValueError(f"{type(error).__name__}: {error}") from error
        types = arrays["types"].tolist()
        self.resources, self._units = learner.model.resources, arrays["units"]
        self._bounds = dict(zip(types, arrays["asked"], strict=True))
        self._needs = dict(zip(types, arrays["needed"], strict=True))
        self.learner, self._fits = learner, False

    def _learner_of(self, arrays: Mapping[str, "np.ndarray[Any, Any]"]) -> AllocationLearner:
        """The learner of a saved state, with types and VMs sized to just cover their allocations."""
        y, edges = arrays["y"], arrays["edges"]
        ports, instances = arrays["ports"].tolist(), arrays["instances"].tolist()
        # The first Stoker called memory so.
        resources = [MEMORY if name == "memory" else name for name in arrays["resources"].tolist()]
        if resources[:2] != list(BASIC) or arrays["units"].shape != (len(resources),):
            raise ValueError(f"resources: cpus, memory and others expected, with units, found {resources}")
        asked, had = np.zeros((len(ports), len(resources))), np.zeros((len(instances), len(resources)))
        np.add.at(asked, edges[:, 0], y.T)
        np.add.at(had, edges[:, 1], y.T)
        for name, values in (
            ("asked", arrays["asked"][:, :2]),
            ("needed", arrays["needed"][:, :2]),
            ("gains", arrays["gains"]),
            ("units", arrays["units"]),
        ):
            if not (np.isfinite(values).all() and (values > 0).all()):
                raise ValueError(f"{name}: should be numbers above 0")
        for name in ("asked", "needed"):
            if arrays[name].shape != (len(arrays["types"]), len(resources)):
                raise ValueError(f"{name}: should have a row for each type, found {arrays[name].shape}")
        model = self._model(edges, asked, had, ports, instances, resources)
        return AllocationLearner.restored(model, arrays, self._options)

    def _compile(self) -> None:
        """Compile, or load code that an earlier process compiled: no decision is to wait for it."""
        one = np.ones((1, len(BASIC)))
        model = self._model(np.zeros((1, 2), np.int64), one, one, ["type"], ["vm"], BASIC)
        learner = AllocationLearner(model, self._options)
        learner.step([1.0])
        learner.explain(0)
        learner.moved_to(model)
        model.gains([1.0], learner.y)

    # ---- the model follows the cluster ---------------------------------------------------------------

    def _take_up(self, view: ClusterView) -> bool:
        """Add the view's resources that are not known yet; return whether there are any.

        The unit of a new resource is its total amount per cpu of the cluster, so that steps of all are of
        like size.
        """
        whole = view.capacity.total()
        there = {name: whole.amount(name) for name in whole if name not in self.resources}
        if not there:
            return False
        self.resources = (*self.resources, *there)
        self._units = np.append(
            self._units, np.array(list(there.values())) / max(float(view.cpus.sum()), 1.0)
        )
        for kept in (self._bounds, self._needs):
            for kind, amounts in kept.items():
                kept[kind] = np.append(amounts, np.zeros(len(there)))
        return True

    def _in_units(self, resources: Resources) -> FloatArray:
        """An executor's or a VM's amounts, [K] in units of the model."""
        return np.array([resources.amount(name) for name in self.resources]) / self._units

    def _follow(
        self, vms: tuple[Vm, ...], oldest: Sequence[PlacementRequest], floors: Sequence[Resources]
    ) -> bool:
        """Update VMs and requests; return whether the model is outdated."""
        changed = vms is not self._vms and vms != self._vms
        if vms is not self._vms:
            self._vms = vms
            self._index = {vm.id: number for number, vm in enumerate(vms)}
        for request, floor in zip(oldest, floors, strict=True):
            changed |= self._note(request.job, self._in_units(floor))
        while len(self._bounds) > PORTS_KEPT:
            gone = next(iter(self._bounds))
            del self._bounds[gone], self._needs[gone]
            changed = True
        return changed

    def _note(self, job: Job, floor: FloatArray) -> bool:
        asked = self._in_units(job.size) * job.executors
        before, needed = self._bounds.pop(job.type, None), self._needs.pop(job.type, floor)
        self._bounds[job.type] = asked if before is None else np.maximum(asked, before)
        self._needs[job.type] = np.minimum(floor, needed)
        return before is None or bool((asked > before).any() or (floor < needed).any())

    @property
    def _active(self) -> AllocationLearner | None:
        """The learner, when there is a cluster that it can allocate."""
        return self.learner if self._fits else None

    def _rebuild(self) -> None:
        """Rebuild the model; where no VM can take anything, the learned state is retained for later."""
        self._fits = False
        ports = sorted(self._bounds)
        if not (ports and self._vms):
            return
        sizes = (self._in_units(vm.resources) for vm in self._vms)
        capacities = np.array(list(sizes))
        needs = np.array([self._needs[port] for port in ports])
        fits = (needs[:, None, :] <= capacities[None, :, :] + 1e-9).all(axis=2)
        if not fits.any():
            return
        bounds = np.array([self._bounds[port] for port in ports])
        names = _names(self._vms)
        model = self._model(np.argwhere(fits), bounds, capacities, ports, names, self.resources)
        kept = self.learner
        self.learner = AllocationLearner(model, self._options) if kept is None else kept.moved_to(model)
        self._fits = True

    def _model(
        self,
        edges: "np.ndarray[Any, Any]",
        bounds: FloatArray,
        capacities: FloatArray,
        ports: Sequence[str],
        instances: Sequence[str],
        resources: Sequence[str],
    ) -> Model:
        return build_model(
            edges,
            bounds,
            capacities,
            utilities=self._utility,
            alphas=self._alpha,
            beta=self._beta,
            request=self._request,
            ports=ports,
            instances=instances,
            resources=resources,
        )


def _names(vms: Sequence[Vm]) -> list[str]:
    """A VM's name, which outlives its agent's id; with the id where two have one name."""
    names = Counter(vm.name for vm in vms)
    return [vm.name if names[vm.name] == 1 else f"{vm.name} {vm.id}" for vm in vms]
