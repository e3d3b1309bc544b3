"""Compiles the code for playing ahead, for policies by name: `python -m daemon.what_if.precompile ff greedy`.

`make install` runs it while Spark is fetched. Otherwise the first daemon would compile when its first job
waits, beside jobs that take the machine's cores: for minutes it could not estimate the job's start.
"""

import sys

from daemon.what_if.worker import compile_for


def main(names: list[str]) -> None:
    """One after the other, as they share most."""
    if names:
        listed = ", ".join(names)
        print(f"Compiling the forecast of starts ({listed}): half a minute of a core.", flush=True)
    for name in names:
        compile_for(name, {})


if __name__ == "__main__":
    main(sys.argv[1:])
