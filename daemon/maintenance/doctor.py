"""Examines a job store and the files beside it: faults, advice, and repairs.

An examination changes nothing and may run beside a running daemon. Repairs need to be alone. `host_checks.py`
checks the data folder and other parts outside the rows; `doctor_report.py` defines the findings.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from daemon.core import job_ids
from daemon.maintenance.doctor_report import DoctorReport, Examination
from daemon.maintenance.host_checks import (
    look_at_bill,
    look_at_event_logs,
    look_at_facts,
    look_at_folders,
    look_at_permissions,
    look_at_place,
    look_at_provider,
)
from daemon.store.migrations import FIRST, SCHEMA_VERSION
from daemon.store.rows import job_rows, sqlite_file
from daemon.store.rows.comparisons import read_comparison
from daemon.store.rows.damaged_rows import Damages, put_aside
from daemon.store.rows.database import Database, StoreError
from daemon.store.rows.leases import LEASES, put_leases_aside
from daemon.store.rows.record_tables import SEALED
from daemon.store.rows.tables import comparisons, executors, explanations, facts, jobs, leases, sums
from daemon.store.rows.terms import refuse_if_led
from daemon.store.sqlite_schema import refuse_foreign
from framework.providers.interface import Provider

_PAGE = 1000
_RESTORE = "restore a backup: `stoker restore FILE`"


class Doctor:
    """One examination. With `repair`, it repairs faults; StoreError when it cannot do so now."""

    def __init__(
        self,
        url: str,
        data_dir: Path,
        *,
        repair: bool,
        progress: Callable[[str, int], None] | None = None,
        provider: Callable[[], Provider] | None = None,
        place: Mapping[str, str] | None = None,
    ) -> None:
        """`progress` gets each check and its count so far; `provider` makes that of VMs, at `place`."""
        self._provider, self._place = provider, place
        self._url = url
        self._exam = Examination(data_dir, repair=repair, progress=progress)

    def examine(self) -> DoctorReport:
        """Look at everything; StoreError when the store cannot be opened at all."""
        look_at_permissions(self._exam)
        look_at_event_logs(self._exam)
        look_at_provider(self._exam, self._provider)
        url = sa.engine.make_url(self._url)
        path = Path(str(url.database)) if url.get_backend_name() == "sqlite" else None
        if path is not None and not self._look_at_file(path):
            return self._exam.report
        database = Database(self._url)
        try:
            if self._exam.repair:
                database.lock()
            if self._look_at_schema(database):
                if self._exam.repair:
                    refuse_if_led(database)
                self._look_at_rows(database)
        finally:
            database.close()
        return self._exam.report

    # ---- the file --------------------------------------------------------------------------------

    def _look_at_file(self, path: Path) -> bool:
        """Whether it is one that can be looked into."""
        self._exam.count("file")
        if wrong := sqlite_file.fault(path):
            self._exam.find("file", f"{path} {wrong}", _RESTORE)
            return False
        if not path.exists() or not path.stat().st_size:
            self._exam.find(
                "file", f"{path}: there is no job store", "start the daemon once, or give its --config"
            )
            return False
        if not sqlite_file.note_of(path).exists():
            what = (
                f"{sqlite_file.note_of(path)} is missing: without it the loss of the store would not be "
                "noticed"
            )
            self._exam.find(
                "file",
                what,
                "start the daemon once",
                self._exam.mend(lambda: sqlite_file.note(path, "doctor")),
            )
        try:
            refuse_foreign(path)
        except StoreError as error:
            self._exam.find("file", str(error), _RESTORE)
            return False
        return True

    def _look_at_schema(self, database: Database) -> bool:
        with database.read() as connection:
            faults = [] if database.path is None else self._look_at_pages(connection)
        if faults:
            only = all(map(sqlite_file.of_an_index, faults))
            mended = only and self._exam.mend(lambda: database.write(_index_anew))
            advice = f"`stoker doctor --repair` makes its indexes anew; or {_RESTORE}" if only else _RESTORE
            self._exam.find_all("pages", faults, advice, mended)
            if not mended:
                return False
        with database.read() as connection:
            if database.path is not None:
                self._look_at_references(connection)
            stored = connection.scalar(sa.select(facts.c.value).where(facts.c.key == "schema"))
        found = None if stored is None else str(stored)  # a damaged one may be no text
        self._exam.count("schema")
        if found == str(SCHEMA_VERSION):
            return True
        known = found is not None and found.isdecimal() and FIRST <= int(found) < SCHEMA_VERSION
        advice = "start the daemon once, which migrates it" if known else "use the Stoker that wrote it"
        self._exam.find("schema", f"it has schema {found}, this program knows {SCHEMA_VERSION}", advice)
        return False

    def _look_at_pages(self, connection: Connection) -> list[str]:
        self._exam.progress("pages", 0)
        found = [str(row[0]) for row in connection.exec_driver_sql("PRAGMA integrity_check(20)")]
        self._exam.count("pages", int(connection.exec_driver_sql("PRAGMA page_count").scalar() or 0))
        return [] if found == ["ok"] else found

    def _look_at_references(self, connection: Connection) -> None:
        missing = connection.exec_driver_sql("PRAGMA foreign_key_check").all()
        lost = [f"row {row[1]} of {row[0]} belongs to a missing job" for row in missing]
        self._exam.find_all("references", lost, _RESTORE)
        self._exam.count("references")

    # ---- rows ------------------------------------------------------------------------------------

    def _look_at_rows(self, database: Database) -> None:
        damages = Damages()
        wrong_columns: list[int] = []
        states: Counter[tuple[str, str]] = Counter()
        numbers: set[int] = set()
        for number, row in self._rows(database, jobs, jobs.c.number):
            numbers.add(number)
            states["jobs", row.state] += 1
            record = damages.job_record(number, row.record)
            if row.spec is not None:
                damages.read("specs", job_ids.job_id(number), number, job_rows.read_spec, row.spec)
            if record is not None:
                right = job_rows.job_row(record)
                if any(getattr(row, name) != value for name, value in right.items() if name != "record"):
                    wrong_columns.append(number)
        for key, row in self._rows(database, executors, executors.c.task_id):
            states["executors", row.state] += 1
            damages.read("executors", key, row.job, job_rows.read_executor, row.record)
        for key, row in self._rows(database, explanations, explanations.c.number):
            damages.read("explanations", str(key), row.job, job_rows.read_explanation, row.body)
        for key, row in self._rows(database, comparisons, comparisons.c.number):
            damages.read("comparisons", str(key), row.job, read_comparison, row.body)
        for key, row in self._rows(database, leases, leases.c.id):
            LEASES.look(damages, key, row.record)
        for sealed in SEALED:
            for key, row in self._rows(database, sealed.table, sealed.table.c.id):
                sealed.look(damages, key, row.record)
        self._tell_of_rows(database, damages, wrong_columns)
        self._look_at_sums(database, states)
        look_at_bill(self._exam, database)
        self._look_at_term(database)
        look_at_facts(self._exam, database)
        if self._place is not None:
            look_at_place(self._exam, database, self._place)
        look_at_folders(self._exam, numbers)

    def _rows(self, database: Database, table: sa.Table, key: sa.Column[Any]) -> Iterator[tuple[Any, Any]]:
        """All rows, each with its key, in pages, so that no writer waits."""
        last, seen = None, 0
        while True:
            query = sa.select(table).order_by(key).limit(_PAGE)
            with database.read() as connection:
                rows = connection.execute(query if last is None else query.where(key > last)).all()
            for row in rows:
                yield getattr(row, key.name), row
            seen += len(rows)
            self._exam.progress(table.name, seen)
            if len(rows) < _PAGE:
                break
            last = getattr(rows[-1], key.name)
        self._exam.count(table.name, seen)

    def _tell_of_rows(self, database: Database, damages: Damages, wrong_columns: list[int]) -> None:
        found = damages.all()
        numbers = sorted({job_ids.job_number(damage.job_id) or 0 for damage in found})
        leased = [damage.key for damage in found if damage.table == leases.name]

        def aside(connection: Connection) -> None:
            put_aside(connection, numbers, time.time())
            put_leases_aside(connection, leased, time.time())
            for sealed in SEALED:
                sealed.put_aside(connection, time.time())
            for table in (explanations, comparisons):
                keys = [int(damage.key) for damage in found if damage.table == table.name]
                connection.execute(sa.delete(table).where(table.c.number.in_(keys)))

        def columns(connection: Connection) -> None:
            for number in wrong_columns:
                text = connection.scalar(sa.select(jobs.c.record).where(jobs.c.number == number))
                row = job_rows.job_row(job_rows.read_job(str(text), number))
                connection.execute(sa.update(jobs).where(jobs.c.number == number), row)

        if found:
            advice = "`stoker doctor --repair` puts it aside; a backup has its content, if there is one"
            mended = self._exam.mend(lambda: database.write(aside))
            self._exam.find_all("rows", [f"{damage}" for damage in found], advice, mended)
        if wrong_columns:
            what = [f"{job_ids.job_id(n)}: its columns are not those of its record" for n in wrong_columns]
            advice = "`stoker doctor --repair` makes them anew"
            self._exam.find_all("columns", what, advice, self._exam.mend(lambda: database.write(columns)))

    def _look_at_sums(self, database: Database, states: Counter[tuple[str, str]]) -> None:
        findings = self._exam.report.findings
        if any(finding.mended for finding in findings if finding.check in ("rows", "columns")):
            return  # they have just changed
        with database.read() as connection:
            query = sa.select(sums.c.name, sums.c.state, sums.c.number).where(sums.c.number != 0)
            rows = connection.execute(query.where(sums.c.name.in_(("jobs", "executors")))).all()
        kept = {(row.name, row.state): row.number for row in rows}
        self._exam.count("sums", len(kept))
        wrong = {key for key in {*kept, *states} if kept.get(key, 0) != states[key]}
        # Rows written during the check are counted in one of the two only.
        if wrong and self._sums_are_wrong(database):
            what = [
                f"{name} {state}: {kept.get((name, state), 0)} by the sums" for name, state in sorted(wrong)
            ]
            advice = "`stoker doctor --repair` counts anew"
            self._exam.find_all("sums", what, advice, self._exam.mend(lambda: database.write(_sum_anew)))

    def _sums_are_wrong(self, database: Database) -> bool:
        with database.read() as connection:
            for table in (jobs, executors):
                counted = sa.select(table.c.state, sa.func.count()).group_by(table.c.state)
                right = {row[0]: row[1] for row in connection.execute(counted)}
                query = sa.select(sums.c.state, sums.c.number)
                query = query.where(sums.c.name == table.name, sums.c.number != 0)
                if right != {row[0]: row[1] for row in connection.execute(query)}:
                    return True
        return False

    def _look_at_term(self, database: Database) -> None:
        self._exam.count("terms")
        with database.read() as connection:
            term = connection.scalar(sa.select(facts.c.value).where(facts.c.key == "term"))
        if term is not None and not str(term).isdecimal():
            self._exam.find("terms", f"the leader's term is {term!r}, and should be a number", _RESTORE)


def _index_anew(connection: Connection) -> None:
    connection.exec_driver_sql("REINDEX")


def _sum_anew(connection: Connection) -> None:
    connection.execute(sa.delete(sums).where(sums.c.name.in_(("jobs", "executors"))))
    cost = sa.case((sa.func.abs(jobs.c.cost) <= 1e15, jobs.c.cost), else_=0.0)
    size = sa.func.coalesce(sa.func.sum(jobs.c.size), 0)
    names = ["name", "state", "number", "cost", "size"]
    for query in (
        sa.select(sa.literal("jobs"), jobs.c.state, sa.func.count(), sa.func.sum(cost), size).group_by(
            jobs.c.state
        ),
        sa.select(
            sa.literal("executors"), executors.c.state, sa.func.count(), sa.literal(0.0), sa.literal(0)
        ).group_by(executors.c.state),
    ):
        connection.execute(sa.insert(sums).from_select(names, query))
