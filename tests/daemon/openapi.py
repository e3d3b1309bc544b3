"""What the HTTP API says of itself; `python -m tests.daemon.openapi` stores it in docs/openapi.json."""

import configparser
import json
from pathlib import Path
from typing import Any, cast

from daemon.api import create_app

_REPOSITORY = Path(__file__).parents[2]
STORED = _REPOSITORY / "docs/openapi.json"


def described() -> dict[str, Any]:
    """The description that a daemon with a token gives; no request is answered."""
    setup = configparser.ConfigParser()
    setup.read(_REPOSITORY / "setup.cfg")
    nothing = cast("Any", None)
    return create_app(nothing, nothing, token="t", version=setup["metadata"]["version"]).openapi()


if __name__ == "__main__":
    STORED.write_text(json.dumps(described(), indent=1) + "\n", encoding="utf-8")
