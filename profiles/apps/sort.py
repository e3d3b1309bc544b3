"""Sort: makes or reads lines and sorts them all. Bound by memory: both orders are held, all of it is moved.

    spark-submit sort.py --size 256 --partitions 8

Checks that the result is in order and holds the very lines that went in, and prints one line of JSON; its
exit code is 1 when they are not. With `--output` the sorted lines are written there; with `--save-input` the
unsorted ones are written and not sorted. With several machines these paths must be reachable from all.
"""

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from pyspark import StorageLevel
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as sql

LINE_BYTES = 100  # with the line's end, as in the sort benchmarks of the field
KEY_DIGITS = 16


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line's values."""
    parser = argparse.ArgumentParser(prog="sort.py", description="Sort lines and check the order.")
    parser.add_argument("--size", type=float, default=32.0, metavar="MIB", help="of the lines that are made")
    parser.add_argument("--partitions", type=int, default=8, help="parts in which they are made and sorted")
    parser.add_argument("--seed", type=int, default=0, help="another seed, other lines")
    parser.add_argument("--input", help="read this text file or folder, make no lines")
    parser.add_argument("--output", help="write the sorted lines into this folder")
    parser.add_argument("--save-input", help="write the lines into this folder and sort nothing")
    values = parser.parse_args(arguments)
    if values.partitions < 1 or values.size <= 0:
        parser.error("--partitions and --size must be positive")
    return values


def read_lines(spark: SparkSession, values: argparse.Namespace) -> DataFrame:
    """The lines, in one column `value`: those of `--input`, or generated keys and fillings."""
    if values.input:
        return spark.read.text(values.input).repartition(values.partitions)
    rows = max(1, round(values.size * 2**20 / LINE_BYTES))
    key = sql.lpad(sql.lower(sql.hex(sql.xxhash64(sql.col("id"), sql.lit(values.seed)))), KEY_DIGITS, "0")
    filling = sql.rpad(sql.sha2(sql.col("id").cast("string"), 256), LINE_BYTES - KEY_DIGITS - 2, "-")
    numbers = spark.range(0, rows, 1, values.partitions)
    return numbers.select(sql.concat_ws(" ", key, filling).alias("value"))


def fingerprint(lines: DataFrame) -> tuple[int, int]:
    """The number of lines and a sum over all of them that does not depend on their order."""
    total = sql.sum(sql.xxhash64("value").cast("decimal(38,0)"))
    count, checksum = lines.agg(sql.count("value"), total).collect()[0]
    return count, int(checksum or 0)


def check_order(rows: Iterable[Row]) -> Iterator[tuple[bool, str, str]]:
    """Yield, for a part that is not empty, whether it is in order, its first line and its last."""
    values = (row.value for row in rows)
    first = last = next(values, None)
    if first is None or last is None:
        return
    in_order = True
    for value in values:
        in_order = in_order and last <= value
        last = value
    yield in_order, first, last


def is_sorted(lines: DataFrame) -> bool:
    """Whether every part is in order, and each begins where the one before it ended or later."""
    parts = lines.rdd.mapPartitions(check_order).collect()
    return all(in_order for in_order, _, _ in parts) and all(
        before[2] <= after[1] for before, after in pairwise(parts)
    )


def sort_lines(lines: DataFrame, partitions: int, output: str | None) -> bool:
    """Sort, check, print, write; tell whether all was right."""
    lines = lines.persist(StorageLevel.MEMORY_AND_DISK)
    count, checksum = fingerprint(lines)
    ordered = lines.repartitionByRange(partitions, "value").sortWithinPartitions("value")
    ordered = ordered.persist(StorageLevel.MEMORY_AND_DISK)
    in_order, same = is_sorted(ordered), fingerprint(ordered) == (count, checksum)
    right = in_order and same
    result = {"app": "sort", "rows": count, "checksum": checksum, "sorted": in_order, "complete": same}
    print(json.dumps(result | {"right": right}))
    if output:
        ordered.write.text(output)
    return right


def main(arguments: Sequence[str]) -> int:
    """Run the application that the arguments describe and return its exit code."""
    values = parse(arguments)
    spark = SparkSession.builder.getOrCreate()
    lines = read_lines(spark, values)
    right = True
    if values.save_input:
        lines.write.text(values.save_input)
    else:
        right = sort_lines(lines, values.partitions, values.output)
    spark.stop()
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
