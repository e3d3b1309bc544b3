"""Attributes of an executor in Spark's event log, written by Stoker: launch, share of a VM and price.

An event log alone begins an executor at its registration, seconds after its bill does. Spark copies variables
of the executor's process that begin with `SPARK_EXECUTOR_ATTRIBUTE_` into the event of its registration.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

_VARIABLE = "SPARK_EXECUTOR_ATTRIBUTE_"
_LAUNCHED, _VM_TYPE, _VM_SHARE = "STOKER_LAUNCHED_MS", "STOKER_VM_TYPE", "STOKER_VM_SHARE"
_VM_PRICE = "STOKER_VM_PRICE"
#: Dollars an hour of a VM; more in a log makes no sense. Chosen: a thousand times the dearest VMs' price.
_MOST_DOLLARS = 1e6


@dataclass(frozen=True, slots=True)
class ExecutorAttributes:
    """The facts that a bill is made from."""

    launched_at: float
    """Seconds since the epoch: since then its resources are held."""
    vm_type: str
    vm_share: float
    """The largest fraction of its VM's cores, memory or another resource that it holds: in (0, 1]."""
    vm_price: float | None = None
    """Dollars an hour of its VM when it was launched; None in logs of earlier daemons."""

    @property
    def variables(self) -> dict[str, str]:
        """Variables for the executor's process, by which Spark writes these facts into the log."""
        facts = {
            _LAUNCHED: str(round(self.launched_at * 1000)),
            _VM_TYPE: self.vm_type,
            _VM_SHARE: repr(self.vm_share),
        }
        if self.vm_price is not None:
            facts[_VM_PRICE] = repr(self.vm_price)
        return {_VARIABLE + name: text for name, text in facts.items()}

    @staticmethod
    def read(attributes: object) -> "ExecutorAttributes | None":
        """The facts in a log's `Attributes` of an executor; None where they are missing or make no sense.

        An application can write its own log, so the values are those of a stranger.
        """
        if not isinstance(attributes, Mapping):
            return None
        try:
            launched, share = float(attributes[_LAUNCHED]) / 1000, float(attributes[_VM_SHARE])
            vm_type = attributes[_VM_TYPE]
        except (KeyError, TypeError, ValueError):
            return None
        if not (math.isfinite(launched) and launched > 0 and 0 < share <= 1 and isinstance(vm_type, str)):
            return None
        return ExecutorAttributes(launched, vm_type, share, _price(attributes.get(_VM_PRICE)))


def _price(told: object) -> float | None:
    try:
        price = float(told) if isinstance(told, str) else math.nan
    except ValueError:
        return None
    return price if 0 < price <= _MOST_DOLLARS else None
