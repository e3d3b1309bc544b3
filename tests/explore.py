"""Draws random tests' examples anew, for as long as it is told: `python -m tests.explore --minutes 60`.

Every run of the tests draws the same examples. This runs the files that have random tests again and again, in
an order drawn anew, with examples drawn anew, until the time is over or a test has failed. The failed test
prints the line that draws its example again (`@reproduce_failure`); such an example is kept as a test
or by `@example`. Exit code 1 when a test failed.
"""

import argparse
import os
import random
import subprocess
import sys
import time
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
#: What tells a file with random tests.
_MARKS = ("@given(", "RuleBasedStateMachine", "@schema.")


def files() -> list[str]:
    """The files of tests that draw examples."""
    found = (REPOSITORY / "tests").rglob("test_*.py")
    return sorted(
        str(path.relative_to(REPOSITORY))
        for path in found
        if any(mark in path.read_text(encoding="utf-8") for mark in _MARKS)
    )


def main() -> int:
    """Run the files in turn."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=60.0, help="how long to draw")
    end = time.monotonic() + 60 * parser.parse_args().minutes
    waiting: list[str] = []
    runs = 0
    while time.monotonic() < end:
        waiting = waiting or random.sample(files(), len(files()))
        file = waiting.pop()
        print(
            f"{runs} runs, {(end - time.monotonic()) / 60:.0f} min left: {file}", file=sys.stderr, flush=True
        )
        command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-x", "-k", "not slow", file]
        if subprocess.run(command, cwd=REPOSITORY, env={**os.environ, "STOKER_EXPLORE": "1"}).returncode:
            return 1
        runs += 1
    print(f"{runs} runs of {len(files())} files, and none failed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
