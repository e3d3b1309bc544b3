#!/usr/bin/env python3
"""An example of programs for `provider: {name: command}`: the VMs of an embedded Mesos (`stoker mesos`).

    provider:
      name: command
      open: [deploy/vms.py, open, 127.0.0.1:5050]
      close: [deploy/vms.py, close, 127.0.0.1:5050]
      list: [deploy/vms.py, list, 127.0.0.1:5050]
      notices: [deploy/vms.py, notices, 127.0.0.1:5050]

Yours asks a cloud, Terraform or a switch for power instead. What matters: whatever is asked again under a
lease is opened once; what is opened can be listed at once, with its lease; what says no exits with 10 (there
are none left), 11 (no more are allowed) or 12 (never), and only when nothing was opened.
"""

import json
import sys
from contextlib import closing
from http.client import HTTPConnection
from typing import Any

EXIT_CODES = {"capacity": 10, "quota": 11, "invalid": 12}


def ask(address: str, post: Any = None) -> Any:
    """What the embedded Mesos answers; ends the program when that is a refusal."""
    connection = HTTPConnection(address, timeout=10)
    with closing(connection):
        kind = {"Content-Type": "application/json"}
        connection.request("POST" if post else "GET", "/stoker/vms", json.dumps(post) if post else None, kind)
        told = json.load(connection.getresponse())
    if refused := told.get("refused"):
        print(refused["message"], file=sys.stderr)  # the last line is what the daemon tells its users
        sys.exit(EXIT_CODES.get(refused["kind"], 1))
    return told


def machine(vm: dict[str, Any]) -> dict[str, Any]:
    """A VM as Stoker wants it told."""
    return {key: vm[key] for key in ("id", "lease", "pool", "state", "opened_at", "address")}


def main(deed: str, address: str) -> None:
    """Read what is wanted, do it, say what came of it."""
    wanted = json.load(sys.stdin)
    if deed == "open":
        told = {key: wanted[key] for key in ("lease", "name", "type", "price_per_hour")}
        json.dump(machine(ask(address, {"open": told})["vm"]), sys.stdout)
    elif deed == "close":
        ask(address, {"close": {"id": wanted["id"]}})
    elif deed == "list":
        json.dump({"machines": [machine(vm) for vm in ask(address)["vms"]]}, sys.stdout)
    elif deed == "notices":
        json.dump({"notices": ask(address)["notices"]}, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
