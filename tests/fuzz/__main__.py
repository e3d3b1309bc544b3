"""An hour of requests that nobody thought of: `python -m tests.fuzz --minutes 60 --seed 1`.

A real `stoker up` on a Mesos and a Spark in miniature is sent requests made from its own description, right
and wrong, and good requests made wrong byte by byte. No answer may be a 5xx but a documented 503 (a problem
with its reasons, or /readyz), the daemon has to stay, to answer, and not to grow. Rounds are numbered:
--begin N goes on from one of them.

Exit code 0 when all that held, 1 when not.
"""

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path

from tests.daemon.fleet import fleets
from tests.fuzz.soak import Soak
from tests.waiting import until


def main() -> int:
    """Run for so long, and print the requests and answers."""
    parser = argparse.ArgumentParser(description="Ask a daemon what nobody thought of.")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--begin", type=int, default=0, metavar="N", help="the first round")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="stoker-fuzz-"))
    end, number = time.monotonic() + 60 * options.minutes, options.begin
    with fleets(folder) as make:
        daemon = make(http={"header_timeout": 1.0, "idle_timeout": 2}, max_queued_jobs=500).add()
        until(daemon.leads, daemon.log)
        soak = Soak(daemon, options.seed)
        while time.monotonic() < end and len(soak.failures) < 20 and not daemon.ended:
            soak.round(number, described=4, raw=400)
            number += 1
            if sys.stderr.isatty() or number % 10 == 0:
                print(f"round {number}: {sum(soak.answers.values())} answers", file=sys.stderr, flush=True)
        print(f"seed {options.seed}, rounds {options.begin} to {number - 1}\n{soak.report()}")
    if soak.failures:
        print(f"the files are in {folder}")
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
