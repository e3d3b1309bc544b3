"""PageRank: makes or reads a graph of pages and ranks them. Bound by the network: every round is a shuffle.

    spark-submit pagerank.py --pages 100000 --iterations 10

Prints one line of JSON: pages, links, the sum of all ranks (as much as there are pages) and the highest.
With `--output` all ranks are written there; with `--save-input` the links are written and nothing is ranked.
With several machines these paths must be reachable from all of them.
"""

import argparse
import json
import random
import sys
from collections.abc import Iterable, Iterator, Sequence
from operator import add

from pyspark import RDD
from pyspark.sql import SparkSession

DAMPING = 0.85  # Brin and Page's

Links = tuple[int, tuple[int, ...]]  # a page and the pages that it links to


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the command line's values."""
    parser = argparse.ArgumentParser(prog="pagerank.py", description="Rank the pages of a graph.")
    parser.add_argument("--pages", type=int, default=20_000, help="pages of the graph that is made")
    parser.add_argument("--links", type=int, default=8, help="links of a page on average")
    parser.add_argument("--iterations", type=int, default=4, help="rounds")
    parser.add_argument("--partitions", type=int, default=8, help="parts in which it is made and ranked")
    parser.add_argument("--seed", type=int, default=0, help="another seed, another graph")
    parser.add_argument("--input", help="read lines of 'page page', a link each, and make no graph")
    parser.add_argument("--output", help="write all ranks into this folder")
    parser.add_argument("--save-input", help="write the links into this folder and rank nothing")
    values = parser.parse_args(arguments)
    if min(values.pages, values.links, values.iterations, values.partitions) < 1:
        parser.error("--pages, --links, --iterations and --partitions must be positive")
    return values


def make_links(page: int, pages: int, average: int, seed: int) -> Links:
    """Return a page's links, one to twice the average less one; low numbers are linked to more often."""
    chance = random.Random(f"{seed}/{page}")  # noqa: S311  a graph, not secrets
    count = chance.randint(1, 2 * average - 1)
    return page, tuple(sorted({int(pages * chance.random() ** 3) for _ in range(count)}))


def read_links(spark: SparkSession, values: argparse.Namespace) -> RDD[Links]:
    """Return all pages with their links; a page that links to none is taken to link to itself."""
    if values.input:
        lines = spark.sparkContext.textFile(values.input, values.partitions)
        return lines.flatMap(parse_link).groupByKey(values.partitions).map(own_or_self)
    pages, average, seed = values.pages, values.links, values.seed
    numbers = spark.sparkContext.parallelize(range(pages), values.partitions)
    return numbers.map(lambda page: make_links(page, pages, average, seed))


def parse_link(line: str) -> list[tuple[int, int | None]]:
    """Return the link of a line, and that its target is a page as well."""
    source, target = map(int, line.split())
    return [(source, target), (target, None)]


def own_or_self(grouped: tuple[int, Iterable[int | None]]) -> Links:
    """Return a page with its different links, or with one to itself."""
    page, targets = grouped
    return page, tuple(sorted({target for target in targets if target is not None})) or (page,)


def contributions(joined: tuple[int, tuple[tuple[int, ...], float]]) -> Iterator[tuple[int, float]]:
    """Yield what a page gives to each page it links to; nothing to itself, so that it is not forgotten."""
    page, (targets, rank) = joined
    yield page, 0.0
    for target in targets:
        yield target, rank / len(targets)


def rank_pages(links: RDD[Links], iterations: int, partitions: int) -> RDD[tuple[int, float]]:
    """Return every page's rank; they are 1 on average."""
    ranks = links.mapValues(lambda _: 1.0)
    for _ in range(iterations):
        given = links.join(ranks, partitions).flatMap(contributions)
        ranks = given.reduceByKey(add, partitions).mapValues(lambda got: 1 - DAMPING + DAMPING * got)
    return ranks


def summary(links: RDD[Links], ranks: RDD[tuple[int, float]]) -> dict[str, object]:
    """Return what is printed; rounded, because sums of floats depend on the order in which they come."""
    top = ranks.takeOrdered(5, key=lambda pair: (-pair[1], pair[0]))
    return {
        "app": "pagerank",
        "pages": ranks.count(),
        "links": links.map(lambda pair: len(pair[1])).sum(),
        "rank_sum": round(ranks.values().sum(), 3),
        "top": [[page, round(rank, 3)] for page, rank in top],
    }


def main(arguments: Sequence[str]) -> None:
    """Run the application that the arguments describe."""
    values = parse(arguments)
    spark = SparkSession.builder.getOrCreate()
    links = read_links(spark, values)
    if values.save_input:
        pairs = links.flatMap(lambda pair: [f"{pair[0]} {target}" for target in pair[1]])
        pairs.saveAsTextFile(values.save_input)
    else:
        links = links.partitionBy(values.partitions).cache()
        ranks = rank_pages(links, values.iterations, values.partitions).cache()
        print(json.dumps(summary(links, ranks)))
        if values.output:
            ranks.map(lambda pair: f"{pair[0]}\t{pair[1]}").saveAsTextFile(values.output)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
