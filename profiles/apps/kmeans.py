"""K-means: makes points in clouds and finds the clouds by Lloyd's algorithm, on points kept in memory.

    spark-submit kmeans.py --size 64 --iterations 10

Every round goes over all points and moves next to nothing: bound by the cpu as long as the points fit in
memory. Prints one line of JSON: points, the sum of squared distances to the nearest centre, and whether the
centres are the means of the clouds from which the points were made. The exit code is 1 when they are not.
"""

import argparse
import json
import sys
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
from pyspark import RDD
from pyspark.sql import SparkSession

DIMENSIONS = 16
POINT_BYTES = 8 * DIMENSIONS
BLOCK = 4096  # points that are made at once; chosen
REACH, NOISE = 100.0, 4.0  # chosen: clouds lie so far apart that no point is nearer to another one

Points = npt.NDArray[np.float64]
Totals = tuple[
    Points, npt.NDArray[np.int64], float
]  # per cloud: sum of points, their number; squared distances


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line's values."""
    parser = argparse.ArgumentParser(prog="kmeans.py", description="Find clouds of points.")
    parser.add_argument("--size", type=float, default=16.0, metavar="MIB", help="of the points that are made")
    parser.add_argument("--clusters", type=int, default=16, help="clouds")
    parser.add_argument("--iterations", type=int, default=10, help="rounds")
    parser.add_argument("--partitions", type=int, default=8, help="parts in which points are made and kept")
    parser.add_argument("--seed", type=int, default=0, help="another seed, other points")
    values = parser.parse_args(arguments)
    if min(values.size, values.clusters, values.iterations, values.partitions) <= 0 or values.seed < 0:
        parser.error(
            "--size, --clusters, --iterations and --partitions must be positive, --seed not negative"
        )
    return values


def blocks_of(values: argparse.Namespace) -> list[tuple[int, int]]:
    """The first point and the end of each block of points."""
    count = max(values.clusters, int(values.size * 2**20 / POINT_BYTES))
    return [(start, min(count, start + BLOCK)) for start in range(0, count, BLOCK)]


def make_points(block: tuple[int, int], clusters: int, seed: int) -> Points:
    """A block's points, [points, DIMENSIONS]; point n belongs to cloud n modulo `clusters`."""
    middles = np.random.default_rng(seed).uniform(-REACH, REACH, (clusters, DIMENSIONS))
    numbers = np.arange(*block)
    noise = np.random.default_rng((seed, block[0])).normal(0, NOISE, (len(numbers), DIMENSIONS))
    points: Points = middles[numbers % clusters] + noise
    return points


def assign(points: Points, centres: Points) -> Totals:
    """Assign every point to its nearest centre; return the sums over these clouds."""
    distances = np.stack([((points - centre) ** 2).sum(axis=1) for centre in centres])
    nearest = distances.argmin(axis=0)
    sums = np.stack([points[nearest == number].sum(axis=0) for number in range(len(centres))])
    return sums, np.bincount(nearest, minlength=len(centres)), float(distances.min(axis=0).sum())


def add_up(one: Totals, other: Totals) -> Totals:
    """The totals of both."""
    return one[0] + other[0], one[1] + other[1], one[2] + other[2]


def find_centres(points: RDD[Points], start: Points, iterations: int) -> tuple[Points, float]:
    """The centres after so many rounds, and the squared distances to those of the last but one."""
    centres, spread = start, 0.0
    for _ in range(iterations):
        # A function of its own, so that each round carries its own centres.
        sums, counts, spread = points.map(_assigning(centres)).reduce(add_up)
        centres = np.where(counts[:, None] > 0, sums / np.maximum(counts, 1)[:, None], centres)
    return centres, spread


def _assigning(centres: Points) -> Callable[[Points], Totals]:
    return lambda points: assign(points, centres)


def expected_centres(values: argparse.Namespace) -> Points:
    """The mean of each cloud, from the number of each point: no distances, no Spark."""
    sums, counts = np.zeros((values.clusters, DIMENSIONS)), np.zeros(values.clusters)
    for block in blocks_of(values):
        clouds = np.arange(*block) % values.clusters
        np.add.at(sums, clouds, make_points(block, values.clusters, values.seed))
        counts += np.bincount(clouds, minlength=values.clusters)
    return sums / counts[:, None]


def main(arguments: Sequence[str]) -> int:
    """Run the application that the arguments describe and return its exit code."""
    values = parse(arguments)
    spark = SparkSession.builder.getOrCreate()
    blocks, clusters, seed = blocks_of(values), values.clusters, values.seed
    numbers = spark.sparkContext.parallelize(blocks, values.partitions)
    points = numbers.map(lambda block: make_points(block, clusters, seed)).cache()
    start = make_points(blocks[0], clusters, seed)[:clusters]  # a point of every cloud
    centres, spread = find_centres(points, start, values.iterations)
    right = bool(np.allclose(centres, expected_centres(values), rtol=1e-9))
    result = {"app": "kmeans", "points": blocks[-1][1], "spread": round(spread, 3), "right": right}
    print(json.dumps(result))
    spark.stop()
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
