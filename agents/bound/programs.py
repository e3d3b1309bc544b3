"""Linear and integer programs for HiGHS, column by column, and their solutions."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from environment.types import FloatArray

#: A column: the numbers of its rows, and its values there.
Cells = tuple[FloatArray, FloatArray]


@dataclass(frozen=True, slots=True)
class BoundProgram:
    """Minimise costs @ v, 0 <= v <= most and lower <= A v <= upper; the first `whole` are whole numbers."""

    costs: FloatArray
    most: FloatArray
    lower: FloatArray
    upper: FloatArray
    start: FloatArray
    index: FloatArray
    value: FloatArray
    whole: int


@dataclass(frozen=True, slots=True)
class ProgramSolution:
    """A solution: value and v (none if nothing was found), a lower bound of the value, rows' duals."""

    value: float
    values: FloatArray
    limit: float
    duals: FloatArray
    proven: bool


class ProgramError(RuntimeError):
    """HiGHS failed."""


def program(
    costs: Sequence[float],
    cells: Sequence[Cells],
    lower: FloatArray,
    upper: FloatArray,
    *,
    whole: int = 0,
    most: FloatArray | None = None,
) -> BoundProgram:
    """A program of columns."""
    lengths = [len(rows) for rows, _ in cells]
    return BoundProgram(
        costs=np.array(costs, np.float64),
        most=np.full(len(costs), np.inf) if most is None else most,
        lower=lower,
        upper=upper,
        start=np.cumsum([0, *lengths]),
        index=np.concatenate([rows for rows, _ in cells]) if cells else np.zeros(0),
        value=np.concatenate([values for _, values in cells]) if cells else np.zeros(0),
        whole=whole,
    )


class BoundSolver:
    """HiGHS on one thread, so that the result depends on the program alone, unless time runs out."""

    def __init__(self, seconds: float = 1e9, gap: float = 1e-6) -> None:
        import highspy  # here, since it takes 30 ms

        self._highspy: Any = highspy
        self._highs: Any = highspy.Highs()
        options = {"output_flag": False, "threads": 1, "time_limit": seconds, "mip_rel_gap": gap}
        for option, value in options.items():
            self._highs.setOptionValue(option, value)

    def solve(self, given: BoundProgram, begin: FloatArray | None = None) -> ProgramSolution:
        """The best v; ProgramError when HiGHS fails or no v can be. The search may `begin` at a v."""
        highs, highspy = self._highs, self._highspy
        if highs.passModel(self._model(given)) == highspy.HighsStatus.kError:
            raise ProgramError("HiGHS failed reading a program")
        if begin is not None:
            solution = highspy.HighsSolution()
            solution.col_value = begin.tolist()
            highs.setSolution(solution)
        if highs.run() == highspy.HighsStatus.kError:
            highspy.Highs.resetGlobalScheduler(True)  # the threads that this thread has of someone else
            if highs.run() == highspy.HighsStatus.kError:
                raise ProgramError("HiGHS failed solving a program")
        status, ends, info = highs.getModelStatus(), highspy.HighsModelStatus, highs.getInfo()
        if status not in (ends.kOptimal, ends.kTimeLimit):
            raise ProgramError(f"HiGHS ended with: {highs.modelStatusToString(status)}")
        feasible = info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
        value = float(info.objective_function_value) if feasible else float("inf")
        return ProgramSolution(
            value=value,
            values=np.array(highs.getSolution().col_value) if feasible else np.zeros(0),
            limit=float(info.mip_dual_bound) if given.whole else value,
            duals=np.array(highs.getSolution().row_dual),
            proven=bool(status == ends.kOptimal),
        )

    def _model(self, given: BoundProgram) -> Any:
        highspy = self._highspy
        model = highspy.HighsLp()
        model.num_row_, model.num_col_ = len(given.lower), len(given.costs)
        model.col_cost_, model.col_upper_ = given.costs, given.most
        model.col_lower_ = np.zeros(len(given.costs))
        model.row_lower_, model.row_upper_ = given.lower, given.upper
        model.a_matrix_.format_ = highspy.MatrixFormat.kColwise
        model.a_matrix_.start_ = given.start.astype(np.int32)
        model.a_matrix_.index_ = given.index.astype(np.int32)
        model.a_matrix_.value_ = given.value
        if given.whole:
            whole, real = highspy.HighsVarType.kInteger, highspy.HighsVarType.kContinuous
            model.integrality_ = [whole] * given.whole + [real] * (len(given.costs) - given.whole)
        return model
