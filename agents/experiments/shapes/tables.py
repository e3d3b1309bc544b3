"""Tables of real Spark runs that others published, read into runs on shapes with prices.

Both are of dos-group at GitHub: `dataproc-180.csv` of spark-autoscaling-evaluation (arXiv 2501.14456,
used by Flora, arXiv 2502.21046), and `c3o-*.tsv` of c3o-experiments (arXiv 2011.07965). No licence is known
to permit copies, so that they are not part of this repository.
"""

import csv
import statistics
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from profiles.shapes.runs import JobShape, ShapeError, ShapeRun

#: Dollars an hour of a core and of a GiB, n2 at Google.
_CORE, _GIB = 0.031611, 0.004237
_GIB_BYTES = 2**30


@dataclass(frozen=True, slots=True)
class VmType:
    """A VM type of the C3O tables: cores, GiB, dollars an hour on demand (us-east-1), speed by its clock."""

    cores: int
    memory_gib: float
    dollars_per_hour: float
    speed: float


VM_TYPES = {
    "c4.xlarge": VmType(4, 7.5, 0.199, 2.9 / 2.3),
    "c4.2xlarge": VmType(8, 15.0, 0.398, 2.9 / 2.3),
    "m4.xlarge": VmType(4, 16.0, 0.20, 1.0),
    "m4.2xlarge": VmType(8, 32.0, 0.40, 1.0),
    "r4.xlarge": VmType(4, 30.5, 0.266, 1.0),
    "r4.2xlarge": VmType(8, 61.0, 0.532, 1.0),
}


def read_dataproc(path: Path) -> list[ShapeRun]:
    """Runs of `dataproc-180.csv`; ShapeError names the line and the mistake."""
    columns = (
        "algorithm",
        "dataset_size_bytes",
        "cpu_cores_per_node",
        "memory_gb_per_node",
        "scaleout",
        "runtime",
    )
    return list(_rows(path, ",", columns, _dataproc_run))


def read_c3o(path: Path) -> list[ShapeRun]:
    """Runs of a `c3o-*.tsv`, the median of repetitions; ShapeError names the line and the mistake."""
    columns = ("instance_count", "machine_type", "data_size_MB", "gross_runtime")
    repeated: dict[tuple[str, JobShape], list[ShapeRun]] = {}
    name = path.stem.removeprefix("c3o-")
    for run in _rows(path, "\t", columns, lambda row: _c3o_run(name, row)):
        repeated.setdefault((run.job, run.shape), []).append(run)
    return [
        ShapeRun(runs[0].type, job, runs[0].input_gib, shape, statistics.median(run.seconds for run in runs))
        for (job, shape), runs in repeated.items()
    ]


def _rows(
    path: Path, delimiter: str, columns: tuple[str, ...], run_of: Callable[[Mapping[str, str]], ShapeRun]
) -> Iterator[ShapeRun]:
    try:
        with path.open(encoding="utf-8", newline="") as lines:
            reader = csv.DictReader(lines, delimiter=delimiter)
            missing = [column for column in columns if column not in (reader.fieldnames or ())]
            if missing:
                raise ShapeError(f"{path}: has no column {missing[0]}; should have {', '.join(columns)}")
            for row in reader:
                try:
                    yield run_of(row)
                except (ValueError, TypeError) as error:
                    raise ShapeError(f"{path}, line {reader.line_num}: {error}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ShapeError(f"{path}: cannot be read: {error}") from None


def _dataproc_run(row: Mapping[str, str]) -> ShapeRun:
    nodes, cores, memory = (
        int(row[name]) for name in ("scaleout", "cpu_cores_per_node", "memory_gb_per_node")
    )
    shape = JobShape(f"{cores}x{memory}", nodes, cores, memory, nodes * (cores * _CORE + memory * _GIB))
    size = int(row["dataset_size_bytes"])
    return ShapeRun(
        row["algorithm"], f"{row['algorithm']} {size}", size / _GIB_BYTES, shape, float(row["runtime"])
    )


def _c3o_run(name: str, row: Mapping[str, str]) -> ShapeRun:
    vm, nodes = VM_TYPES.get(row["machine_type"]), int(row["instance_count"])
    if vm is None:
        raise ShapeError(f"VM type {row['machine_type']} is unknown; known are {', '.join(VM_TYPES)}")
    shape = JobShape(
        row["machine_type"], nodes, vm.cores, vm.memory_gib, nodes * vm.dollars_per_hour, vm.speed
    )
    fixed = ("instance_count", "machine_type", "slots", "memory", "gross_runtime")
    job = " ".join([name, *(value for column, value in row.items() if column not in fixed)])
    return ShapeRun(
        name, job, float(row["data_size_MB"]) * 1e6 / _GIB_BYTES, shape, float(row["gross_runtime"])
    )
