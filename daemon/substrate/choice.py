"""Builds the substrate that a config names: a link to a Mesos master, which may be the embedded one."""

import getpass
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import structlog

from conf.loader import secret_in
from conf.schema import Config
from daemon.store.job_store import Store
from daemon.store.rows.database import StoreError
from daemon.substrate.embedded_mesos import EmbeddedMesos, start_embedded
from daemon.substrate.embedded_supervisor import EmbeddedWatch
from daemon.substrate.provider_setup import check_pools, places_of, provider_of
from environment.clusters.cluster_files import cluster_file
from environment.types import Vm
from framework.embedded.isolation import IsolationOptions
from framework.mesos.master_link import MasterLink
from framework.mesos.session import SessionOptions
from framework.providers.interface import Provider
from framework.substrate import Connect

log = structlog.get_logger("daemon")


@dataclass(frozen=True, slots=True)
class ChosenSubstrate:
    """Makes a term's substrate; `provider` opens and closes VMs at the `places` of pools."""

    connect: Connect
    #: Address of drivers on this host, for executors.
    driver_host: str
    provider: Provider | None
    places: tuple[Vm, ...]


@dataclass(frozen=True, slots=True)
class SubstrateChoice:
    """Config, its folder, the data folder, the account that runs jobs, and this daemon's URL.

    With `root` jobs may run as root.
    """

    config: Config
    config_dir: Path
    data_dir: Path
    account: str | None
    url: str
    root: bool = True

    @property
    def driver_host(self) -> str:
        """Address of drivers on this host, for executors, as far as it is known before a term."""
        return _own_address(self.config.mesos.master)

    @contextmanager
    def for_term(self, store: Store, own: Store) -> Iterator[ChosenSubstrate]:
        """The substrate for a term, whose store is `own`; an embedded Mesos runs within the block.

        Raises ConfigError, EmbeddedError or StoreError.
        """
        places = places_of(self.config, self.config_dir)
        check_pools(self.config, self.config_dir)
        with self._embedded(store) as watch:
            embedded = watch.embedded if watch else None
            session = self._session(embedded)
            yield ChosenSubstrate(
                partial(MasterLink, session, local=watch),
                (embedded.host if embedded else "") or self.driver_host,
                provider_of(self.config, self.config_dir, session, self.url, own),
                places,
            )

    def _session(self, embedded: EmbeddedMesos | None) -> SessionOptions:
        """Options of the session with the master; an embedded one supplies its address and a secret."""
        mesos, account = self.config.mesos, self.account
        principal, secret = mesos.principal, None
        if embedded:
            principal, secret = embedded.principal, embedded.secret
        elif mesos.secret_file is not None:
            secret = secret_in(mesos.secret_file, "mesos.secret_file")
        return SessionOptions(
            master=embedded.address if embedded else mesos.master,
            framework_name=mesos.framework_name,
            roles=mesos.roles,
            user=mesos.user or getpass.getuser(),
            task_user=mesos.user or (account if embedded else None),
            principal=principal,
            secret=secret,
            failover_timeout=mesos.failover_timeout,
            secret_variables=embedded is not None or mesos.secret_variables,
            gpus=mesos.gpus,
            webui_url=self.url,
        )

    @contextmanager
    def _embedded(self, store: Store) -> Iterator[EmbeddedWatch | None]:
        """The watch over the embedded Mesos, where the config wants one."""
        mesos = self.config.mesos
        if not self.config.vms_here:
            yield None
            return
        isolation = IsolationOptions(mesos.isolation_scale, mesos.isolation_bandwidth, mesos.isolation_delay)

        def start(port: int, listener: socket.socket | None = None) -> EmbeddedMesos:
            return start_embedded(
                cluster_file(mesos.cluster, self.config_dir),
                port,
                self.data_dir,
                isolation if mesos.isolation == "vm" else None,
                listener=listener,
                root=self.root,
            )

        embedded = start(mesos.port)
        how = "taken over" if embedded.taken_over else "started"
        try:
            log.info(
                "embedded mesos, for this machine only", how=how, address=embedded.address, pid=embedded.pid
            )
            if embedded.isolation:
                log.info("isolation of VMs", state=embedded.isolation)
            port = int(embedded.address.rpartition(":")[2])
            watch = EmbeddedWatch(embedded, lambda ended: start(port, ended.listener))
            try:
                yield watch
            finally:
                embedded = watch.stop()
        finally:
            leave_embedded(embedded, store)
            embedded.leave()


def leave_embedded(embedded: EmbeddedMesos, store: Store) -> None:
    """An idle embedded Mesos ends with the daemon; one with tasks stays, so that the jobs go on."""
    try:
        jobs, _ = store.jobs.open.unfinished()
    except StoreError as error:
        log.warning(
            "jobs may go on: the embedded mesos stays", why=str(error), embedded_mesos_pid=embedded.pid
        )
        return
    active = sum(job.state != "queued" for job in jobs)
    if not active:
        embedded.stop()
        return
    log.warning(
        "jobs go on; the next `stoker up` continues them",
        jobs=active,
        embedded_mesos_pid=embedded.pid,
    )


def _own_address(master: str) -> str:
    """The address of this machine as the master's side sees it; nothing is sent to find it out."""
    if master.startswith(("zk://", "zoo://")):
        master = master.partition("://")[2].partition("/")[0].split(",")[0].rpartition("@")[2]
    host, _, port = master.rpartition(":")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((host or master, int(port) if port.isdigit() else 5050))
        except OSError:
            return "127.0.0.1"
        address: str = probe.getsockname()[0]
        return address
