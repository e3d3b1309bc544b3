"""Checkpoints of a training run on disk, so that it continues after it was killed at any moment.

A checkpoint is a folder that gets its name when it is complete and on the disk; the one before is deleted
after that.
"""

import contextlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from conf.loader import ConfigError

if TYPE_CHECKING:
    import tensorflow as tf

Arrays = Mapping[str, np.ndarray[Any, Any]]


class Checkpoint(NamedTuple):
    """Saved state beside TensorFlow's variables."""

    state: dict[str, Any]
    arrays: Arrays


def save(folder: Path, number: int, variables: "tf.train.Checkpoint", kept: Checkpoint) -> None:
    """Save this state as the newest; `number` grows from one to the next."""
    partial, complete = folder / "partial", folder / f"{number:09}"
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    variables.write(str(partial / "variables"))
    np.savez(partial / "arrays.npz", **kept.arrays)
    (partial / "state.json").write_text(json.dumps(kept.state), encoding="utf-8")
    for written in partial.iterdir():
        _flush(written)
    _flush(partial)
    partial.rename(complete)
    _flush(folder)
    for older in _complete(folder)[:-1]:
        shutil.rmtree(older)


def restore(folder: Path, variables: "tf.train.Checkpoint") -> Checkpoint | None:
    """Take TensorFlow's variables from the newest checkpoint; the rest of it, or None when there is none."""
    found = _complete(folder)
    if not found:
        return None
    variables.read(str(found[-1] / "variables")).assert_existing_objects_matched()
    with (found[-1] / "arrays.npz").open("rb") as file, np.load(file) as arrays:
        kept = dict(arrays)
    return Checkpoint(json.loads((found[-1] / "state.json").read_text(encoding="utf-8")), kept)


@contextlib.contextmanager
def reading(path: Path, remedy: str) -> Iterator[None]:
    """Convert any error over a file of the run, damaged or of another version, into a ConfigError."""
    try:
        yield
    except ConfigError:
        raise
    except Exception as error:
        why = next(iter(str(error).splitlines()), "it ends early")
        raise ConfigError(f"{path}: cannot be used: {type(error).__name__}: {why}; {remedy}") from error


def _flush(path: Path) -> None:
    """Wait until a file, or a folder's entries, are on the disk."""
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def exists(folder: Path) -> bool:
    """Whether there is one."""
    return bool(_complete(folder))


def _complete(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("[0-9]*") if path.is_dir())
