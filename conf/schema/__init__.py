"""Schemas of a config file, a cluster file and a job file, as frozen types.

`conf.loader` reads a file.
"""

from conf.schema.cluster import Availability, Billing, Cluster, Pool, Spot, VmGroup
from conf.schema.daemon import (
    AuditSection,
    Budget,
    Config,
    EventLogSection,
    Http,
    Keep,
    Leader,
    Mesos,
    PolicyChoice,
    Retention,
    Spark,
    SparkVersion,
    Tls,
    UploadsSection,
)
from conf.schema.fields import Arguments, Cpus, Memory, Name, NameOrNone, Seconds, SpotUse, Strict, Text
from conf.schema.job import Driver, DynamicExecutors, Executors, JobSpec
from conf.schema.provider import CommandProvider, Ec2Provider, EmbeddedProvider, Provider
from conf.schema.sharing import (
    QueueName,
    QueueSettings,
    QueueSpec,
    SharingFile,
    SharingSpec,
    promised,
    stricter,
)
from conf.schema.telemetry import Telemetry
from conf.schema.webhooks import Webhook

__all__ = [
    "Arguments",
    "AuditSection",
    "Availability",
    "Billing",
    "Budget",
    "Cluster",
    "CommandProvider",
    "Config",
    "Cpus",
    "Driver",
    "DynamicExecutors",
    "Ec2Provider",
    "EmbeddedProvider",
    "EventLogSection",
    "Executors",
    "Http",
    "JobSpec",
    "Keep",
    "Leader",
    "Memory",
    "Mesos",
    "Name",
    "NameOrNone",
    "PolicyChoice",
    "Pool",
    "Provider",
    "QueueName",
    "QueueSettings",
    "QueueSpec",
    "Retention",
    "Seconds",
    "SharingFile",
    "SharingSpec",
    "Spark",
    "SparkVersion",
    "Spot",
    "SpotUse",
    "Strict",
    "Telemetry",
    "Text",
    "Tls",
    "UploadsSection",
    "VmGroup",
    "Webhook",
    "promised",
    "stricter",
]
