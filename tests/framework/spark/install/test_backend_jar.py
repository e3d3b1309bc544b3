"""The jar that makes a Spark know our masters: cached by its sources, or else a clear reason."""

import os
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from framework.spark import local_spark_home
from framework.spark.install.backend_jar import BackendJarError, backend_jar, jar_folders
from framework.spark.install.homes import SparkHome


def test_a_jar_is_compiled_once(tmp_path: Path) -> None:
    """Without a JDK, with the service that Spark asks for; it is found again in any of the folders."""
    spark = local_spark_home(os.environ)
    jar = backend_jar(spark, jar_folders(tmp_path))
    with zipfile.ZipFile(jar) as opened:
        (service,) = [name for name in opened.namelist() if name.startswith("META-INF/services/")]
        manager = opened.read(service).decode().strip()
        assert f"{manager.replace('.', '/')}.class" in opened.namelist()
    made = jar.stat().st_mtime_ns
    assert backend_jar(spark, (tmp_path, jar.parent)) == jar
    assert jar.stat().st_mtime_ns == made


def test_why_there_is_no_jar(tmp_path: Path) -> None:
    """No jars, no compiler, no Java, no folder that takes it: each is said."""
    jars = tmp_path / "jars"
    spark = SparkHome("4.3.0", str(tmp_path), str(tmp_path / "java"), "python3")
    with pytest.raises(BackendJarError, match=r"the jars of Spark 4\.3\.0 are not on this host"):
        backend_jar(spark, (tmp_path,))
    jars.mkdir()
    with pytest.raises(BackendJarError, match="has no Scala compiler"):
        backend_jar(spark, (tmp_path,))
    (jars / "scala-compiler-2.13.18.jar").touch()
    with pytest.raises(BackendJarError, match=r"cannot be compiled: there is no .*java/bin/java"):
        backend_jar(spark, (tmp_path,))
    java = tmp_path / "java/bin/java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\necho 'StokerBackend.scala:1: error: no' >&2\nexit 1\n")
    java.chmod(0o755)
    with pytest.raises(BackendJarError, match=r"cannot be compiled: StokerBackend.scala:1: error: no"):
        backend_jar(spark, (tmp_path,))
    (tmp_path / "file").touch()
    with pytest.raises(BackendJarError, match="can be stored nowhere"):
        backend_jar(replace(spark), (tmp_path / "file/folder",))
    assert not list(tmp_path.glob("*.jar"))
