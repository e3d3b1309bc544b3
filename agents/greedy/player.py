"""Arrays for playing greedy in compiled code, and the text of its decisions."""

from collections.abc import Mapping, Sequence

import numpy as np

from agents.compiled.waits import WaitLimits, beliefs_of, blank_counts, expects_of
from agents.greedy.asked import blank_work
from agents.greedy.foreseen import blank_foreseen
from agents.greedy.greedy_policy import GreedyOptions, aim_of, cheapest, why_placed, why_waits
from agents.greedy.playing import GreedyLimits, GreedyState, play_greedy
from agents.greedy.pricing import Ends
from conf.units import SECONDS_PER_HOUR
from environment.kernel.play_loop import Trace
from environment.kernel.resized_jobs import SparedResources
from environment.kernel.state import Batch
from environment.resource_arrays import ResourceArrays
from environment.resources import CPUS, MEMORY, THOUSANDTHS
from environment.types import IntArray, Job, Place, Vm, Wait
from environment.view import ClusterView, RunningJob


class GreedyPlayer:
    """Greedy in a world that the kernel knows whole: `environment.policy.Player`."""

    def __init__(
        self,
        options: GreedyOptions,
        jobs: Sequence[Job],
        vms: Sequence[Vm],
        running: Mapping[int, RunningJob],
        *,
        exact: bool,
    ) -> None:
        """`jobs` by arrival, with the beliefs about them; some run already, by their numbers."""
        self._options, self._jobs, self._vms = options, jobs, vms
        limits = options.limits
        self._believed = beliefs_of(jobs, limits, _kind)
        self._means = _means(options, vms, exact=exact)
        count, most = len(jobs), max((job.executors for job in jobs), default=1)
        self._work = blank_work(len(vms), most, options.window, int(self._means.kind.max()) + 1)
        counts, decisions = blank_counts(self._believed), 3 * count + 1
        self._borne = GreedyState(
            counts=counts,
            first=np.zeros_like(counts.noted),
            dollars=np.empty(decisions),
            begins=np.empty(decisions),
            passed=np.empty(decisions, np.int64),
            oldest=np.empty(decisions, np.int64),
            kept=np.zeros(1, np.int64),
            keeps=np.zeros((decisions, 2), np.int64),
            vms=np.empty(16 * len(vms), np.int64),
            until=np.empty(16 * len(vms)),
            executors=np.zeros(options.window, np.int64),
            size=np.zeros((2, options.window), np.int64),
            prefers=np.zeros(options.window, np.int64),
            duration=np.zeros(options.window),
            tail=np.zeros(options.window),
            patience=np.zeros(options.window),
            like=np.zeros(options.window, np.int64),
            near=np.zeros(len(vms), np.int64),
            idle=np.zeros(int(self._means.kind.max()) + 1, np.int64),
            seen=np.full(len(vms), -1),
            free=np.zeros((2, len(vms)), np.int64),
            held=np.zeros(len(vms)),
        )
        expects = expects_of(running, count)
        self._foreseen = blank_foreseen(expects, sum(job.executors for job in jobs), len(vms))

    @property
    def order(self) -> IntArray:
        """The numbers by arrival of the jobs, by those of the kernel; int64 [M]."""
        return self._borne.counts.order

    def play(self, batch: Batch, spared: SparedResources, trace: Trace, until: int) -> bool:
        """Play row 0 until `until` jobs are placed; False when the head waits and no event will follow."""
        while batch.state.head[0] < until:
            if not play_greedy(
                batch,
                spared,
                trace,
                until,
                self._believed,
                self._means,
                self._borne,
                self._foreseen,
                self._work,
            ):
                return False
            if self._borne.kept[0] + len(self._vms) > len(self._borne.vms):
                self._borne = self._borne._replace(
                    vms=np.concatenate((self._borne.vms, np.empty_like(self._borne.vms))),
                    until=np.concatenate((self._borne.until, np.empty_like(self._borne.until))),
                )
        return True

    def place(self, number: int, job: Job, placement: tuple[int, ...]) -> Place:
        """The decision of that number, which placed the job there."""
        dollars, passed = float(self._borne.dollars[number]), int(self._borne.passed[number])
        oldest = self._jobs[self._borne.oldest[number]].id
        why = why_placed(self._options, dollars, self._options.limits.told(oldest, passed) if passed else "")
        return Place(job.id, placement, tuple(f"{self._vms[vm].name} {why}" for vm in placement))

    def wait(self, number: int, shortage: str) -> Wait:
        """The decision of that number, to wait; there is no shortage where the job fitted."""
        begin, end = self._borne.keeps[number].tolist()
        keeps = zip(self._borne.vms[begin:end].tolist(), self._borne.until[begin:end].tolist(), strict=True)
        return Wait(why_waits(float(self._borne.begins[number]), shortage), tuple(keeps))


def _kind(job: Job) -> tuple[object, ...]:
    """Equal of jobs that are placed alike, as `PlacementRequest.kind` is of those in a plain world."""
    asked = job.executors, job.size, job.prefers
    return *asked, job.spot_driver, job.rework, job.expected_duration


def _means(options: GreedyOptions, vms: Sequence[Vm], *, exact: bool) -> GreedyLimits:
    free = ResourceArrays.of([vm.resources for vm in vms])
    kinds: dict[object, int] = {}
    view = ClusterView(0.0, tuple(vms), free, np.zeros(len(vms), np.int64))
    capacity = np.stack((free.get(CPUS), free.get(MEMORY) // THOUSANDTHS)).astype(np.float64)
    price = view.prices_per_hour[None, :] / SECONDS_PER_HOUR
    return GreedyLimits(
        WaitLimits(options.overtaken_at_most, float(options.unknown_duration), exact),
        options.window,
        aim_of(options, view),
        capacity,
        price,
        cheapest(price, capacity),
        np.array([kinds.setdefault((vm.resources, vm.price_per_hour), len(kinds)) for vm in vms], np.int64),
        np.zeros(len(vms)),
        np.zeros(len(vms), np.bool_),
        np.zeros((0, 0), np.int64),
        Ends(np.zeros(0), np.zeros(0, np.int64), np.zeros((0, 2), np.int64), 0.0),
    )
