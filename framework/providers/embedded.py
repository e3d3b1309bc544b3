"""VMs of an embedded Mesos: it starts and stops agents on this machine, each with the boot of its pool.

`framework.embedded.pool_vms` implements the other side.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, get_args

from framework.mesos.bounded_http import Credentials, RefusedAnswerError, read_json
from framework.providers.interface import Machine, Notice, ProviderError, Refusal, VmRequest

Result = TypeVar("Result")

#: Seconds for an answer: it is a process of this machine, or a near one.
_PATIENCE = 10.0
#: Bytes of an answer: a VM has some hundred.
_MOST = 64 << 20
_KINDS: Mapping[object, Refusal] = {kind: kind for kind in get_args(Refusal)}


class EmbeddedMesosProvider:
    """Has the embedded Mesos at `host:port` open and close the VMs of its cluster file's pools."""

    def __init__(self, address: str, credentials: Credentials) -> None:
        self._url = f"http://{address}/stoker/vms"
        self._credentials = credentials

    def open(self, wanted: VmRequest) -> Machine:
        """See `Provider`."""
        vm = wanted.vm
        told = {"lease": wanted.lease, "name": vm.name, "type": vm.type, "cpus": vm.cpus}
        told |= {"memory_mib": vm.memory_mib, "price_per_hour": vm.price_per_hour}
        return self._ask({"open": told}, lambda answer: _machine(answer["vm"]))

    def close(self, machine_id: str) -> None:
        """See `Provider`."""
        self._ask({"close": {"id": machine_id}}, lambda _: None)

    def list(self) -> Sequence[Machine]:
        """See `Provider`."""
        return self._ask(None, lambda answer: [_machine(vm) for vm in answer["vms"]])

    def prices(self) -> Mapping[str, float]:
        """No prices, since the cluster file defines the prices of VMs."""
        return {}

    def notices(self) -> Sequence[Notice]:
        """See `Provider`."""
        return self._ask(None, lambda answer: [_notice(notice) for notice in answer["notices"]])

    def account(self) -> str:
        """See `Provider`."""
        return ""

    def _ask(self, post: Any, read: Callable[[Any], Result]) -> Result:
        """Read the answer to a POST of that, or to a GET."""
        try:
            answer = read_json(self._url, self._credentials, seconds=_PATIENCE, most=_MOST, post=post)
            if (refused := answer.get("refused")) is None:
                return read(answer)
            kind, why = _KINDS.get(refused["kind"], "unavailable"), str(refused["message"])
        except RefusedAnswerError as error:  # of another version, or no embedded Mesos at all
            kind, why = "invalid" if error.status in (400, 404) else "unavailable", str(error)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            kind, why = "unavailable", f"the embedded Mesos does not answer: {error}"
        raise ProviderError(kind, why)


def _machine(told: Mapping[str, Any]) -> Machine:
    return Machine(
        id=str(told["id"]),
        lease=str(told["lease"]),
        pool=str(told["pool"]),
        state="running" if told["state"] == "running" else "booting",
        opened_at=float(told["opened_at"]),
        address=str(told["address"]),
    )


def _notice(told: Mapping[str, Any]) -> Notice:
    return Notice(str(told["lease"]), float(told["at"]))
