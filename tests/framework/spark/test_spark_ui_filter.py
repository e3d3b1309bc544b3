"""The filter before drivers' web pages: that it is what its source says, and who is given the key."""

import os
import subprocess
from pathlib import Path

from framework.spark import local_spark_home, ui_key
from framework.spark import ui as ui_module

SOURCE = Path(ui_module.__file__).with_name("KeyFilter.java")


def test_the_class_is_what_its_source_says(tmp_path: Path) -> None:
    """Compiled again, by the compiler in Spark's jars, it is the same to the last byte (`make filter`)."""
    spark = local_spark_home(os.environ)
    (servlets,) = Path(spark.home, "jars").glob("jakarta.servlet-api-*.jar")
    compiler = "org.codehaus.commons.compiler.samples.CompilerDemo"
    java = [f"{spark.java_home}/bin/java", "-cp", f"{spark.home}/jars/*", compiler]
    subprocess.run([*java, "-d", tmp_path, "-classpath", servlets, SOURCE], check=True)
    assert (tmp_path / "stoker/KeyFilter.class").read_bytes() == SOURCE.with_suffix(".class").read_bytes()


def test_the_class_is_written_whole_by_any_bash(tmp_path: Path) -> None:
    """As `driver.sh` does it: with no tool but bash, in any locale."""
    for locale in ("C", "C.UTF-8"):
        variables = {"FILTER": ui_module.ui_filter(), "LC_ALL": locale}
        subprocess.run(["bash", "-c", 'printf "$FILTER" > it'], cwd=tmp_path, env=variables, check=True)
        assert (tmp_path / "it").read_bytes() == SOURCE.with_suffix(".class").read_bytes()


def test_the_key_is_the_jobs_own_and_tells_no_secret() -> None:
    """It crosses the network with every request."""
    assert ui_key("one") == ui_key("one") != ui_key("two")
    assert len(ui_key("one")) == 64
    assert ui_key("one") not in repr(ui_module.DriverUi("127.0.0.1", 1, ui_key("one")))
