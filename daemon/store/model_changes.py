"""Changes of the cluster model in the job store: jobs, VMs, facts and history events in one transaction."""

from collections.abc import Mapping, Sequence

from sqlalchemy.engine import Connection

from daemon.store.facts import Facts
from daemon.store.queries.stored_jobs import StoredJobs
from daemon.store.rows import events
from daemon.store.rows.access import StoreAccess
from daemon.store.rows.event_recorder import HistoryEvent
from daemon.store.rows.vm_records import VmBooks
from environment.decisions.explain import Explanation
from environment.model.cluster_model import Changes


class ModelChanges:
    """Saves them. For any thread; StoreError, DeposedError."""

    def __init__(self, access: StoreAccess, jobs: StoredJobs, vms: VmBooks, facts: Facts) -> None:
        self._access, self._jobs, self._vms, self._facts = access, jobs, vms, facts

    def save(
        self,
        changes: Changes,
        explanations: Sequence[Explanation] = (),
        facts_known: Mapping[str, str] | None = None,
        happened: Sequence[HistoryEvent] = (),
    ) -> None:
        """Store records, leases, charges, explanations, facts and history events, all or none.

        A job has only one explanation of its waiting. When an uncertain save is repeated, the fact
        `bill.BATCH` shows whether the charges were already added.
        """
        known = facts_known or {}
        parts = (
            self._jobs.saving(changes.jobs, changes.executors, explanations),
            self._vms.saving(changes, known),
            self._facts.saving(known),
        )

        def work(connection: Connection) -> None:
            for save in parts:
                save(connection)
            events.add(connection, happened)

        if changes or explanations or known or happened:
            self._access.write(work)
            self._access.news.note(changes.jobs)
