"""Boot data of a VM: how its agent joins this cluster, and how it can announce its end.

The provider passes the data to the VM.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import quote

from environment.resources import THOUSANDTHS, Resources
from framework.providers.interface import VMS, ProviderError, VmRequest


@dataclass(frozen=True, slots=True)
class Door:
    """Entry point for VMs: the Mesos `master` (host:port or zk://...), the daemon's `url`, and their keys.

    `key` derives from a lease the token that its VM presents to the daemon with a notice; the token permits
    nothing else.
    """

    master: str
    url: str
    key: Callable[[str], str]


class AgentJoin(NamedTuple):
    """Boot data of a VM: `attributes` and `resources` are flags of its Mesos agent.

    Notices are POSTed to `notice_url`, with `key` as bearer token.
    """

    master: str
    attributes: str
    resources: str
    notice_url: str
    key: str


def joining(wanted: VmRequest, door: Door) -> AgentJoin:
    """Build a VM's boot data; ProviderError `invalid` when a name in it is no valid agent attribute."""
    vm = wanted.vm
    attributes = {"vm": vm.type, "price": decimal(vm.price_per_hour), "lease": wanted.lease}
    for name, value in attributes.items():
        if not value or ";" in value or not value.isprintable():
            raise ProviderError("invalid", f"{value!r} cannot be an attribute ({name}) of a Mesos agent")
    told = ";".join(f"{name}:{value}" for name, value in attributes.items())
    notice_url = f"{door.url.rstrip('/')}{VMS}{quote(wanted.lease, safe='')}/notice"
    return AgentJoin(door.master, told, _flag(vm.resources), notice_url, door.key(wanted.lease))


def decimal(number: float) -> str:
    """A number of dollars without an exponent, which not everything reads."""
    return f"{number:.9f}".rstrip("0").rstrip(".")


def _flag(resources: Resources) -> str:
    amounts = resources.thousandths
    return ";".join(f"{name}:{decimal(amounts[name] / THOUSANDTHS)}" for name in resources)
