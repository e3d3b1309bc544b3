"""`python -m daemon.cli`: the same as `stoker`."""

import sys

from daemon.cli import run_command

sys.exit(run_command())
