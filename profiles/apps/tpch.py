"""TPC-H: makes or reads the benchmark's tables and runs one of its 22 queries on them.

    spark-submit tpch.py 9 --size 100 --partitions 8

Queries have the parameters of the specification's validation. `tpchgen-cli`, installed beside Python, makes
the tables; scale factor 1 is 1000 MiB. Prints one line of JSON: query, number of rows, the first row, and
whether all rows are those that DuckDB finds (null without `--check`, which needs its Python package). The
exit code is 1 when they are not. With `--save-input` the tables are written and not queried. Executors on
several machines need an `--input` folder that all of them reach.
"""

import argparse
import datetime
import decimal
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

TABLES = ("customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier")
MIB_AT_SCALE_ONE = 1000.0
TOLERANCE = 1e-6  # Spark rounds quotients of decimals to six digits, DuckDB does not round them

# By number, in SQL that both Spark and DuckDB understand. Where the specification leaves the order of rows
# open, a key decides it, so that there is one right list of rows.
QUERIES = {
    1: """
        SELECT l_returnflag, l_linestatus,
               sum(l_quantity) AS quantity, sum(l_extendedprice) AS base_price,
               sum(l_extendedprice * (1 - l_discount)) AS reduced_price,
               sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)) AS charge,
               avg(l_quantity) AS mean_quantity, avg(l_extendedprice) AS mean_price,
               avg(l_discount) AS mean_discount, count(*) AS lines
        FROM lineitem
        WHERE l_shipdate <= DATE '1998-09-02'
        GROUP BY l_returnflag, l_linestatus
        ORDER BY l_returnflag, l_linestatus
    """,
    2: """
        WITH offers AS (
            SELECT p_partkey, p_mfgr, ps_supplycost, s_acctbal, s_name, s_address, s_phone, s_comment, n_name,
                   min(ps_supplycost) OVER (PARTITION BY p_partkey) AS lowest
            FROM part
            JOIN partsupp ON ps_partkey = p_partkey
            JOIN supplier ON s_suppkey = ps_suppkey
            JOIN nation ON n_nationkey = s_nationkey
            JOIN region ON r_regionkey = n_regionkey
            WHERE p_size = 15 AND p_type LIKE '%BRASS' AND r_name = 'EUROPE'
        )
        SELECT s_acctbal, s_name, n_name, p_partkey, p_mfgr, s_address, s_phone, s_comment
        FROM offers
        WHERE ps_supplycost = lowest
        ORDER BY s_acctbal DESC, n_name, s_name, p_partkey
        LIMIT 100
    """,
    3: """
        SELECT o_orderkey, sum(l_extendedprice * (1 - l_discount)) AS revenue, o_orderdate, o_shippriority
        FROM customer
        JOIN orders ON o_custkey = c_custkey
        JOIN lineitem ON l_orderkey = o_orderkey
        WHERE c_mktsegment = 'BUILDING' AND o_orderdate < DATE '1995-03-15' AND l_shipdate > DATE '1995-03-15'
        GROUP BY o_orderkey, o_orderdate, o_shippriority
        ORDER BY revenue DESC, o_orderdate, o_orderkey
        LIMIT 10
    """,
    4: """
        SELECT o_orderpriority, count(*) AS late_orders
        FROM orders
        WHERE o_orderdate >= DATE '1993-07-01' AND o_orderdate < DATE '1993-10-01'
          AND EXISTS (SELECT * FROM lineitem WHERE l_orderkey = o_orderkey AND l_commitdate < l_receiptdate)
        GROUP BY o_orderpriority
        ORDER BY o_orderpriority
    """,
    5: """
        SELECT n_name, sum(l_extendedprice * (1 - l_discount)) AS revenue
        FROM region
        JOIN nation ON n_regionkey = r_regionkey
        JOIN customer ON c_nationkey = n_nationkey
        JOIN orders ON o_custkey = c_custkey
        JOIN lineitem ON l_orderkey = o_orderkey
        JOIN supplier ON s_suppkey = l_suppkey AND s_nationkey = c_nationkey
        WHERE r_name = 'ASIA' AND o_orderdate >= DATE '1994-01-01' AND o_orderdate < DATE '1995-01-01'
        GROUP BY n_name
        ORDER BY revenue DESC, n_name
    """,
    6: """
        SELECT sum(l_extendedprice * l_discount) AS gain
        FROM lineitem
        WHERE l_shipdate >= DATE '1994-01-01' AND l_shipdate < DATE '1995-01-01'
          AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24
    """,
    7: """
        SELECT seller.n_name AS from_nation, buyer.n_name AS to_nation, year(l_shipdate) AS shipped,
               sum(l_extendedprice * (1 - l_discount)) AS revenue
        FROM lineitem
        JOIN supplier ON s_suppkey = l_suppkey
        JOIN nation AS seller ON seller.n_nationkey = s_nationkey
        JOIN orders ON o_orderkey = l_orderkey
        JOIN customer ON c_custkey = o_custkey
        JOIN nation AS buyer ON buyer.n_nationkey = c_nationkey
        WHERE l_shipdate BETWEEN DATE '1995-01-01' AND DATE '1996-12-31'
          AND seller.n_name IN ('FRANCE', 'GERMANY') AND buyer.n_name IN ('FRANCE', 'GERMANY')
          AND seller.n_name <> buyer.n_name
        GROUP BY seller.n_name, buyer.n_name, year(l_shipdate)
        ORDER BY from_nation, to_nation, shipped
    """,
    8: """
        SELECT year(o_orderdate) AS ordered,
               sum(CASE WHEN seller.n_name = 'BRAZIL' THEN l_extendedprice * (1 - l_discount) ELSE 0 END)
                   / sum(l_extendedprice * (1 - l_discount)) AS market_share
        FROM part
        JOIN lineitem ON l_partkey = p_partkey
        JOIN supplier ON s_suppkey = l_suppkey
        JOIN nation AS seller ON seller.n_nationkey = s_nationkey
        JOIN orders ON o_orderkey = l_orderkey
        JOIN customer ON c_custkey = o_custkey
        JOIN nation AS buyer ON buyer.n_nationkey = c_nationkey
        JOIN region ON r_regionkey = buyer.n_regionkey
        WHERE p_type = 'ECONOMY ANODIZED STEEL' AND r_name = 'AMERICA'
          AND o_orderdate BETWEEN DATE '1995-01-01' AND DATE '1996-12-31'
        GROUP BY year(o_orderdate)
        ORDER BY ordered
    """,
    9: """
        SELECT n_name, year(o_orderdate) AS ordered,
               sum(l_extendedprice * (1 - l_discount) - ps_supplycost * l_quantity) AS profit
        FROM part
        JOIN lineitem ON l_partkey = p_partkey
        JOIN partsupp ON ps_partkey = l_partkey AND ps_suppkey = l_suppkey
        JOIN orders ON o_orderkey = l_orderkey
        JOIN supplier ON s_suppkey = l_suppkey
        JOIN nation ON n_nationkey = s_nationkey
        WHERE p_name LIKE '%green%'
        GROUP BY n_name, year(o_orderdate)
        ORDER BY n_name, ordered DESC
    """,
    10: """
        WITH returned AS (
            SELECT o_custkey, sum(l_extendedprice * (1 - l_discount)) AS revenue
            FROM orders
            JOIN lineitem ON l_orderkey = o_orderkey
            WHERE o_orderdate >= DATE '1993-10-01' AND o_orderdate < DATE '1994-01-01' AND l_returnflag = 'R'
            GROUP BY o_custkey
        )
        SELECT c_custkey, c_name, revenue, c_acctbal, n_name, c_address, c_phone, c_comment
        FROM returned
        JOIN customer ON c_custkey = o_custkey
        JOIN nation ON n_nationkey = c_nationkey
        ORDER BY revenue DESC, c_custkey
        LIMIT 20
    """,
    # The share of the total is 0.0001 by the scale factor, and a scale factor has 10,000 suppliers.
    11: """
        WITH stock AS (
            SELECT ps_partkey, ps_supplycost * ps_availqty AS worth
            FROM partsupp
            JOIN supplier ON s_suppkey = ps_suppkey
            JOIN nation ON n_nationkey = s_nationkey
            WHERE n_name = 'GERMANY'
        ), parts AS (
            SELECT ps_partkey, sum(worth) AS total FROM stock GROUP BY ps_partkey
        )
        SELECT ps_partkey, total
        FROM parts
        WHERE total * (SELECT count(*) FROM supplier) > (SELECT sum(worth) FROM stock)
        ORDER BY total DESC, ps_partkey
    """,
    12: """
        SELECT l_shipmode,
               sum(CASE WHEN o_orderpriority IN ('1-URGENT', '2-HIGH') THEN 1 ELSE 0 END) AS important,
               sum(CASE WHEN o_orderpriority IN ('1-URGENT', '2-HIGH') THEN 0 ELSE 1 END) AS others
        FROM lineitem
        JOIN orders ON o_orderkey = l_orderkey
        WHERE l_shipmode IN ('MAIL', 'SHIP') AND l_shipdate < l_commitdate AND l_commitdate < l_receiptdate
          AND l_receiptdate >= DATE '1994-01-01' AND l_receiptdate < DATE '1995-01-01'
        GROUP BY l_shipmode
        ORDER BY l_shipmode
    """,
    13: """
        WITH customers AS (
            SELECT c_custkey, count(o_orderkey) AS orders_of_it
            FROM customer
            LEFT JOIN orders ON o_custkey = c_custkey AND o_comment NOT LIKE '%special%requests%'
            GROUP BY c_custkey
        )
        SELECT orders_of_it, count(*) AS customers
        FROM customers
        GROUP BY orders_of_it
        ORDER BY customers DESC, orders_of_it DESC
    """,
    14: """
        SELECT 100.00 * sum(CASE WHEN p_type LIKE 'PROMO%' THEN l_extendedprice * (1 - l_discount) ELSE 0 END)
                   / sum(l_extendedprice * (1 - l_discount)) AS promoted_percent
        FROM lineitem
        JOIN part ON p_partkey = l_partkey
        WHERE l_shipdate >= DATE '1995-09-01' AND l_shipdate < DATE '1995-10-01'
    """,
    15: """
        WITH revenues AS (
            SELECT l_suppkey, sum(l_extendedprice * (1 - l_discount)) AS revenue
            FROM lineitem
            WHERE l_shipdate >= DATE '1996-01-01' AND l_shipdate < DATE '1996-04-01'
            GROUP BY l_suppkey
        )
        SELECT s_suppkey, s_name, s_address, s_phone, revenue
        FROM supplier
        JOIN revenues ON l_suppkey = s_suppkey
        WHERE revenue = (SELECT max(revenue) FROM revenues)
        ORDER BY s_suppkey
    """,
    16: """
        SELECT p_brand, p_type, p_size, count(DISTINCT ps_suppkey) AS suppliers
        FROM partsupp
        JOIN part ON p_partkey = ps_partkey
        WHERE p_brand <> 'Brand#45' AND p_type NOT LIKE 'MEDIUM POLISHED%'
          AND p_size IN (49, 14, 23, 45, 19, 3, 36, 9)
          AND NOT EXISTS (SELECT * FROM supplier
                          WHERE s_suppkey = ps_suppkey AND s_comment LIKE '%Customer%Complaints%')
        GROUP BY p_brand, p_type, p_size
        ORDER BY suppliers DESC, p_brand, p_type, p_size
    """,
    17: """
        WITH lines AS (
            SELECT l_partkey, l_quantity, l_extendedprice
            FROM lineitem
            JOIN part ON p_partkey = l_partkey
            WHERE p_brand = 'Brand#23' AND p_container = 'MED BOX'
        ), means AS (
            SELECT l_partkey AS part, avg(l_quantity) AS quantity FROM lines GROUP BY l_partkey
        )
        SELECT sum(l_extendedprice) / 7.0 AS yearly
        FROM lines
        JOIN means ON part = l_partkey
        WHERE l_quantity < 0.2 * quantity
    """,
    18: """
        WITH large AS (
            SELECT l_orderkey, sum(l_quantity) AS quantity
            FROM lineitem
            GROUP BY l_orderkey
            HAVING sum(l_quantity) > 300
        )
        SELECT c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice, quantity
        FROM large
        JOIN orders ON o_orderkey = l_orderkey
        JOIN customer ON c_custkey = o_custkey
        ORDER BY o_totalprice DESC, o_orderdate, o_orderkey
        LIMIT 100
    """,
    19: """
        SELECT sum(l_extendedprice * (1 - l_discount)) AS revenue
        FROM lineitem
        JOIN part ON p_partkey = l_partkey
        WHERE l_shipmode IN ('AIR', 'AIR REG') AND l_shipinstruct = 'DELIVER IN PERSON' AND p_size >= 1
          AND ((p_brand = 'Brand#12' AND p_container IN ('SM CASE', 'SM BOX', 'SM PACK', 'SM PKG')
                AND l_quantity BETWEEN 1 AND 11 AND p_size <= 5)
            OR (p_brand = 'Brand#23' AND p_container IN ('MED BAG', 'MED BOX', 'MED PKG', 'MED PACK')
                AND l_quantity BETWEEN 10 AND 20 AND p_size <= 10)
            OR (p_brand = 'Brand#34' AND p_container IN ('LG CASE', 'LG BOX', 'LG PACK', 'LG PKG')
                AND l_quantity BETWEEN 20 AND 30 AND p_size <= 15))
    """,
    20: """
        WITH shipped AS (
            SELECT l_partkey, l_suppkey, sum(l_quantity) AS quantity
            FROM lineitem
            WHERE l_shipdate >= DATE '1994-01-01' AND l_shipdate < DATE '1995-01-01'
            GROUP BY l_partkey, l_suppkey
        ), plenty AS (
            SELECT ps_suppkey
            FROM partsupp
            JOIN part ON p_partkey = ps_partkey
            JOIN shipped ON l_partkey = ps_partkey AND l_suppkey = ps_suppkey
            WHERE p_name LIKE 'forest%' AND ps_availqty > 0.5 * quantity
        )
        SELECT s_name, s_address
        FROM supplier
        JOIN nation ON n_nationkey = s_nationkey
        WHERE n_name = 'CANADA' AND s_suppkey IN (SELECT ps_suppkey FROM plenty)
        ORDER BY s_name
    """,
    21: """
        WITH late AS (
            SELECT l_orderkey, l_suppkey FROM lineitem WHERE l_receiptdate > l_commitdate
        )
        SELECT s_name, count(*) AS waits
        FROM supplier
        JOIN nation ON n_nationkey = s_nationkey
        JOIN late AS its ON its.l_suppkey = s_suppkey
        JOIN orders ON o_orderkey = its.l_orderkey
        WHERE n_name = 'SAUDI ARABIA' AND o_orderstatus = 'F'
          AND EXISTS (SELECT * FROM lineitem AS another
                      WHERE another.l_orderkey = its.l_orderkey AND another.l_suppkey <> its.l_suppkey)
          AND NOT EXISTS (SELECT * FROM late AS another
                          WHERE another.l_orderkey = its.l_orderkey AND another.l_suppkey <> its.l_suppkey)
        GROUP BY s_name
        ORDER BY waits DESC, s_name
        LIMIT 100
    """,
    22: """
        WITH people AS (
            SELECT c_custkey, c_acctbal, substring(c_phone, 1, 2) AS country
            FROM customer
            WHERE substring(c_phone, 1, 2) IN ('13', '31', '23', '29', '30', '18', '17')
        )
        SELECT country, count(*) AS customers, sum(c_acctbal) AS balance
        FROM people
        WHERE c_acctbal > (SELECT avg(c_acctbal) FROM people WHERE c_acctbal > 0)
          AND NOT EXISTS (SELECT * FROM orders WHERE o_custkey = c_custkey)
        GROUP BY country
        ORDER BY country
    """,
}

Rows = list[tuple[Any, ...]]


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line's values."""
    parser = argparse.ArgumentParser(prog="tpch.py", description="Run a query of TPC-H.")
    parser.add_argument("query", type=int, metavar="QUERY", help=f"1 to {len(QUERIES)}")
    parser.add_argument("--size", type=float, default=100.0, metavar="MIB", help="of tables that are made")
    parser.add_argument("--partitions", type=int, default=8, help="parts of every table and step")
    parser.add_argument("--input", help="read the tables of this folder, make none")
    parser.add_argument("--save-input", help="write the tables into this folder and run nothing")
    parser.add_argument("--check", action="store_true", help="compare with DuckDB's result")
    values = parser.parse_args(arguments)
    if values.query not in QUERIES:
        parser.error(f"QUERY must be from 1 to {len(QUERIES)}, not {values.query}")
    if values.partitions < 1 or not 0 < values.size < math.inf:
        parser.error("--partitions and --size must be positive")
    if values.input and (missing := [name for name in TABLES if not files_of(Path(values.input), name)]):
        missed = f"{missing[0]}.parquet, nor a folder {missing[0]} of such files"
        parser.error(f"--input {values.input}: holds no {missed}")
    return values


def files_of(folder: Path, table: str) -> list[str]:
    """The Parquet files of a table, one or a folder of them."""
    return sorted(map(str, [*folder.glob(f"{table}.parquet"), *folder.glob(f"{table}/*.parquet")]))


def make_tables(folder: Path, values: argparse.Namespace) -> None:
    """Make the tables with `tpchgen-cli`; SystemExit when it is not installed or fails."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    program = shutil.which("tpchgen-cli", path=path)
    if program is None:
        sys.exit("tpch.py: there is no tpchgen-cli: pip install tpchgen-cli, or name tables with --input")
    scale = f"{values.size / MIB_AT_SCALE_ONE:.6g}"
    sizes = ["--scale-factor", scale, "--parts", str(values.partitions)]
    made = subprocess.run([program, "parquet", *sizes, "--output-dir", str(folder)], check=False)
    if made.returncode:
        sys.exit(f"tpch.py: tpchgen-cli ended with exit code {made.returncode}")


def tables_of(number: int) -> list[str]:
    """Names of the tables that a query reads."""
    return [table for table in TABLES if re.search(rf"(FROM|JOIN) {table}\b", QUERIES[number])]


def query(spark: SparkSession, folder: Path, values: argparse.Namespace) -> Rows:
    """Result of the query on the tables of a folder."""
    for setting in ("spark.sql.shuffle.partitions", "spark.sql.files.minPartitionNum"):
        spark.conf.set(setting, values.partitions)
    for table in tables_of(values.query):
        spark.read.parquet(*files_of(folder, table)).createOrReplaceTempView(table)
    return [tuple(row) for row in spark.sql(QUERIES[values.query]).collect()]


def expected_rows(folder: Path, number: int) -> Rows:
    """The same query's result by DuckDB: no Spark."""
    import duckdb

    with duckdb.connect() as connection:
        for table in tables_of(number):
            connection.read_parquet(files_of(folder, table)).create_view(table)
        rows: Rows = connection.sql(QUERIES[number]).fetchall()
    return rows


def same(found: Rows, expected: Rows) -> bool:
    """Whether the rows are equal and in the same order, numbers up to TOLERANCE."""
    if [len(row) for row in found] != [len(row) for row in expected]:
        return False
    pairs = (pair for rows in zip(found, expected, strict=True) for pair in zip(*rows, strict=True))
    return all(_equal(*pair) for pair in pairs)


def _equal(one: Any, other: Any) -> bool:
    numbers = (int, float, decimal.Decimal)
    if isinstance(one, numbers) and isinstance(other, numbers):
        return math.isclose(one, other, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    return bool(one == other)


def plain(value: Any) -> Any:
    """A value as JSON knows it."""
    if isinstance(value, decimal.Decimal):
        return float(value)
    return value.isoformat() if isinstance(value, datetime.date) else value


def main(arguments: Sequence[str]) -> int:
    """Run the application that the arguments describe and return its exit code."""
    values = parse(arguments)
    if values.save_input:
        make_tables(Path(values.save_input), values)
        return 0
    with tempfile.TemporaryDirectory(prefix="tpch-") as made:
        folder = Path(values.input or made)
        if not values.input:
            make_tables(folder, values)
        spark = SparkSession.builder.getOrCreate()
        rows = query(spark, folder, values)
        right = same(rows, expected_rows(folder, values.query)) if values.check else None
        spark.stop()
    first = [plain(value) for value in rows[0]] if rows else None
    result = {"app": "tpch", "query": values.query, "rows": len(rows), "first": first, "right": right}
    print(json.dumps(result))
    return 0 if right is not False else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
