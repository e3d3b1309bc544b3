"""Cache of the constant attributes of objects, for policies that read many objects per decision.

Requests and running jobs are frozen, and a simulation passes the same objects again at each decision. The
cache stores each object beside the row read from it, so that the row is found by identity and never mistaken
for another object's.
"""

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

#: Number of entries before all are forgotten.
_KEPT = 16384

Shown = TypeVar("Shown")
Row = TypeVar("Row")


class Columns(Generic[Shown, Row]):
    """Rows by the objects that they were read of."""

    def __init__(self, read: Callable[[Shown], Row], forget: Callable[[], None] = lambda: None) -> None:
        """`read` returns the row of an object; `forget` is called when all rows are forgotten."""
        self._read, self._forget = read, forget
        self._rows: dict[int, tuple[Shown, Row]] = {}

    def of(self, shown: Iterable[Shown]) -> list[Row]:
        """The row of each."""
        if len(self._rows) > _KEPT:
            self.clear()
        rows, found = self._rows, []
        for each in shown:
            row = rows.get(id(each))  # kept together, so that no other has its id
            if row is None:
                row = rows[id(each)] = each, self._read(each)
            found.append(row[1])
        return found

    def clear(self) -> None:
        """Forget all rows."""
        self._rows.clear()
        self._forget()
