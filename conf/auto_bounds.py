"""Amounts that are left to Stoker: `auto`, or with bounds `auto:2-16`, `auto:2-`, `auto:-16`."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from pydantic_core import core_schema

from conf.units import memory_mib

AUTO = "auto"


if TYPE_CHECKING:
    AutoText: TypeAlias = str
else:

    class AutoText(str):
        """A text that leaves an amount to Stoker, as a type of pydantic's; which amount, its field checks."""

        __slots__ = ()

        @classmethod
        def __get_pydantic_core_schema__(cls, *_: Any) -> core_schema.CoreSchema:
            """A text, and no other one also where a stored value is read back by its type alone."""
            return core_schema.no_info_after_validator_function(_only_auto, core_schema.str_schema())


class AutoBounds(NamedTuple):
    """Bounds of an amount that Stoker chooses, both included; None: no bound."""

    least: float | None = None
    most: float | None = None


def is_auto(value: object) -> bool:
    """Whether it is a text that leaves an amount to Stoker, with bounds or without, right or wrong."""
    return isinstance(value, str) and value.partition(":")[0].strip() == AUTO


def _only_auto(text: str) -> str:
    if not is_auto(text):
        raise ValueError(f"should be auto, found {text!r}")
    return text


def amount_of(name: str, text: str) -> float:
    """A number of executors, of cpus, or MiB, by its field's name; ValueError with the right form."""
    return _AMOUNTS[name](text)


def auto_bounds(name: str, text: str) -> AutoBounds:
    """Bounds in a text that leaves the amount of this field to Stoker; ValueError with the right form."""
    word, colon, bounds = text.partition(":")
    least, dash, most = (part.strip() for part in bounds.partition("-"))
    if word.strip() != AUTO or bool(colon) != bool(dash) or (dash and not least + most):
        raise ValueError(f"should be auto, auto:MIN-MAX, auto:MIN- or auto:-MAX, found {text!r}")
    found = AutoBounds(*(amount_of(name, part) if part else None for part in (least, most)))
    if found.least is not None and found.most is not None and found.least > found.most:
        raise ValueError(f"the minimum is above the maximum in {text!r}")
    return found


def _executors(text: str) -> float:
    if not (text.isascii() and text.isdecimal() and len(text) < 10 and 1 <= int(text) <= 10_000):
        raise ValueError(f"should be a number of executors from 1 to 10000, found {text[:60]!r}")
    return float(int(text))


def _cpus(text: str) -> float:
    try:
        cpus = float(text)
    except ValueError:
        cpus = 0.0
    if not 0.001 <= cpus <= 1024:
        raise ValueError(f"should be a number of cpus above 0, at most 1024, found {text!r}")
    return round(cpus, 3)


_AMOUNTS: Mapping[str, Callable[[str], float]] = {
    "executors": _executors,
    "cpus": _cpus,
    "memory": memory_mib,
}

#: Fields of a job that may be left to Stoker.
AUTO_FIELDS = tuple(_AMOUNTS)
