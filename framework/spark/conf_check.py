"""Checks the settings of an application, before anything is launched for it.

`treatments` defines Stoker's treatment of each setting.
"""

import re
import shlex
from collections.abc import Mapping

from conf.util.counted import counted
from framework.spark.executor_resources import executor_resources
from framework.spark.memory import executor_cores
from framework.spark.property_values import factor, number, seconds, size_bytes
from framework.spark.settings_table import all_settings, current
from framework.spark.treatments import treatment

#: Options of Java that come behind the heap of a process, so that another heap there would replace it, and
#: the setting for a heap. Spark checks the first four, too.
_JAVA_OPTIONS = {
    "spark.driver.defaultJavaOptions": "spark.driver.memory",
    "spark.driver.extraJavaOptions": "spark.driver.memory",
    "spark.executor.defaultJavaOptions": "spark.executor.memory",
    "spark.executor.extraJavaOptions": "spark.executor.memory",
    "spark.executorEnv._JAVA_OPTIONS": "spark.executor.memory",
}
#: Variables with options of Java. Those of the last come behind the command's own.
_JAVA_VARIABLES = ("JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS")
#: A heap: the launcher takes -mx for -Xmx. Beside -Xmx no other option bounds one (-XX:MaxRAM,
#: -XX:MaxRAMPercentage, -XX:+AggressiveHeap and -XX:Flags=FILE have no effect), and -Xss and -ss are stacks.
_HEAP = re.compile(r"-mx|.*(?:Xmx|MaxHeapSize)", re.DOTALL)
_OPTIONS_FILE = re.compile(r"@|-XX:VMOptionsFile=")
#: The heap with which a JVM begins.
_FIRST_HEAP = re.compile(r"(?<![\w=-])-(?:X?ms|XX:(?:Initial|Min)HeapSize=)([0-9]{1,15}[kKmMgGtT]?)")
#: Parts of a heap.
_FRACTIONS = ("spark.memory.fraction", "spark.memory.storageFraction")
#: A whole number as Java reads it.
_WHOLE = re.compile(r"[+-]?[0-9]+", re.ASCII)
#: How long Spark waits for an executor, and the interval of its heartbeats: the default, and the unit of a
#: bare number.
_HEARTBEAT = {"spark.network.timeout": (120.0, "s"), "spark.executor.heartbeatInterval": (10.0, "ms")}
#: Spark masks settings with matching names in its UI and its event log; this is its own default.
REDACTED = "(?i:secret|password|token|access[.]?key)"


def check_conf(conf: Mapping[str, str]) -> None:
    """Raise ValueError for a setting that no application can have, or not with that value."""
    for key, value in conf.items():
        _check_name(key, value)
        _check_kind(key, value)
        if trimmed(value) != value and (re.search(REDACTED, key) or "=" in key):
            raise ValueError(
                f"conf: {key}: begins or ends with a blank, which Spark removes in its files, and neither a "
                "secret nor a name with = can stand on a command line"
            )
    for key, instead in _JAVA_OPTIONS.items():
        options = conf.get(key, "")
        check_java_options(f"conf: {key}", options, instead)
        if key.startswith("spark.executor.") and "-Dspark" in options:
            raise ValueError(
                f"conf: {key} is not allowed to set Spark options (was {options!r}). Give them in conf by "
                "their own names"
            )
    _check_heartbeat(conf)
    for key in _FRACTIONS:
        if (text := conf.get(key, "").strip()) and not 0 <= number(key, text) <= 1:
            raise ValueError(f"conf: {key} should be between 0 and 1 (was {text})")


def check_resources(conf: Mapping[str, str], resources: Mapping[str, float], cpus: float) -> None:
    """Raise ValueError where Spark's settings of resources exceed the resources of the executors on VMs.

    `cpus` are the fewest that an executor may have: no task runs on one with fewer cores than a task takes.
    """
    name = "spark.task.cpus"
    if (text := conf.get(name, "").strip()) and factor(name, text) > executor_cores(cpus):
        raise ValueError(
            f"conf: {name}={text} is more than the {counted(executor_cores(cpus), 'core')} of an executor "
            f"of {counted(cpus, 'cpu')}: raise cpus"
        )
    for name, amount in executor_resources(conf, 1).items():
        if resources.get(name, 0.0) < amount:
            raise ValueError(
                f"conf: executors have {amount:g} of {name} by Spark's settings, but take "
                f"{resources.get(name, 0.0):g} from their VMs: set resources: {{{name}: {amount:g}}}"
            )


def check_java_options(where: str, options: str, instead: str = "spark.executor.memory") -> None:
    """Raise ValueError at once for Java options with a heap, which Spark rejects when the job has executors.

    The reason is Spark's. Options in files could have one, too.
    """
    try:
        each = shlex.split(options)
    except ValueError:  # a quotation mark without its second
        each = options.split()
    if any(map(_HEAP.match, each)):
        raise ValueError(
            f"{where} is not allowed to specify max heap memory settings (was {options!r}). Use "
            f"{instead} instead: a job file's memory, or its driver's, which includes Spark's overhead"
        )
    if found := next(filter(_OPTIONS_FILE.match, each), None):
        raise ValueError(f"{where}: {found} reads options from a file, which may set a heap: give them here")


def check_first_heap(
    conf: Mapping[str, str], environment: Mapping[str, str], process: str, heap_mib: int
) -> None:
    """Raise ValueError where the JVM of an executor or driver would begin with more than its heap."""
    keys = [f"spark.{process}.{kind}JavaOptions" for kind in ("default", "extra")]
    keys += [f"spark.executorEnv.{name}" for name in _JAVA_VARIABLES if process == "executor"]
    options = {f"conf: {key}": conf.get(key, "") for key in keys}
    options |= {f"environment: {name}": environment.get(name, "") for name in _JAVA_VARIABLES}
    for key, text in options.items():
        for size in _FIRST_HEAP.findall(text):
            if size_bytes(key, size) > heap_mib << 20:
                raise ValueError(
                    f"{key} starts the heap with {size}, but it has {heap_mib} MiB at most: request "
                    "more memory, or set less there"
                )


def trimmed(value: str) -> str:
    """A value as Spark reads it from a file: without blanks around it, but with ends of lines."""
    unseen = "".join(map(chr, range(33))).replace("\n", "").replace("\r", "")
    return value.strip(unseen)


def _check_name(key: str, value: str) -> None:
    if not key.startswith("spark."):
        raise ValueError(
            f"conf: {key!r} is not a Spark setting: it must begin with 'spark.' (Hadoop's with "
            "'spark.hadoop.')"
        )
    if key != key.strip():
        raise ValueError(f"conf: {key!r} is not a Spark setting: its name begins or ends with a blank")
    found = treatment(key)
    if why := found.refusal(value):
        raise ValueError(f"conf: {key}{f'={value}' if found.harmless else ''}: {why}")
    if found.in_conf or found.does == "refuses":
        return
    if found.does == "maps":
        raise ValueError(f"conf: {key} is reserved: Stoker sets it; a job's field for it is {found.why}")
    raise ValueError(f"conf: {key} is reserved, and no job may set it: {found.why}")


def _check_kind(key: str, value: str) -> None:
    name, text = current(key, value)
    text = text.strip()
    setting = all_settings().get(name)
    if setting is None or not text or "${" in text:  # which names another setting
        return
    if setting.kind == "boolean" and text.lower() not in ("true", "false"):
        raise ValueError(f"conf: {key}={value}: should be true or false")
    if setting.kind == "whole number" and not _WHOLE.fullmatch(text):
        raise ValueError(f"conf: {key}={value}: should be a whole number")


def _check_heartbeat(conf: Mapping[str, str]) -> None:
    said = {key: conf.get(key, "").strip() for key in _HEARTBEAT}
    if not any(said.values()):
        return
    timeout, interval = (
        seconds(key, text, unit) if (text := said[key]) else usual
        for key, (usual, unit) in _HEARTBEAT.items()
    )
    if timeout <= interval:
        raise ValueError(
            f"conf: spark.network.timeout of {timeout:g} s should be more than "
            f"spark.executor.heartbeatInterval of {interval:g} s"
        )
