"""Inputs of a term's scheduler, and the values that all of its components share."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from conf.schema import Config
from daemon.core.clock import Clock
from daemon.core.event_queue import Inbox
from daemon.launch.launcher import Launcher
from daemon.leadership.leader_session import LeaderSession
from daemon.notifications.notification_service import NotificationService
from daemon.store.job_store import Store
from daemon.store.rows.terms import Term
from environment.clusters.commitments import commitments_of
from environment.model.cluster_model import ClusterModel, ModelOptions
from environment.pools import Consolidation, IdleTimeout
from environment.types import Vm
from framework.providers.interface import Provider
from framework.substrate import Connect
from profiles.job_profile import JobProfile


@dataclass(frozen=True, slots=True)
class TermInputs:
    """Configuration and resources with which a daemon leads.

    `connect` makes the substrate that launches tasks. Without a `term`, no other daemon can lead. `provider`
    opens and closes VMs at these `places` of pools. `jvms` is the number of JVMs that this machine carries,
    None for any.
    """

    config: Config
    store: Store
    launcher: Launcher
    connect: Connect
    data_dir: Path
    term: Term | None = None
    profiles: Mapping[str, JobProfile] = field(default_factory=dict)
    provider: Provider | None = None
    places: Sequence[Vm] = ()
    jvms: int | None = None
    clock: Clock | None = None
    webhooks: NotificationService | None = None


@dataclass(frozen=True, slots=True)
class Foundation:
    """Cluster model, and the values that every component needs beside it."""

    store: Store
    session: LeaderSession
    clock: Clock
    inbox: Inbox
    model: ClusterModel
    notifications: NotificationService


def clock_of(store: Store) -> Clock:
    """The daemon's time, which goes on from that in the store; StoreError when it cannot be read."""
    return Clock(store.facts.get("clock") or "", store.database.time)


def foundation_of(inputs: TermInputs) -> Foundation:
    """Begin the term, start the clock, make an empty model; StoreError when the store cannot be read."""
    config, store = inputs.config, inputs.store
    term = store.terms.begin("") if inputs.term is None else inputs.term
    options = ModelOptions(
        host=inputs.launcher.here,
        launch_timeout=config.mesos.launch_timeout,
        unreachable_timeout=config.mesos.unreachable_timeout,
        jvms=inputs.jvms,
        maintenance_margin=config.mesos.maintenance_margin,
        places=tuple(inputs.places),
        keeping=IdleTimeout(config.keep.name, config.keep.seconds),
        moves=Consolidation(config.moves.rule, per_hour=config.moves.per_hour),
        boot_timeout=config.mesos.boot_timeout,
        commitments=commitments_of(config.commitments),
        per_hour=() if config.budget is None else tuple(config.budget.per_hour.items()),
    )
    return Foundation(
        store,
        LeaderSession(term, store),
        inputs.clock or clock_of(store),
        Inbox(),
        ClusterModel(options),
        inputs.webhooks or NotificationService({}, store),
    )
