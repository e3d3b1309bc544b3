"""The commands of Spark drivers and executors, as values. Starts nothing, reads no clock and no environment.

The driver runs with master `local-cluster[0,1,M]`: Spark's own standalone master inside the driver, without a
single worker, so that only the executors that we launch can join. Each of those is a
`CoarseGrainedExecutorBackend` of its own, as Spark's cluster managers start it.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from conf.uploaded_file import PACKED
from environment.resources import Resources
from framework.spark.application import Application, alias_parts, archive_parts
from framework.spark.conf_check import trimmed
from framework.spark.driver.ui_key import ui_filter, ui_key
from framework.spark.driver_properties import (
    CIPHER,
    DriverEndpoint,
    DynamicAllocation,
    asking_properties,
    driver_properties,
    executor_heap,
)
from framework.spark.executor_resources import given_addresses
from framework.spark.install.homes import SparkHome
from framework.spark.memory import executor_cores
from framework.spark.properties_file import properties_text
from profiles.executor_attributes import ExecutorAttributes

_DRIVER_SCRIPT = Path(__file__).with_name("driver.sh").read_text()
_EXECUTOR_SCRIPT = Path(__file__).with_name("executor.sh").read_text()

# Module options that Spark sets for itself (its JavaModuleOptions); its own launcher passes them to drivers
# only. Java 8 knows no modules: there the first option makes it ignore the others, as in Spark's own driver.
_OPENED_PACKAGES = (
    *(f"java.base/java.{package}" for package in ("lang", "lang.invoke", "lang.reflect", "io", "net", "nio")),
    *(f"java.base/java.{package}" for package in ("util", "util.concurrent", "util.concurrent.atomic")),
    *(f"java.base/{package}" for package in ("jdk.internal.ref", "sun.nio.ch", "sun.nio.cs")),
    *(f"java.base/{package}" for package in ("sun.security.action", "sun.util.calendar")),
    "java.security.jgss/sun.security.krb5",
)
_MODULE_OPTIONS = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    *(f"--add-opens={package}=ALL-UNNAMED" for package in _OPENED_PACKAGES),
    "-Djdk.reflect.useDirectMethodHandle=false",
    # From here on of 4.x, and without meaning before it.
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.allocator.type=pooled",
    "--enable-native-access=ALL-UNNAMED",
)


@dataclass(frozen=True, slots=True)
class ExecutorPlace:
    """One executor on one VM. `id` is never used twice in a job, not even for a relaunch."""

    id: int
    address: str
    """IP address of the VM; the executor listens on it, and the driver and other executors reach it there."""
    block_manager_port: int
    application_id: str = ""
    """The application's id in Spark; empty where it has to be requested from the driver's UI."""
    profile: int = 0
    """The number of its resource profile in Spark."""
    attributes: ExecutorAttributes | None = None
    """Facts for Spark's event log, by which an audit prices it as the bill does."""


@dataclass(frozen=True, slots=True)
class Uri:
    """A file to bring into the process's folder before it starts."""

    value: str
    extract: bool
    name: str = ""
    """Its name in the sandbox; empty: the last part of the URI."""


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """A process to start in a folder of its own. `secrets` are environment too, never to be shown."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    secrets: Mapping[str, str] = field(repr=False)
    uris: tuple[Uri, ...] = ()
    image: str | None = None
    """The container image that it runs in, where one is configured."""
    user: str = ""
    """The user that it runs as; empty: the framework's default."""


def driver_process(
    name: str,
    application: Application,
    endpoint: DriverEndpoint,
    executors: Sequence[Resources],
    secret: str,
    spark: SparkHome,
    executor_python: str | None = None,
    fetched: Callable[[str], str] | None = None,
    asking: DynamicAllocation | None = None,
) -> ProcessSpec:
    """The driver's process, the same for a driver on this host and for one that is a task.

    `name` is the application's in Spark's UI, `endpoint` says the driver's address, ports and memory. It
    waits for all `executors`, one at least, before its first task. They need not be alike: each tells the
    driver itself how many tasks it runs at once. By `secret`, made anew for every job, driver and executors
    know each other. `spark` is as seen by the machine on which the driver runs, `executor_python` the
    interpreter of the executors' machines, when it is not `spark.python`. With `fetched`, the driver runs
    elsewhere: files that are paths are brought to it by `ProcessSpec.uris`, from where that says. With
    `asking`, the driver asks for executors itself, and waits for none; all that have profile 0 are alike.

    ValueError when memory is not enough for the driver or an executor, or files cannot be fetched.
    """
    files = _Files(application, fetched)
    properties = driver_properties(name, application, endpoint, executors, secret)
    uris = (*_archives(spark), *files.uris)
    if asking is not None:
        jar = asking.jar
        if fetched is not None:
            jar = PurePosixPath(urlsplit(jar).path).name
            uris = (*uris, Uri(asking.jar, extract=False))
        properties = asking_properties(properties, asking, jar, application.conf)
    # Of a file Spark takes the blanks around values away; none of these is secret (`conf_check`).
    outside = {key: value for key, value in properties.items() if trimmed(value) != value}
    spaced = [text for key, value in outside.items() for text in ("--conf", f"{key}={value}")]
    properties = {key: value for key, value in properties.items() if key not in outside}
    arguments = (*spaced, *_submit_arguments(application, files))
    environment = {
        # Java reads its arguments as the locale says, which without a name knows ASCII alone.
        **({} if all(text.isascii() for text in arguments) else {"LC_ALL": "C.UTF-8"}),
        **application.environment,
        **_spark_environment(spark, endpoint.bind_address or endpoint.host),
        "SPARK_LOCAL_HOSTNAME": endpoint.host,
        # The driver tells every executor's workers which Python they are.
        "PYSPARK_PYTHON": executor_python or spark.python,
        "PYSPARK_DRIVER_PYTHON": spark.python,
        "STOKER_UI_FILTER": ui_filter(spark.line),
        "STOKER_ALIASES": "\n".join(files.named(application.aliased)),
        "STOKER_ARCHIVES": "\n".join(files.near(application.archives)),
        **({} if fetched is None else {"STOKER_TASK": "yes"}),
    }
    return ProcessSpec(
        argv=("bash", "-c", _DRIVER_SCRIPT, "spark-driver", *arguments),
        environment=environment,
        secrets={"STOKER_SPARK_PROPERTIES": properties_text(properties)},
        uris=uris,
        image=spark.image,
    )


def executor_process(
    application: Application,
    endpoint: DriverEndpoint,
    executor: ExecutorPlace,
    size: Resources,
    secret: str,
    spark: SparkHome,
    patience_seconds: float = 120.0,
) -> ProcessSpec:
    """One executor's process; it waits up to `patience_seconds` for the driver, then gives up.

    Its exit codes before Spark takes over: 3 when the application set a local master in its code, 4 when the
    driver did not answer in time, 5 when the driver's Spark is of another version.

    ValueError when memory is not enough for the executor.
    """
    resources = given_addresses(application.conf) if executor.profile == 0 else ""
    environment = {
        **_executor_variables(application),
        **({"STOKER_RESOURCES": resources} if resources else {}),
        **_spark_environment(spark, executor.address),
        "SPARK_LOCAL_HOSTNAME": executor.address,
        "SPARK_EXECUTOR_MEMORY": f"{executor_heap(application, size.memory_mib)}m",
        "SPARK_EXECUTOR_OPTS": _executor_options(application, executor),
        **(executor.attributes.variables if executor.attributes else {}),
    }
    arguments = (
        *(endpoint.host, endpoint.port, endpoint.ui_port),
        *(executor.id, executor.address, executor_cores(size.cpus), math.ceil(patience_seconds)),
        *(executor.application_id, executor.profile),
    )
    return ProcessSpec(
        argv=("bash", "-c", _EXECUTOR_SCRIPT, "spark-executor", *map(str, arguments)),
        environment=environment,
        secrets={"_SPARK_AUTH_SECRET": secret, "STOKER_UI_KEY": ui_key(secret)},
        uris=_archives(spark),
        image=spark.image,
    )


class _Files:
    """An application's files as the driver sees them: where they are, or fetched into its folder."""

    def __init__(self, application: Application, fetched: Callable[[str], str] | None) -> None:
        self.uris: tuple[Uri, ...] = ()
        self._fetch = fetched is not None
        if fetched is not None:
            self.uris = tuple(
                Uri(fetched(path), extract=False, name=name)
                for name, path in _local_files(application).items()
            )

    def __call__(self, path: str) -> str:
        return PurePosixPath(path).name if self._fetch and not urlsplit(path).scheme else path

    def joined(self, paths: tuple[str, ...]) -> str:
        parts = map(alias_parts, paths)
        return ",".join(alias or self(place) for place, alias in parts)

    def packed(self, archive: str) -> str:
        """Path of an archive for the driver, which does not clash with the folder that has its name."""
        name = self(archive)
        return name if name == archive else f"{PACKED}/{name}"

    def near(self, archives: tuple[str, ...]) -> list[str]:
        """Archives that the driver finds on its machine."""
        local = (archive for archive in archives if urlsplit(archive).scheme in ("", "file"))
        return ["#".join((_path(self.packed(place)), folder)) for place, folder in map(archive_parts, local)]

    def named(self, parts: Iterable[tuple[str, str]]) -> list[str]:
        """Files of the driver's machine, each with the name that it has in the driver's folder."""
        return ["#".join((_path(self(place)), name)) for place, name in parts]


def _path(place: str) -> str:
    """The path of a file of this machine, which may be given as a URI."""
    return unquote(urlsplit(place).path) if place.startswith("file:") else place


def _local_files(application: Application) -> dict[str, str]:
    """The files to bring to a driver elsewhere, by their names in its folder."""
    found: dict[str, str] = {}
    named = (*application.py_files, *application.files, *application.jars)
    plain = (application.app, *(alias_parts(file)[0] for file in named))
    archives = (archive_parts(archive)[0] for archive in application.archives)
    for folder, paths in (("", plain), (f"{PACKED}/", archives)):
        for path in (path for path in paths if not urlsplit(path).scheme):
            name = PurePosixPath(path).name
            if found.setdefault(f"{folder}{name}", path) != path:
                raise ValueError(
                    f"two files are named {name}: a driver on the cluster needs all of them in one folder"
                )
    return found


def _submit_arguments(application: Application, files: _Files) -> list[str]:
    options = {
        "--class": application.main_class,
        "--py-files": files.joined(application.py_files),
        "--files": files.joined(application.files),
        "--jars": files.joined(application.jars),
        "--archives": ",".join(map(files.packed, application.archives)),
        "--packages": ",".join(application.packages),
        "--repositories": ",".join(application.repositories),
    }
    given = [text for option, value in options.items() if value for text in (option, value)]
    return [*given, files(application.app), *application.arguments]


def _spark_environment(spark: SparkHome, address: str) -> dict[str, str]:
    java = {"JAVA_HOME": spark.java_home} if spark.java_home else {}
    return {"SPARK_HOME": spark.home, "SPARK_LOCAL_IP": address, **java}


def _executor_variables(application: Application) -> dict[str, str]:
    """The application's variables and those that its Spark settings mean for executors."""
    conf, prefix = application.conf, "spark.executorEnv."
    named = {key.removeprefix(prefix): value for key, value in conf.items() if key.startswith(prefix)}
    paths = {
        "SPARK_EXECUTOR_CLASSPATH": conf.get("spark.executor.extraClassPath"),
        "LD_LIBRARY_PATH": conf.get("spark.executor.extraLibraryPath"),
    }
    return {**application.environment, **named, **{name: path for name, path in paths.items() if path}}


def _executor_options(application: Application, executor: ExecutorPlace) -> str:
    options = (
        *_MODULE_OPTIONS,
        application.conf.get("spark.executor.defaultJavaOptions", ""),
        application.conf.get("spark.executor.extraJavaOptions", ""),
        "-Dspark.authenticate=true",
        "-Dspark.network.crypto.enabled=true",
        f"-Dspark.network.crypto.cipher={CIPHER}",
        f"-Dspark.blockManager.port={executor.block_manager_port}",
        "-Dspark.port.maxRetries=0",
    )
    return " ".join(option for option in options if option)


def _archives(spark: SparkHome) -> tuple[Uri, ...]:
    return tuple(Uri(uri, extract=True) for uri in spark.uris)
