"""Stored and displayed form of resources: `cpus`, `memory_mib`, and others by name.

Inside, they are one value (`environment.resources`); the store's rows and the API's answers use this form.
"""

from collections.abc import Mapping
from typing import Any

from environment.resources import CPUS, MEMORY, Resources

_FORM = ("cpus", "memory_mib", "resources")


def flat(amounts: Resources | None) -> dict[str, Any]:
    """The three fields; None and nothing else where nothing is known."""
    if amounts is None:
        return dict(zip(_FORM, (None, None, {}), strict=True))
    return dict(zip(_FORM, (amounts.cpus, amounts.memory_mib, amounts.others), strict=True))


def flat_free(free: Mapping[str, float]) -> dict[str, Any]:
    """Flat form of a VM's free resources, including names of resources that it lacks."""
    others = {name: amount for name, amount in free.items() if name not in (CPUS, MEMORY)}
    return {"free_cpus": free[CPUS], "free_memory_mib": int(free[MEMORY]), "free_resources": others}


def taken_out(values: dict[str, Any]) -> Resources | None:
    """Remove the fields that `flat` wrote from the others and return their value; None where unknown."""
    cpus, memory_mib, others = (values.pop(name, None) for name in _FORM)
    return None if cpus is None else Resources.of(cpus, memory_mib, others)


def free_taken_out(values: dict[str, Any]) -> dict[str, float]:
    """Remove the fields that `flat_free` wrote from the others and return their value."""
    cpus, memory_mib = values.pop("free_cpus"), values.pop("free_memory_mib")
    return {CPUS: cpus, MEMORY: memory_mib, **values.pop("free_resources", {})}
