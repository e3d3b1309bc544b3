"""What two kinds of values have under one name goes from one to the other here, and is named nowhere else.

A job is a specification, a job of a workload, a job as policies see it, a record, an answer of the API: each
declares its fields, and says only of those that come from elsewhere where from.
"""

from collections.abc import Callable, Iterable
from dataclasses import fields
from functools import cache
from operator import attrgetter
from typing import Any, TypeVar

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
    for name, value in zip(missing, found, strict=True):
        others[name] = value
    return kind(**others)


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
