"""Folders of tasks in the data folder: the embedded Mesos runs its tasks on the daemon's host."""

from collections.abc import Iterable, Iterator
from pathlib import Path


def substrate_folder(data_dir: Path) -> Path:
    """The substrate's folder in the data folder. Tasks of all users pass through it to their own folders."""
    return data_dir / "mesos"


def task_folders(data_dir: Path, task_ids: Iterable[str]) -> Iterator[Path]:
    """Every folder that one of these tasks has on this host or would have, on each VM."""
    tasks = list(task_ids)
    for executors in substrate_folder(data_dir).glob("work/agents/*/frameworks/*/executors"):
        yield from (executors / task for task in tasks)
