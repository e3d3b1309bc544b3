"""Stoker's treatment of each of Spark's settings: the one table.

A setting that the table does not name, and that stands for none that it names, is the application's: it
passes unchanged. `settings_table` has Spark's own data about a setting; `submit_properties` converts a value
to a job's field.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from framework.spark.settings_table import current, current_name

Does = Literal["maps", "passes", "refuses", "sets aside"]


@dataclass(frozen=True, slots=True)
class Treatment:
    """Treatment of a setting."""

    does: Does
    """It becomes a field of the job, goes to the application, is refused, or has no effect."""
    why: str = ""
    """The field, in words for errors; else the reason why it is refused or has no effect."""
    in_conf: bool = False
    """Whether a job file's `conf` may have it all the same."""
    quiet: bool = False
    """Whether it concerns the client, whose user needs no message that it has no effect."""
    harmless: frozenset[str] = frozenset()
    """Values that request the behaviour that jobs have anyway."""

    def refusal(self, value: str) -> str:
        """Reason why a setting with this value is rejected; empty where it is not."""
        refused = self.does == "refuses" and value.strip().lower() not in self.harmless
        return self.why if refused else ""


def _maps(field: str, *, in_conf: bool = False) -> Treatment:
    return Treatment("maps", field, in_conf=in_conf)


def _refuses(why: str, *harmless: str) -> Treatment:
    return Treatment("refuses", why, harmless=frozenset(harmless))


def _aside(why: str) -> Treatment:
    return Treatment("sets aside", why)


PASSES = Treatment("passes", in_conf=True)

_MEMORY = "memory, which includes Spark's overhead"
_DRIVER = "driver, as in driver: {on: host, memory: 2g}"
_SECRECY = "Stoker makes a secret for each job, and encrypts the connections of its driver and executors"
_TLS = (
    "Stoker sets up no TLS: connections of a job's driver and executors are encrypted by its secret, but "
    "drivers' UIs use HTTP"
)
_LISTENS = "Stoker decides where drivers and executors listen"
_PAGES = "Stoker serves the pages of drivers"
_LOGS = "Stoker keeps event logs with the job"
_IMAGE = "the daemon's config selects the image that jobs run in (spark.versions)"
_HOME = "the daemon's config sets Spark's folder (spark.versions); spark.stoker.spark selects a version"
_OFFERS = "the daemon answers Mesos' offers"
_FRAMEWORK = "the daemon is the framework, which its config describes to Mesos (mesos)"
_DISPATCHER = "it configures Spark's own dispatcher, which Stoker replaces"
_NETWORK = "a job cannot choose a network of Mesos"
_SECRETS = (
    "Mesos fetches no secret for a job; set variables by env (spark.mesos.driverEnv.NAME), or use files"
)
_YARN = "it is a setting of YARN, but Mesos runs the job"
_KUBERNETES = "it is a setting of Kubernetes, but Mesos runs the job"
_CLIENT = Treatment("sets aside", "it concerns the submitting client", quiet=True)

TREATMENTS: Mapping[str, Treatment] = {
    "spark.app.name": _maps("name", in_conf=True),
    "spark.app.*": _CLIENT,
    "spark.archives": _maps("archives"),
    "spark.authenticate*": _aside(_SECRECY),
    "spark.blockManager.port": _aside(_LISTENS),
    "spark.cores.max": _maps("executors and cpus"),
    "spark.driver.bindAddress": _aside(_LISTENS),
    "spark.driver.blockManager.port": _aside(_LISTENS),
    "spark.driver.cores": _maps("driver, as in driver: {on: cluster, cpus: 2}"),
    "spark.driver.host": _aside(_LISTENS),
    "spark.driver.memory": _maps(_DRIVER),
    "spark.driver.memoryOverhead": _maps(_DRIVER, in_conf=True),
    "spark.driver.memoryOverheadFactor": _maps(_DRIVER),
    "spark.driver.minMemoryOverhead": _maps(_DRIVER),
    "spark.driver.port": _aside(_LISTENS),
    "spark.driver.resource.*": _refuses(
        "a driver takes cpus and memory alone; only executors have other resources"
    ),
    "spark.driver.supervise": _maps("retries"),
    "spark.dynamicAllocation.enabled": _maps("executors with bounds, as in executors: {min: 1, max: 8}"),
    "spark.dynamicAllocation.initialExecutors": _maps("executors.initial"),
    "spark.dynamicAllocation.maxExecutors": _maps("executors.max"),
    "spark.dynamicAllocation.minExecutors": _maps("executors.min"),
    "spark.dynamicAllocation.shuffleTracking.enabled": _aside(
        "it is on wherever a driver asks for executors"
    ),
    "spark.eventLog.dir": _aside(_LOGS),
    "spark.eventLog.enabled": _aside(_LOGS),
    "spark.executor.cores": _maps("cpus"),
    "spark.executor.instances": _maps("executors"),
    "spark.executor.memory": _maps(_MEMORY),
    "spark.executor.memoryOverhead": _maps(_MEMORY, in_conf=True),
    "spark.executor.memoryOverheadFactor": _maps(_MEMORY),
    "spark.executor.minMemoryOverhead": _maps(_MEMORY),
    "spark.executor.pyspark.memory": _maps(_MEMORY, in_conf=True),
    "spark.executor.resource.*": _maps("resources", in_conf=True),
    "spark.executor.uri": _refuses(_HOME),
    "spark.files": _maps("files"),
    "spark.jars": _maps("jars"),
    "spark.jars.packages": _maps("packages"),
    "spark.jars.repositories": _maps("repositories"),
    "spark.kubernetes.*": _aside(_KUBERNETES),
    "spark.master*": _CLIENT,
    "spark.memory.offHeap.enabled": _maps(_MEMORY, in_conf=True),
    "spark.memory.offHeap.size": _maps(_MEMORY, in_conf=True),
    "spark.mesos.appJar.local.resolution.mode": _aside(
        "jars are on the machine of the job's driver, at the paths that the job names"
    ),
    "spark.mesos.cluster.retry.wait.max": _aside(_DISPATCHER),
    "spark.mesos.coarse": _refuses(
        "executors are Mesos tasks for all of a job's time (coarse-grained mode)", "true"
    ),
    "spark.mesos.coarse.shutdownTimeout": _aside("the daemon ends executors with their job"),
    "spark.mesos.constraints": _refuses("the policy decides on which VMs executors run"),
    "spark.mesos.containerizer": _aside("it applies to images only, and the daemon's config names those"),
    "spark.mesos.dispatcher.queue": _maps("queue"),
    "spark.mesos.dispatcher.*": _aside(_DISPATCHER),
    "spark.mesos.driver.constraints": _refuses("the policy decides on which VM a driver runs"),
    "spark.mesos.driver.failoverTimeout": _aside(_FRAMEWORK),
    "spark.mesos.driver.frameworkId": _aside(_FRAMEWORK),
    "spark.mesos.driver.labels": _aside(
        "Mesos tasks have no labels of a job; spark.stoker.labels are Stoker's"
    ),
    "spark.mesos.driver.memoryOverhead": _maps(_DRIVER),
    "spark.mesos.driver.secret.*": _refuses(_SECRETS),
    "spark.mesos.driver.webui.url": _aside(_PAGES),
    "spark.mesos.driverEnv.*": _maps("env"),
    "spark.mesos.executor.docker.forcePullImage": _refuses(_IMAGE, "false"),
    "spark.mesos.executor.docker.*": _refuses(_IMAGE),
    "spark.mesos.executor.gpus": _maps("resources, as in resources: {gpus: 1}"),
    "spark.mesos.executor.home": _refuses(_HOME),
    "spark.mesos.executor.memoryOverhead": _maps(_MEMORY),
    "spark.mesos.executor.secret.*": _refuses(_SECRETS),
    "spark.mesos.extra.cores": _refuses("an executor runs as many tasks at once as it has cores", "0"),
    "spark.mesos.fetcherCache.enable": _aside("Mesos' cache of fetched files is not used"),
    "spark.mesos.gpus.max": _maps("resources, as in resources: {gpus: 1}"),
    "spark.mesos.maxDrivers": _aside(_DISPATCHER),
    "spark.mesos.mesosExecutor.cores": _aside("it applies to fine-grained mode only"),
    "spark.mesos.network.*": _refuses(_NETWORK),
    "spark.mesos.principal*": _aside(_FRAMEWORK),
    "spark.mesos.proxy.baseURL": _aside(_PAGES),
    "spark.mesos.rejectOfferDuration*": _aside(_OFFERS),
    "spark.mesos.retainedDrivers": _aside(_DISPATCHER),
    "spark.mesos.role": _refuses(
        "the daemon's config sets the role whose resources are used (mesos.roles)", "*"
    ),
    "spark.mesos.secret*": _aside(_FRAMEWORK),
    "spark.mesos.task.labels": _aside(
        "Mesos tasks have no labels of a job; spark.stoker.labels are Stoker's"
    ),
    "spark.mesos.uris": _refuses("give files by --files, --jars or --archives"),
    "spark.mesos.*": _refuses("Stoker does not know its effect: leave it out"),
    "spark.network.crypto.*": _aside(_SECRECY),
    "spark.port.maxRetries": _aside(_LISTENS),
    "spark.shuffle.service.enabled": _refuses(
        "there is no shuffle service here; dynamic allocation keeps track of shuffles itself "
        "(spark.dynamicAllocation.shuffleTracking.enabled)",
        "false",
    ),
    "spark.shuffle.service.*": _aside("there is no shuffle service here"),
    "spark.ssl.*": _aside(_TLS),
    "spark.stoker.*": Treatment("maps", "the setting of that name"),
    "spark.stoker.packTasks": PASSES,
    "spark.submit.pyFiles": _maps("py_files"),
    "spark.submit.*": _CLIENT,
    "spark.task.cpus": _maps("cpus, which are no fewer", in_conf=True),
    "spark.task.resource.*": _maps("resources, which are no fewer", in_conf=True),
    "spark.ui.enabled": _aside(_PAGES),
    "spark.ui.filters": _aside(_PAGES),
    "spark.ui.port": _aside(_PAGES),
    "spark.yarn.appMasterEnv.*": _aside(f"{_YARN}; set a driver's variables by spark.mesos.driverEnv.NAME"),
    "spark.yarn.dist.*": _refuses("YARN does not run the job; give files by --files, --jars or --archives"),
    "spark.yarn.maxAppAttempts": _aside(f"{_YARN}; spark.stoker.retries restarts its driver"),
    "spark.yarn.priority": _aside(f"{_YARN}; its priority is spark.stoker.priority"),
    "spark.yarn.queue": _aside(f"{_YARN}; its queue is spark.stoker.queue"),
    "spark.yarn.tags": _aside(f"{_YARN}; its labels are spark.stoker.labels"),
    "spark.yarn.*": _aside(_YARN),
}
"""By name, or by the beginning of names (`*`); the longest match counts."""

_PREFIXES = sorted((name[:-1] for name in TREATMENTS if name.endswith("*")), key=len, reverse=True)


def treatment(name: str) -> Treatment:
    """Treatment of the setting of this name, or of the one that it stands for."""
    if name in TREATMENTS:
        return TREATMENTS[name]
    return _direct(current_name(name))


def by_current_names(properties: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Settings by their current names, where Stoker knows them; and the original name of each.

    An older name counts where the current one is not given, as in Spark. The application's settings stay.
    """
    values: dict[str, str] = {}
    given: dict[str, str] = {}
    for name, value in properties.items():
        today, meant = (name, value) if treatment(name) is PASSES else current(name, value)
        if today == name or (today not in properties and today not in values):
            values[today], given[today] = meant, name
    return values, given


def _direct(name: str) -> Treatment:
    if (found := TREATMENTS.get(name)) is not None:
        return found
    prefix = next((prefix for prefix in _PREFIXES if name.startswith(prefix)), None)
    return PASSES if prefix is None else TREATMENTS[f"{prefix}*"]
