"""Requests that an application may and may not make."""

import os
import subprocess
from typing import Any

import pytest

from environment.resources import Resources
from framework.spark import (
    Application,
    DriverEndpoint,
    ExecutorPlace,
    SparkHome,
    driver_process,
    executor_process,
)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"app": "app.py"}, "'app.py' is neither an absolute path nor a URI"),
        ({"py_files": ("/a,b.py",)}, "separates files by commas"),
        ({"files": ("/a/x.txt#../y",)}, "it leads to another folder"),
        ({"files": ("/a/x.txt#tmp",)}, "a file of Stoker's has that name"),
        ({"files": ("hdfs://n/x.txt#y",)}, "Spark fetches this file by its own name"),
        ({"files": ("/a/x.txt#z", "/b/y.txt#z")}, "two files or archives are named z"),
        ({"files": ("/a/x.txt#z",), "archives": ("/b/y.zip#z",)}, "two files or archives are named z"),
        ({"files": ("/a/x.txt#y.txt", "/a/y.txt")}, "two files or archives are named y.txt"),
        ({"files": ("/a/x.txt#app.py",)}, "two files or archives are named app.py"),
        ({"py_files": ("/a/x.py#y",)}, "Python imports only from files named .py, .zip, .egg"),
        ({"archives": ("env.zip#env",)}, "neither an absolute path nor a URI"),
        ({"archives": ("/a/x.zip#x", "/b/y.zip#x")}, "two are unpacked into x"),
        ({"archives": ("/a/x.zip",), "files": ("/b/x.zip",)}, "x.zip is also the name of a file of the job"),
        ({"archives": ("/a/x.zip#y",), "py_files": ("s3a://b/y",)}, "y is also the name of a file"),
        ({"archives": ("/a/x.zip#app.py",)}, "app.py is also the name of a file"),
        ({"archives": ("/a/x.zip#tmp",)}, "'tmp' cannot be .* folder: a file of Stoker's has that name"),
        ({"archives": ("/a/x.zip#" + "b" * 300,)}, "it has more than 255 bytes"),
        ({"archives": ("/a/x.zip#..",)}, "name of a job's folder: it names no file"),
        ({"archives": ("/a/x.zip#a/b",)}, "name of a job's folder: it leads to another folder"),
        ({"archives": ("https://h/" + "b" * 300,)}, "it has more than 255 bytes"),
        ({"files": ("https://h/" + "b" * 300,)}, "b{40}...: a file's name has at most 255 bytes"),
        (
            {"conf": {"spark.jars.packages": "a:b:1"}},
            "spark.jars.packages is reserved: .* field for it is packages",
        ),
        (
            {"conf": {"spark.executor.memory": "9g"}},
            "field for it is memory, which includes Spark's overhead",
        ),
        ({"conf": {"driver.port": "1"}}, "must begin with 'spark.'"),
        ({"conf": {"spark.executor.memory ": "4g"}}, "its name begins or ends with a blank"),
        (
            {"conf": {"spark.yarn.queue": "q"}},
            "is a setting of YARN, but Mesos runs the job",
        ),
        (
            {"conf": {"spark.driver.port": "1"}},
            "spark.driver.port is reserved, and no job may set it: Stoker decides where",
        ),
        ({"conf": {"spark.authenticate.secret": "x"}}, "spark.authenticate.secret is reserved"),
        ({"conf": {"spark.dynamicAllocation.enabled": "true"}}, "is reserved"),
        ({"conf": {"spark.x": "a\0b"}}, "NUL"),
        ({"environment": {"_JAVA_OPTIONS": "-Xmx9g"}}, "_JAVA_OPTIONS is not allowed to specify max heap"),
        ({"environment": {"A B": "1"}}, "'A B' is not a variable's name"),
        ({"environment": {"JAVA_HOME": "/java"}}, "JAVA_HOME is reserved"),
        ({"environment": {"_SPARK_AUTH_SECRET": "x"}}, "is reserved"),
        ({"arguments": ("x" * 100_000,)}, "one argument: more than 96 KiB"),
        ({"conf": {f"spark.x{i}": "x" * 4_000 for i in range(25)}}, "settings together: more than 96 KiB"),
        ({"conf": {"spark.x": "\u00e9" * 20_000}}, "settings together: more than 96 KiB"),
        ({"py_files": ("/" + "x" * 50_000, "/" + "y" * 50_000)}, "py_files: together: more than 96 KiB"),
        ({"environment": {f"X{i}": "x" * 90_000 for i in range(12)}}, "1054 KiB together; .* at most 1024"),
        ({"arguments": ("",) * 200_000}, "KiB together"),
        ({"arguments": ("a\0b",)}, "one argument: a NUL"),
    ],
)
def test_what_cannot_be_launched_is_refused(fields: dict[str, Any], message: str) -> None:
    """Paths, settings, variables and arguments that would break the launch are refused by name."""
    with pytest.raises(ValueError, match=message):
        Application(**{"app": "/apps/app.py", **fields}).check()


def test_the_largest_that_is_accepted_can_be_started() -> None:
    """The kernel takes driver and executors of an application that is as large as it may be."""
    application = Application(
        app="/apps/app.py",
        arguments=("x" * 95_000,) * 4,
        conf={f"spark.x{i}": "x" * 1_000 for i in range(90)},
        environment={f"X{i}": "x" * 95_000 for i in range(5)},
    )
    application.check()
    spark = SparkHome("3.5", "/spark", "/java", "python3")
    endpoint = DriverEndpoint("127.0.0.1", 1, 2, 3, 1024)
    shape = Resources.of(1.0, 1024)
    place = ExecutorPlace(0, "127.0.0.1", 4)
    driver = driver_process("large", application, endpoint, [shape], "secret", spark)
    executor = executor_process(application, endpoint, place, shape, "secret", spark)
    for process in (driver, executor):
        command = ["true", *process.argv]
        subprocess.run(command, env={**os.environ, **process.environment, **process.secrets}, check=True)


def test_ordinary_application_is_accepted() -> None:
    """Paths, URIs, settings and variables of an ordinary application pass."""
    application = Application(
        app="hdfs://name/app.jar",
        main_class="org.example.Main",
        arguments=("--rows", "5"),
        jars=("/lib/a.jar", "https://example.org/b.jar"),
        conf={"spark.sql.shuffle.partitions": "4", "spark.driverEnv": ""},
        environment={"MODE": "fast"},
    )
    application.check()
    assert application.main_class == "org.example.Main"


@pytest.mark.parametrize(
    ("conf", "message"),
    [
        *(
            (
                {f"spark.{whose}.{which}JavaOptions": "-Da=b -Xmx2g"},
                "not allowed to specify max heap memory .* Use",
            )
            for whose in ("driver", "executor")
            for which in ("extra", "default")
        ),
        *(
            ({f"spark.{whose}.extraJavaOptions": option}, message)
            for whose in ("driver", "executor")
            for option, message in (
                ("-Xss1m -mx9g", "not allowed to specify max heap memory .* Use"),
                ('-Da=b "-m"x9g', "not allowed to specify max heap memory .* Use"),
                ("-XX:MaxHeapSize=9g", "not allowed to specify max heap memory .* Use"),
                ("-Xss1m @/tmp/options", "@/tmp/options reads options from a file"),
                ("-XX:VMOptionsFile=/tmp/options", "VMOptionsFile=/tmp/options reads options from a file"),
            )
        ),
        ({"spark.executorEnv._JAVA_OPTIONS": "-Xmx9g"}, "_JAVA_OPTIONS is not allowed to specify max heap"),
        ({"spark.executor.extraJavaOptions": "-Dspark.ui.port=1"}, "not allowed to set Spark options"),
        ({"spark.memory.fraction": "1.5"}, "spark.memory.fraction should be between 0 and 1"),
        ({"spark.speculation": "maybe"}, "spark.speculation=maybe: should be true or false"),
        ({"spark.sql.adaptive.enabled": "1"}, "adaptive.enabled=1: should be true or false"),
        ({"spark.sql.shuffle.partitions": "2.0"}, "partitions=2.0: should be a whole number"),
        ({"spark.task.maxFailures": "four"}, "spark.task.maxFailures=four: should be a whole number"),
        ({"spark.memory.storageFraction": "half"}, "storageFraction=half: should be a number"),
        ({"spark.hadoop.fs.s3a.secret.key": "x "}, "begins or ends with a blank"),
        ({"spark.network.timeout": "5"}, "spark.network.timeout of 5 s should be more than .* of 10 s"),
        ({"spark.executor.heartbeatInterval": "120000"}, "of 120 s should be more than .* of 120 s"),
        ({"spark.mesos.executor.docker.image": "x"}, "docker.image: the daemon's config selects"),
        ({"spark.driver.cores": "2"}, "a job's field for it is driver, as in driver: "),
    ],
)
def test_what_spark_would_refuse_later_is_refused_at_once(conf: dict[str, str], message: str) -> None:
    """The error has Spark's reason, and the correct value here."""
    with pytest.raises(ValueError, match=message):
        Application(app="/apps/app.py", conf=conf).check()


def test_other_options_of_java_are_taken() -> None:
    """Those of a driver may even be settings of Spark; values may stand for those of other settings."""
    conf = {
        "spark.driver.extraJavaOptions": "-Dspark.a=b -Xss4m",
        "spark.executor.extraJavaOptions": "-XX:+UseG1GC",
        "spark.executor.heartbeatInterval": "20000",
        "spark.speculation": " TRUE ",
        "spark.task.maxFailures": "${spark.stage.maxConsecutiveAttempts}",
    }
    Application(app="/apps/app.py", conf=conf).check()


def test_options_of_java_that_set_no_heap_pass() -> None:
    """Beside -Xmx they bound none, as OpenJDK 17 shows with -XX:+PrintFlagsFinal; the rest are no heaps."""
    options = (
        "-Xss4m -ss4m -XX:MaxRAM=64g -XX:MaxRAMPercentage=90 -XX:+AggressiveHeap -XX:Flags=/tmp/flags "
        "-XX:MaxDirectMemorySize=1g -Dx='-mx it' -Dmail=a@b \"-Dunbalanced"
    )
    for key in ("spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions"):
        Application(app="/a/app.py", conf={key: options}).check()
    for name in ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS"):  # the command's own -Xmx comes behind these
        Application(app="/a/app.py", environment={name: "-Xmx1g"}).check()
