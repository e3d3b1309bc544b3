"""The HTTP API's description; `python -m tests.daemon.openapi` stores it in docs/openapi.json.

The client's types are generated from it and stored beside the client.
"""

import configparser
import json
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

from daemon.http.app import create_app
from daemon.http.app_options import AppOptions
from tests.daemon import client_types

_REPOSITORY = Path(__file__).parents[2]
STORED = _REPOSITORY / "docs/openapi.json"


def described() -> dict[str, Any]:
    """The description that a daemon with a token gives; no request is answered."""
    setup = configparser.ConfigParser()
    setup.read(_REPOSITORY / "setup.cfg")
    nothing = cast("Any", None)
    return create_app(nothing, nothing, AppOptions(token="t", version=setup["metadata"]["version"])).openapi()


if __name__ == "__main__":
    found = described()
    STORED.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    client_types.STORED.write_text(client_types.client_types(found), encoding="utf-8")
    subprocess.run([sys.executable, "-m", "ruff", "format", "--quiet", client_types.STORED], check=True)
