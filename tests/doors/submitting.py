"""The real spark-submit of a version, as a user runs it, and a small application in a jar."""

import os
import re
import subprocess
import zipfile
from dataclasses import dataclass
from pathlib import Path

from framework.spark import local_spark_home

#: A JVM that only submits is not worth compiling with care.
_QUICK = "-XX:TieredStopAtLevel=1"
# Without Spark's classes in its text: this compiler does not read Scala's class files.
_COUNT = """
import java.util.Arrays;
import java.util.List;

public class Count {
    public static void main(String[] args) throws Exception {
        Class<?> type = Class.forName("org.apache.spark.api.java.JavaSparkContext");
        Object context = type.getConstructor().newInstance();
        Object words = type.getMethod("parallelize", List.class).invoke(context, Arrays.asList(args));
        System.out.println("COUNT " + words.getClass().getMethod("count").invoke(words));
        type.getMethod("stop").invoke(context);
    }
}
"""


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


@dataclass(frozen=True)
class Printed:
    """What spark-submit printed, on both streams, and how it ended."""

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

    def __call__(self, *arguments: object, folder: Path | None = None) -> Printed:
        """Run it with these arguments, in that folder."""
        command = [f"{self._home.home}/bin/spark-submit", *map(str, arguments)]
        done = subprocess.run(
            command,
            env=self.environment,
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        return Printed(done.stdout + done.stderr, done.returncode)

    def make_jar(self, folder: Path) -> Path:
        """A jar with an application that counts its arguments, compiled by the compiler in Spark's jars."""
        (folder / "Count.java").write_text(_COUNT)
        compiler = ["-cp", f"{self._home.home}/jars/*", "org.codehaus.commons.compiler.samples.CompilerDemo"]
        command = [f"{self._home.java_home}/bin/java", _QUICK, *compiler]
        command += ["-d", str(folder), str(folder / "Count.java")]
        subprocess.run(command, check=True, capture_output=True, timeout=120)
        with zipfile.ZipFile(folder / "count.jar", "w") as jar:
            jar.write(folder / "Count.class", "Count.class")
        return folder / "count.jar"
