"""Stores that an earlier Stoker made: opened, each is brought up to today's schema and loses nothing."""

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa

from conf.schema import JobSpec
from daemon.store import migrations
from daemon.store.job_store import Store
from daemon.store.migrations import FIRST, SCHEMA_VERSION
from daemon.store.rows import job_rows, tables
from environment.model.cluster_model import Changes
from environment.model.messages.records import ExecutorRecord, JobRecord
from environment.resources import Resources
from environment.types import Job

SPEC = JobSpec(app="count.py")

#: The tables of schema 1, as the first Stoker made them.
_FIRST = {
    "sqlite": (
        "CREATE TABLE facts (key TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (key))",
        "CREATE TABLE jobs (number INTEGER NOT NULL, state TEXT NOT NULL, cost DOUBLE NOT NULL,"
        " record TEXT NOT NULL, spec TEXT, accepted_at DOUBLE, idempotency_key TEXT, PRIMARY KEY (number),"
        " UNIQUE (idempotency_key))",
        "CREATE INDEX jobs_by_state ON jobs (state, number)",
        "CREATE TABLE executors (task_id TEXT NOT NULL, job INTEGER NOT NULL, state TEXT NOT NULL,"
        " launched_at DOUBLE NOT NULL, record TEXT NOT NULL, PRIMARY KEY (task_id),"
        " FOREIGN KEY(job) REFERENCES jobs (number))",
        "CREATE INDEX ix_executors_job ON executors (job)",
        "CREATE INDEX ix_executors_state ON executors (state)",
        "CREATE TABLE explanations (number INTEGER NOT NULL, job INTEGER NOT NULL, decision TEXT NOT NULL,"
        " body BLOB NOT NULL, PRIMARY KEY (number), FOREIGN KEY(job) REFERENCES jobs (number))",
        "CREATE INDEX explanations_by_job ON explanations (job, decision)",
    ),
    "postgresql": (
        "CREATE TABLE facts (key TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (key))",
        "CREATE TABLE jobs (number BIGINT NOT NULL, state TEXT NOT NULL, cost DOUBLE PRECISION NOT NULL,"
        " record TEXT NOT NULL, spec TEXT, accepted_at DOUBLE PRECISION, idempotency_key TEXT,"
        " PRIMARY KEY (number), UNIQUE (idempotency_key))",
        "CREATE INDEX jobs_by_state ON jobs (state, number)",
        "CREATE TABLE executors (task_id TEXT NOT NULL, job BIGINT NOT NULL, state TEXT NOT NULL,"
        " launched_at DOUBLE PRECISION NOT NULL, record TEXT NOT NULL, PRIMARY KEY (task_id),"
        " FOREIGN KEY(job) REFERENCES jobs (number))",
        "CREATE INDEX ix_executors_job ON executors (job)",
        "CREATE INDEX ix_executors_state ON executors (state)",
        "CREATE TABLE explanations (number BIGSERIAL NOT NULL, job BIGINT NOT NULL, decision TEXT NOT NULL,"
        " body BYTEA NOT NULL, PRIMARY KEY (number), FOREIGN KEY(job) REFERENCES jobs (number))",
        "CREATE INDEX explanations_by_job ON explanations (job, decision)",
    ),
}


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a database that is empty."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'stoker.db'}"
    found: str = request.getfixturevalue("postgresql_url")
    return found


@contextlib.contextmanager
def sql(url: str) -> Iterator[sa.engine.Connection]:
    """A connection that knows nothing of stores."""
    engine = sa.create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as connection:
        yield connection
    engine.dispose()


def first_store(url: str) -> tuple[JobRecord, JobRecord, ExecutorRecord]:
    """A store of schema 1 with a job that is over, a damaged one that is over, and one that runs."""
    job = Job("job-1", "sort", Resources.of(1.0, 1024), 1, 5.0)
    over = JobRecord(job, state="finished", finished_at=17.25, cost=0.5)
    runs = JobRecord(replace(job, id="job-3"), state="running", cost=0.25)
    task = ExecutorRecord(
        "job-3.0", "job-3", 0, "S1", "vm-1", "m1.large", "10.0.0.1", 0.25, Resources.of(1.0, 1024), (1,), 6.0
    )
    with sql(url) as connection:
        for statement in _FIRST[connection.dialect.name]:
            connection.exec_driver_sql(statement)
        connection.execute(sa.insert(tables.facts), [{"key": "schema", "value": "1"}])
        for record in (over, runs):
            known = job_rows.job_row(record)
            row = {name: known[name] for name in ("number", "state", "cost", "record")}
            row["record"] = row["record"][:-9]  # it wrote no checksums
            connection.execute(sa.insert(tables.jobs), {**row, "spec": SPEC.model_dump_json()})
        damaged = {"number": 2, "state": "failed", "cost": 0.0, "record": '{"job":{"id"'}
        connection.execute(sa.insert(tables.jobs), damaged)
        known = job_rows.executor_row(task)
        row = {name: known[name] for name in ("task_id", "job", "state", "launched_at", "record")}
        connection.execute(sa.insert(tables.executors), row)
    return over, runs, task


def shape(url: str) -> object:
    """Tables with their columns and indexes, and triggers."""
    with sql(url) as connection:
        inspector = sa.inspect(connection)
        found = {
            table: (
                {
                    column["name"]: (str(column["type"]), column["nullable"])
                    for column in inspector.get_columns(table)
                },
                {index["name"]: index["column_names"] for index in inspector.get_indexes(table)},
            )
            for table in sorted(inspector.get_table_names())
        }
        query = "SELECT tgname FROM pg_trigger WHERE NOT tgisinternal"
        if connection.dialect.name == "sqlite":
            query = "SELECT name FROM sqlite_master WHERE type = 'trigger'"
        return found, sorted(connection.scalars(sa.text(query)))


def test_the_first_schema_becomes_todays(url: str) -> None:
    """All that was there is there, sums, ends and queues are known, and it goes on as a new store would."""
    over, runs, task = first_store(url)
    with contextlib.closing(Store(url)) as store:
        assert [job.job.id for job in store.jobs.page(owners=("",), queues=("default",))] == [
            "job-3",
            "job-2",
            "job-1",
        ]
        assert [job.job.id for job in store.jobs.page(types=("sort",))] == ["job-3", "job-1"]
        assert (store.jobs.get("job-1"), store.jobs.get("job-3")) == (over, runs)
        assert store.jobs.executors("job-3") == [task]
        assert store.facts.get("schema") == str(SCHEMA_VERSION)
        assert store.jobs.count_by_state() == {"finished": 1, "failed": 1, "running": 1}
        assert (store.jobs.totals().cost, store.jobs.totals().executors) == (0.75, {"launching": 1})
        submitted, _ = store.jobs.new.add_one(SPEC, lambda job_id: replace(runs.job, id=job_id), None, 7.0)
        assert submitted.job.id == "job-4"
        store.changes.save(
            Changes((replace(runs, state="failed", cost=1.0),), (replace(task, state="lost"),))
        )
        assert store.jobs.count_by_state() == {"finished": 1, "failed": 2, "queued": 1}
        assert (store.jobs.totals().cost, store.jobs.totals().executors) == (1.5, {"lost": 1})
    with sql(url) as connection:
        ends = connection.execute(sa.select(tables.jobs.c.number, tables.jobs.c.finished_at))
        assert {row.number: row.finished_at for row in ends} == {1: 17.25, 2: None, 3: None, 4: None}
    with contextlib.closing(Store(url)) as store:  # and once more
        assert store.jobs.get("job-1") == over


def test_an_old_store_has_the_shape_of_a_new_one(url: str, tmp_path: Path) -> None:
    """Nothing in the steps was forgotten that the tables have, nor the other way round."""
    if url.startswith("postgresql"):
        Store(url).close()
        new = shape(url)
        with sql(url) as connection:
            connection.exec_driver_sql("DROP SCHEMA public CASCADE")
            connection.exec_driver_sql("CREATE SCHEMA public")
    else:
        Store(f"sqlite:///{tmp_path / 'new.db'}").close()
        new = shape(f"sqlite:///{tmp_path / 'new.db'}")
    first_store(url)
    Store(url).close()
    assert shape(url) == new


@pytest.mark.parametrize(("database", "other"), [("sqlite", "postgresql"), ("postgresql", "sqlite")])
def test_each_schema_has_its_files_for_both_databases(database: str, other: str) -> None:
    """No number is missing, and a step that differs between the databases has a file for each."""
    files = [file.name for file in Path(migrations.__file__).parent.glob("*.sql")]
    assert {int(name[:4]) for name in files} == set(range(FIRST + 1, SCHEMA_VERSION + 1))
    own = {name.replace(f".{database}.", ".") for name in files if f".{database}." in name}
    assert own == {name.replace(f".{other}.", ".") for name in files if f".{other}." in name}
