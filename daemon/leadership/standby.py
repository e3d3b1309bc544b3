"""Answers of a daemon that does not lead: its health, and that it knows nothing beyond the store."""

import time
from collections.abc import Mapping, Sequence

from daemon.core.estimate import Estimate
from daemon.core.status import Health
from daemon.leadership.election import Election
from daemon.store.job_store import Store
from daemon.store.rows.database import StoreError
from environment.model.messages.records import JobRecord


class Standby:
    """Implements `scheduler_interface.LiveStatus`, for any thread."""

    def __init__(self, store: Store, election: Election) -> None:
        self._store, self._election = store, election

    def warnings(self, _: str) -> Sequence[str]:
        """None; see `LiveStatus.warnings`."""
        return ()

    def charge(self) -> float:
        """Now; the store holds the leader's latest charges."""
        return time.time()

    def budget(self) -> None:
        """Nothing; see `LiveStatus.budget`."""

    def due(self) -> Mapping[str, Mapping[str, float]]:
        """Nothing; see `LiveStatus.due`."""
        return {}

    def standing(self) -> None:
        """Nothing; see `LiveStatus.standing`."""

    def sight(self) -> None:
        """Nothing; see `LiveStatus.sight`."""

    def estimates(self) -> Mapping[str, Estimate]:
        """None; see `LiveStatus.estimates`."""
        return {}

    def no_estimate(self, _: JobRecord) -> str:
        """Nothing; see `LiveStatus.no_estimate`."""
        return ""

    def health(self) -> Health:
        """Not ready, and the reason: which daemon leads, and whether the store can be read."""
        try:
            leader, store = self._store.terms.leader(), "ok"
        except StoreError as error:
            leader, store = "", str(error)
        who = f"{leader} leads" if leader else "no leader is known"
        return Health(
            False,
            {"leader": f"standby: {who} ({self._election.state})", "store": store},
            frozenset({"store"} if store != "ok" else ()),
        )
