"""Consolidation in a simulation: executors that are moved so that VMs of pools close.

`environment.pools.Consolidation` states the rules, `environment.decisions.moves` has the search.

VMs close whose executors all fit on other VMs in use, or
on these and one new VM of a lower price than all that close; that one boots first, and nothing is placed
on it or on those that close until then. A moved executor repeats the share of its work that its job's
profile gives for drained ones. Which VMs are tried follows Karpenter: several at once, then each alone, those
with the fewest executors first (`balanced`: those that save most for the disruption), a tenth of all VMs at a
time, and one move after the other. Empty VMs take nothing: they are about to close. Only `believed` and
`fitting` use what is known of durations.
"""

import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from conf.defaults import DRAIN_SECONDS
from conf.units import SECONDS_PER_HOUR
from environment.decisions.moves import (
    PAUSE,
    MovableExecutor,
    Packing,
    VmUse,
    believed_end,
    gain,
    in_turn,
    most_at_once,
    packed,
)
from environment.kernel.leases import BOOT, CLOSES, READY, TAKEN, leave_idle
from environment.kernel.rules import leave_vm, take_vm
from environment.kernel.state import Batch
from environment.pools import Consolidation
from environment.resources import BASIC, CPUS
from environment.simulation.cluster import SimulatedCluster
from environment.simulation.faults.missing_executors import MissingExecutors
from environment.types import FloatArray, IntArray, Job, Vm
from environment.view import RunningJob

#: Karpenter's default: how many types could replace a single spot VM where a spot VM replaces it.
_FLEXIBLE = 15
_BASIC = frozenset(BASIC)
#: An executor of a job, by its number, at its place in the kernel.
_Executor = MovableExecutor[int]


@dataclass(frozen=True, slots=True)
class _Move:
    """VMs that close, the new one that replaces them, if any, and the VM of each executor that is moved."""

    closes: tuple[int, ...]
    opens: int | None
    to: Mapping[int, Mapping[int, int]]
    saved: float
    #: Dollars of other VMs that are used longer.
    longer: float = 0.0


class _Draining(NamedTuple):
    """Executors that leave VMs until then: the VMs, the jobs, and the resources that they hold on each.

    `held` are milli-cpus and MiB by VM; int64 [2, number of VMs].
    """

    at: float
    closes: tuple[int, ...]
    jobs: frozenset[int]
    held: IntArray


class SimulatedConsolidation:
    """Moves executors in row 0 of a batch; jobs and VMs by their numbers in the kernel."""

    def __init__(
        self,
        rule: Consolidation,
        batch: Batch,
        vms: Sequence[Vm],
        cluster: SimulatedCluster,
        missing: MissingExecutors,
        running: Mapping[int, RunningJob],
        hold: Callable[[int], None],
    ) -> None:
        """Call `hold` with the number of each job with moved executors."""
        self._rule, self._batch, self._vms, self._cluster = rule, batch, vms, cluster
        self._missing, self._running, self._hold = missing, running, hold
        pools = ((vm.terms is not None and not vm.terms.always) for vm in vms)
        self._pool = np.fromiter(pools, np.bool_, len(vms))
        self._spot = np.array([vm.spot for vm in vms], np.bool_)
        self._whole = np.array([(vm.resources.get(CPUS), vm.memory_mib) for vm in vms], np.int64).T
        self._types = np.unique([vm.type for vm in vms], return_inverse=True)[1]
        #: Replacements that boot: when each is up, and what it replaces.
        self._booting: list[tuple[float, _Move]] = []
        self._barred: dict[object, NDArray[np.bool_]] = {}
        #: Time of the last move; what was there at the last look, and since when it is on each VM.
        self._moved = -math.inf
        self._seen = self._resources()
        self._since = np.zeros(len(vms))
        self._tried = b""
        #: Executors that were moved within the last hour, each by the time of its move.
        self._within_hour = deque[float]()
        #: By `fitting`: executors that are drained still.
        self._draining: list[_Draining] = []

    def next_at(self) -> float:
        """Time at which a replacement is up, or something may be moved that may not be now; else infinity."""
        next_move = self._moved + PAUSE
        ripe = self._since[self._batch.state.held[0, : len(self._vms)] > 0] + self._rule.after
        ends = (each[0] for each in (*self._booting, *self._draining))
        ready = self._batch.machines.leases[0, : len(self._vms), READY]
        starts = ready[ready > self._now].tolist() if self._rule.name == "fitting" else ()
        times = (*ends, *starts, *ripe[ripe > self._now].tolist())
        return min(times if next_move <= self._now else (*times, next_move), default=math.inf)

    def look(self, *, waiting: bool) -> None:
        """Begin a move that pays now, if none of the jobs is `waiting`: it would use the room first."""
        resources = self._resources()
        self._since[(resources != self._seen).any(axis=0)] = self._now
        self._seen = resources
        if waiting or self._now < self._moved + PAUSE:
            return
        if (now := self._state()) != self._tried:
            self._tried = now
            if (move := self._found()) is not None:
                self._begin(move)
                self._moved = self._now

    def finish(self, at: float) -> None:
        """Move executors to the replacements that are up by then, where there is anything left to move.

        A spot VM that is taken away while it boots replaces nothing. Executors that are drained by then hold
        nothing any more.
        """
        drained = [each for each in self._draining if each.at <= at]
        self._draining = [each for each in self._draining if each.at > at]
        for each in drained:
            self._tried = b""
            self._hold_on(each.closes, -each.held)
        for due in [each for each in self._booting if each[0] <= at or self._is_taken(each[1], at)]:
            self._booting.remove(due)
            move = due[1]
            for vm in (*move.closes, *self._opened(move)):
                del self._cluster.left_out[self._vms[vm].id]
            on = self._on(move.closes).values()
            executors = [] if None in on else [each for found in on for each in found or ()]
            (opened,) = self._opened(move)
            up = self._up()
            up[list(move.closes)] = False
            up[opened] = self._batch.machines.leases[0, opened, TAKEN] > self._now
            to, rest, _ = self._packed(executors, up)
            if executors and not rest:
                self._shift(to)
            leave_vm(self._batch, 0, opened, self._now)

    def _begin(self, move: _Move) -> None:
        """Make the move, or open the replacement first."""
        if move.opens is None:
            self._shift(move.to, move.closes)
            return
        supply = self._cluster.supply
        if supply is not None and not supply.open([move.opens]):
            return
        take_vm(self._batch, 0, move.opens)  # which opens it, and holds it while it boots
        for vm in (*move.closes, move.opens):
            self._cluster.left_out[self._vms[vm].id] = "is left out while its executors are moved"
        self._booting.append((float(self._batch.machines.leases[0, move.opens, READY]), move))

    def _shift(self, to: Mapping[int, Mapping[int, int]], closes: Sequence[int] = ()) -> None:
        """Move the executors; by `fitting` they hold their resources and VMs until they are drained."""
        state, at = self._batch.state, list(closes)
        before = np.stack((state.free_milli_cpus[0, at], state.free_memory_mib[0, at])).astype(np.int64)
        for number, of in to.items():
            self._missing.shift(number, of)
            self._hold(number)
            self._within_hour += [self._now] * len(of)
        if self._rule.name == "fitting":
            until = self._now + DRAIN_SECONDS
            after = np.stack((state.free_milli_cpus[0, at], state.free_memory_mib[0, at])).astype(np.int64)
            self._draining.append(_Draining(until, tuple(closes), frozenset(to), after - before))
            self._hold_on(closes, after - before)
            for vm in closes:
                leave_idle(self._batch, 0, vm, until)

    def _hold_on(self, vms: Sequence[int], held: IntArray) -> None:
        """These resources of VMs are not free now; free again with a minus."""
        self._batch.state.free_milli_cpus[0, list(vms)] -= held[0]
        self._batch.state.free_memory_mib[0, list(vms)] -= held[1]

    def _found(self) -> _Move | None:
        """The first move that pays, in Karpenter's order; None without one."""
        is_open, up = self._open(), self._up()
        prices = self._batch.machines.price_per_hour[0, : len(self._vms)]
        moving = sum(len(move.closes) for _, move in self._booting)
        moving += sum(len(each.closes) for each in self._draining)
        most = most_at_once(np.count_nonzero(is_open), moving)
        held = self._batch.state.held[0, : len(self._vms)]
        disruption = 1.0 + held
        ripe = up & (self._since + self._rule.after <= self._now)
        on = self._on(np.flatnonzero(ripe).tolist())
        candidates = [vm for vm, found in on.items() if found is not None]
        worth = prices / disruption if self._rule.name == "balanced" else -disruption
        candidates.sort(key=lambda vm: -worth[vm])
        # A VM that closes by another move, and is already empty, is left out until that move is made.
        opens = self._alive() & self._pool & ~is_open & ~self._in_moves()
        if left_out := self._cluster.not_opened():
            opens &= np.array([vm.id not in left_out for vm in self._vms])
        there, use = up, None
        if self._rule.name == "fitting":
            opens[:], there, use = False, up | (self._alive() & ~self._pool), self._use(prices)
        best, most_gained = None, 0.0
        for closes in in_turn(candidates, most):
            executors = [each for vm in closes for each in on[vm] or ()]
            move = self._move(closes, executors, opens, there, prices, use)
            if move is None or not self._allowed(len(executors)):
                continue
            disturbed = sum(held[vm] for vm in closes) / disruption[is_open].sum()
            if not self._rule.pays(move.saved / prices[is_open].sum(), disturbed):
                continue
            if not self._rule.by_belief:
                return move
            gained = self._gains(move, executors, prices, use)
            if gained > most_gained:
                best, most_gained = move, gained
                if use is None:
                    return move
        return best

    def _allowed(self, executors: int) -> bool:
        """Whether so many executors more may be moved within this hour."""
        while self._within_hour and self._within_hour[0] <= self._now - SECONDS_PER_HOUR:
            self._within_hour.popleft()
        return self._rule.per_hour is None or len(self._within_hour) + executors <= self._rule.per_hour

    def _use(self, prices: FloatArray) -> VmUse[int]:
        """Until when VMs are believed to be used; those that are always there cost the same, used or not."""
        ends = {number: believed_end(job, self._now) for number, job in self._running.items()}
        until = np.full(len(self._vms), self._now)
        for vm, jobs in self._missing.by_vm().items():
            until[vm] = max(ends[number] for number, _ in jobs)
        return VmUse(until, np.where(self._pool, prices, 0.0), ends)

    def _gains(
        self, move: _Move, executors: Sequence[_Executor], prices: FloatArray, use: VmUse[int] | None
    ) -> float:
        """Dollars that a move saves by beliefs, less a boot or draining, and repeated work."""
        closes, repeated = list(move.closes), 0.0
        for number, at, milli_cpus, _ in executors:
            rework = self._running[number].job.rework.drained
            repeated += rework * self._missing.worked(number, at) * milli_cpus
        per_core = float(prices[closes].sum()) / int(self._whole[0, closes].sum())
        if use is not None:
            saved = float((prices[closes] * (use.until[closes] - self._now - DRAIN_SECONDS)).sum())
            return gain(saved / SECONDS_PER_HOUR, repeated, per_core, move.longer)
        until = max(believed_end(self._running[each.job], self._now) for each in executors)
        boot = opening = 0.0
        if move.opens is not None:
            boot = float(self._batch.machines.leases[0, move.opens, BOOT])
            opening = boot * float(prices[move.opens]) / SECONDS_PER_HOUR
        saved = move.saved * (until - self._now - boot) / SECONDS_PER_HOUR
        return gain(saved, repeated, per_core, opening)

    def _move(
        self,
        closes: Sequence[int],
        executors: Sequence[_Executor],
        opens: NDArray[np.bool_],
        up: NDArray[np.bool_],
        prices: FloatArray,
        use: VmUse[int] | None,
    ) -> _Move | None:
        """A move that closes these VMs with their executors; None when there is none that saves anything.

        `opens` are the VMs that may be opened, `up` those that executors may be moved to; bool [N].
        """
        there = up.copy()
        there[list(closes)] = False
        to, rest, longer = self._packed(executors, there, use)
        whole = float(prices[list(closes)].sum())
        if not rest:
            return _Move(tuple(closes), None, to, whole, longer)
        least = whole
        needed = np.array([(each.milli_cpus, each.memory_mib) for each in rest]).sum(axis=0)
        fits = opens & (self._whole >= needed[:, None]).all(axis=0)
        for number in {each.job for each in rest}:
            fits &= ~self._bars(self._running[number].job)
        fits &= prices < least
        # A new VM of the type of one that closes would only be that one again.
        for vm in closes:
            if (fits & (self._types == self._types[vm])).any():
                least = min(least, float(prices[vm]))
        fits &= prices < least
        if self._spot[list(closes)].all():
            types = {self._vms[vm].type for vm in np.flatnonzero(fits & self._spot)}
            if not self._rule.spot_to_spot or (len(closes) == 1 and len(types) < _FLEXIBLE):
                return None
        if not fits.any():
            return None
        opened = int(np.argmin(np.where(fits, prices, np.inf)))
        return _Move(tuple(closes), opened, to, whole - float(prices[opened]))

    def _packed(
        self, executors: Iterable[_Executor], up: NDArray[np.bool_], use: VmUse[int] | None = None
    ) -> Packing[int]:
        """The VM of `up` for each executor, by the kernel's free resources."""
        state, count = self._batch.state, len(self._vms)
        free = np.stack((state.free_milli_cpus[0, :count], state.free_memory_mib[0, :count]))
        return packed(executors, free, up, lambda number: self._bars(self._running[number].job), use)

    def _on(self, vms: Sequence[int]) -> dict[int, list[_Executor] | None]:
        """Executors on each of these VMs; None where one cannot be moved now."""
        there = self._missing.by_vm()
        return {vm: self._movable(there.get(vm, ())) for vm in vms}

    def _movable(self, jobs: Iterable[tuple[int, Sequence[int]]]) -> list[_Executor] | None:
        found = list[_Executor]()
        for number, executors in jobs:
            running = self._running.get(number)
            if running is None or self._batch.state.start[0, number] > self._now:
                return None
            if any(number in each.jobs for each in self._draining):
                return None
            if self._missing.waits(number) or not running.job.size.thousandths.keys() <= _BASIC:
                return None
            if self._rule.name == "fitting" and not running.job.restartable:
                return None
            for at in executors:
                size = self._missing.size(running.job, at)
                found.append(MovableExecutor(number, at, size.get(CPUS), size.memory_mib))
        return found

    def _bars(self, job: Job) -> NDArray[np.bool_]:
        """VMs that bar a job of cpus and memory alone; bool [N]."""
        if job.uses not in self._barred:
            self._barred[job.uses] = np.array([bool(job.barred(vm)) for vm in self._vms], np.bool_)
        return self._barred[job.uses]

    def _open(self) -> NDArray[np.bool_]:
        """VMs of pools that are open; bool [N]."""
        lease = self._batch.machines.leases[0, : len(self._vms)]
        is_open: NDArray[np.bool_] = (lease[:, CLOSES] >= self._now) & (lease[:, TAKEN] > self._now)
        return is_open & self._pool & self._alive()

    def _up(self) -> NDArray[np.bool_]:
        """Those of them that are up and in use, and take part in no move; bool [N]."""
        count = len(self._vms)
        up = self._open() & (self._batch.machines.leases[0, :count, READY] <= self._now)
        up &= self._batch.state.held[0, :count] > 0
        return up & ~self._in_moves()

    def _is_taken(self, move: _Move, at: float) -> bool:
        """Whether the replacement is taken away by then."""
        return any(self._batch.machines.leases[0, vm, TAKEN] <= at for vm in self._opened(move))

    def _in_moves(self) -> NDArray[np.bool_]:
        """VMs that take part in a move while its replacement boots; bool [N]."""
        found = np.zeros(len(self._vms), np.bool_)
        for _, move in self._booting:
            found[[*move.closes, *self._opened(move)]] = True
        return found

    def _alive(self) -> NDArray[np.bool_]:
        """VMs that are not lost; bool [N]."""
        alive = np.zeros(len(self._vms), np.bool_)
        alive[self._cluster.there] = True
        return alive

    def _resources(self) -> IntArray:
        """Executors and free resources of each VM; int64 [3, N]."""
        state, count = self._batch.state, len(self._vms)
        free = state.free_milli_cpus[0, :count], state.free_memory_mib[0, :count]
        resources: IntArray = np.stack((state.held[0, :count], *free)).astype(np.int64)
        return resources

    def _state(self) -> bytes:
        """Equal of moments with the same possible moves."""
        ripe = self._since + self._rule.after <= self._now
        return b"".join((self._seen.tobytes(), self._up().tobytes(), ripe.tobytes()))

    @staticmethod
    def _opened(move: _Move) -> tuple[int, ...]:
        return () if move.opens is None else (move.opens,)

    @property
    def _now(self) -> float:
        return float(self._batch.state.clock[0])
