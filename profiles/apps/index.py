"""Index: makes records, keeps them by key and looks orders up. Bound by the memory of Python's workers.

    spark-submit index.py --size 128 --partitions 2

Each task holds its part of the records in a dictionary, outside of the heap. Prints one line of JSON: how
many records and look-ups, and whether the sum over all of them is that of the records that were made. The
exit code is 1 when it is not.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence

from pyspark.sql import SparkSession

RECORD_BYTES = 1000
#: Look-ups of each record. Chosen: as many as take some seconds, in which Spark samples the worker's memory.
ORDERS = 12
#: A record consists of one byte, below this prime.
BYTES = 251


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line's values."""
    parser = argparse.ArgumentParser(prog="index.py", description="Look orders up in dictionaries.")
    parser.add_argument(
        "--size", type=float, default=64.0, metavar="MIB", help="of the records that are made"
    )
    parser.add_argument("--partitions", type=int, default=2, help="parts in which they are held")
    parser.add_argument("--seed", type=int, default=0, help="another seed, other records")
    values = parser.parse_args(arguments)
    if values.partitions < 1 or values.size <= 0 or values.seed < 0:
        parser.error("--partitions and --size must be positive, --seed not negative")
    return values


def byte_of(key: int, seed: int) -> int:
    """The byte of a record."""
    return (key + seed) % BYTES


def look_up(part: int, parts: int, records: int, seed: int) -> Iterator[tuple[int, int]]:
    """Number and sum of the look-ups in one part."""
    keys = range(part, records, parts)
    held = {key: bytes([byte_of(key, seed)]) * RECORD_BYTES for key in keys}
    count = total = 0
    for order in range(ORDERS):
        for key in reversed(keys):
            total += held[key][order]
            count += 1
    yield count, total


def main(arguments: Sequence[str]) -> int:
    """Run the application that the arguments describe and return its exit code."""
    values = parse(arguments)
    records, parts, seed = max(1, int(values.size * 2**20 / RECORD_BYTES)), values.partitions, values.seed
    spark = SparkSession.builder.getOrCreate()
    numbers = spark.sparkContext.parallelize(range(parts), parts)
    found = numbers.flatMap(lambda part: look_up(part, parts, records, seed)).collect()
    count, total = (sum(of) for of in zip(*found, strict=True))
    expected = ORDERS * records, ORDERS * sum(byte_of(key, seed) for key in range(records))
    right = (count, total) == expected
    print(json.dumps({"app": "index", "records": records, "looked_up": count, "right": right}))
    spark.stop()
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
