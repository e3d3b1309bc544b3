"""Spark on remote machines: commands of drivers and executors, and the drivers that run on this host.

A command depends on its arguments alone (`command_lines`); only `driver` and `java` touch processes.
Nothing here knows Mesos: a `ProcessSpec` becomes a task elsewhere.
"""

from framework.spark.application import RESERVED_ENVIRONMENT, Application, alias_parts, archive_parts
from framework.spark.command_lines import ExecutorPlace, ProcessSpec, Uri, driver_process, executor_process
from framework.spark.driver.driver import (
    DriverPlace,
    DriverStatus,
    HostError,
    TooLateError,
    driver_status,
    start_driver,
    stop_driver,
)
from framework.spark.driver.last_error import TAIL, last_words
from framework.spark.driver.ui_key import DriverUi, ui_key
from framework.spark.driver_properties import DriverEndpoint, DynamicAllocation
from framework.spark.install.homes import (
    SparkHome,
    SparkHomes,
    connect_path,
    line_of,
    local_spark_home,
    python_path,
)
from framework.spark.install.java import find_java
from framework.spark.memory import SMALLEST_MEMORY_MIB, executor_cores, heap_mib
from framework.spark.uri_schemes import unserved
from profiles.executor_attributes import ExecutorAttributes

__all__ = [
    "RESERVED_ENVIRONMENT",
    "SMALLEST_MEMORY_MIB",
    "TAIL",
    "Application",
    "DriverEndpoint",
    "DriverPlace",
    "DriverStatus",
    "DriverUi",
    "DynamicAllocation",
    "ExecutorAttributes",
    "ExecutorPlace",
    "HostError",
    "ProcessSpec",
    "SparkHome",
    "SparkHomes",
    "TooLateError",
    "Uri",
    "alias_parts",
    "archive_parts",
    "connect_path",
    "driver_process",
    "driver_status",
    "executor_cores",
    "executor_process",
    "find_java",
    "heap_mib",
    "last_words",
    "line_of",
    "local_spark_home",
    "python_path",
    "start_driver",
    "stop_driver",
    "ui_key",
    "unserved",
]
