"""PageRank: makes or reads a graph of pages and ranks them. Bound by the network: every round is a shuffle.

    spark-submit pagerank.py --size 64 --iterations 10

The pages are dealt out to the parts. In every round a page gives a share of its rank along each of its links,
nearly all of which lead to other parts: the arithmetic is numpy's and takes a moment, so that the time is
that of moving the shares. Every round moves about as many bytes as all the links have.

Prints one line of JSON: pages, links, the sum of all ranks (as much as there are pages), the highest, and
whether they are those of the graph that was made (null for a graph that was read). The exit code is 1 when
they are not. With `--output` all ranks are written there; with `--save-input` the links are written and
nothing is ranked. With several machines these paths must be reachable from all of them.
"""

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from pyspark import RDD
from pyspark.sql import SparkSession

DAMPING = 0.85  # Brin and Page's
LINK_BYTES = 16  # two numbers
BLOCK = 4096  # pages that are made at once; chosen

Numbers = npt.NDArray[np.int64]
Places = npt.NDArray[np.int32]
Reals = npt.NDArray[np.float64]
Links = tuple[Numbers, Numbers]  # sources and targets
Shares = tuple[Numbers, Reals]  # the page at the end of each link, and its share


@dataclass
class Part:
    """The pages of one part and their links.

    Link n to part i goes from `pages[sources[i][n]]` to `targets[i][n]`.
    """

    pages: Numbers
    degrees: Numbers
    targets: list[Numbers]
    sources: list[Places]


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line's values."""
    parser = argparse.ArgumentParser(prog="pagerank.py", description="Rank the pages of a graph.")
    parser.add_argument("--size", type=float, default=16.0, metavar="MIB", help="of the links that are made")
    parser.add_argument("--links", type=int, default=3, help="links of a page on average")
    parser.add_argument("--iterations", type=int, default=8, help="rounds")
    parser.add_argument("--partitions", type=int, default=8, help="parts in which it is made and ranked")
    parser.add_argument("--seed", type=int, default=0, help="another seed, another graph")
    parser.add_argument("--input", help="read lines of 'page page', a link each, and make no graph")
    parser.add_argument("--output", help="write all ranks into this folder")
    parser.add_argument("--save-input", help="write the links into this folder and rank nothing")
    values = parser.parse_args(arguments)
    if min(values.size, values.links, values.iterations, values.partitions) <= 0 or values.seed < 0:
        parser.error("--size, --links, --iterations and --partitions must be positive, --seed not negative")
    return values


def pages_of(values: argparse.Namespace) -> int:
    """Number of pages in the generated graph."""
    return max(1, int(values.size * 2**20 / LINK_BYTES / values.links))


def make_links(block: int, pages: int, average: int, seed: int) -> Links:
    """The links of a block's pages; low numbers are linked to more often.

    A page has one to twice the average less one, some of which may fall together.
    """
    chance = np.random.default_rng((seed, block))
    own = np.arange(block * BLOCK, min(pages, (block + 1) * BLOCK))
    sources = np.repeat(own, chance.integers(1, 2 * average, len(own)))
    targets = (pages * chance.random(len(sources)) ** 2).astype(np.int64)
    both = np.unique(sources * pages + targets)
    return both // pages, both % pages


def read_links(spark: SparkSession, values: argparse.Namespace) -> RDD[Links]:
    """All links, in blocks: those of `--input`, or links that are generated where they are needed."""
    if values.input:
        return spark.sparkContext.textFile(values.input, values.partitions).mapPartitions(parse_links)
    pages, average, seed = pages_of(values), values.links, values.seed
    blocks = spark.sparkContext.parallelize(range(-(-pages // BLOCK)), values.partitions)
    return blocks.map(lambda block: make_links(block, pages, average, seed))


def parse_links(lines: Iterable[str]) -> Iterator[Links]:
    """Yield the links that these lines describe."""
    numbers = np.array([line.split() for line in lines], np.int64).reshape(-1, 2)
    yield numbers[:, 0], numbers[:, 1]


def deal(links: Links, parts: int) -> Iterator[tuple[int, tuple[Numbers, Numbers, Numbers]]]:
    """Yield for each part the links of its pages and those of its pages that are linked to."""
    sources, targets = links
    for part in range(parts):
        own = sources % parts == part
        yield part, (sources[own], targets[own], np.unique(targets[targets % parts == part]))


def make_part(dealt: Iterable[tuple[Numbers, Numbers, Numbers]], parts: int) -> Part:
    """A part; links count once, and a page that links to none is taken to link to itself."""
    sources, targets, mentioned = (np.concatenate(column) for column in zip(*dealt, strict=True))
    ends = np.setdiff1d(mentioned, sources)
    pairs = np.stack([np.append(sources, ends), np.append(targets, ends)], axis=1)
    pairs = np.unique(pairs, axis=0)
    pages, degrees = np.unique(pairs[:, 0], return_counts=True)
    part = Part(pages, degrees, [], [])
    for other in range(parts):
        links = pairs[pairs[:, 1] % parts == other]
        links = links[np.argsort(links[:, 1], kind="stable")]  # found again faster when they are in order
        part.targets.append(links[:, 1].copy())
        part.sources.append(np.searchsorted(pages, links[:, 0]).astype(np.int32))
    return part


def giving(part: Part, ranks: Reals) -> Iterator[tuple[int, Shares]]:
    """Yield the shares that a part's pages pass to the pages of each part."""
    shares = ranks / part.degrees
    for other, targets in enumerate(part.targets):
        yield other, (targets, shares[part.sources[other]])


def rank_pages(parts: RDD[tuple[int, Part]], iterations: int, count: int) -> RDD[tuple[Numbers, Reals]]:
    """Every part's pages with their ranks; they are 1 on average."""
    given = parts.flatMap(lambda pair: giving(pair[1], np.ones(len(pair[1].pages))))
    for _ in range(iterations - 1):
        given = meet(parts, given, count).flatMap(lambda met: giving(*met))
    return meet(parts, given, count).map(lambda met: (met[0].pages, met[1]))


def meet(parts: RDD[tuple[int, Part]], given: RDD[tuple[int, Shares]], count: int) -> RDD[tuple[Part, Reals]]:
    """The parts with their new ranks, from the shares passed to them."""
    # Both lie in the same partitions already, so they are laid together without a join, which would pass
    # everything through Python once more.
    return parts.union(given.partitionBy(count)).mapPartitions(receive)


def receive(pairs: Iterable[tuple[int, Part | Shares]]) -> Iterator[tuple[Part, Reals]]:
    """Yield the parts among these with their new ranks; each comes before its shares."""
    parts: dict[int, tuple[Part, Reals]] = {}
    for number, value in pairs:
        if isinstance(value, Part):
            parts[number] = value, np.zeros(len(value.pages))
        else:
            part, received = parts[number]
            received += np.bincount(np.searchsorted(part.pages, value[0]), value[1], len(received))
    for part, received in parts.values():
        yield part, 1 - DAMPING + DAMPING * received


def expected_ranks(values: argparse.Namespace) -> Reals:
    """The ranks of the graph that is made, worked out in one piece: no parts, no Spark."""
    pages = pages_of(values)
    blocks = [make_links(n, pages, values.links, values.seed) for n in range(-(-pages // BLOCK))]
    sources, targets = (np.concatenate(column) for column in zip(*blocks, strict=True))
    degrees = np.bincount(sources, minlength=pages)
    ranks = np.ones(pages)
    for _ in range(values.iterations):
        received = np.bincount(targets, (ranks / degrees)[sources], pages)
        ranks = 1 - DAMPING + DAMPING * received
    return ranks


def summary(pages: Numbers, ranks: Reals, links: int, right: bool | None) -> dict[str, object]:
    """Printed summary; rounded, because sums of floats depend on the order in which they come."""
    top = np.lexsort((pages, -ranks))[:5]
    return {
        "app": "pagerank",
        "pages": len(pages),
        "links": links,
        "rank_sum": round(float(ranks.sum()), 3),
        "top": [[int(pages[n]), round(float(ranks[n]), 3)] for n in top],
        "right": right,
    }


def rank_links(links: RDD[Links], values: argparse.Namespace) -> bool:
    """Rank, check, print, write; tell whether nothing was wrong."""
    count = values.partitions
    dealt = links.flatMap(lambda block: deal(block, count)).groupByKey(count)
    parts = dealt.mapValues(lambda blocks: make_part(blocks, count)).cache()
    ranked = rank_pages(parts, values.iterations, count).cache()
    pages, ranks = (np.concatenate(column) for column in zip(*ranked.collect(), strict=True))
    right = None
    if not values.input:
        expected = expected_ranks(values)
        right = len(pages) == len(expected) and bool(np.allclose(ranks, expected[pages], rtol=1e-9))
    links_count = parts.values().map(lambda part: int(part.degrees.sum())).sum()
    print(json.dumps(summary(pages, ranks, links_count, right)))
    if values.output:
        ranked.flatMap(
            lambda pair: [f"{page}\t{rank}" for page, rank in zip(*pair, strict=True)]
        ).saveAsTextFile(values.output)
    return right is not False


def main(arguments: Sequence[str]) -> int:
    """Run the application that the arguments describe and return its exit code."""
    values = parse(arguments)
    spark = SparkSession.builder.getOrCreate()
    links = read_links(spark, values)
    right = True
    if values.save_input:
        pairs = links.flatMap(lambda block: [f"{page} {target}" for page, target in zip(*block, strict=True)])
        pairs.saveAsTextFile(values.save_input)
    else:
        right = rank_links(links, values)
    spark.stop()
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
