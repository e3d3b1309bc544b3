"""The work of a user's session: bursts with pauses between them, each result on a line of its own.

It runs in a driver of real Spark, as a script; its argument is a plan: a name, and bursts of so many tasks
of so many seconds, whether they shuffle, and the seconds of the pause after them.
"""

import json
import sys
import time
from operator import add

from pyspark.sql import SparkSession


def main() -> None:
    """Follow the plan, and print the results."""
    plan = json.loads(sys.argv[1])
    spark = SparkSession.builder.appName(plan["name"]).getOrCreate()
    say(began=spark.sparkContext.applicationId)
    for tasks, seconds, shuffles, pause in plan["bursts"]:

        def slowly(x: int, seconds: float = seconds) -> tuple[int, int]:
            time.sleep(seconds)
            return x % 3, x * x

        found = spark.sparkContext.parallelize(range(tasks), tasks).map(slowly)
        sums = found.reduceByKey(add, 2) if shuffles else found
        say(sum=sums.values().sum())
        time.sleep(pause)
    spark.stop()
    say(stopped=True)


def say(**what: object) -> None:
    """Print an event as a line of JSON."""
    print(json.dumps(what), flush=True)


main()
