"""What two kinds of values have under one name goes from one to the other here, and is named nowhere else.

A job is a specification, a job of a workload, a job as policies see it, a record, an answer of the API: each
declares its fields, and says only of those that come from elsewhere where from.
"""

from collections.abc import Callable, Iterable
from dataclasses import fields
from functools import cache
from itertools import chain
from operator import attrgetter
from typing import Any, TypeVar, cast

from pydantic import BaseModel

Made = TypeVar("Made")

_NONE = object()


def carried(kind: type[Made], /, *sources: object, **others: Any) -> Made:
    """A dataclass or model of this kind, made of `others` and, by name, of the first source that has a field.

    AttributeError names a field that nobody has: none is left at its default by oversight.
    """
    declares: Any = kind
    missing, read = _missing(declares, tuple(others))
    try:  # mostly the first source has them all
        found = read(sources[0])
    except (AttributeError, IndexError):
        found = [_found(kind, name, sources) for name in missing]
    others.update(zip(missing, found, strict=True))
    return kind(**others)


def carrier(kind: type[Made], /, **same: Any) -> Callable[..., Made]:
    """`carried` for very many dataclasses: what all of them have is given here, and not with each of them.

    What is returned takes one source, and the others by name.
    """
    declares: Any = kind
    names, make = _names_of(declares), cast(Callable[..., Made], kind)
    base = [same.get(name) for name in names]

    @cache
    def plan(given: tuple[str, ...]) -> tuple[Callable[[object], Iterable[Any]], list[int]]:
        missing, read = _missing(declares, (*same, *given))
        return read, [names.index(name) for name in (*missing, *given)]

    def carry(source: object, /, **others: Any) -> Made:
        read, places = plan(tuple(others))
        values = base.copy()
        for place, value in zip(places, chain(read(source), others.values()), strict=True):
            values[place] = value
        return make(*values)

    return carry


def changed(value: Made, /, **others: Any) -> Made:
    """A dataclass with other values of some fields: `dataclasses.replace`, in half its time if many are."""
    kind: Any = type(value)
    read, places = _places(kind, tuple(others))
    fields_of = list(read(value))
    for place, other in zip(places, others.values(), strict=True):
        fields_of[place] = other
    found: Made = kind(*fields_of)
    return found


@cache
def _places(kind: Any, given: tuple[str, ...]) -> tuple[Callable[[object], Iterable[Any]], tuple[int, ...]]:
    """What reads all fields at once, and which of them these are."""
    names = _names_of(kind)
    if unknown := [name for name in given if name not in names]:
        raise ValueError(f"{kind.__name__} has no field {unknown[0]}")
    return _missing(kind, ())[1], tuple(map(names.index, given))


@cache
def _missing(kind: Any, given: tuple[str, ...]) -> tuple[tuple[str, ...], Callable[[object], Iterable[Any]]]:
    """The names that are not given, and what reads them all of a source at once."""
    names = tuple(name for name in _names_of(kind) if name not in given)
    if len(names) > 1:
        return names, attrgetter(*names)
    return names, lambda source: [getattr(source, name) for name in names]


@cache
def _names_of(kind: Any) -> tuple[str, ...]:
    return tuple(kind.model_fields) if issubclass(kind, BaseModel) else tuple(f.name for f in fields(kind))


def _found(kind: type, name: str, sources: Iterable[object]) -> Any:
    for source in sources:
        if (value := getattr(source, name, _NONE)) is not _NONE:
            return value
    raise AttributeError(f"{kind.__name__} has a field {name}, which nothing that it is made of has")
