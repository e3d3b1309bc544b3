"""Take every safeguard away, one at a time, and see that a test notices: `python -m tests.mutation`.

`mutants.yaml` lists them: the claim, a text that occurs once in a file, its replacement, and the tests of
which one must fail then. Everything happens in copies of the tree. Killed mutants are recorded in
`build`, so that `--resume` tries the others only. Exit code 0 when no mutant survives, 1 when one does, 2 if
the table does not fit the tree or the tests fail without any mutant.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from queue import SimpleQueue

import yaml

REPOSITORY = Path(__file__).parents[2]
TABLE = Path(__file__).with_name("mutants.yaml")
#: The claims of the mutants that were killed, a line each, for `--resume`.
PROGRESS = Path("build/mutants.txt")
#: Not copied: what is not source, but for what numba has compiled, which takes minutes.
LEFT_OUT = shutil.ignore_patterns(".git", ".venv*", "*.pyc", ".*_cache", "*.egg-info", "build")
#: Seconds after which a test that waits for what never comes, because of a mutant, is taken for failed.
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
    """Try all mutants, the remaining ones, or those of some claims; print each outcome."""
    parser = argparse.ArgumentParser(description="Take safeguards away and see that tests notice.")
    parser.add_argument("--only", default="", help="a part of the claims to try")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--resume", action="store_true", help="only those that the last call did not kill")
    options = parser.parse_args()
    # In the background of a shell SIGINT is ignored, here and in the tests, some of which are about it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    PROGRESS.parent.mkdir(exist_ok=True)
    kept = Path(os.devnull) if options.only else PROGRESS
    with kept.open("a+" if options.resume else "w+", buffering=1) as progress:
        progress.seek(0)
        done = set(progress.read().splitlines())
        try:
            todo = [m for m in table() if options.only in m.claim and m.claim not in done]
            broken = {mutant: mutant.broken for mutant in todo}
        except (ValueError, SyntaxError) as error:
            print(error)
            return 2
        with (
            tempfile.TemporaryDirectory(prefix="stoker-mutants-") as folder,
            ThreadPoolExecutor(options.workers) as pool,
        ):
            free = copies(Path(folder), options.workers)
            tests = sorted({test for mutant in todo for test in mutant.tests})
            print(f"{len(todo)} mutants; first {len(tests)} tests without any", flush=True)
            shares = [tests[number :: options.workers] for number in range(options.workers)]
            if failed := [said for said in pool.map(partial(unharmed, free), shares) if said]:
                print("without any mutant the tests fail:", *failed, sep="\n")
                return 2
            trials = [pool.submit(trial, free, mutant, text) for mutant, text in broken.items()]
            survivors = 0
            for number, result in enumerate(as_completed(trials), 1):
                mutant, alive, seconds = result.result()
                survivors += alive
                if not alive:
                    progress.write(f"{mutant.claim}\n")
                fate = "SURVIVED" if alive else "killed  "
                print(f"{number:3}/{len(todo)}  {fate} {seconds:4.0f} s  {mutant.claim}", flush=True)
    print(f"{len(todo)} mutants, {len(todo) - survivors} killed, {survivors} survived")
    return 1 if survivors else 0


def unharmed(free: SimpleQueue[Path], tests: Sequence[str]) -> str:
    """Output of tests that fail without any mutant; empty when none does."""
    copy = free.get()
    try:
        return run(tests, copy) if tests else ""
    finally:
        free.put(copy)


def trial(free: SimpleQueue[Path], mutant: Mutant, text: str) -> tuple[Mutant, bool, float]:
    """Run a mutant's tests where its file reads `text`: whether it survives, and the seconds that took."""
    copy = free.get()
    began = time.monotonic()
    original = (copy / mutant.file).read_text()
    try:
        (copy / mutant.file).write_text(text)
        alive = not run(mutant.tests, copy, "-x", f"--timeout={LIMIT}", limit=3 * LIMIT)
        return mutant, alive, time.monotonic() - began
    finally:
        (copy / mutant.file).write_text(original)
        free.put(copy)


def table() -> list[Mutant]:
    """All mutants; ValueError when a claim stands twice."""
    rows = yaml.safe_load(TABLE.read_text())
    if twice := [claim for claim, times in Counter(row["claim"] for row in rows).items() if times > 1]:
        raise ValueError(f"{TABLE.name}: stands twice: {', '.join(twice)}")
    return [Mutant(row["claim"], row["file"], row["find"], row["put"], tuple(row["tests"])) for row in rows]


def copies(folder: Path, count: int) -> SimpleQueue[Path]:
    """Copies of the tree that are free to be changed."""
    free: SimpleQueue[Path] = SimpleQueue()
    for number in range(count):
        copy = folder / str(number)
        shutil.copytree(REPOSITORY, copy, ignore=LEFT_OUT, ignore_dangling_symlinks=True)
        free.put(copy)
    return free


def run(tests: Sequence[str], copy: Path, *options: str, limit: float | None = None) -> str:
    """Run tests in a copy: empty when all pass, within `limit` seconds, else the end of pytest's output."""
    environment = {**os.environ, "PYTHONPATH": str(copy)}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options, "-rs", *tests]
    try:
        result = subprocess.run(
            command, cwd=copy, env=environment, capture_output=True, text=True, check=False, timeout=limit
        )
    except subprocess.TimeoutExpired:
        return f"pytest has not ended after {limit} s"
    return "" if result.returncode == 0 else result.stdout[-3000:] or f"exit code {result.returncode}"


if __name__ == "__main__":
    sys.exit(main())
