"""How large a cluster's agents are, from the master's operator API: offers show only what is free of them."""

import base64
import json
import urllib.request
from collections.abc import Collection, Mapping
from http.client import HTTPException
from typing import Any

from environment.amounts import total
from environment.events import VmSize

#: Seconds that the master has to answer.
PATIENCE = 10.0


def agent_sizes(
    master: str, roles: Collection[str], principal: str | None = None, secret: str | None = None
) -> tuple[VmSize, ...]:
    """The size of every agent of the master at `host:port`, as far as these roles may use it.

    Raises OSError when the master cannot be asked or refuses, ValueError when it answers something else.
    """
    request = urllib.request.Request(f"http://{master}/slaves")
    if principal:
        credentials = base64.b64encode(f"{principal}:{secret or ''}".encode()).decode()
        request.add_header("Authorization", f"Basic {credentials}")
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:  # noqa: S310 - as above
            told = json.load(answer)
        return tuple(_size(agent, roles) for agent in told["slaves"])
    except OSError:
        raise
    except (HTTPException, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{master}/slaves is not what a Mesos master answers: {error!r}") from error


def _size(agent: Mapping[str, Any], roles: Collection[str]) -> VmSize:
    reserved = agent["reserved_resources"]
    ours = [agent["unreserved_resources"], *(reserved[role] for role in roles if role in reserved)]
    # What is no number, such as ports, is text here.
    amounts = total({n: float(v) for n, v in part.items() if not isinstance(v, str)} for part in ours)
    cpus, memory_mib = amounts.pop("cpus", 0.0), int(amounts.pop("mem", 0.0))
    return VmSize(str(agent["id"]), cpus, memory_mib, {name: v for name, v in amounts.items() if v > 0})
