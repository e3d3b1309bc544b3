"""The best placement of the head of the queue by integer programming on HiGHS (Islam 2022, 7.1 and eq. 1-6).

A model expresses placement quality and placement cost; HiGHS solves it. VMs that the model cannot
distinguish form one kind, and the model decides the number used of each kind. Without kinds, equal
solutions abound.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Literal, NamedTuple

import numpy as np

from agents.baselines.filling import deal
from agents.baselines.first_fit import FirstFit
from agents.estimates import (
    LEAST_WEIGHT,
    MOST_SECONDS,
    check_factor,
    check_limit,
    check_seconds,
    check_share,
    dollars_per_cpu_second,
    duration_of,
    effective_prices,
    held_for,
    rounded,
)
from conf.defaults import BAD_PLACEMENT_FACTOR, UNKNOWN_DURATION
from conf.units import SECONDS_PER_HOUR
from environment.decisions.feasibility import shortage
from environment.types import Decision, FloatArray, Place, PlacementRequest, Wait
from environment.view import ClusterView

#: Maximum of `nodes`, far above what a placement needs.
_MOST_NODES = 1_000_000


@dataclass(frozen=True, slots=True)
class IlpOptions:
    """Options of the integer program."""

    #: How much cost counts; the rest is time (Islam 2022, eq. 6).
    beta: float = 0.5
    #: How many nodes the solver may look at; then its best placement so far is taken, or first fit's. Chosen:
    #: more than it needs. Of 2500 random programs one took 7, the others none or one.
    nodes: int = 100
    #: Seconds after which a decision is cut short, as a safety stop: the decision then depends on how fast
    #: the machine is.
    time_limit: float = 30.0
    #: How much longer a job takes where it is not placed as its type prefers.
    bad_placement_factor: float = BAD_PLACEMENT_FACTOR
    #: Seconds that a job takes, or a VM is held, of which that is not known.
    unknown_duration: float = UNKNOWN_DURATION

    def __post_init__(self) -> None:
        check_share("beta", self.beta)
        check_limit("nodes", self.nodes, least=1, most=_MOST_NODES)
        check_seconds("time_limit", self.time_limit, MOST_SECONDS)
        check_factor("bad_placement_factor", self.bad_placement_factor)
        check_seconds("unknown_duration", self.unknown_duration)


class Kind(NamedTuple):
    """VMs that are alike to a request.

    `room` is the number of its executors that fit on each VM, `price_per_hour` the price of each VM for work
    that lasts (see `effective_prices`), and `held` the seconds for which each VM is held anyway. `present` is
    true if the job already has executors there. `boots` is the number of seconds until each VM is up. `opens`
    is true if that boot is charged as well, because the VM is closed.
    """

    vms: tuple[int, ...]
    room: int
    price_per_hour: float
    held: float
    present: bool
    boots: float = 0.0
    opens: bool = False


class Row(NamedTuple):
    """A linear constraint: lower <= sum of values * v[columns] <= upper."""

    columns: Sequence[int]
    values: Sequence[float]
    lower: float
    upper: float


class Program(NamedTuple):
    """Minimise costs @ v with 0 <= v <= most under all rows; all of v but z are whole numbers.

    v is, with K kinds that boot for W different times: x [K] executors, y [K] VMs used, z [K] VMs used by a
    badly placed job, g [1] whether the placement is good, w [W] whether the job waits for so long a boot.
    """

    costs: FloatArray  # [3 K + 1 + W]
    most: FloatArray  # [3 K + 1 + W]
    rows: Sequence[Row]
    kinds: int


class IntegerProgram:
    """Integer program: the placement with the least beta x cost + (1 - beta) x time for the job."""

    def __init__(self, options: IlpOptions) -> None:
        self._options = options
        self._solver = Solver(options.nodes, options.time_limit)
        #: How many decisions the time limit cut short.
        self.cut_short = 0

    def decide(self, view: ClusterView, queue: Sequence[PlacementRequest]) -> Decision:
        """Place the head of the queue best for itself as things are, or wait if it does not fit."""
        request, options = queue[0], self._options
        kinds = kinds_of(view, request, options)
        if sum(kind.room * len(kind.vms) for kind in kinds) < request.count:
            return Wait(shortage(view, request))
        solution = self._solver.solve(program_of(view, request, kinds, options))
        self.cut_short += solution.stopped_by == "time"
        limits = {"": "", "nodes": f" in {options.nodes} nodes", "time": f" in {options.time_limit:g} s"}
        within = limits[solution.stopped_by]
        placement = None if solution.values is None else _placement(kinds, solution.values, request.count)
        if placement is None:
            return _first_fit(view, queue, within)
        found = f"the best placement found{within}" if within else "the best placement"
        why = f"is part of {found} for beta {options.beta:g}"
        return Place(request.job.id, placement, tuple(f"{view.vms[i].name} {why}" for i in placement))


def _first_fit(view: ClusterView, queue: Sequence[PlacementRequest], within: str) -> Decision:
    decision = FirstFit().decide(view, queue)
    if isinstance(decision, Wait):
        return decision
    late = f"the solver found no placement{within}, so first fit: "
    return replace(decision, why=tuple(late + why for why in decision.why))


def kinds_of(view: ClusterView, request: PlacementRequest, options: IlpOptions) -> list[Kind]:
    """The VMs on which an executor fits, those together that are alike to the request."""
    room = np.minimum(view.room_for(request), request.count)
    longest = duration_of(request.job, options.unknown_duration) * options.bad_placement_factor
    # A VM that is held for longer than the job can take costs nothing more, however long that is.
    held = np.minimum(held_for(view, options.unknown_duration), longest)
    boots = np.zeros(len(view.vms))
    if view.openings is not None:
        boots = rounded(np.maximum(view.openings.ready_at - view.at, 0.0))
    prices = effective_prices(view, request.job, options.unknown_duration).tolist()
    found: dict[tuple[int, float, float, bool, float, bool], list[int]] = {}
    for i in np.flatnonzero(room).tolist():
        vm, opens = view.vms[i], not bool(view.is_open[i])
        there = vm.id in request.present_on
        alike = (int(room[i]), prices[i], float(held[i]), there, float(boots[i]), opens)
        found.setdefault(alike, []).append(i)
    return [Kind(tuple(vms), *alike) for alike, vms in found.items()]


def program_of(
    view: ClusterView, request: PlacementRequest, kinds: Sequence[Kind], options: IlpOptions
) -> Program:
    """Build the program for one request.

    Cost is the price of the used VMs for the time beyond which they are held anyway, as a multiple of the
    cost of the job's cores at the cluster's average price. Time is a multiple of the job's duration when
    placed well. So both are 1 for a job of any size that is placed perfectly on new VMs. A closed VM adds the
    cost of its boot, and the job takes longer by the longest boot of its VMs.
    """
    size = len(kinds)
    duration = duration_of(request.job, options.unknown_duration)
    cost_weight = max(options.beta, LEAST_WEIGHT)
    time_weight = max(1 - options.beta, LEAST_WEIGHT)
    cores = request.cpus * request.count * duration * dollars_per_cpu_second(view)
    prices = np.array([kind.price_per_hour for kind in kinds]) / SECONDS_PER_HOUR / cores * cost_weight
    held = np.array([kind.held for kind in kinds])
    longer_if_good = np.maximum(duration - held, 0.0) + [kind.boots * kind.opens for kind in kinds]
    worse = np.maximum(duration * options.bad_placement_factor - held, 0.0) - np.maximum(duration - held, 0.0)
    saved = time_weight * (options.bad_placement_factor - 1)
    waits = sorted({kind.boots for kind in kinds if kind.boots > 0.0})
    longer = time_weight * np.diff([0.0, *waits]) / duration
    costs = (np.zeros(size), prices * longer_if_good, prices * worse, [-saved], longer)
    vms = np.array([len(kind.vms) for kind in kinds], dtype=np.float64)
    executors = np.array([min(kind.room * len(kind.vms), request.count) for kind in kinds], dtype=np.float64)
    most = np.concatenate((executors, np.minimum(vms, request.count), vms, np.ones(1 + len(waits))))
    rows = [*_usage_rows(kinds, request.count), *_goodness_rows(request, kinds), *_boot_rows(kinds, waits)]
    return Program(np.concatenate(costs), most, rows, size)


def _boot_rows(kinds: Sequence[Kind], waits: Sequence[float]) -> Iterator[Row]:
    """Rows for boot waits: a job that uses a VM waits for its boot, and thus for all shorter boots."""
    for w, wait in enumerate(waits, 3 * len(kinds) + 1):
        for y, kind in enumerate(kinds, len(kinds)):
            if kind.boots >= wait:
                yield Row((y, w), (1, -len(kind.vms)), -np.inf, 0)


def _usage_rows(kinds: Sequence[Kind], count: int) -> Iterator[Row]:
    """All executors are placed; a VM used has one at least and no more than fit; z is y when g is 0."""
    size = len(kinds)
    yield Row(range(size), [1] * size, count, count)
    for x, kind in enumerate(kinds):
        y, z, g = x + size, x + 2 * size, 3 * size
        yield Row((x, y), (1, -kind.room), -np.inf, 0)
        yield Row((x, y), (1, -1), 0, np.inf)
        yield Row((z, y, g), (1, -1, min(len(kind.vms), count)), 0, np.inf)


def _goodness_rows(request: PlacementRequest, kinds: Sequence[Kind]) -> Iterator[Row]:
    """Conditions for g to be 1, given the VMs of the job's other executors; `is_good` of the kernel."""
    size, count, there = len(kinds), request.count, request.present_on
    if request.job.prefers is None or count + len(there) == 1:
        return
    used = range(size, 2 * size)
    elsewhere = [y for y, kind in zip(used, kinds, strict=True) if not kind.present]
    g = 3 * size
    if request.job.prefers == "spread":
        # Every executor on a VM of its own.
        yield Row((*elsewhere, g), (*[1] * len(elsewhere), -count), 0, np.inf)
        possible = len(set(there)) == len(there)
    else:
        # One VM at most, and if the job is on one already, none but that.
        counted, allowed = (elsewhere, 0) if there else (used, 1)
        yield Row((*counted, g), (*[1] * len(counted), count - allowed), -np.inf, count)
        possible = len(set(there)) <= 1
    if not possible:
        yield Row((g,), (1,), 0, 0)


#: The limit that stopped a search; empty when none did, and no solution is better.
Limit = Literal["", "nodes", "time"]


class Solution(NamedTuple):
    """The best v found for a program, None if there is none, and the limit that stopped HiGHS."""

    values: FloatArray | None  # [3 K + 1 + W]
    stopped_by: Limit


#: By itself HiGHS stops within a ten-thousandth of the best, and time counts for a thousandth at beta 1.
_EXACT = {"mip_rel_gap": 0.0, "mip_abs_gap": 0.0}


class SolverError(RuntimeError):
    """HiGHS did not solve a program, for another reason than that a limit was reached."""


class Solver:
    """A HiGHS instance for all programs of a policy: creating it takes longer than a small solve.

    It uses one thread on every machine, so that the result depends on the program alone, unless `time_limit`
    (seconds) is reached before `nodes`. HiGHS binds its threads to the calling thread, and refuses to run
    where other code used HiGHS before with another number of threads.
    """

    def __init__(self, nodes: int, time_limit: float) -> None:
        import highspy  # here, since it takes 30 ms that no other policy needs

        self._highspy: Any = highspy
        self._highs: Any = highspy.Highs()
        options = {
            "output_flag": False,
            "threads": 1,
            "mip_max_nodes": nodes,
            "time_limit": time_limit,
            **_EXACT,
        }
        for option, value in options.items():
            self._check(f"taking the option {option}", self._highs.setOptionValue(option, value))

    def solve(self, program: Program) -> Solution:
        """The best v that is found within the limits.

        SolverError when HiGHS failed, or found that no v can be. There is one for all of `program_of`.
        """
        highs, highspy = self._highs, self._highspy
        self._check("reading a program", highs.passModel(self._model(program)))
        if highs.run() == highspy.HighsStatus.kError:
            highspy.Highs.resetGlobalScheduler(True)  # the threads that this thread has of someone else
            self._check("solving a program", highs.run())
        end, ends = highs.getModelStatus(), highspy.HighsModelStatus
        limits: dict[Any, Limit] = {ends.kOptimal: "", ends.kSolutionLimit: "nodes", ends.kTimeLimit: "time"}
        if end not in limits:
            raise SolverError(f"HiGHS ended with: {highs.modelStatusToString(end)}")
        feasible = highs.getInfo().primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
        return Solution(np.array(highs.getSolution().col_value) if feasible else None, limits[end])

    def _check(self, doing: str, status: Any) -> None:
        if status == self._highspy.HighsStatus.kError:
            raise SolverError(f"HiGHS failed {doing}")

    def _model(self, program: Program) -> Any:
        highspy, rows, kinds = self._highspy, program.rows, program.kinds
        model = highspy.HighsLp()
        model.num_row_, model.num_col_ = len(rows), len(program.costs)
        model.col_cost_, model.col_upper_ = program.costs, program.most
        model.col_lower_ = np.zeros(len(program.costs))
        model.row_lower_ = np.array([row.lower for row in rows], dtype=np.float64)
        model.row_upper_ = np.array([row.upper for row in rows], dtype=np.float64)
        model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        model.a_matrix_.start_ = np.cumsum([0, *(len(row.columns) for row in rows)], dtype=np.int32)
        model.a_matrix_.index_ = np.fromiter(chain.from_iterable(row.columns for row in rows), np.int32)
        model.a_matrix_.value_ = np.fromiter(chain.from_iterable(row.values for row in rows), np.float64)
        whole, real = highspy.HighsVarType.kInteger, highspy.HighsVarType.kContinuous
        model.integrality_ = [whole] * (2 * kinds) + [real] * kinds
        model.integrality_ += [whole] * (len(program.costs) - 3 * kinds)
        return model


def _placement(kinds: Sequence[Kind], solution: Any, count: int) -> tuple[int, ...] | None:
    """Convert the program's numbers to one VM per executor; None if their number differs from `count`."""
    placement: list[int] = []
    for k, kind in enumerate(kinds):
        executors, used = round(solution[k]), round(solution[len(kinds) + k])
        vms = np.array(kind.vms[:used], dtype=np.int64)
        room = np.full(max(kind.vms) + 1, kind.room, dtype=np.int64)
        placement += deal(room, vms, executors)
    return tuple(sorted(placement)) if len(placement) == count else None
