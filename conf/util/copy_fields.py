"""Copies fields of equal names between two kinds of values, without naming them.

A job is a specification, a job of a workload, a job as policies see it, a record, an answer of the API: each
declares its fields, and names a source only for the fields that come from elsewhere.
"""

from collections.abc import Callable, Iterable
from dataclasses import fields, make_dataclass
from functools import cache
from operator import attrgetter, itemgetter
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
    """Return a fast `carried` for very many dataclasses: fields that all of them share are given here once.

    The returned function takes one source, and the others by name; ValueError for one that is no field.
    """
    declares: Any = kind
    base, make = tuple(same.values()), _maker(declares)

    @cache
    def plan(given: tuple[str, ...]) -> tuple[Callable[[object], Iterable[Any]], Callable[[Any], Any]]:
        missing, read = _missing(declares, (*same, *given))
        return read, _ordered(declares, (*same, *missing, *given))

    def carry(source: object, /, **others: Any) -> Made:
        read, ordered = plan(tuple(others))
        return cast(Made, make(*ordered((*base, *read(source), *others.values()))))

    return carry


def changed(value: Made, /, **others: Any) -> Made:
    """A dataclass with other values of some fields: `dataclasses.replace`, in a quarter of its time."""
    kind: Any = type(value)
    return cast(Made, _copier(kind)(value, **others))


@cache
def _copier(kind: Any) -> Callable[..., Any]:
    return carrier(kind)


@cache
def _maker(kind: Any) -> Callable[..., Any]:
    """Makes dataclasses of the values of all fields, in their order.

    A frozen one sets each field by a call, as its own way is barred, and with many fields that takes most of
    the time. So a twin with the same slots that is not frozen is made, and becomes one.
    """
    names = _names_of(kind)
    slotted = kind.__bases__ == (object,) and kind.__dict__.get("__slots__") == names
    if not slotted or hasattr(kind, "__post_init__"):
        return cast(Callable[..., Any], kind)
    twin = make_dataclass(kind.__name__, names, slots=True)

    def make(*values: Any) -> Any:
        made = twin(*values)
        made.__class__ = kind
        return made

    return make


@cache
def _ordered(kind: Any, given: tuple[str, ...]) -> Callable[[Any], Any]:
    """Return a function from values of fields of these names to those of all fields in their order."""
    names = _names_of(kind)
    if unknown := [name for name in given if name not in names]:
        raise ValueError(f"{kind.__name__} has no field {unknown[0]}")
    at = {name: place for place, name in enumerate(given)}  # the last of a name counts
    places = [at[name] for name in names]
    return itemgetter(*places) if len(places) > 1 else lambda values: values[-1:]


@cache
def _missing(kind: Any, given: tuple[str, ...]) -> tuple[tuple[str, ...], Callable[[object], Iterable[Any]]]:
    """Names that are not given, and a function that reads them all from a source at once."""
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
    raise AttributeError(f"no source has a value for field {name} of {kind.__name__}")
