"""Gather: makes clicks and gathers those of each user in order. Bound by the heap: one user has most of them.

    spark-submit gather.py --size 256 --partitions 8

An executor that gathers the clicks of this user holds them all at once, several times their size; with too
little memory it dies, however many partitions there are. Prints one line of JSON: how many clicks and users,
and whether each user's number, order and sum are those of the clicks that were made. The exit code is 1 when
they are not.
"""

import argparse
import json
import sys
from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

CLICK_BYTES = 1000
USERS = 16
#: One click of so many is another user's than the first.
OTHERS = 8

User = tuple[int, int, int, int]  # number, clicks, time of the first one, sum of times


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line's values."""
    parser = argparse.ArgumentParser(prog="gather.py", description="Gather the clicks of each user.")
    parser.add_argument("--size", type=float, default=64.0, metavar="MIB", help="of the clicks that are made")
    parser.add_argument("--partitions", type=int, default=8, help="parts in which they are made and gathered")
    parser.add_argument("--seed", type=int, default=0, help="another seed, other clicks")
    values = parser.parse_args(arguments)
    if values.partitions < 1 or values.size <= 0:
        parser.error("--partitions and --size must be positive")
    return values


def rows_of(values: argparse.Namespace) -> int:
    """Number of clicks."""
    return max(1, int(values.size * 2**20 / CLICK_BYTES))


def make_clicks(spark: SparkSession, values: argparse.Namespace) -> DataFrame:
    """Clicks with `user`, `at` and `page`; later ones are made first."""
    rows, number = rows_of(values), sql.col("id")
    other = 1 + (number / OTHERS).cast("long") % (USERS - 1)
    user = sql.when(number % OTHERS == 0, other).otherwise(0)
    page = sql.rpad(sql.hex(sql.xxhash64(number, sql.lit(values.seed))), CLICK_BYTES, "-")
    made = spark.range(0, rows, 1, values.partitions)
    return made.select(user.alias("user"), (rows - number).alias("at"), page.alias("page"))


def gather(clicks: DataFrame, partitions: int) -> list[User]:
    """Each user's clicks in order, as their number, the time of the first one, and the sum of times."""
    session = sql.sort_array(sql.collect_list(sql.struct("at", "page")))
    gathered = clicks.repartition(partitions, "user").groupBy("user").agg(session.alias("clicks"))
    total = "aggregate(clicks, 0L, (total, click) -> total + click.at)"
    found = gathered.selectExpr("user", "size(clicks)", "clicks[0].at", total)
    return sorted((row[0], row[1], row[2], row[3]) for row in found.collect())


def expected(rows: int) -> list[User]:
    """What `gather` should find."""
    times: dict[int, tuple[int, int, int]] = {}
    for number in range(rows):
        user = 0 if number % OTHERS else 1 + number // OTHERS % (USERS - 1)
        count, first, total = times.get(user, (0, rows, 0))
        at = rows - number
        times[user] = count + 1, min(first, at), total + at
    return sorted((user, *counts) for user, counts in times.items())


def main(arguments: Sequence[str]) -> int:
    """Run the application that the arguments describe and return its exit code."""
    values = parse(arguments)
    spark = SparkSession.builder.getOrCreate()
    found = gather(make_clicks(spark, values), values.partitions)
    right = found == expected(rows_of(values))
    print(json.dumps({"app": "gather", "clicks": rows_of(values), "users": len(found), "right": right}))
    spark.stop()
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
