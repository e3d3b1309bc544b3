"""Exact amounts of resources, by Mesos' names: a VM's, an offer's and an executor's.

An amount is a whole number of thousandths, the precision of Mesos for a scalar: sums are exact, and
comparisons need no tolerance. Memory is in MiB. Ports are ranges and no part of an amount. `resource_arrays`
defines the amounts of many VMs at once.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

from conf.util.fixed_mapping import FixedMapping

CPUS, MEMORY = "cpus", "mem"
THOUSANDTHS = 1000

#: Resources of every VM and every executor, in the order in which amounts are shown.
BASIC = (CPUS, MEMORY)
_BASIC = frozenset(BASIC)
#: Users' words for resources that have another name in Mesos.
_WORDS = {MEMORY: "MiB"}
#: Where 1 of it is called otherwise: other names are their users' own.
_ONE = {"cpus": "cpu", "gpus": "gpu"}


@dataclass(frozen=True, slots=True)
class Resources:
    """Amounts by name, thousandths of each; no zeros. Made by `of`, `named` or arithmetic, never changed."""

    thousandths: Mapping[str, int] = field(default_factory=FixedMapping)

    def __post_init__(self) -> None:
        if type(self.thousandths) is not FixedMapping:  # policies are shown it
            object.__setattr__(self, "thousandths", FixedMapping(self.thousandths))

    @classmethod
    def of(
        cls, cpus: float = 0.0, memory_mib: float = 0, others: Mapping[str, float] | None = None
    ) -> "Resources":
        """Build an amount from cpus, MiB and others by name, each rounded to thousandths."""
        return cls.named({CPUS: cpus, MEMORY: memory_mib, **(others or {})})

    @classmethod
    def named(cls, amounts: Mapping[str, float]) -> "Resources":
        """Amounts by Mesos' names, each rounded to thousandths."""
        return _nonzero({name: thousandths(amount) for name, amount in amounts.items()})

    @classmethod
    def read(cls, value: object) -> "Resources":
        """Read amounts as `amounts` returns them, or from the first Stoker's logs, with `memory_mib`.

        Raises ValueError for anything else.
        """
        if isinstance(value, Resources):
            return value
        if not isinstance(value, Mapping):
            raise ValueError(f"amounts by name expected, found {value!r}")
        amounts = {str(MEMORY if name == "memory_mib" else name): amount for name, amount in value.items()}
        if not all(isinstance(amount, int | float) and isfinite(amount) for amount in amounts.values()):
            raise ValueError(f"amounts should be finite numbers, found {amounts}")
        return cls.named(amounts)

    @classmethod
    def __get_pydantic_core_schema__(cls, *_: Any) -> Any:
        """Schema for pydantic: validate with `read`, write as JSON by `amounts`."""
        from pydantic_core import core_schema

        written = core_schema.plain_serializer_function_ser_schema(lambda value: value.amounts)
        return core_schema.no_info_plain_validator_function(cls.read, serialization=written)

    def __bool__(self) -> bool:
        return bool(self.thousandths)

    def __hash__(self) -> int:
        # Quicker than of all that there is, and few differ in that alone.
        return hash((self.thousandths.get(CPUS), self.thousandths.get(MEMORY)))

    def __iter__(self) -> Iterator[str]:
        """The names, cpus and memory first."""
        names = self.thousandths.keys()
        if names == _BASIC:
            return iter(BASIC)
        return iter([*(name for name in BASIC if name in names), *sorted(names - _BASIC)])

    def __add__(self, other: "Resources") -> "Resources":
        sums = dict(self.thousandths)
        for name, amount in other.thousandths.items():
            sums[name] = sums.get(name, 0) + amount
        return _nonzero(sums)

    def __sub__(self, other: "Resources") -> "Resources":
        """Subtract the other; amounts that are lacking become negative, see `positive`."""
        if not other.thousandths:
            return self
        left = dict(self.thousandths)
        for name, amount in other.thousandths.items():
            left[name] = left.get(name, 0) - amount
        return _nonzero(left)

    def __mul__(self, times: int) -> "Resources":
        return _nonzero({name: amount * times for name, amount in self.thousandths.items()})

    def __or__(self, other: "Resources") -> "Resources":
        """The larger amount of each."""
        if not other.thousandths or self.thousandths == other.thousandths:
            return self
        mine, others = self.thousandths, other.thousandths
        return _nonzero({name: max(self.get(name), other.get(name)) for name in {**mine, **others}})

    def __and__(self, other: "Resources") -> "Resources":
        """The smaller amount of each."""
        return _nonzero({name: min(amount, other.get(name)) for name, amount in self.thousandths.items()})

    def __floordiv__(self, each: "Resources") -> int:
        """Number of times that `each`, which is not empty, fits into it."""
        return max(0, min(self.get(name) // amount for name, amount in each.thousandths.items()))

    def contains(self, other: "Resources") -> bool:
        """Whether so much can be taken of it: the one answer to "does it fit", but for the compiled one."""
        mine = self.thousandths
        return all(mine.get(name, 0) >= amount for name, amount in other.thousandths.items())

    def missing(self, other: "Resources") -> tuple[str, ...]:
        """The names of which it has less than the other."""
        return tuple(name for name in other if self.get(name) < other.get(name))

    def share_of(self, whole: "Resources") -> float:
        """The largest share that it is of anything in the other: Ghodsi 2011's dominant share."""
        return max((self.get(name) / amount for name, amount in whole.thousandths.items()), default=0.0)

    @property
    def positive(self) -> "Resources":
        """The amounts above zero."""
        if min(self.thousandths.values(), default=1) > 0:
            return self
        return Resources({name: amount for name, amount in self.thousandths.items() if amount > 0})

    def without(self, names: Collection[str]) -> "Resources":
        """All but these."""
        return Resources({name: amount for name, amount in self.thousandths.items() if name not in names})

    def get(self, name: str) -> int:
        """Thousandths of one resource, 0 where there is none."""
        return self.thousandths.get(name, 0)

    def amount(self, name: str) -> float:
        """Amount of one resource."""
        return self.thousandths.get(name, 0) / THOUSANDTHS

    @property
    def cpus(self) -> float:
        """Cpus."""
        return self.thousandths.get(CPUS, 0) / THOUSANDTHS

    @property
    def memory_mib(self) -> int:
        """Whole MiB of memory."""
        return self.thousandths.get(MEMORY, 0) // THOUSANDTHS

    @property
    def others(self) -> dict[str, float]:
        """Amounts beside cpus and memory, by name."""
        return {name: self.amount(name) for name in self if name not in BASIC}

    @property
    def amounts(self) -> dict[str, float]:
        """All that there is, by Mesos' names."""
        return {name: self.amount(name) for name in self}

    def text(self, names: Iterable[str] = ()) -> str:
        """Cpus, memory and the other amounts in words; these names are listed even where the amount is 0.

        1 cpu and 1024 MiB; 1 cpu, 1024 MiB and 2 gpus.
        """
        parts = [told(name, self.amount(name)) for name in dict.fromkeys((*BASIC, *self, *names))]
        return f"{', '.join(parts[:-1])} and {parts[-1]}"

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"Resources.named({self.amounts})"


NOTHING = Resources()


def total(amounts: Iterable[Resources]) -> Resources:
    """The sum of all."""
    found: dict[str, int] = {}
    for each in amounts:
        for name, amount in each.thousandths.items():
            found[name] = found.get(name, 0) + amount
    return _nonzero(found)


def thousandths(amount: float) -> int:
    """An amount in thousandths; OverflowError or ValueError when it is not a finite number."""
    return round(amount * float(THOUSANDTHS))


def word(name: str) -> str:
    """Users' word for a resource: MiB for memory."""
    return _WORDS.get(name, name)


def told(name: str, amount: float) -> str:
    """An amount of one resource in words: 1.5 cpus, 1024 MiB."""
    return f"{amount:.10g} {word(name) if amount != 1 else _ONE.get(name, word(name))}"


def _nonzero(amounts: dict[str, int]) -> Resources:
    if 0 in amounts.values():
        amounts = {name: amount for name, amount in amounts.items() if amount}
    return Resources(amounts)


#: Resources that may be cut, with the least of each: an executor may get less of these than its job asks for,
#: and exactly the requested amount of all others. No policy gives less than the least, unless the job asks
#: for less. Chosen: the least that Mesos gives its own executors, and the least memory with which Spark
#: starts (`framework.spark.memory`).
LEAST = Resources.of(0.1, 896)
#: In steps of how many thousandths amounts are cut, when not of one: memory is given in whole MiB.
STEPS = {MEMORY: THOUSANDTHS}
