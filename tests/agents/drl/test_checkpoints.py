"""Where a training run stands is on disk, wholly, whenever its process is killed."""

import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from agents.drl.training import checkpoints

#: Writes one checkpoint after the other, and says so.
WRITER = """
import sys
from pathlib import Path
import numpy as np
from agents.drl.training import checkpoints
from tests.agents.drl.test_checkpoints import Variables

number = int(sys.argv[2])
while True:
    number += 1
    arrays = {"first": np.full(50_000, number), "last": np.full(50_000, number)}
    kept = checkpoints.Checkpoint({"number": number}, arrays)
    checkpoints.save(Path(sys.argv[1]), number, Variables(number), kept)
    print(number, flush=True)
"""


class Expected:
    """TensorFlow's status object after reading."""

    def assert_existing_objects_matched(self) -> None:
        """All are there."""


class Variables:
    """Stands for TensorFlow's: a value, written a thousand times over."""

    def __init__(self, value: int) -> None:
        self.value = value

    def write(self, path: str) -> None:
        """Part by part."""
        with Path(f"{path}.index").open("w") as file:
            for _ in range(1000):
                file.write(f"{self.value}\n")
                file.flush()

    def read(self, path: str) -> Expected:
        """Take it back; ValueError where a part is missing."""
        (value,) = set(Path(f"{path}.index").read_text().split())
        self.value = int(value)
        return Expected()


def test_a_writer_killed_at_any_moment_leaves_a_whole_checkpoint(tmp_path: Path) -> None:
    """The newest that was told of, or the one after it."""
    last = 0
    for _ in range(8):
        command = [sys.executable, "-c", WRITER, str(tmp_path), str(last)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            told = int(process.stdout.readline())
            time.sleep(time.time_ns() % 1000 / 7000)
            process.kill()
            rest = process.stdout.read().split("\n")[:-1]
        told = int(rest[-1]) if rest else told
        variables = Variables(0)
        found = checkpoints.restore(tmp_path, variables)
        assert found is not None
        last = found.state["number"]
        assert last in (told, told + 1)
        assert variables.value == last
        assert all((array == last).all() and array.size == 50_000 for array in found.arrays.values())


def test_a_checkpoint_is_on_the_disk_before_the_one_before_it_goes(tmp_path: Path) -> None:
    """And only the newest stays."""
    for number in (1, 2):
        kept = checkpoints.Checkpoint({"number": number}, {"array": np.zeros(1)})
        checkpoints.save(tmp_path, number, Variables(number), kept)
    assert [path.name for path in tmp_path.iterdir()] == ["000000002"]
