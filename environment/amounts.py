"""Amounts of what VMs have beside cpus and memory, by the name that Mesos gives it: gpus, disk, licences.

They are scalars, of which Mesos keeps three decimals. How much of them is free is in `ClusterView`.
"""

from collections.abc import Iterable, Mapping

Amounts = Mapping[str, float]

#: Shared by all that have nothing, as most have; a mapping that nobody changes.
NOTHING: Amounts = {}
#: Mesos keeps three decimals of a scalar; half of the last one is the tolerance of every comparison.
TOLERANCE = 0.0005


def nothing() -> Amounts:
    """NOTHING, as a default."""
    return NOTHING


def total(amounts: Iterable[Amounts]) -> dict[str, float]:
    """The sum of all, by name."""
    found: dict[str, float] = {}
    for each in amounts:
        for name, amount in each.items():
            found[name] = round(found.get(name, 0.0) + amount, 3)
    return found


def most(one: Amounts, other: Amounts) -> dict[str, float]:
    """The larger amount of each, by name."""
    return {name: max(one.get(name, 0.0), other.get(name, 0.0)) for name in {**one, **other}}


def less(one: Amounts, other: Amounts) -> dict[str, float]:
    """What is left of each when the other is taken away, never less than nothing."""
    return {name: max(round(amount - other.get(name, 0.0), 3), 0.0) for name, amount in one.items()}


def text(cpus: float, memory_mib: int, resources: Amounts = NOTHING) -> str:
    """In words: 1 cpus and 1024 MiB; 1 cpus, 1024 MiB and 2 gpus."""
    parts = [f"{cpus:g} cpus", f"{memory_mib} MiB", *(f"{v:.10g} {name}" for name, v in resources.items())]
    return f"{', '.join(parts[:-1])} and {parts[-1]}"
