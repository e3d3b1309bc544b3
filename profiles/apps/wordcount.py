"""WordCount: makes or reads text and counts its words. Bound by the cpu: little of the text is ever moved.

    spark-submit wordcount.py --size 64 --partitions 8

Prints one line of JSON: how many words, how many different ones, the most frequent, and whether the counts
are those of the text that was made (null for a text that was read: nobody else has counted it). The exit code
is 1 when they are not. With `--output` all counts are written there; with `--save-input` the text is written
and not counted. With several machines these paths must be reachable from all of them.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from operator import add

import numpy as np
import numpy.typing as npt
from pyspark import RDD
from pyspark.sql import SparkSession

SYLLABLES = ("ba", "de", "fi", "go", "ku", "la", "me", "ni", "po", "ru", "sa", "te", "vi", "wo", "zu", "xa")
VOCABULARY = 4096  # chosen: every word is three syllables
WORD_BYTES = 7  # with the blank or line's end after it
WORDS_PER_LINE = 12


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line's values."""
    parser = argparse.ArgumentParser(prog="wordcount.py", description="Count the words of a text.")
    parser.add_argument("--size", type=float, default=16.0, metavar="MIB", help="of the text that is made")
    parser.add_argument("--partitions", type=int, default=8, help="parts in which it is made and counted")
    parser.add_argument("--seed", type=int, default=0, help="another seed, another text")
    parser.add_argument("--input", help="read this text file or folder, make none")
    parser.add_argument("--output", help="write all counts into this folder")
    parser.add_argument("--save-input", help="write the text into this folder and count nothing")
    values = parser.parse_args(arguments)
    if values.partitions < 1 or values.size <= 0 or values.seed < 0:
        parser.error("--partitions and --size must be positive, --seed not negative")
    return values


def word(rank: int) -> str:
    """The word of this rank; 0 is the most frequent."""
    return "".join(SYLLABLES[rank // 16**place % 16] for place in range(3))


def make_ranks(part: int, size_bytes: int, seed: int) -> npt.NDArray[np.intp]:
    """The words of one part, by rank; they follow Zipf's law: the n-th has the weight 1/n."""
    weights = np.cumsum(1 / np.arange(1, VOCABULARY + 1))
    draws = np.random.default_rng((seed, part)).random(max(1, size_bytes // WORD_BYTES))
    ranks: npt.NDArray[np.intp] = np.searchsorted(weights, draws * weights[-1], side="right")
    return ranks


def make_lines(part: int, size_bytes: int, seed: int) -> Iterator[str]:
    """Yield the lines of one part, `size_bytes` in all."""
    words = [word(rank) for rank in range(VOCABULARY)]
    text = [words[rank] for rank in make_ranks(part, size_bytes, seed)]
    for start in range(0, len(text), WORDS_PER_LINE):
        yield " ".join(text[start : start + WORDS_PER_LINE])


def part_bytes(values: argparse.Namespace) -> int:
    """The size of one part of the text that is made."""
    return int(values.size * 2**20 / values.partitions)


def read_lines(spark: SparkSession, values: argparse.Namespace) -> RDD[str]:
    """The text: that of `--input`, or text that is generated where it is counted."""
    if values.input:
        return spark.sparkContext.textFile(values.input, values.partitions)
    size_bytes, seed = part_bytes(values), values.seed
    parts = spark.sparkContext.parallelize(range(values.partitions), values.partitions)
    return parts.flatMap(lambda part: make_lines(part, size_bytes, seed))


def expected_counts(values: argparse.Namespace) -> dict[str, int]:
    """The counts of the text that is made, from its ranks: no text, no Spark."""
    parts = (make_ranks(part, part_bytes(values), values.seed) for part in range(values.partitions))
    totals = sum(np.bincount(part, minlength=VOCABULARY) for part in parts)
    return {word(rank): int(total) for rank, total in enumerate(np.asarray(totals)) if total}


def summary(counts: RDD[tuple[str, int]], right: bool | None) -> dict[str, object]:
    """Printed summary; words of equal frequency come in alphabetical order."""
    return {
        "app": "wordcount",
        "words": counts.values().sum(),
        "distinct": counts.count(),
        "top": counts.takeOrdered(5, key=lambda pair: (-pair[1], pair[0])),
        "right": right,
    }


def count_words(lines: RDD[str], values: argparse.Namespace) -> bool:
    """Count, check, print, write; tell whether nothing was wrong."""
    words = lines.flatMap(str.split).map(lambda text: (text, 1))
    counts = words.reduceByKey(add, values.partitions).cache()
    right = None if values.input else counts.collectAsMap() == expected_counts(values)
    print(json.dumps(summary(counts, right)))
    if values.output:
        counts.map(lambda pair: f"{pair[0]}\t{pair[1]}").saveAsTextFile(values.output)
    return right is not False


def main(arguments: Sequence[str]) -> int:
    """Run the application that the arguments describe and return its exit code."""
    values = parse(arguments)
    spark = SparkSession.builder.getOrCreate()
    lines = read_lines(spark, values)
    right = True
    if values.save_input:
        lines.saveAsTextFile(values.save_input)
    else:
        right = count_words(lines, values)
    spark.stop()
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
