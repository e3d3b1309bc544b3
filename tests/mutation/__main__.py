"""Take every safeguard away, one at a time, and see that a test notices: `python -m tests.mutation`.

`mutants.yaml` lists them: what is demanded, a text that stands once in a file, what to put in its place, and
the tests of which one must fail then. Everything happens in copies of the tree. Exit code 0 when no mutant
survives, 1 when one does, 2 when the table does not fit the tree or the tests fail without any mutant.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

import yaml

REPOSITORY = Path(__file__).parents[2]
TABLE = Path(__file__).with_name("mutants.yaml")
#: Not copied: what is not source.
LEFT_OUT = shutil.ignore_patterns(".git", ".venv*", "__pycache__", ".*_cache", "*.egg-info", "build")
#: Seconds after which a test that waits for what never comes is taken for failed.
LIMIT = 120


@dataclass(frozen=True, slots=True)
class Mutant:
    """One safeguard, and how it is taken away."""

    claim: str
    file: str
    find: str
    put: str
    tests: tuple[str, ...]

    @property
    def broken(self) -> str:
        """The file's text without the safeguard; ValueError when the table does not fit the file."""
        text = (REPOSITORY / self.file).read_text()
        if text.count(self.find) != 1:
            raise ValueError(
                f"{self.claim}: {self.file} has the text {text.count(self.find)} times, not once"
            )
        mutated = text.replace(self.find, self.put)
        compile(mutated, self.file, "exec")
        return mutated


def main() -> int:
    """Try all mutants, or those whose claim contains a text; print what became of each."""
    parser = argparse.ArgumentParser(description="Take safeguards away and see that tests notice.")
    parser.add_argument("--only", default="", help="a part of the claims to try")
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    mutants = [mutant for mutant in table() if options.only in mutant.claim]
    try:
        broken = [mutant.broken for mutant in mutants]
    except (ValueError, SyntaxError) as error:
        print(error)
        return 2
    with tempfile.TemporaryDirectory(prefix="stoker-mutants-") as folder:
        free = copies(Path(folder), options.workers)
        first = free.get()
        if failed := run(sorted({test for mutant in mutants for test in mutant.tests}), first):
            print(f"without any mutant the tests fail or are skipped:\n{failed}")
            return 2
        free.put(first)

        def survives(mutant: Mutant, text: str) -> bool:
            copy = free.get()
            original = (copy / mutant.file).read_text()
            try:
                (copy / mutant.file).write_text(text)
                return not run(mutant.tests, copy)
            finally:
                (copy / mutant.file).write_text(original)
                free.put(copy)

        with ThreadPoolExecutor(options.workers) as pool:
            survivors = 0
            for mutant, alive in zip(mutants, pool.map(survives, mutants, broken), strict=True):
                survivors += alive
                print(f"{'SURVIVED' if alive else 'killed  '}  {mutant.claim}", flush=True)
    print(f"{len(mutants)} mutants, {len(mutants) - survivors} killed, {survivors} survived")
    return 1 if survivors else 0


def table() -> list[Mutant]:
    """All mutants."""
    rows = yaml.safe_load(TABLE.read_text())
    return [Mutant(row["claim"], row["file"], row["find"], row["put"], tuple(row["tests"])) for row in rows]


def copies(folder: Path, count: int) -> SimpleQueue[Path]:
    """Copies of the tree that are free to be changed."""
    free: SimpleQueue[Path] = SimpleQueue()
    for number in range(count):
        copy = folder / str(number)
        shutil.copytree(REPOSITORY, copy, ignore=LEFT_OUT, ignore_dangling_symlinks=True)
        free.put(copy)
    return free


def run(tests: Sequence[str], copy: Path) -> str:
    """Run these tests in a copy: empty when all pass, else the end of what pytest said."""
    environment = {**os.environ, "PYTHONPATH": str(copy)}
    command = [sys.executable, "-m", "pytest", "-x", "-p", "no:cacheprovider", f"--timeout={LIMIT}"]
    result = subprocess.run(
        [*command, "-rs", *tests], cwd=copy, env=environment, capture_output=True, text=True, check=False
    )
    return "" if result.returncode == 0 else result.stdout[-3000:] or f"exit code {result.returncode}"


if __name__ == "__main__":
    sys.exit(main())
