"""Options of the web application."""

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from conf.schema import Driver, Spark
from conf.schema.daemon import CommitmentSpec
from conf.schema.users import UsersSection
from daemon.auth.audit_log import Audit
from daemon.auth.user_directory import Directory
from framework.spark import SparkHomes


@dataclass(frozen=True, slots=True, kw_only=True)
class AppOptions:
    """`homes` are the Spark versions that are served, those of this host unless given.

    Without a token and users, only requests for localhost, a loopback address or one of `hosts` are answered.
    At most `max_requests` are answered at once. `driver` is the config's section of drivers; `data_dir`
    has the event logs of jobs; `users` is the config's section of users, who are in the `directory` then.
    The bill in FOCUS has the `account`, and the `region` of the VMs of pools.
    """

    token: str | None
    version: str
    hosts: Collection[str] = ()
    max_requests: int = 200
    audit: Audit | None = None
    homes: SparkHomes = field(default_factory=lambda: SparkHomes(Spark(), os.environ))
    driver: Driver = field(default_factory=Driver)
    data_dir: Path | None = None
    users: UsersSection | None = None
    directory: Directory | None = None
    account: str = "stoker"
    region: str | None = None
    commitments: Mapping[str, CommitmentSpec] = field(default_factory=dict)
