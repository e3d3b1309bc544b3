"""Missing executors of running jobs: their jobs, the times of their losses, and their placement again.

`executor_losses` decides the loss of a VM or an executor; `progress` computes the job's progress then.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from conf.defaults import DRAIN_SECONDS, NEVER
from conf.units import SECONDS_PER_HOUR
from environment.kernel.completion_heap import reorder_ends
from environment.kernel.leases import BOOT, RATE, READY
from environment.kernel.resized_jobs import SparedResources
from environment.kernel.state import Batch
from environment.model.messages.options import RELAUNCH_GRACE
from environment.resources import CPUS, Resources
from environment.scale_up import expected_of
from environment.simulation.durations.endless_jobs import Exposure
from environment.simulation.faults.losses import Executors, Interruptions, Stint, move
from environment.simulation.faults.progress import Progress
from environment.types import Job, PlacementRequest
from environment.view import RunningJob


class MissingExecutors:
    """Executors that are elsewhere than where their jobs began; jobs and VMs by their numbers in the kernel.

    `running` and `given` are shared with the world: the jobs that run, and the executors' sizes, by their
    place in the kernel, where they differ from the job's request.
    """

    def __init__(
        self,
        batch: Batch,
        spared: SparedResources,
        ids: Sequence[str],
        running: dict[int, RunningJob],
        given: dict[int, Resources],
        take: Callable[[Sequence[str], Sequence[Resources], int], None],
        *,
        as_daemon: bool,
    ) -> None:
        """`ids` are those of the VMs, behind which the kernel has one more, where lost executors are.

        `take` records the resources that executors on VMs take, or (-1) give back, beside cpus and memory.
        `as_daemon`: beliefs about a job are those of a daemon, by where its executors are.
        """
        self._batch, self._spared, self._ids = batch, spared, ids
        self._running, self._given, self._take = running, given, take
        self._as_daemon = as_daemon
        self._executors: dict[int, Executors] = {}
        #: Jobs of which executors are missing, and when these may be placed again.
        self._due: dict[int, float] = {}
        #: Places of executors that were given to other jobs, by job.
        self._left: dict[int, list[int]] = {}
        #: For the bill: ended stints of lost executors, and since when others are where they are.
        self.stints: list[Stint] = []
        self.since: dict[int, float] = {}
        #: Where executors were at first that are elsewhere now.
        self.first: dict[int, int] = {}
        #: Totals of VMs that were taken away.
        self.interruptions = Interruptions()
        #: Jobs that never end on spot VMs, and were given up, and why.
        self.given_up: dict[int, str] = {}

    def began(self, number: int, executors: int) -> None:
        """A job has started with so many executors."""
        first = int(self._batch.jobs.first[0, number])
        self._executors[number] = Executors(list(range(first, first + executors)))

    def joined(self, number: int, executors: Sequence[int]) -> None:
        """More executors of a running job are where they were placed."""
        for at in executors:
            self.since[at] = self._now
        if number in self._executors:
            self._executors[number].order += executors

    def lacks(self, number: int) -> bool:
        """Whether executors of the job are missing, or it was interrupted."""
        of = self._executors.get(number)
        return of is not None and (bool(of.lost) or of.progress is not None)

    def steady(self, number: int) -> bool:
        """Whether the job has had the same executors since its start."""
        of = self._executors.get(number)
        left = number in self._left or self.lacks(number)
        return of is None or not (left or any(at in self.since for at in of.order))

    def waits(self, number: int) -> bool:
        """Whether executors of the job are missing now."""
        return bool(self._executors[number].lost)

    def worked(self, number: int, at: int) -> float:
        """Seconds for which an executor of a job has been where it is."""
        began = self._executors[number].began.get(at, float(self._batch.state.start[0, number]))
        return max(self._now - began, 0.0)

    def ended(self, number: int) -> None:
        """A job is over."""
        self._left.pop(number, None)
        self._executors.pop(number, None)
        self._due.pop(number, None)

    def by_vm(self) -> dict[int, list[tuple[int, list[int]]]]:
        """Jobs with executors on a VM, and these executors, by VM."""
        jobs = [(number, at) for number, of in self._executors.items() for at in of.present]
        on = self._batch.state.placement[0, [at for _, at in jobs]].tolist()
        found = dict[int, list[tuple[int, list[int]]]]()
        for (number, at), vm in zip(jobs, on, strict=True):
            there = found.setdefault(vm, [])
            if not there or there[-1][0] != number:
                there.append((number, []))
            there[-1][1].append(at)
        return found

    def present(self, number: int) -> list[int]:
        """The executors of a job that run, in the order of their launch."""
        return self._executors[number].present

    def next_due(self) -> float:
        """Earliest future time at which missing executors may be placed; infinity when there is none."""
        return min((at for at in self._due.values() if at > self._now), default=math.inf)

    def requests(self) -> list[PlacementRequest]:
        """Requests for missing executors that may be placed now."""
        return [self._request(number) for number, at in self._due.items() if at <= self._now]

    def interrupt(
        self, number: int, executors: list[int], notice: float, share: float, *, moves: bool = False
    ) -> None:
        """Executors leave a VM that is taken away: they are missing, and that share is done again.

        A job may be given up for that, but not where it only `moves`.
        """
        state, running, of = self._batch.state, self._running[number], self._executors[number]
        start, end = float(state.start[0, number]), float(state.end[0, number])
        gone = {at: share * self.worked(number, at) for at in executors}
        if of.progress is None:
            of.progress = Progress(len(of.order), start, end - start)
            if running.expected is not None and not self._as_daemon:
                of.believed = Progress(len(of.order), start, running.expected)
        exposure = self._exposure(of, executors[0], share)
        again = of.progress.lose(self._now, gone)
        if of.believed is not None:
            of.believed.lose(self._now, gone)
        self.interruptions.executors += len(executors)
        self.interruptions.work_lost += again * sum(self.size(running.job, at).cpus for at in of.order)
        self._ends(number, of.progress.end())
        self.lose(number, executors, 0.0 if notice > 0 else RELAUNCH_GRACE)
        if moves:
            return
        if exposure.never_ends(of.progress.whole):
            self._give_up(
                number, f"at this rate ({exposure.rate * SECONDS_PER_HOUR:g} interruptions an hour)"
            )
        elif exposure.rate <= 0.0 and of.progress.repeated > NEVER * of.progress.whole:
            self._give_up(number, "with the recorded interruptions")  # no rate predicts those

    def shift(self, number: int, to: Mapping[int, int]) -> None:
        """Drain executors of a job, none of which is missing, and go on with each on its VM of `to`."""
        executors = [at for at in self.present(number) if at in to]
        rework = self._running[number].job.rework
        self.interrupt(number, executors, DRAIN_SECONDS, rework.drained, moves=True)
        request = self._request(number)
        self.place(request, [to[at] for at in executors], request.asked)

    def _exposure(self, of: Executors, taken: int, share: float) -> Exposure:
        """Exposure of the job to interruptions like this executor's, on its executors' VMs."""
        leases, placement = self._batch.machines.leases[0], self._batch.state.placement[0]
        on = [int(placement[at]) for at in of.present]
        spot = [vm for vm in on if leases[vm, RATE] > 0.0]
        rate, boot = leases[placement[taken], [RATE, BOOT]].tolist()
        return Exposure(rate, boot, share, len({*spot}), len(spot) / len(on))

    def _give_up(self, number: int, why: str) -> None:
        """A job that never ends on its spot VMs ends now, and nothing of it is placed again."""
        start = float(self._batch.state.start[0, number])  # later than now, where its VM boots
        after = max(self._now - start, 0.0)
        self.given_up[number] = f"never ends on spot {why}: given up after {after:.0f} s"
        del self._due[number]
        self._ends(number, max(self._now, start))

    def lose(self, number: int, executors: list[int], pause: float = RELAUNCH_GRACE) -> None:
        """These executors of the job are missing from now on, and may be placed again after a pause."""
        for at in executors:
            self._executors[number].lost[at] = self._leave(number, at)
            self._due.setdefault(number, self._now + pause)
        self._show(number)

    def give(self, number: int, executors: Sequence[int]) -> None:
        """These executors of the job leave it for good; their places in the kernel may be used again."""
        for at in [*executors]:
            self._leave(number, at)
            self._executors[number].order.remove(at)
            self._left.setdefault(number, []).append(at)

    def _leave(self, number: int, at: int) -> int:
        """An executor leaves its VM, which is returned; its stint there is billed."""
        vm, size = int(self._batch.state.placement[0, at]), self.size(self._running[number].job, at)
        start = min(self.since.pop(at, float(self._batch.state.start[0, number])), self._now)
        self.stints.append(Stint(number, vm, start, self._now, size))
        self.since[at] = self._now
        self.first.setdefault(at, vm)
        move(self._batch, self._spared, number, at, len(self._ids))
        self._take([self._ids[vm]], [size], -1)
        return vm

    def _join(self, number: int, at: int, vm: int, size: Resources) -> None:
        """An executor of this size is on a VM from now on."""
        jobs = self._batch.jobs
        self._spared.milli_cpus[at] = jobs.milli_cpus[0, number] - size.get(CPUS)
        self._spared.memory_mib[at] = jobs.memory_mib[0, number] - size.memory_mib
        self._given[at] = size
        move(self._batch, self._spared, number, at, vm)
        self.since[at] = self._now

    def take_back(self, number: int, vms: Sequence[int], sizes: Sequence[Resources]) -> int:
        """More executors of the job, as many as have left it, are on the first of these VMs; how many."""
        left, took = self._left.get(number, []), 0
        for vm, size in zip(vms, sizes, strict=True):
            if not left:
                break
            at, took = left.pop(0), took + 1
            self._join(number, at, vm, size)
            self._executors[number].order.append(at)
        return took

    def began_again(self, number: int) -> None:
        """A job that was stopped begins anew, with no executor so far."""
        for at in self._left[number]:
            self.first.pop(at, None)
        self._left[number].sort()
        self._executors[number] = Executors([])

    def place(self, request: PlacementRequest, placement: list[int], sizes: tuple[Resources, ...]) -> None:
        """Place a job's missing executors on these VMs."""
        number = next(n for n, running in self._running.items() if running.job.id == request.job.id)
        executors = self._executors[number]
        del self._due[number]
        for at, vm, size in zip(executors.missing, placement, sizes, strict=True):
            self._join(number, at, vm, size)
            del executors.lost[at]
            executors.order.remove(at)
            executors.order.append(at)
            self._resume(number, at, vm)
        self._take([self._ids[vm] for vm in placement], sizes, 1)
        self._show(number)

    def had(self, number: int, running: RunningJob) -> tuple[tuple[str, ...], tuple[Resources, ...]]:
        """VMs of a job's executors, or of lost ones before their loss, and each executor's resources."""
        if number not in self._executors:
            return running.vm_ids, running.taken
        executors, placement = self._executors[number], self._batch.state.placement[0]
        vms = (executors.lost.get(at, int(placement[at])) for at in executors.order)
        sizes = tuple(self.size(running.job, at) for at in executors.order)
        return tuple(self._ids[vm] for vm in vms), sizes

    @property
    def _now(self) -> float:
        return float(self._batch.state.clock[0])

    def size(self, job: Job, at: int) -> Resources:
        """Resources of an executor."""
        return self._given.get(at, job.size)

    def _request(self, number: int) -> PlacementRequest:
        running, executors = self._running[number], self._executors[number]
        sizes = tuple(self.size(running.job, at) for at in executors.missing)
        alike = set(sizes) == {running.job.size}
        return PlacementRequest(running.job, len(sizes), running.vm_ids, True, 0, () if alike else sizes)

    def _resume(self, number: int, at: int, vm: int) -> None:
        """An executor that was missing is placed on a VM, and works there as soon as that is up."""
        of, leases = self._executors[number], self._batch.machines.leases
        ready = max(self._now, float(leases[0, vm, READY])) if leases.shape[1] else self._now
        of.began[at] = ready
        if of.progress is None:
            return
        for progress in filter(None, (of.progress, of.believed)):
            progress.replace(self._now, at, ready)
        self._ends(number, of.progress.end())

    def _ends(self, number: int, at: float) -> None:
        """A running job ends then, and not when it was to end before."""
        self._batch.state.end[0, number] = at
        reorder_ends(self._batch, 0)

    def _show(self, number: int) -> None:
        """Update the visible record of a job with executors that have moved since its start."""
        running, executors = self._running[number], self._executors[number]
        vm_ids = tuple(self._ids[self._batch.state.placement[0, at]] for at in executors.present)
        sizes = tuple(self.size(running.job, at) for at in executors.present)
        expected = running.expected
        if executors.believed is not None:
            end = executors.believed.end()
            expected = end - running.started_at if end < math.inf else None
        elif self._as_daemon:
            had_on, had = self.had(number, running)
            expected = expected_of(running.job, had, had_on, running.started_at, running.grown)
        sizes = () if sizes == running.job.asked else sizes
        self._running[number] = replace(running, vm_ids=vm_ids, expected=expected, sizes=sizes)
