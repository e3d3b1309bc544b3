"""Compiles what playing ahead needs, for policies by name: `python -m daemon.what_if.precompile ff greedy`.

`make install` has it done while Spark is fetched. Otherwise the first daemon would compile when its first job
waits, beside jobs that take the machine's cores: it could not say for minutes when the job will start.
"""

import sys

from daemon.what_if.worker import compile_for


def main(names: list[str]) -> None:
    """One after the other, as they share most."""
    if names:
        listed = ", ".join(names)
        print(f"Compiling what foresees when jobs start ({listed}): half a minute of a core.", flush=True)
    for name in names:
        compile_for(name, {})


if __name__ == "__main__":
    main(sys.argv[1:])
