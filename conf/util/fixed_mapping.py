"""A dict that does not change, for values of ours that code of strangers is shown."""

from collections.abc import Mapping
from typing import Any, NoReturn, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class FixedMapping(dict[K, V]):
    """As quick to read as a dict, as JSON or a pickle too; an attempt to change it raises TypeError."""

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError("this mapping does not change; dict(...) makes a copy that does")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        return FixedMapping, (dict(self),)


def fixed(mapping: Mapping[K, V]) -> FixedMapping[K, V]:
    """The mapping, or a copy of it, that does not change."""
    return mapping if type(mapping) is FixedMapping else FixedMapping(mapping)
