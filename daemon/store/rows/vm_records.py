"""VM records in the job store: leases, reservations, accounts, and bills.

`leases.py`, `record_tables.py` and `bill.py` convert them to rows; `environment.model` defines their meaning.
"""

from collections.abc import Callable, Collection, Mapping, Sequence

from sqlalchemy.engine import Connection

from daemon.store.rows import bill as bill_rows
from daemon.store.rows import leases as lease_rows
from daemon.store.rows.access import StoreAccess
from daemon.store.rows.damaged_rows import Damage
from daemon.store.rows.record_tables import ACCOUNTS, POOL_SETBACKS, RESERVATIONS, SEALED
from daemon.store.rows.tables import leases, upsert
from environment.model.cluster_model import Changes
from environment.model.messages.lease import Lease
from environment.model.messages.snapshot import PoolSetback, ReservedJob
from environment.model.messages.vm_accounts import Account
from environment.number_format import natural_key


class VmBooks:
    """Leases, reservations, accounts and bills. Every method may be called from any thread.

    All methods that ask the database raise StoreError.
    """

    def __init__(self, access: StoreAccess) -> None:
        self._access = access
        #: Whether it is stored when the first VM of all was opened.
        self._first_noted = False
        #: Whether charges are also stored by VM and job; see `charges_of`.
        self.stores_uses = False

    def saving(self, changes: Changes, known: Mapping[str, str]) -> Callable[[Connection], None]:
        """Return a function that stores the changes in a caller's transaction.

        `known` are the facts that are stored with them; see `bill_rows.add_charges` for the batch among them.
        """
        batch = known.get(bill_rows.BATCH, "")
        changed_leases = [lease_rows.lease_row(lease) for lease in changes.leases]

        def work(connection: Connection) -> None:
            upsert(connection, leases, changed_leases)
            bill_rows.add_charges(connection, changes.charges, batch, uses=self.stores_uses)
            if changes.accounts and not self._first_noted:
                self._first_noted = bill_rows.first_opened(connection) is not None
                bill_rows.note_first(connection, min(account.opened_at for account in changes.accounts))
            ACCOUNTS.save(connection, {a.id: None if a.closed else a for a in changes.accounts})
            RESERVATIONS.save(connection, changes.reserved)
            POOL_SETBACKS.save(connection, changes.setbacks)

        return work

    def put_aside(self, connection: Connection, at: float) -> tuple[Damage, ...]:
        """Put unreadable rows aside in the caller's transaction; return the damage."""
        of_leases = lease_rows.put_leases_aside(connection, None, at)
        return (*of_leases, *(damage for rows in SEALED for damage in rows.put_aside(connection, at)))

    def leases(self) -> list[Lease]:
        """The VMs that may still cost something, in order of asking."""
        with self._access.read() as connection:
            return lease_rows.open_leases(connection, self._access.damages)

    def paid_until(self, since: float) -> list[tuple[str, float]]:
        """VMs of leases that ended after `since`, by their provider's names, and when; in order of time."""
        with self._access.read() as connection:
            return lease_rows.paid_until(connection, since)

    def leases_of(self, vm_ids: Collection[str], since: float, until: float) -> list[Lease]:
        """Leases of these VMs that booted after `since` and were requested before `until`."""
        with self._access.read() as connection:
            return lease_rows.leases_of(connection, self._access.damages, vm_ids, since, until)

    def accounts(self) -> list[Account]:
        """The accounts of VMs that are paid for."""
        with self._access.read() as connection:
            return ACCOUNTS.all(connection, self._access.damages)

    def first_opened(self) -> float | None:
        """Time at which the first VM of all was opened, seconds since the epoch; None where it is unknown."""
        with self._access.read() as connection:
            return bill_rows.first_opened(connection)

    def reservations(self) -> list[ReservedJob]:
        """Jobs with reserved room that wait for other VMs to boot, in order of their placement."""
        with self._access.read() as connection:
            found = RESERVATIONS.all(connection, self._access.damages)
        return sorted(found, key=lambda reserved: (reserved.at, natural_key(reserved.job_id)))

    def pool_setbacks(self) -> list[PoolSetback]:
        """The pools that are left alone for a while."""
        with self._access.read() as connection:
            return POOL_SETBACKS.all(connection, self._access.damages)

    def bill(self, asked: bill_rows.AskedBill) -> bill_rows.Bill:
        """VM costs for a request."""
        with self._access.read() as connection:
            return bill_rows.bill(connection, asked)

    def charges_of(self, day: str, limit: int, after: Sequence[str] | None = None) -> bill_rows.ChargePage:
        """Payments of a day (UTC, 2026-11-22) by VM and job, where stored; in all they are the day's bill."""
        with self._access.read() as connection:
            return bill_rows.charges_of(connection, day, limit, after)

    def listed(self, day: str) -> dict[tuple[str, str], float]:
        """Dollars paid on a day (UTC, 2026-11-22) for the VMs of each pool and type, at their own prices."""
        with self._access.read() as connection:
            return bill_rows.listed(connection, day)

    def covered(self, since: str, until: str) -> list[bill_rows.CoveredTime]:
        """Amounts that commitments covered in these days (UTC, 2026-11-22), the last one included."""
        with self._access.read() as connection:
            return bill_rows.covered(connection, since, until)

    def bill_by_pool(self) -> dict[tuple[str, str], float]:
        """The same in all, dollars by kind and pool."""
        with self._access.read() as connection:
            return bill_rows.by_pool(connection)

    def spent(self, month: str) -> list[tuple[str, str, float]]:
        """Dollars that VMs have cost in a month (UTC, 2026-11), by day and pool."""
        with self._access.read() as connection:
            return bill_rows.spent(connection, month)

    def spent_by_queue(self, month: str) -> list[tuple[str, str, str, float]]:
        """Dollars that jobs have used in a month (UTC, 2026-11), by day, queue and owner."""
        with self._access.read() as connection:
            return bill_rows.spent_by_queue(connection, month)

    def forget_leases(self, before: float) -> None:
        """Forget the VMs that cost nothing more since then, in seconds since the epoch."""
        self._access.write(lambda connection: lease_rows.forget_leases(connection, before))

    def forget_details(self, before: str) -> int:
        """Fold the bill of days before that one over VMs and jobs; return the number of folded sums."""
        return self._access.write(lambda connection: bill_rows.forget_details(connection, before))

    def forget_uses(self, before: str) -> int:
        """Delete the charges by VM and job of days before that one; return their number."""
        return self._access.write(lambda connection: bill_rows.forget_uses(connection, before))
