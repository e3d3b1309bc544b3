"""The commands of drivers and executors, as values."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from environment.resources import LEAST, Resources
from framework.spark import (
    Application,
    DriverEndpoint,
    DynamicAllocation,
    ExecutorPlace,
    ProcessSpec,
    SparkHome,
    Uri,
    driver_process,
    executor_process,
    ui_key,
)
from framework.spark.memory import SMALLEST_MEMORY_MIB

SECRET = "2f1d0c9e8b7a6f5e"
SPARK = SparkHome("3.5", "/opt/spark", "/opt/java", "/opt/python/bin/python3")
ENDPOINT = DriverEndpoint("10.0.0.1", 7001, 7002, 7003, 1024)
SHAPE = Resources.of(cpus=2.5, memory_mib=2048)
APPLICATION = Application(
    "/apps/app.py",
    arguments=("--name", "two words", "--conf"),
    py_files=("/apps/a.py", "/apps/b.zip"),
    files=("/data/words.txt", "https://example.org/x.csv"),
    conf={"spark.sql.shuffle.partitions": "4"},
    environment={"MODE": "fast"},
)


def make_driver(application: Application = APPLICATION, **changes: Any) -> ProcessSpec:
    """The driver's process for valid defaults."""
    given: dict[str, Any] = {
        "endpoint": ENDPOINT,
        "executors": [SHAPE] * 3,
        "secret": SECRET,
        "spark": SPARK,
        **changes,
    }
    return driver_process("words", application, **given)


def make_executor(
    application: Application = APPLICATION, spark: SparkHome = SPARK, size: Resources = SHAPE
) -> ProcessSpec:
    """An executor's process for valid defaults."""
    place = ExecutorPlace(7, "10.0.0.5", 31005)
    return executor_process(application, ENDPOINT, place, size, SECRET, spark, patience_seconds=90)


def properties_of(process: ProcessSpec) -> dict[str, str]:
    """The settings that the driver is given."""
    lines = process.secrets["STOKER_SPARK_PROPERTIES"].splitlines()
    return dict(line.split("=", 1) for line in lines)


def test_driver_command_is_spark_submit() -> None:
    """The driver's script gets spark-submit's arguments: options, application, its own arguments."""
    assert make_driver().argv[3:] == (
        "spark-driver",
        *("--py-files", "/apps/a.py,/apps/b.zip"),
        *("--files", "/data/words.txt,https://example.org/x.csv"),
        *("/apps/app.py", "--name", "two words", "--conf"),
    )


def test_jar_has_its_main_class() -> None:
    """A jar is submitted with its main class and further jars."""
    jar = Application("/apps/app.jar", main_class="org.example.Main", jars=("/lib/a.jar",))
    arguments = ("--class", "org.example.Main", "--jars", "/lib/a.jar", "/apps/app.jar")
    assert make_driver(jar).argv[4:] == arguments


def test_archives_and_packages_are_spark_submits() -> None:
    """spark-submit is given both; archives that are near are also unpacked before the driver starts."""
    more = replace(
        APPLICATION,
        py_files=(),
        files=(),
        archives=("/envs/env.tar.gz#env", "/envs/data.zip", "https://example.org/far.tgz#far"),
        packages=("org.example:a:1.0", "org.example:b:2.0"),
        repositories=("https://example.org/maven",),
    )
    process = make_driver(more)
    archives = "/envs/env.tar.gz#env,/envs/data.zip,https://example.org/far.tgz#far"
    assert process.argv[4:10] == (
        *("--archives", archives, "--packages", "org.example:a:1.0,org.example:b:2.0"),
        *("--repositories", "https://example.org/maven"),
    )
    near = "/envs/env.tar.gz#env\n/envs/data.zip#data.zip"
    assert process.environment["STOKER_ARCHIVES"] == near
    fetched = make_driver(more, fetched="file://{}".format)
    assert fetched.argv[5] == ".packed/env.tar.gz#env,.packed/data.zip,https://example.org/far.tgz#far"
    assert fetched.environment["STOKER_ARCHIVES"] == ".packed/env.tar.gz#env\n.packed/data.zip#data.zip"
    assert Uri("file:///envs/env.tar.gz", extract=False, name=".packed/env.tar.gz") in fetched.uris


@pytest.mark.parametrize("place", ["/data", "file:///data"])
def test_files_are_called_as_their_jobs_say(place: str) -> None:
    """Files, jars and Python's imports alike: they are in the driver's folder, by the name behind a #."""
    named = replace(
        APPLICATION,
        py_files=(f"{place}/a.py#b.py",),
        files=(f"{place}/conf.txt#renamed.txt", f"{place}/other.txt"),
        jars=(f"{place}/a.jar#b.jar",),
    )
    named.check()
    process = make_driver(named)
    assert process.argv[4:10] == (
        *("--py-files", "b.py"),
        *("--files", f"renamed.txt,{place}/other.txt"),
        *("--jars", "b.jar"),
    )
    lines = ["/data/a.py#b.py", "/data/conf.txt#renamed.txt", "/data/a.jar#b.jar"]
    assert process.environment["STOKER_ALIASES"].splitlines() == lines


def test_files_that_are_fetched_are_called_as_their_jobs_say() -> None:
    """They come by their own names, and get the others from there."""
    named = replace(APPLICATION, py_files=(), files=("/data/conf.txt#renamed.txt",))
    process = make_driver(named, fetched="file://{}".format)
    assert Uri("file:///data/conf.txt", extract=False, name="conf.txt") in process.uris
    assert process.argv[4:6] == ("--files", "renamed.txt")
    assert process.environment["STOKER_ALIASES"] == "conf.txt#renamed.txt"


@pytest.mark.parametrize(
    ("conf", "found"),
    [
        ({"spark.executor.resource.gpu.amount": "2"}, {"gpu": ["0", "1"]}),
        ({"spark.executor.resource.gpu.amount": "0"}, {}),
        (
            {
                "spark.executor.resource.gpu.amount": "2",
                "spark.executor.resource.gpu.discoveryScript": "/find",
                "spark.executor.resource.fpga.amount": "1",
            },
            {"fpga": ["0"]},
        ),
        ({"spark.executor.resource.gpu.amount": "2", "spark.resources.discoveryPlugin": "x.Y"}, {}),
    ],
)
def test_executors_are_told_their_resources(conf: dict[str, str], found: dict[str, list[str]]) -> None:
    """Those that Spark would look for in vain."""
    text = make_executor(replace(APPLICATION, conf=conf)).environment.get("STOKER_RESOURCES", "[]")
    assert {each["id"]["resourceName"]: each["addresses"] for each in json.loads(text)} == found


def test_driver_settings_fix_what_the_launch_depends_on() -> None:
    """Address, ports, sizes and authentication are set, beside the application's own settings."""
    settings = properties_of(make_driver())
    expected = {
        "spark.app.name": "words",
        "spark.master": "local-cluster[0,1,1664]",
        "spark.executor.memory": "1664m",
        "spark.executor.cores": "2",
        "spark.executor.instances": "3",
        "spark.cores.max": "6",
        "spark.driver.memory": "640m",
        "spark.driver.host": "10.0.0.1",
        "spark.driver.bindAddress": "10.0.0.1",
        "spark.driver.port": "7001",
        "spark.driver.blockManager.port": "7002",
        "spark.ui.port": "7003",
        "spark.ui.filters": "stoker.KeyFilter",
        "spark.stoker.KeyFilter.param.secret": ui_key(SECRET),
        "spark.driver.extraClassPath": "stoker-ui",
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.compress": "false",
        "spark.eventLog.logStageExecutorMetrics": "true",
        "spark.executor.metrics.pollingInterval": "1s",
        "spark.authenticate.secret": SECRET,
        "spark.network.crypto.enabled": "true",
        "spark.network.crypto.cipher": "AES/GCM/NoPadding",
        "spark.sql.shuffle.partitions": "4",
    }
    assert settings | expected == settings


def test_a_driver_asks_for_executors_while_it_runs() -> None:
    """Of our master, for its own job, within its bounds; its key is no argument, and the jar comes to it."""
    asking = DynamicAllocation(
        "https://10.0.0.9:8642", "/opt/stoker.jar", "job-7", "the-key", (0, 2, 9), "/etc/ca.pem"
    )
    conf = {"spark.decommission.enabled": "false", "spark.driver.extraClassPath": "/lib/own.jar"}
    process = make_driver(replace(APPLICATION, conf=conf), asking=asking, executors=[SHAPE])
    settings = properties_of(process)
    expected = {
        "spark.master": "spark+stokers://10.0.0.9:8642",
        "spark.driver.extraClassPath": "stoker-ui:/lib/own.jar:/opt/stoker.jar",
        "spark.stoker.job": "job-7",
        "spark.stoker.job.secret": "the-key",
        "spark.stoker.ca": "/etc/ca.pem",
        "spark.executor.memory": "1664m",
        "spark.dynamicAllocation.enabled": "true",
        "spark.dynamicAllocation.minExecutors": "0",
        "spark.dynamicAllocation.initialExecutors": "2",
        "spark.dynamicAllocation.maxExecutors": "9",
        "spark.dynamicAllocation.shuffleTracking.enabled": "true",
        "spark.storage.decommission.enabled": "true",
        "spark.decommission.enabled": "false",
        "spark.scheduler.minRegisteredResourcesRatio": "0.0",
        "spark.authenticate.secret": SECRET,
    }
    assert settings | expected == settings
    assert not {"spark.cores.max", "spark.executor.instances"} & settings.keys()
    assert "the-key" not in repr(process)
    elsewhere = replace(asking, jar="http://10.0.0.9:8642/v1/spark/4.3/stoker-backend.jar", certificates="")
    fetched = make_driver(fetched="file://{}".format, asking=elsewhere)
    assert properties_of(fetched)["spark.driver.extraClassPath"] == "stoker-ui:stoker-backend.jar"
    assert Uri(elsewhere.jar, extract=False) in fetched.uris


def test_executors_may_differ() -> None:
    """The driver waits for the task slots of all, and else knows the smallest; 0.3 cpus run a task."""
    shapes = [Resources.of(0.3, 1024), Resources.of(3.999, 4096), Resources.of(2.0, 2048)]
    settings = properties_of(make_driver(executors=shapes))
    assert {
        key: settings[f"spark.{key}"] for key in ("executor.cores", "executor.instances", "cores.max")
    } == {
        "executor.cores": "1",
        "executor.instances": "3",
        "cores.max": "6",
    }
    assert settings["spark.executor.memory"] == "640m"
    executor = make_executor(size=shapes[1])
    assert (executor.argv[9], executor.environment["SPARK_EXECUTOR_MEMORY"]) == ("3", "3686m")


def test_no_executor_is_given_less_than_spark_starts_with() -> None:
    """The minimum in the check of placements is the minimum for an executor's heap."""
    assert LEAST.memory_mib == SMALLEST_MEMORY_MIB


def test_driver_may_listen_elsewhere() -> None:
    """Behind an address translation the driver listens on an address of its own."""
    process = make_driver(endpoint=replace(ENDPOINT, bind_address="0.0.0.0"))  # noqa: S104  nothing listens
    assert properties_of(process)["spark.driver.bindAddress"] == "0.0.0.0"  # noqa: S104  nothing listens
    assert properties_of(process)["spark.driver.host"] == "10.0.0.1"


def test_defaults_give_way_to_the_application() -> None:
    """Unreserved settings are the application's to set, and its redaction only adds to ours."""
    conf = {"spark.app.name": "mine", "spark.redaction.regex": "salary"}
    settings = properties_of(make_driver(replace(APPLICATION, conf=conf)))
    assert settings["spark.app.name"] == "mine"
    assert settings["spark.redaction.regex"].startswith("(?i:secret|")
    assert settings["spark.redaction.regex"].endswith("|(?:salary)")


def test_the_filter_of_the_ui_comes_before_the_applications_classes() -> None:
    """The application's entries of the driver's class path are appended."""
    conf = {"spark.driver.extraClassPath": "/lib/a.jar:/lib/b.jar"}
    settings = properties_of(make_driver(replace(APPLICATION, conf=conf)))
    assert settings["spark.driver.extraClassPath"] == "stoker-ui:/lib/a.jar:/lib/b.jar"


def test_executors_have_the_key_to_the_ui() -> None:
    """They learn the application's id there."""
    assert make_executor().secrets == {"_SPARK_AUTH_SECRET": SECRET, "STOKER_UI_KEY": ui_key(SECRET)}


def test_settings_with_odd_characters_stay_one_line() -> None:
    """Backslashes, line ends, blanks and characters beyond ASCII are escaped as Java reads them."""
    odd = replace(APPLICATION, conf={"spark.odd": "a\\b=c\n 😀é"})
    text = make_driver(odd).secrets["STOKER_SPARK_PROPERTIES"]
    assert "spark.odd=a\\\\b=c\\n\\ \\ud83d\\ude00\\u00e9\n" in text


def test_settings_keep_the_blanks_around_them() -> None:
    """Spark takes them away in a file, but not on its command line, where nothing else is."""
    spaced = replace(APPLICATION, conf={"spark.a": "\t", "spark.b": "  é ", "spark.c": "x y\n"}, arguments=())
    process = make_driver(spaced)
    assert process.argv[4:8] == ("--conf", "spark.a=\t", "--conf", "spark.b=  é ")
    settings = properties_of(process)
    assert ("spark.a" in settings, "spark.b" in settings, settings["spark.c"]) == (False, False, "x\\ y\\n")
    assert process.environment["LC_ALL"] == "C.UTF-8"
    assert "LC_ALL" not in make_driver().environment


def test_driver_tells_workers_their_python() -> None:
    """Executors' Python workers take the interpreter of their own machines, the driver that of its own."""
    environment = make_driver(executor_python="python3.11").environment
    assert environment["PYSPARK_PYTHON"] == "python3.11"
    assert environment["PYSPARK_DRIVER_PYTHON"] == "/opt/python/bin/python3"
    assert environment["MODE"] == "fast"


def test_driver_on_the_cluster_fetches_its_files() -> None:
    """A driver elsewhere gets paths as URIs and finds them in its folder; real URIs it is left to open."""
    spark = replace(SPARK, home="spark-3.5", uris=("https://example.org/spark-3.5.tgz",))
    process = make_driver(spark=spark, fetched="file://{}".format)
    paths = ("/apps/app.py", "/apps/a.py", "/apps/b.zip", "/data/words.txt")
    assert process.uris == (
        Uri("https://example.org/spark-3.5.tgz", extract=True),
        *(Uri(f"file://{path}", extract=False, name=Path(path).name) for path in paths),
    )
    assert process.argv[4:] == (
        *("--py-files", "a.py,b.zip", "--files", "words.txt,https://example.org/x.csv"),
        *("app.py", "--name", "two words", "--conf"),
    )


def test_files_of_one_name_cannot_be_fetched() -> None:
    """Two files with one name would overwrite each other in the driver's folder."""
    twice = replace(APPLICATION, files=("/elsewhere/a.py",))
    with pytest.raises(ValueError, match=r"two files are named a\.py"):
        make_driver(twice, fetched="file://{}".format)


def test_executor_command_names_driver_and_executor() -> None:
    """The executor's script gets the driver's address, its own identity, and the time to wait."""
    arguments = ("10.0.0.1", "7001", "7003", "7", "10.0.0.5", "2", "90", "", "0")
    assert make_executor().argv[3:] == ("spark-executor", *arguments)


def test_executor_environment() -> None:
    """The executor gets its heap, address, block manager's port, module options and the user's variables."""
    environment = make_executor().environment
    options = environment["SPARK_EXECUTOR_OPTS"].split()
    assert environment["SPARK_EXECUTOR_MEMORY"] == "1664m"
    assert environment["SPARK_LOCAL_IP"] == "10.0.0.5"
    assert environment["SPARK_HOME"] == "/opt/spark"
    assert environment["JAVA_HOME"] == "/opt/java"
    assert environment["MODE"] == "fast"
    assert "-Dspark.blockManager.port=31005" in options
    assert "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED" in options
    # Java 8 has no modules: it must be told to overlook the options before it meets them.
    assert options[0] == "-XX:+IgnoreUnrecognizedVMOptions"


def test_executor_honours_spark_settings_for_executors() -> None:
    """Settings that a cluster manager would apply to an executor's command are applied."""
    conf = {
        "spark.executor.extraJavaOptions": "-verbose:gc",
        "spark.executor.extraClassPath": "/lib/a.jar",
        "spark.executorEnv.COLOUR": "red",
    }
    environment = make_executor(replace(APPLICATION, conf=conf)).environment
    assert "-verbose:gc" in environment["SPARK_EXECUTOR_OPTS"]
    assert environment["SPARK_EXECUTOR_CLASSPATH"] == "/lib/a.jar"
    assert environment["COLOUR"] == "red"


def test_java_is_left_to_the_machine_when_not_named() -> None:
    """Without a Java home the machine's own java is taken."""
    assert "JAVA_HOME" not in make_executor(spark=replace(SPARK, java_home=None)).environment


@pytest.mark.parametrize("process", [make_driver(), make_executor()], ids=["driver", "executor"])
def test_secret_is_only_among_the_secrets(process: ProcessSpec) -> None:
    """The job's secret is in no command, no open variable and no representation."""
    assert any(SECRET in value for value in process.secrets.values())
    assert SECRET not in repr((process.argv, dict(process.environment), process.uris))
    assert SECRET not in repr(process)


def test_an_application_can_say_its_overhead() -> None:
    """Python workers' memory is then no heap, for any memory size."""
    overheads = {"spark.executor.memoryOverhead": "1g", "spark.driver.memoryOverhead": "500"}
    application = replace(APPLICATION, conf=overheads)
    settings = properties_of(make_driver(application))
    assert (settings["spark.executor.memory"], settings["spark.driver.memory"]) == ("1024m", "524m")
    assert make_executor(application).environment["SPARK_EXECUTOR_MEMORY"] == "1024m"
    with pytest.raises(ValueError, match=r"executor memory of 1500 MiB.*works is 1536 MiB"):
        application.heap_mib(1500)
    with pytest.raises(ValueError, match=r"spark\.executor\.memoryOverhead=much: should be"):
        make_executor(replace(APPLICATION, conf={"spark.executor.memoryOverhead": "much"}))


def test_memory_beside_the_heap_is_part_of_the_memory() -> None:
    """Settings' Python and off-heap memory is not taken in addition, which nothing would count."""
    off_heap = {"spark.memory.offHeap.enabled": "true", "spark.memory.offHeap.size": "1g"}
    python = {"spark.executor.pyspark.memory": "512m"}
    for conf, heap in (({}, 3686), (python, 3200), (off_heap, 2688), ({**off_heap, **python}, 2176)):
        assert replace(APPLICATION, conf=conf).heap_mib(4096) == heap
    off = {**off_heap, "spark.memory.offHeap.enabled": "false"}
    assert replace(APPLICATION, conf=off).heap_mib(4096) == 3686
    with pytest.raises(ValueError, match=r"executor memory of 1500 MiB.*works is 1920 MiB"):
        replace(APPLICATION, conf=off_heap).heap_mib(1500)
    replace(APPLICATION, conf={**off_heap, "spark.executor.memoryOverhead": "1g"}).check()
    with pytest.raises(ValueError, match=r"memoryOverhead is 1023 MiB, less than .* 1024 MiB together"):
        replace(APPLICATION, conf={**off_heap, "spark.executor.memoryOverhead": "1023m"}).check()


def test_an_executor_that_was_given_less_starts_all_the_same() -> None:
    """A policy may give it less than the overhead that the application said leaves room for."""
    application = replace(APPLICATION, conf={"spark.executor.memoryOverhead": "1g"})
    smallest = make_executor(application, size=Resources.of(1, SMALLEST_MEMORY_MIB))
    assert smallest.environment["SPARK_EXECUTOR_MEMORY"] == "512m"


def test_too_little_memory_is_told_apart() -> None:
    """The error names the driver or the executor."""
    with pytest.raises(ValueError, match="driver memory of 500 MiB"):
        make_driver(endpoint=replace(ENDPOINT, memory_mib=500))
    with pytest.raises(ValueError, match="executor memory of 500 MiB"):
        make_driver(executors=[SHAPE, Resources.of(2.5, 500)])
    with pytest.raises(ValueError, match="executor memory of 500 MiB"):
        make_executor(size=Resources.of(2.5, 500))
