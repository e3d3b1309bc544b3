"""Assembles the scheduler: a candidate, and the parts with which it leads for a term.

These are the embedded Mesos where one is configured, the options of the session with the master, the
launcher and the service. `server.py` makes the parts of every daemon (store, rights, listener).
"""

import getpass
import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import structlog

from conf.loader import ConfigError, find, secret_in
from conf.schema import Config
from daemon.disk.run_as import RunAs
from daemon.disk.uploads import Uploads
from daemon.launch.host_drivers import sweep
from daemon.launch.launcher import Launcher
from daemon.leader_or_standby import Candidate
from daemon.leadership.election import election_on
from daemon.maintenance.pruning import retention
from daemon.notifications.notification_service import NotificationService, telling
from daemon.scheduler.build import service_of
from daemon.scheduler.foundation import TermInputs
from daemon.scheduler.service import Service
from daemon.store.job_store import Store, StoreError
from daemon.store.rows.database import is_full
from daemon.store.rows.terms import Term
from daemon.vms.embedded_mesos import EmbeddedMesos, start_embedded
from daemon.vms.embedded_supervisor import EmbeddedWatch
from daemon.vms.host_capacity import jvms_at_once
from daemon.vms.provider_setup import places_of, provider_of
from environment.clusters.cluster_files import cluster_file
from framework.embedded.isolation import IsolationOptions
from framework.host.request_guard import is_loopback
from framework.mesos.session import SessionOptions
from profiles.job_profile import load_profiles

log = structlog.get_logger("daemon")


@dataclass(frozen=True, slots=True)
class DaemonSetting:
    """Setting that is the same in all terms: config and its folder, data folder, account of jobs, our URL."""

    config: Config
    config_dir: Path
    data_dir: Path
    rights: RunAs
    url: str


@contextmanager
def candidacy(
    setting: DaemonSetting, store: Store, taking_up: Callable[[], AbstractContextManager[None]]
) -> Iterator[Candidate]:
    """A daemon that leads already when nobody else does; StoreBusyError when it could never.

    Within `taking_up` each term takes up all that an earlier daemon left.
    """
    config = setting.config
    profiles = load_profiles(str(find(config.profiles, setting.config_dir)))
    uploads = Uploads(setting.data_dir / "uploads", config.uploads)
    launcher = _launcher(setting, uploads, None)
    NotificationService(
        config.webhooks, store, telemetry=config.telemetry
    )  # whose secrets should be there before all else
    election = election_on(store, config.leader)

    @contextmanager
    def lead(term: Term) -> Iterator[Service]:
        own = store.during(term)
        with (
            retention(own, setting.data_dir, config.retention, uploads),
            telling(config, own, lambda: term.holds) as webhooks,
            _embedded_mesos(setting, store) as watch,
        ):
            embedded = watch.embedded if watch else None
            session = _session(setting, embedded)
            try:
                inputs = TermInputs(
                    config,
                    own,
                    _launcher(setting, uploads, own, embedded),
                    session,
                    setting.data_dir,
                    term,
                    sandboxes=setting.data_dir / "mesos" / "work" / "agents" if embedded else None,
                    profiles=profiles,
                    provider=provider_of(config, setting.config_dir, session, setting.url, own),
                    places=places_of(config, setting.config_dir),
                    watch=watch,
                    jvms=jvms_at_once(config),
                    webhooks=webhooks,
                )
                service = service_of(inputs, taking_up)
            except OSError as error:
                raise ConfigError(f"data_dir: {error}") from error
            yield service

    candidate = Candidate(store, election, setting.url, lead, lambda: sweep(launcher, store))
    try:
        if not _stands(candidate):
            log.info("standing by", leader=store.leader(), why=election.state)
        yield candidate
    finally:
        candidate.resign()


def _stands(candidate: Candidate) -> bool:
    """Whether it leads already; without room on the disk it may later."""
    try:
        return candidate.stand()
    except Exception as error:
        if not is_full(error):
            raise
        log.error("cannot take the lead", error=str(error))
        return False


def _session(setting: DaemonSetting, embedded: EmbeddedMesos | None) -> SessionOptions:
    """Options of the session with the master; an embedded one supplies its address and a secret."""
    mesos, account = setting.config.mesos, setting.rights.account
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
        task_user=mesos.user or (account.name if embedded and account else None),
        principal=principal,
        secret=secret,
        failover_timeout=mesos.failover_timeout,
        secret_variables=embedded is not None or mesos.secret_variables,
        gpus=mesos.gpus,
        webui_url=setting.url,
    )


def _launcher(
    setting: DaemonSetting, uploads: Uploads, store: Store | None, embedded: EmbeddedMesos | None = None
) -> Launcher:
    """For an embedded Mesos, or for the master that the config names."""
    config = setting.config
    try:
        driver_host = (embedded.host if embedded else "") or _own_address(config.mesos.master)
        # Agents on other machines reach no loopback.
        host = urlsplit(setting.url).hostname or "localhost"
        reached = config.mesos.master == "embedded" or not (host == "localhost" or is_loopback(host))
        url = setting.url if reached else ""
        url_here, rights = setting.url, setting.rights
        return Launcher(config, setting.data_dir, driver_host, rights, uploads, url, url_here, store)
    except OSError as error:
        raise ConfigError(str(error)) from error


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


@contextmanager
def _embedded_mesos(setting: DaemonSetting, store: Store) -> Iterator[EmbeddedWatch | None]:
    """The embedded Mesos and the watch over it, for a daemon that leads and wants one."""
    mesos = setting.config.mesos
    if mesos.master != "embedded":
        yield None
        return
    isolation = IsolationOptions(mesos.isolation_scale, mesos.isolation_bandwidth, mesos.isolation_delay)

    def start(port: int) -> EmbeddedMesos:
        cluster = cluster_file(mesos.cluster, setting.config_dir)
        return start_embedded(cluster, port, setting.data_dir, isolation if mesos.isolation == "vm" else None)

    embedded = start(mesos.port)
    how = "taken over" if embedded.taken_over else "started"
    try:
        log.info("embedded mesos, for this machine only", how=how, address=embedded.address, pid=embedded.pid)
        if embedded.isolation:
            log.info("isolation of VMs", state=embedded.isolation)
        watch = EmbeddedWatch(embedded, start)
        try:
            yield watch
        finally:
            embedded = watch.stop()
    finally:
        leave_embedded(embedded, store)


def leave_embedded(embedded: EmbeddedMesos, store: Store) -> None:
    """An idle embedded Mesos ends with the daemon; one with tasks stays, so that the jobs go on."""
    try:
        jobs, _ = store.open_jobs.unfinished()
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
        "jobs go on; `stoker up` takes them up again",
        jobs=active,
        embedded_mesos_pid=embedded.pid,
    )
