"""`python -m daemon.cli`: the same as `stoker`."""

import sys

from daemon.cli import main

sys.exit(main())
