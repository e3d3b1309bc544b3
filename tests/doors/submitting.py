"""The real spark-submit of a version, as a user runs it."""

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from framework.spark import local_spark_home
from tests.real_daemon import PATIENCE

#: A JVM that only submits is not worth compiling with care.
_QUICK = "-XX:TieredStopAtLevel=1"

#: What docs/submit.md says to write so that --status and --kill print the answer.
LOG4J = """\
rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %p %c{1}: %m%n
logger.submit.name = org.apache.spark.deploy.rest.RestSubmissionClient
logger.submit.level = info
"""


_SCALA = """
import org.apache.spark.{SparkConf, SparkContext}

object Squares {
  def main(args: Array[String]): Unit = {
    val context = new SparkContext(new SparkConf())
    val numbers = context.parallelize(1 to args(0).toInt, 2)
    println("SUM " + numbers.map(n => n.toLong * n).reduce(_ + _))
    context.stop()
  }
}
"""


def squares_jar(folder: Path) -> Path:
    """A Scala application in a jar that is made there: it sums the squares up to its argument."""
    (folder / "Squares.scala").write_text(_SCALA)
    home = local_spark_home(os.environ, "4.3")
    compiler = ("-cp", f"{home.home}/jars/*", "scala.tools.nsc.Main", "-usejavacp", "-nowarn")
    command = [f"{home.java_home}/bin/java", "-XX:TieredStopAtLevel=1", *compiler, "-d", "squares.jar"]
    subprocess.run([*command, "Squares.scala"], cwd=folder, check=True, timeout=PATIENCE)
    return folder / "squares.jar"


@dataclass(frozen=True)
class Printed:
    """Output of spark-submit, on both streams, and its exit code."""

    text: str
    code: int

    @property
    def submission(self) -> str:
        """The id of the submission that was made."""
        found = re.search(r"Submission successfully created as (driver-[0-9-]+)", self.text)
        assert found is not None, self.text
        return found[1]

    @property
    def job(self) -> str:
        """The id of the job that it became."""
        found = re.search(r'"message" : "(job-[0-9]+): ', self.text)
        assert found is not None, self.text
        return found[1]


class SparkSubmit:
    """spark-submit of one version."""

    def __init__(self, name: str, settings: Path) -> None:
        """Its configuration is made in the folder `settings`."""
        (settings / "log4j2.properties").write_text(LOG4J)
        home = local_spark_home(os.environ, name)
        self._home = home
        java = home.java_home or ""
        own = {"SPARK_HOME": home.home, "JAVA_HOME": java, "SPARK_CONF_DIR": str(settings)}
        self.environment = {**os.environ, **own, "SPARK_SUBMIT_OPTS": _QUICK, "SPARK_LAUNCHER_OPTS": _QUICK}

    def command(self, *arguments: object) -> list[str]:
        """The command with these arguments; it takes `environment`."""
        return [f"{self._home.home}/bin/spark-submit", *map(str, arguments)]

    def __call__(self, *arguments: object, folder: Path | None = None) -> Printed:
        """Run it with these arguments, in that folder."""
        done = subprocess.run(
            self.command(*arguments),
            env=self.environment,
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=1200,
            check=False,
        )
        return Printed(done.stdout + done.stderr, done.returncode)
