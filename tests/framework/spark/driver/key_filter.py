"""Compiles the filter before drivers' web pages for the servlets of either Spark, and stores the classes."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from framework.spark import local_spark_home
from framework.spark.driver import ui_key

SOURCE = Path(ui_key.__file__).with_name("KeyFilter.java")
#: With which of the Sparks that are fetched it is compiled, by the name of the interfaces of servlets.
SPARKS = {"javax": "3.5", "jakarta": "4.3"}


def stored(servlets: str) -> Path:
    """Where the class is that drivers get."""
    return SOURCE.with_name(f"KeyFilter-{servlets}.class")


def compiled(servlets: str, folder: Path) -> bytes:
    """The class, by the compiler in Spark's own jars: a Java runtime is enough."""
    spark = local_spark_home(os.environ, SPARKS[servlets])
    (folder / SOURCE.name).write_text(SOURCE.read_text().replace("import javax.", f"import {servlets}."))
    classes = ":".join(str(jar) for jar in sorted(Path(spark.home, "jars").glob("*.jar")))
    compiler = "org.codehaus.commons.compiler.samples.CompilerDemo"
    java = [f"{spark.java_home}/bin/java", "-cp", f"{spark.home}/jars/*", compiler]
    subprocess.run([*java, "-d", folder, "-classpath", classes, folder / SOURCE.name], check=True)
    return (folder / "stoker/KeyFilter.class").read_bytes()


def main() -> int:
    """Store the classes compiled from the source."""
    for servlets in SPARKS:
        with tempfile.TemporaryDirectory() as folder:
            stored(servlets).write_bytes(compiled(servlets, Path(folder)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
