"""Training records as TensorBoard draws them."""

from pathlib import Path
from types import TracebackType
from typing import Any

import tensorflow as tf

from agents.drl.training.record import TrainingRecord


class Board:
    """Writes event files for TensorBoard into a folder. Close it when done, or use it in a `with`.

    Curves over iterations: `training/return` (or `reward`), `training/loss`, `training/entropy` (or
    `epsilon`), `training/steps` and `training/steps_per_second`; `evaluation/loss`, and the results of an
    evaluation by workload. A resumed run writes those entries again that are newer than its checkpoint.
    """

    def __init__(self, folder: Path) -> None:
        """Make the folder; OSError when it cannot be made."""
        folder.mkdir(parents=True, exist_ok=True)
        self._writer: Any = tf.summary.create_file_writer(str(folder))

    def __call__(self, record: TrainingRecord) -> None:
        """Write a record down."""
        with self._writer.as_default(step=record.iteration):
            if record.evaluated:
                tf.summary.scalar("evaluation/loss", record.loss)
                for workload, told in record.evaluation.items():
                    for name, value in told.items():
                        tf.summary.scalar(f"evaluation/{workload}/{name}", value)
                self._writer.flush()
                return
            for name, value in record.training.items():
                tf.summary.scalar(f"training/{name}", value)
            tf.summary.scalar("training/steps_per_second", record.steps_per_second)

    def __enter__(self) -> "Board":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._writer.close()
