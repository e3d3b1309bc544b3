"""WordCount: makes or reads text and counts its words. Bound by the cpu: little of the text is ever moved.

    spark-submit wordcount.py --size-mib 64 --partitions 8

Prints one line of JSON: how many words, how many different ones, and the most frequent. With `--output` all
counts are written there; with `--save-input` the text is written and not counted. With several machines these
paths must be reachable from all of them.
"""

import argparse
import json
import random
import sys
from collections.abc import Iterator, Sequence
from itertools import accumulate
from operator import add

from pyspark import RDD
from pyspark.sql import SparkSession

SYLLABLES = ("ba", "de", "fi", "go", "ku", "la", "me", "ni", "po", "ru", "sa", "te", "vi", "wo", "zu", "xa")
VOCABULARY = 4096  # chosen: every word is three syllables
WORDS_PER_LINE = 12


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the command line's values."""
    parser = argparse.ArgumentParser(prog="wordcount.py", description="Count the words of a text.")
    parser.add_argument("--size-mib", type=float, default=16.0, help="size of the text that is made")
    parser.add_argument("--partitions", type=int, default=8, help="parts in which it is made and counted")
    parser.add_argument("--seed", type=int, default=0, help="another seed, another text")
    parser.add_argument("--input", help="read this text file or folder, make none")
    parser.add_argument("--output", help="write all counts into this folder")
    parser.add_argument("--save-input", help="write the text into this folder and count nothing")
    values = parser.parse_args(arguments)
    if values.partitions < 1 or values.size_mib <= 0:
        parser.error("--partitions and --size-mib must be positive")
    return values


def word(rank: int) -> str:
    """Return the word of this rank; 0 is the most frequent."""
    return "".join(SYLLABLES[rank // 16**place % 16] for place in range(3))


def make_lines(part: int, size_bytes: int, seed: int) -> Iterator[str]:
    """Yield lines of about `size_bytes` in all; words follow Zipf's law: the n-th has the weight 1/n."""
    chance = random.Random(f"{seed}/{part}")  # noqa: S311  text, not secrets
    words = [word(rank) for rank in range(VOCABULARY)]
    weights = list(accumulate(1 / (rank + 1) for rank in range(VOCABULARY)))
    written = 0
    while written < size_bytes:
        line = " ".join(chance.choices(words, cum_weights=weights, k=WORDS_PER_LINE))
        written += len(line) + 1
        yield line


def read_lines(spark: SparkSession, values: argparse.Namespace) -> RDD[str]:
    """Return the text: what `--input` names, or text that is made where it is counted."""
    if values.input:
        return spark.sparkContext.textFile(values.input, values.partitions)
    size_bytes, seed = int(values.size_mib * 2**20 / values.partitions), values.seed
    parts = spark.sparkContext.parallelize(range(values.partitions), values.partitions)
    return parts.flatMap(lambda part: make_lines(part, size_bytes, seed))


def summary(counts: RDD[tuple[str, int]]) -> dict[str, object]:
    """Return what is printed; words of equal frequency come in the order of the alphabet."""
    return {
        "app": "wordcount",
        "words": counts.values().sum(),
        "distinct": counts.count(),
        "top": counts.takeOrdered(5, key=lambda pair: (-pair[1], pair[0])),
    }


def main(arguments: Sequence[str]) -> None:
    """Run the application that the arguments describe."""
    values = parse(arguments)
    spark = SparkSession.builder.getOrCreate()
    lines = read_lines(spark, values)
    if values.save_input:
        lines.saveAsTextFile(values.save_input)
    else:
        words = lines.flatMap(str.split).map(lambda text: (text, 1))
        counts = words.reduceByKey(add, values.partitions).cache()
        print(json.dumps(summary(counts)))
        if values.output:
            counts.map(lambda pair: f"{pair[0]}\t{pair[1]}").saveAsTextFile(values.output)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
