"""Migrations of a job store from an earlier Stoker: numbered files of SQL, each applied once, in order.

`0004_owners_and_queues.sql` is the step from schema 3 to 4. A step that differs between databases has a file
for each, as in `.sqlite.sql`. New stores also get the files with `.triggers`; `tables.py` has no triggers.
A statement ends with a semicolon before an empty line; lines that begin with `--` are comments.

A file is never changed later. To change the tables: change `tables.py`, add files here, and specify the
result for old rows in `tests/daemon/store/test_migrations.py`.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from sqlalchemy.engine import Connection

#: In order; the triggers of a step come after its tables.
_FILES = sorted(
    Path(__file__).parent.glob("*.sql"), key=lambda file: (file.name[:4], ".triggers" in file.name)
)

#: The schema of the first Stoker, and the one that this program reads and writes.
FIRST, SCHEMA_VERSION = 1, int(_FILES[-1].name[:4])


def complete(connection: Connection) -> None:
    """Add the triggers that tables alone lack to a newly created store."""
    _run(connection, (file for file in _FILES if ".triggers" in file.name))


def migrate(connection: Connection, found: int) -> None:
    """Migrate a store from that schema, at least `FIRST`, to the present one; in the caller's transaction."""
    _run(connection, (file for file in _FILES if int(file.name[:4]) > found))


def statements(dialect: str, files: Iterable[Path] = _FILES) -> Iterator[str]:
    """The statements of these files for a database of that dialect, sqlite or postgresql."""
    other = ".postgresql." if dialect == "sqlite" else ".sqlite."
    for file in files:
        if other in file.name:
            continue
        text = re.sub(r"^--.*\n", "", file.read_text(encoding="utf-8"), flags=re.MULTILINE)
        yield from (each for each in re.split(r";\n(?:\n|$)", text) if each.strip())


def _run(connection: Connection, files: Iterable[Path]) -> None:
    for statement in statements(connection.dialect.name, files):
        connection.exec_driver_sql(statement)
