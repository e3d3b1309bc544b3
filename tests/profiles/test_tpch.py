"""The queries of TPC-H: their results are those of the specification, and the same in Spark and DuckDB."""

import datetime
import json
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import profiles.apps
from conf.loader import ConfigError
from daemon.cli.profile.measure import spec_of
from profiles.job_profile import load_profiles
from profiles.measuring_plans import app_command
from profiles.runs import read_runs
from profiles.summary import profiles_of
from profiles.workloads.generators import load_workload
from tests.profiles.local_spark import run_with_spark

APP = Path(profiles.apps.__file__).parent / "tpch.py"
RUNS = Path(__file__).parents[2] / "docs/results/runs/tpch"
PROFILES = "profiles/data/tpch.yaml"

#: All queries in one Spark session, then the application as a whole: with an error in it, and as it is.
RUNNER = """
import json, runpy, sys
from pathlib import Path
from pyspark.sql import SparkSession

app = runpy.run_path(sys.argv[1])
assert app["main"](["1", "--size", "10", "--partitions", "2", "--save-input", "tables"]) == 0
spark = SparkSession.builder.getOrCreate()
for number in app["QUERIES"]:
    values = app["parse"]([str(number), "--input", "tables", "--partitions", "2"])
    rows = app["query"](spark, Path("tables"), values)
    right = app["same"](rows, app["expected_rows"](Path("tables"), number))
    print(json.dumps([number, len(rows), right]))
broken = runpy.run_path(sys.argv[2])
print(json.dumps(broken["main"](["4", "--input", "tables", "--partitions", "2", "--check"])))
print(json.dumps(app["main"](["12", "--size", "10", "--partitions", "1", "--check"])))
"""

#: From the specification's answers at scale factor 1: number of rows, and values of the first one by column.
ANSWERS: dict[int, tuple[int, dict[int, Any]]] = {
    1: (4, {0: "A", 2: 37734107.00, 3: 56586554400.73, 6: 25.52, 9: 1478493}),
    2: (100, {0: 9938.53, 1: "Supplier#000005359", 3: 185358}),
    3: (10, {0: 2456423, 1: 406181.01, 2: datetime.date(1995, 3, 5)}),
    4: (5, {0: "1-URGENT", 1: 10594}),
    5: (5, {0: "INDONESIA", 1: 55502041.17}),
    6: (1, {0: 123141078.23}),
    7: (4, {0: "FRANCE", 1: "GERMANY", 2: 1995, 3: 54639732.73}),
    8: (2, {0: 1995, 1: 0.03}),
    9: (175, {0: "ALGERIA", 1: 1998, 2: 27136900.18}),
    10: (20, {0: 57040, 2: 734235.25, 4: "JAPAN"}),
    11: (1048, {0: 129760, 1: 17538456.86}),
    12: (2, {0: "MAIL", 1: 6202, 2: 9324}),
    13: (42, {0: 0, 1: 50005}),
    14: (1, {0: 16.38}),
    15: (1, {0: 8449, 4: 1772627.21}),
    16: (18314, {0: "Brand#41", 1: "MEDIUM BRUSHED TIN", 2: 3, 3: 28}),
    17: (1, {0: 348406.05}),
    18: (57, {1: 128120, 2: 4722021, 4: 544089.09, 5: 323.00}),
    19: (1, {0: 3083843.06}),
    20: (186, {0: "Supplier#000000020"}),
    21: (100, {0: "Supplier#000002829", 1: 20}),
    22: (7, {0: "13", 1: 888, 2: 6737713.99}),
}


@pytest.mark.slow
def test_spark_finds_what_duckdb_finds(tmp_path: Path) -> None:
    """All rows of all queries, in order; a row too few is a wrong result, printed and in the exit code."""
    text = APP.read_text()
    assert ".collect()]" in text
    (tmp_path / "broken.py").write_text(text.replace(".collect()]", ".collect()[1:]]"))
    lines = run_with_spark(tmp_path, RUNNER, str(APP), "broken.py").stdout.splitlines()
    *results, broken, exit_code, whole, success = [json.loads(line) for line in lines]
    assert [number for number, _, _ in results] == list(range(1, 23))
    assert [number for number, _, right in results if not right] == []
    # A scale factor of a hundredth has rows for all but the query of the rarest orders, or nearly.
    assert sum(rows > 0 for _, rows, _ in results) >= 21
    assert (broken["right"], exit_code) == (False, 1)
    assert whole["first"][0] == "MAIL"
    assert whole | {"app": "tpch", "query": 12, "rows": 2, "right": True} == whole
    assert success == 0


@pytest.mark.slow
@pytest.mark.usefixtures("pyspark")
def test_answers_are_those_of_the_specification(tmp_path: Path) -> None:
    """At scale factor 1 the queries have the published answers, so the text of each means what it should."""
    from profiles.apps import tpch

    tpch.make_tables(tmp_path, tpch.parse(["1", "--size", "1000", "--partitions", "1"]))
    found = {number: tpch.expected_rows(tmp_path, number) for number in tpch.QUERIES}
    assert {number: len(rows) for number, rows in found.items()} == {
        number: count for number, (count, _) in ANSWERS.items()
    }
    for number, (_, first) in ANSWERS.items():
        for column, value in first.items():
            seen = found[number][0][column]
            seen = round(float(seen), 2) if isinstance(seen, Decimal | float) else seen
            assert seen == value, f"query {number}, column {column}"


@pytest.mark.usefixtures("pyspark")
def test_what_counts_as_the_same() -> None:
    """Numbers are equal up to rounding, whatever their type; all else exactly, and in order."""
    from profiles.apps.tpch import same

    day = datetime.date(1995, 3, 5)
    rows = [("a", Decimal("1.50"), day), ("b", None, day)]
    assert same(rows, [("a", 1.5000001, day), ("b", None, day)])
    assert not same(rows, [("a", 1.5001, day), ("b", None, day)])
    assert not same(rows, [("a", 1.5, day), ("b", 0, day)])
    assert not same(rows, rows[::-1])
    assert not same(rows, rows[:1])
    assert not same(rows, [row[:2] for row in rows])


@pytest.mark.usefixtures("pyspark")
def test_tables_of_a_query() -> None:
    """Only the tables that a query reads are opened; together the queries read all."""
    from profiles.apps.tpch import QUERIES, TABLES, tables_of

    assert tables_of(6) == ["lineitem"]
    assert tables_of(13) == ["customer", "orders"]
    assert tables_of(16) == ["part", "partsupp", "supplier"]
    assert {table for number in QUERIES for table in tables_of(number)} == set(TABLES)


@pytest.mark.usefixtures("pyspark")
def test_queries_are_apps_of_plans_and_workloads() -> None:
    """`tpch-9` is query 9, under that type; there are as many as the application has, and no `tpch`."""
    from profiles.apps.tpch import QUERIES

    spec = spec_of("tpch-9", 100.0, 2, 1.0, 1024, "a run", ["--partitions", "8"])
    assert (spec["app"], spec["type"]) == (str(APP), "tpch-9")
    assert spec["args"] == ["9", "--size", "100", "--partitions", "8"]
    assert [app_command(f"tpch-{number}") for number in QUERIES] == [(APP, (str(n),)) for n in QUERIES]
    for name in ("tpch", "tpch-0", f"tpch-{len(QUERIES) + 1}", "tpch-09"):
        with pytest.raises(ConfigError, match=f"{name}: no such app; known are .*, tpch-1 to tpch-22"):
            app_command(name)


@pytest.mark.usefixtures("pyspark")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "required: QUERY"),
        (["23"], "QUERY must be from 1 to 22, not 23"),
        (["9", "--size", "nan"], "must be positive"),
        (["9", "--partitions", "0"], "must be positive"),
        (["9", "--input", "nowhere"], "--input nowhere: holds no customer.parquet, nor a folder customer"),
    ],
)
def test_bad_arguments_of_a_query_are_refused(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error names the argument and the right form; the exit code is 2."""
    from profiles.apps.tpch import main

    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.usefixtures("pyspark")
def test_without_the_generator(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without `tpchgen-cli`, or with one that fails, a line says so, before Spark starts."""
    from profiles.apps.tpch import main

    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(SystemExit, match="there is no tpchgen-cli: pip install tpchgen-cli"):
        main(["9"])
    program = tmp_path / "tpchgen-cli"
    program.write_text("#!/bin/sh\nexit 3\n")
    program.chmod(0o755)
    with pytest.raises(SystemExit, match="tpchgen-cli ended with exit code 3"):
        main(["9"])


def test_the_profiles_of_queries_are_those_of_the_runs() -> None:
    """`profiles/data/tpch.yaml` equals the output of `profile export` for them, and has no other type."""
    shipped = load_profiles(PROFILES)
    assert shipped == profiles_of(read_runs(RUNS))
    assert all(app_command(name)[0] == APP for name in shipped)


def test_a_workload_of_queries() -> None:
    """Users run all that were measured, the largest less often."""
    jobs = load_workload("tpch", seed=0, jobs=4000).jobs
    assert {job.type for job in jobs} == set(load_profiles(PROFILES))
    assert {job.owner for job in jobs} == {"dashboard", "report", *(f"analyst-{n}" for n in range(1, 6))}
    assert all(job.duration > 0 and app_command(job.type)[0] == APP for job in jobs)
    of_analysts = [job.type for job in jobs if job.owner.startswith("analyst")]
    assert of_analysts.count("tpch-21") < 0.8 * of_analysts.count("tpch-20")
