"""SQL: makes orders and customers, joins them and sums up by region. Rows are moved once, for the join.

    spark-submit sql.py --size 64 --partitions 8

Prints one line of JSON: orders, regions, the sum over all of them, and whether every region's count, sum and
maximum are those of the rows that were made. The exit code is 1 when they are not.
"""

import argparse
import json
import sys
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

ORDER_BYTES = 24  # three numbers
ORDERS_PER_CUSTOMER = 20
REGIONS = 25
PRICES = 99_991  # cents; a prime, so that prices do not repeat with the customers
CHUNK = 1_000_000  # orders that are checked at once

# (factor, seed's factor) of the linear congruences by which an id becomes a value; odd or prime, chosen.
CUSTOMER, CENTS, REGION, ACTIVE = (7_919, 104_729), (31_337, 271), (17, 3), (13, 7)

QUERY = """
    SELECT region, count(*) AS orders, sum(cents) AS cents, max(cents) AS dearest
    FROM orders JOIN customers ON orders.customer = customers.id
    WHERE active < 9
    GROUP BY region
"""

Numbers = npt.NDArray[np.int64]
Region = tuple[int, int, int, int]  # number, orders, cents in all, the dearest order


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line's values."""
    parser = argparse.ArgumentParser(prog="sql.py", description="Join orders and customers and sum up.")
    parser.add_argument("--size", type=float, default=64.0, metavar="MIB", help="of the orders that are made")
    parser.add_argument("--partitions", type=int, default=8, help="parts of every step")
    parser.add_argument("--seed", type=int, default=0, help="another seed, other orders")
    values = parser.parse_args(arguments)
    if values.partitions < 1 or values.size <= 0 or not 0 <= values.seed < 2**31:
        parser.error("--partitions and --size must be positive, --seed from 0 to 2^31 - 1")
    return values


def sizes(values: argparse.Namespace) -> tuple[int, int]:
    """Numbers of generated orders and customers."""
    orders = max(1, int(values.size * 2**20 / ORDER_BYTES))
    return orders, max(1, orders // ORDERS_PER_CUSTOMER)


def column(factors: tuple[int, int], modulus: int, seed: int) -> str:
    """The SQL that makes a value below `modulus` of an id."""
    return f"pmod(id * {factors[0]} + {seed * factors[1]}, {modulus})"


def aggregate(spark: SparkSession, values: argparse.Namespace) -> DataFrame:
    """Orders, cents and the dearest order by region, for customers that are active."""
    orders, customers = sizes(values)
    seed, parts = values.seed, values.partitions
    # Neither side is small enough to be sent to everyone, in earnest: so it is not done here either.
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", -1)
    spark.conf.set("spark.sql.shuffle.partitions", parts)
    spark.conf.set("spark.sql.adaptive.coalescePartitions.enabled", False)
    spark.range(0, orders, 1, parts).select(
        sql.expr(column(CUSTOMER, customers, seed)).alias("customer"),
        sql.expr(column(CENTS, PRICES, seed)).alias("cents"),
    ).createOrReplaceTempView("orders")
    spark.range(0, customers, 1, parts).select(
        "id",
        sql.expr(column(REGION, REGIONS, seed)).alias("region"),
        sql.expr(column(ACTIVE, 10, seed)).alias("active"),
    ).createOrReplaceTempView("customers")
    return spark.sql(QUERY)


def expected_regions(values: argparse.Namespace) -> list[Region]:
    """Expected regions, computed by numpy: no join, no Spark."""
    orders, customers = sizes(values)
    counts, totals, dearest = (np.zeros(REGIONS, np.int64) for _ in range(3))
    for start in range(0, orders, CHUNK):
        ids = np.arange(start, min(orders, start + CHUNK))
        customer = value(ids, CUSTOMER, customers, values.seed)
        cents = value(ids, CENTS, PRICES, values.seed)
        active = value(customer, ACTIVE, 10, values.seed) < 9
        region, cents = value(customer, REGION, REGIONS, values.seed)[active], cents[active]
        np.add.at(counts, region, 1)
        np.add.at(totals, region, cents)
        np.maximum.at(dearest, region, cents)
    return [(n, int(counts[n]), int(totals[n]), int(dearest[n])) for n in range(REGIONS) if counts[n]]


def value(ids: Numbers, factors: tuple[int, int], modulus: int, seed: int) -> Numbers:
    """The values that `column` makes of these ids."""
    return (ids * factors[0] + seed * factors[1]) % modulus


def main(arguments: Sequence[str]) -> int:
    """Run the application that the arguments describe and return its exit code."""
    values = parse(arguments)
    spark = SparkSession.builder.getOrCreate()
    found: list[Region] = sorted(tuple(row) for row in aggregate(spark, values).collect())
    right = found == expected_regions(values)
    total = sum(cents for _, _, cents, _ in found)
    result = {"app": "sql", "orders": sizes(values)[0], "regions": len(found), "cents": total, "right": right}
    print(json.dumps(result))
    spark.stop()
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
