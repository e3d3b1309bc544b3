"""Which objects of an SQLite database are not of a job store: those of strangers can run without end.

A view, a trigger, a computed column, a check or an index of an expression runs SQL of its author whenever a
table is read, written or checked, in C, where no signal of Ctrl-C is handled.
"""

import contextlib
import re
import sqlite3
from functools import cache
from pathlib import Path
from urllib.parse import quote

from daemon.store.job_store import Store
from daemon.store.migrations import statements
from daemon.store.rows import sqlite_file
from daemon.store.rows.database import StoreError

#: Words of a table's definition that make SQLite compute something.
_COMPUTES = re.compile(r"\b(?:CHECK|GENERATED|VIRTUAL|AS)\b|\bDEFAULT\s*\(", re.IGNORECASE)
#: An index that computes nothing: of columns, and of all rows or those where columns have values, or none.
_INDEX = re.compile(
    r"CREATE (?:UNIQUE )?INDEX \w+ ON \w+ ?\(\w+(?:, ?\w+)*\)"
    r"(?: WHERE \w+ IS (?:NOT )?NULL(?: AND \w+ IS (?:NOT )?NULL)*)?",
    re.ASCII,
)


def foreign_object(connection: sqlite3.Connection) -> str:
    """The first object that no Stoker has made, in words; empty when there is none."""
    found = connection.execute("SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL")
    for kind, name, sql in found:
        if not _is_ours(kind, _plain(sql)):
            return f"it has the {kind} {str(name)[:40]!r}, which runs SQL that is not Stoker's"
    return ""


def _is_ours(kind: str, sql: str) -> bool:
    if kind == "table":
        return _COMPUTES.search(sql) is None
    return _INDEX.fullmatch(sql) is not None if kind == "index" else kind == "trigger" and sql in _triggers()


def foreign_store(path: Path) -> Store:
    """Open the store in a file that a stranger may have written; StoreError when it is none of Stoker's."""
    refuse_foreign(path)
    return Store(f"sqlite:///{path.absolute()}")


def refuse_foreign(path: Path) -> None:
    """StoreError when a stranger has written a store in this file that is none of Stoker's."""
    if wrong := sqlite_file.fault(path):
        raise StoreError(f"the job store {path} {wrong}")
    uri = f"file:{quote(str(path.absolute()))}?mode=rw"
    try:
        with contextlib.closing(sqlite3.connect(uri, uri=True)) as connection:
            why = foreign_object(connection)
    except sqlite3.Error as error:
        raise StoreError(f"the job store {path} cannot be used: {error}") from error
    if why:
        raise StoreError(f"{path} is not a job store: {why}")


@cache
def _triggers() -> frozenset[str]:
    made = (_plain(each) for each in statements("sqlite"))
    return frozenset(each for each in made if each.startswith("CREATE TRIGGER "))


def _plain(sql: str) -> str:
    return " ".join(sql.split())
