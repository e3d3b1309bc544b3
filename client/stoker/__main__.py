"""`python -m stoker`: the commands."""

import sys

from stoker.command import main

sys.exit(main(sys.argv[1:]))
