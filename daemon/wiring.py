"""Assembles the scheduler: a candidate, and the parts with which it leads for a term.

These are the substrate that the config names (`substrate/choice.py`), the launcher and the service.
`server.py` makes the parts of every daemon (store, rights, listener).
"""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import structlog

from conf.loader import ConfigError, find
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
from daemon.scheduler.foundation import TermInputs, clock_of
from daemon.scheduler.service import Service
from daemon.store.job_store import Store
from daemon.store.rows.database import StoreFullError, is_full
from daemon.store.rows.terms import Term
from daemon.substrate.choice import SubstrateChoice
from daemon.vms.host_capacity import jvms_at_once
from framework.host.request_guard import is_loopback
from profiles.job_profile import load_profiles

log = structlog.get_logger("daemon")

#: Seconds after which a disk without room is tried again.
_PAUSE = 1.0


@dataclass(frozen=True, slots=True)
class DaemonSetting:
    """Setting that is the same in all terms: config and its folder, data folder, account of jobs, our URL."""

    config: Config
    config_dir: Path
    data_dir: Path
    rights: RunAs
    url: str


def open_store(url: str) -> Store:
    """Open the job store, once its disk has room for it; other StoreErrors are raised."""
    while True:
        try:
            return Store(url)
        except StoreFullError as error:
            log.error("waiting for room on the disk", error=str(error), seconds=_PAUSE)
            time.sleep(_PAUSE)


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
    account = setting.rights.account
    choice = SubstrateChoice(
        config,
        setting.config_dir,
        setting.data_dir,
        account.name if account else None,
        setting.url,
        root=account is None or setting.rights.root or config.mesos.user is not None,
    )
    launcher = _launcher(setting, choice.driver_host, uploads)
    NotificationService(
        config.webhooks, store, telemetry=config.telemetry
    )  # whose secrets should be there before all else
    election = election_on(store, config.leader)

    @contextmanager
    def lead(term: Term) -> Iterator[Service]:
        own = store.during(term)
        clock = clock_of(own)
        with (
            retention(own, setting.data_dir, config.retention, uploads, clock),
            telling(config, own, lambda: term.holds, clock.now) as webhooks,
            choice.for_term(store, own) as chosen,
        ):
            try:
                inputs = TermInputs(
                    config,
                    own,
                    _launcher(setting, chosen.driver_host, uploads, own),
                    chosen.connect,
                    setting.data_dir,
                    term,
                    clock=clock,
                    profiles=profiles,
                    provider=chosen.provider,
                    places=chosen.places,
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
            log.info("standing by", leader=store.terms.leader(), why=election.state)
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


def _launcher(
    setting: DaemonSetting, driver_host: str, uploads: Uploads, store: Store | None = None
) -> Launcher:
    """For drivers that executors reach at `driver_host`."""
    config, url = setting.config, setting.url
    # VMs on other machines reach no loopback.
    host = urlsplit(url).hostname or "localhost"
    reached = config.vms_here or not (host == "localhost" or is_loopback(host))
    try:
        return Launcher(
            config,
            setting.data_dir,
            driver_host,
            setting.rights,
            uploads,
            url if reached else "",
            url,
            store,
        )
    except OSError as error:
        raise ConfigError(str(error)) from error
