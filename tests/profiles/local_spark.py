"""Runs Python with Spark in local mode, as applications need it."""

import os
import subprocess
import sys
from pathlib import Path

from framework.spark import local_spark_home, python_path

QUICK_JAVA = "--driver-java-options -XX:TieredStopAtLevel=1"  # what is compiled here is used but briefly


def run_with_spark(folder: Path, code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python code in the folder, where pyspark starts Spark with one core; assert that it succeeds."""
    spark = local_spark_home(os.environ)
    assert spark.java_home is not None
    settings = ("spark.ui.enabled=false", "spark.sql.shuffle.partitions=2", "spark.log.level=WARN")
    submit = [text for setting in settings for text in ("--conf", setting)]
    environment = {
        "PATH": os.environ["PATH"],
        "SPARK_HOME": spark.home,
        "JAVA_HOME": spark.java_home,
        "PYSPARK_PYTHON": spark.python,
        "PYTHONPATH": os.pathsep.join(python_path(Path(spark.home))),
        "PYTHONHASHSEED": "0",  # as spark-submit sets it
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_SUBMIT_ARGS": " ".join(["--master local[1]", QUICK_JAVA, *submit, "pyspark-shell"]),
    }
    process = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    return process
