"""Resources of Mesos' master and agents: scalars with ports, and their JSON and text forms.

Amounts of scalars are those of `environment.resources`. Roles are not part of an amount: the embedded master
has no reservations, and the role of an allocation belongs to its offer.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from environment.resources import CPUS, MEMORY, NOTHING, THOUSANDTHS, Resources, thousandths

Json = dict[str, Any]
Ranges = tuple[tuple[int, int], ...]

_LARGEST = 1e12  # far above any machine; keeps sums within the range that a double holds exactly
_ORDER = {CPUS: 0, MEMORY: 1, "disk": 2}


@dataclass(frozen=True, slots=True)
class Amount:
    """Scalars and ports; port ranges are disjoint and ascending."""

    scalars: Resources = NOTHING
    ports: Ranges = ()

    def __bool__(self) -> bool:
        return bool(self.scalars or self.ports)

    def __add__(self, other: "Amount") -> "Amount":
        return Amount(self.scalars + other.scalars, _union(self.ports, other.ports))

    def __sub__(self, other: "Amount") -> "Amount":
        return Amount(self.scalars - other.scalars, _minus(self.ports, other.ports))

    def contains(self, other: "Amount") -> bool:
        """Whether `other` fits into this amount."""
        return self.scalars.contains(other.scalars) and not _minus(other.ports, self.ports)


EMPTY = Amount()


def total(amounts: Iterable[Amount]) -> Amount:
    """The sum of all amounts."""
    result = EMPTY
    for amount in amounts:
        result = result + amount
    return result


def make(cpus: float, memory_mib: float, others: Mapping[str, float], ports: tuple[int, int]) -> Amount:
    """The resources of a whole agent."""
    return Amount(Resources.of(cpus, memory_mib, others), (ports,))


def milli(value: float) -> int:
    """Round a scalar to thousandths, as far as any could be."""
    return thousandths(max(-_LARGEST, min(value, _LARGEST)))


def parse(items: Sequence[Json]) -> Amount:
    """The amount that a list of Mesos `Resource` messages describes."""
    scalars, ports = NOTHING, EMPTY.ports
    for item in items:
        if item["type"] == "SCALAR":
            scalars += Resources({item["name"]: milli(item["scalar"]["value"])})
        elif item["type"] == "RANGES":
            ports = _union(ports, _ranges(item))
    return Amount(scalars, ports)


def invalid(items: Sequence[Json]) -> str | None:
    """The complaint that Mesos has about the first bad resource of a list, or None."""
    for item in items:
        name, kind = item["name"], item["type"]
        if kind == "SCALAR":
            value = item.get("scalar", {}).get("value", -1.0)
            if value != 0 and milli(value) <= 0:
                return f"Resource '{_describe(item)}' is invalid: Invalid scalar resource: value <= 0"
            if name == "gpus" and milli(value) % THOUSANDTHS:
                return "Invalid 'gpus' resource: The 'gpus' resource must be an unsigned integer"
        elif kind != "RANGES" or name != "ports" or any(begin > end for begin, end in _ranges(item)):
            return f"Resource '{name}' is invalid: Invalid {kind.lower()} resource"
    return None


def to_json(amount: Amount, role: str | None = None, *, ports_first: bool = True) -> list[Json]:
    """`Resource` messages; with a role, each names the role that it is allocated to."""
    extra: Json = {"role": "*"} | ({"allocation_info": {"role": role}} if role is not None else {})
    ports = [_ports_json(amount.ports) | extra] if amount.ports else []
    scalars = [
        {"name": name, "type": "SCALAR", "scalar": {"value": amount.scalars.amount(name)}} | extra
        for name in sorted(amount.scalars, key=lambda name: (_ORDER.get(name, len(_ORDER)), name))
    ]
    return ports + scalars if ports_first else scalars + ports


def describe(items: Sequence[Json], role: str) -> str:
    """`Resource` messages as Mesos prints them: `cpus(allocated: r):1; mem(allocated: r):64`."""
    return "; ".join(_describe(item, role) for item in items) or "{}"


def legacy(amount: Amount) -> Json:
    """The form that `/state` uses: numbers by name, ports as text when there are any."""
    names = dict.fromkeys(("disk", "mem", "gpus", "cpus", *amount.scalars))
    scalars = {name: amount.scalars.amount(name) for name in names}
    return scalars | ({"ports": range_text(amount.ports)} if amount.ports else {})


def number(value: float) -> str:
    """A number without a trailing `.0`."""
    return str(int(value)) if value == int(value) else repr(value)


def range_text(ranges: Ranges) -> str:
    """Port ranges as `[1-2, 5-5]`."""
    return "[" + ", ".join(f"{begin}-{end}" for begin, end in ranges) + "]"


def _describe(item: Json, role: str | None = None) -> str:
    role = item.get("allocation_info", {}).get("role", role)
    name = item["name"] if role is None else f"{item['name']}(allocated: {role})"
    if "ranges" in item:
        return f"{name}:{range_text(_ranges(item))}"
    return f"{name}:{number(milli(item.get('scalar', {}).get('value', 0)) / THOUSANDTHS)}"


def _ranges(item: Json) -> Ranges:
    return tuple((entry["begin"], entry["end"]) for entry in item.get("ranges", {}).get("range", []))


def _ports_json(ports: Ranges) -> Json:
    ranges = [{"begin": begin, "end": end} for begin, end in ports]
    return {"name": "ports", "type": "RANGES", "ranges": {"range": ranges}}


def _union(left: Ranges, right: Ranges) -> Ranges:
    if not left or not right:
        return left or right
    merged: list[tuple[int, int]] = []
    for begin, end in sorted((*left, *right)):
        if merged and begin <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((begin, end))
    return tuple(merged)


def _minus(left: Ranges, right: Ranges) -> Ranges:
    result = list(left)
    for begin, end in right:
        result = [piece for low, high in result for piece in _cut(low, high, begin, end)]
    return tuple(result)


def _cut(low: int, high: int, begin: int, end: int) -> list[tuple[int, int]]:
    """Parts of low..high outside begin..end."""
    if end < low or begin > high:
        return [(low, high)]
    below = [(low, begin - 1)] if low < begin else []
    above = [(end + 1, high)] if end < high else []
    return below + above
