"""VM leases in the job store: conversion to rows, reading, and putting unreadable ones aside.

`environment.model.vms.fleet` decides the fate of a lease.
"""

from collections.abc import Collection, Iterable

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from conf.units import SECONDS_PER_HOUR
from daemon.store.rows.damaged_rows import Damage, Damages
from daemon.store.rows.record_tables import SealedRows
from daemon.store.rows.tables import Row, leases
from environment.model.messages.lease import ENDED_LEASE, Lease

LEASES = SealedRows(leases, Lease)
_OPEN = leases.c.state.not_in(sorted(ENDED_LEASE))


def lease_row(lease: Lease) -> Row:
    """The row of a lease."""
    terms = lease.vm.terms
    return {
        "id": lease.id,
        "pool": "" if terms is None else terms.pool,
        "state": lease.state,
        "asked_at": lease.asked_at,
        "closed_at": lease.closed_at,
        "record": LEASES.sealed(lease),
    }


def open_leases(connection: Connection, damages: Damages) -> list[Lease]:
    """Readable leases that may still cost money, in order of their requests."""
    return LEASES.all(connection, damages, _OPEN, order="asked_at")


def paid_until(connection: Connection, since: float) -> list[tuple[str, float]]:
    """VMs of leases that ended after `since`, by their provider's names, and when; in order of time.

    Each is there under its lease's id as well.
    """
    found = LEASES.all(connection, Damages(), leases.c.closed_at > since, order="closed_at")
    ended = [(each, each.closed_at) for each in found if each.machine_id and each.closed_at]
    return [(name, at) for lease, at in ended for name in (lease.machine_id, lease.id)]


def leases_of(
    connection: Connection, damages: Damages, vm_ids: Collection[str], since: float, until: float
) -> list[Lease]:
    """Leases of these VMs that booted after `since` and were requested before `until`.

    Times are seconds since the epoch; leases that took longer than an hour to boot may be missing.
    """
    asked = leases.c.asked_at.between(since - SECONDS_PER_HOUR, until)
    found = LEASES.all(connection, damages, asked, order="asked_at")
    return [each for each in found if each.vm_id in vm_ids and (each.ready_at or 0) > since]


def forget_leases(connection: Connection, before: float) -> None:
    """Forget those that ended before that time, seconds since the epoch."""
    ended = leases.c.state.in_(sorted(ENDED_LEASE))
    connection.execute(sa.delete(leases).where(ended, leases.c.closed_at < before))


def put_leases_aside(connection: Connection, keys: Iterable[str] | None, at: float) -> tuple[Damage, ...]:
    """Put damaged rows aside, of these leases or of all that may cost money; return the damage.

    Their VMs are then unknown, and closed as such.
    """
    return LEASES.put_aside(connection, at, _OPEN if keys is None else leases.c.id.in_(list(keys)))
