"""Decisions with their consequences, as Parquet: a daemon's decisions, its view then, and the jobs' outcomes.

A row is one decision about one job. `daemon.maintenance.recorded_runs` makes rows from a daemon's records.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

TRAJECTORIES = "trajectories.parquet"
SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True)
class TrajectoryStep:
    """A decision, `place` or `wait`, and the fate of its job; times are seconds since the epoch.

    `vms`, `free_cpus` and `free_memory_mib` were the input of the decision, VM by VM; `chosen` is the VM of
    each executor that was placed. Values that an unfinished job does not have yet are None.
    """

    at: float
    job: str
    type: str
    policy: str
    decision: str
    reason: str
    executors: int
    cpus: float
    memory_mib: int
    vms: tuple[str, ...]
    free_cpus: tuple[float, ...]
    free_memory_mib: tuple[int, ...]
    chosen: tuple[str, ...]
    submitted_at: float
    state: str
    started_at: float | None
    finished_at: float | None
    cost: float
    losses: int


def write_trajectories(folder: Path, steps: Sequence[TrajectoryStep]) -> Path:
    """Write the steps into the folder, in one step; returns the path."""
    import pyarrow.parquet

    text, real, whole = pyarrow.string(), pyarrow.float64(), pyarrow.int64()
    kinds = {
        **dict.fromkeys(("job", "type", "policy", "decision", "reason", "state"), text),
        **dict.fromkeys(("executors", "memory_mib", "losses"), whole),
        **dict.fromkeys(("vms", "chosen"), pyarrow.list_(text)),
        "free_cpus": pyarrow.list_(real),
        "free_memory_mib": pyarrow.list_(whole),
    }
    columns = [(name, kinds.get(name, real)) for name in TrajectoryStep.__dataclass_fields__]
    schema = pyarrow.schema(columns, metadata={"stoker.schema": str(SCHEMA_VERSION)})
    lists = ("vms", "free_cpus", "free_memory_mib", "chosen")
    rows = [asdict(step) | {name: list(getattr(step, name)) for name in lists} for step in steps]
    path = folder / TRAJECTORIES
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows, schema=schema), f"{path}.new")
    Path(f"{path}.new").replace(path)
    return path
