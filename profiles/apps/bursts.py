"""Bursts: adds up squares in many tasks at once, again and again, and pauses in between. Bound by cpu.

    spark-submit bursts.py --size 64 --partitions 16 --bursts 3 --pause 20

In a pause executors have nothing to do, and no shuffle files hold them: dynamic allocation releases them.
Prints one line of JSON: how many numbers a burst has, and whether each sum was right. The exit code is 1 when
one was not.
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence

from pyspark.sql import SparkSession

NUMBER_BYTES = 8


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line's values."""
    parser = argparse.ArgumentParser(prog="bursts.py", description="Add up squares in bursts of tasks.")
    parser.add_argument(
        "--size", type=float, default=64.0, metavar="MIB", help="of a burst's numbers, eight bytes each"
    )
    parser.add_argument("--partitions", type=int, default=8, help="tasks of a burst")
    parser.add_argument("--bursts", type=int, default=3)
    parser.add_argument("--pause", type=float, default=20.0, help="seconds before each burst but the first")
    values = parser.parse_args(arguments)
    if values.partitions < 1 or values.size <= 0 or values.bursts < 1 or values.pause < 0:
        parser.error("--partitions, --size and --bursts must be positive, --pause not negative")
    return values


def squares(part: int, parts: int, count: int) -> int:
    """The sum of the squares of one part of the numbers 0 to `count` - 1."""
    return sum(number * number for number in range(part, count, parts))


def main(arguments: Sequence[str]) -> int:
    """Run the application that the arguments describe and return its exit code."""
    values = parse(arguments)
    count, parts = max(1, int(values.size * 2**20 / NUMBER_BYTES)), values.partitions
    spark = SparkSession.builder.getOrCreate()
    numbers = spark.sparkContext.parallelize(range(parts), parts)
    right = True
    for burst in range(values.bursts):
        time.sleep(values.pause if burst else 0.0)
        total = sum(numbers.map(lambda part: squares(part, parts, count)).collect())
        right &= total == (count - 1) * count * (2 * count - 1) // 6
    print(json.dumps({"app": "bursts", "numbers": count, "bursts": values.bursts, "right": right}))
    spark.stop()
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
