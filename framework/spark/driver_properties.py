"""The settings of Spark drivers: those that the launch depends on, over the application's own.

A driver with a fixed number of executors has Spark's own standalone master in it, without workers; one that
asks for executors while it runs has our part of Spark (`StokerBackend.scala`). `launch.py` builds the
processes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from environment.resources import Resources
from framework.spark.application import Application
from framework.spark.conf_check import REDACTED
from framework.spark.driver.ui_key import job_tag, ui_properties
from framework.spark.memory import SMALLEST_HEAP_MIB, SMALLEST_OVERHEAD_MIB, executor_cores

#: Spark's own default is AES/CTR, whose messages can be changed on their way (CVE-2025-55039). From 3.5.2 on.
CIPHER = "AES/GCM/NoPadding"


@dataclass(frozen=True, slots=True)
class DriverEndpoint:
    """Address of a driver, and its size. All ports are fixed beforehand, free and different."""

    host: str
    """Its address for executors."""
    port: int
    block_manager_port: int
    ui_port: int
    memory_mib: int
    bind_address: str | None = None
    """The address it listens on, when that is not `host`."""


@dataclass(frozen=True, slots=True)
class DynamicAllocation:
    """Dynamic allocation: the daemon that a driver asks for executors, for which job, in which bounds."""

    url: str
    """The daemon's address, http://HOST:PORT."""
    jar: str
    """The driver's location of Stoker's part of Spark (`backend_jar`): a path, or a URL that is fetched for
    it."""
    job: str
    key: str = field(repr=False)
    """The secret by which the daemon recognises the driver."""
    bounds: tuple[int, int, int]
    """Number of executors at least, at first and at most."""
    certificates: str = ""
    """A PEM file of the authorities that sign the daemon's certificate; empty: Java's own."""


def driver_properties(
    name: str,
    application: Application,
    endpoint: DriverEndpoint,
    executors: Sequence[Resources],
    secret: str,
) -> dict[str, str]:
    """All settings: defaults, then the application's, then those that the launch depends on."""
    defaults = {
        "spark.app.name": name,
        # The first task waits until all executors are there, or the driver has waited long enough.
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
        "spark.ui.killEnabled": "false",  # pages are there to be looked at
        # One file for every reader; from 4.0 on Spark makes a folder of several packed ones.
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.compress": "false",
        # Peaks of executors' memory are in it, of samples that are made more often than heartbeats are sent.
        "spark.eventLog.logStageExecutorMetrics": "true",
        "spark.executor.metrics.pollingInterval": "1s",
        # Blocks of an executor that is to go move to others first.
        "spark.decommission.enabled": "true",
        "spark.storage.decommission.enabled": "true",
        "spark.storage.decommission.rddBlocks.enabled": "true",
        "spark.storage.decommission.shuffleBlocks.enabled": "true",
        # So often it is seen that all of it has moved.
        "spark.storage.decommission.replicationReattemptInterval": "5s",
    }
    conf = {**defaults, **application.conf}
    redacted = conf.get("spark.redaction.regex")
    # Spark's settings know but one size: where executors differ, that of the smallest, as all have that.
    heap = min(executor_heap(application, executor.memory_mib) for executor in executors)
    cores = [executor_cores(executor.cpus) for executor in executors]
    return {
        **conf,
        "spark.redaction.regex": f"{REDACTED}|(?:{redacted})" if redacted else REDACTED,
        "spark.master": f"local-cluster[0,1,{heap}]",
        "spark.executor.instances": str(len(executors)),
        "spark.executor.cores": str(min(cores)),
        "spark.executor.memory": f"{heap}m",
        "spark.cores.max": str(sum(cores)),
        "spark.driver.memory": f"{application.heap_mib(endpoint.memory_mib, 'driver')}m",
        "spark.dynamicAllocation.enabled": "false",
        "spark.shuffle.service.enabled": "false",
        # Two jobs that begin in one second would have one id, and event logs of one name. From 4.0 on.
        "spark.deploy.appIdPattern": f"app-%s-%04d-{job_tag(secret)}",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": "events",  # in the driver's folder
        **_network_properties(endpoint),
        **ui_properties(secret, conf.get("spark.driver.extraClassPath", "")),
        "spark.authenticate": "true",
        "spark.authenticate.secret": secret,
        # The driver sends executors all its settings, the secret among them: in clear text without this.
        "spark.network.crypto.enabled": "true",
        "spark.network.crypto.cipher": CIPHER,
    }


def asking_properties(
    fixed: Mapping[str, str], asking: DynamicAllocation, jar: str, conf: Mapping[str, str]
) -> dict[str, str]:
    """The settings of a driver that asks for executors while it runs, made of those of one that has them all.

    There is no shuffle service: shuffles are kept track of, and an executor that has some is not given back
    until they are of no more use.
    """
    least, first, most = asking.bounds
    # It begins with the executors that are there; others join while it runs.
    defaults = {"spark.scheduler.minRegisteredResourcesRatio": "0.0"}
    fixed_numbers = ("spark.cores.max", "spark.executor.instances")
    return {
        **{key: value for key, value in fixed.items() if key not in fixed_numbers},
        **{key: value for key, value in defaults.items() if key not in conf},
        "spark.master": f"spark+stoker{asking.url.removeprefix('http')}",
        "spark.driver.extraClassPath": f"{fixed['spark.driver.extraClassPath']}:{jar}",
        "spark.stoker.job": asking.job,
        "spark.stoker.job.secret": asking.key,
        **({"spark.stoker.ca": asking.certificates} if asking.certificates else {}),
        "spark.dynamicAllocation.enabled": "true",
        "spark.dynamicAllocation.minExecutors": str(least),
        "spark.dynamicAllocation.initialExecutors": str(first),
        "spark.dynamicAllocation.maxExecutors": str(most),
        "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    }


def _network_properties(endpoint: DriverEndpoint) -> dict[str, str]:
    return {
        "spark.driver.host": endpoint.host,
        "spark.driver.bindAddress": endpoint.bind_address or endpoint.host,
        "spark.driver.port": str(endpoint.port),
        "spark.driver.blockManager.port": str(endpoint.block_manager_port),
        "spark.ui.enabled": "true",
        "spark.ui.port": str(endpoint.ui_port),
        "spark.port.maxRetries": "0",  # executors look nowhere else
    }


def executor_heap(application: Application, memory_mib: int) -> int:
    """The heap (MiB) of an executor, which a policy may have given less memory than it asked for."""
    room = max(memory_mib - SMALLEST_HEAP_MIB, SMALLEST_OVERHEAD_MIB)
    return application.heap_mib(memory_mib, most_overhead=room)
