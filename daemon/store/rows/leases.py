"""VM leases in the job store: conversion to rows, reading, and putting unreadable ones aside.

`environment.model.vms.fleet` decides the fate of a lease.
"""

import json
from collections.abc import Collection, Iterable

import sqlalchemy as sa
from pydantic import TypeAdapter, ValidationError
from sqlalchemy.engine import Connection

from conf.units import SECONDS_PER_HOUR
from daemon.store.rows import checksummed
from daemon.store.rows.checksummed import UnreadableRowError
from daemon.store.rows.damaged_rows import Damage, Damages, keep
from daemon.store.rows.tables import Row, leases
from environment.model.messages.lease import ENDED_LEASE, Lease

_LEASE = TypeAdapter(Lease)
_KEPT = (leases.c.id, leases.c.record)
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
        "record": checksummed.seal(json.dumps(_LEASE.dump_python(lease), separators=(",", ":"))),
    }


def read_lease(text: str) -> Lease:
    """The lease that `lease_row` wrote; UnreadableRowError."""
    try:
        return checksummed.unseal(_LEASE.validate_python, text)
    except ValidationError as error:
        raise UnreadableRowError(str(error)) from error


def open_leases(connection: Connection, damages: Damages) -> list[Lease]:
    """Readable leases that may still cost money, in order of their requests."""
    rows = connection.execute(sa.select(*_KEPT).where(_OPEN).order_by(leases.c.asked_at, leases.c.id)).all()
    found = (damages.read("leases", key, None, read_lease, text) for key, text in rows)
    return [lease for lease in found if lease is not None]


def leases_of(
    connection: Connection, damages: Damages, vm_ids: Collection[str], since: float, until: float
) -> list[Lease]:
    """Leases of these VMs that booted after `since` and were requested before `until`.

    Times are seconds since the epoch; leases that took longer than an hour to boot may be missing.
    """
    asked = leases.c.asked_at.between(since - SECONDS_PER_HOUR, until)
    rows = connection.execute(sa.select(*_KEPT).where(asked).order_by(leases.c.asked_at, leases.c.id)).all()
    found = (damages.read("leases", key, None, read_lease, text) for key, text in rows)
    return [
        each for each in found if each is not None and each.vm_id in vm_ids and (each.ready_at or 0) > since
    ]


def forget_leases(connection: Connection, before: float) -> None:
    """Forget those that ended before that time, seconds since the epoch."""
    ended = leases.c.state.in_(sorted(ENDED_LEASE))
    connection.execute(sa.delete(leases).where(ended, leases.c.closed_at < before))


def put_leases_aside(connection: Connection, keys: Iterable[str] | None, at: float) -> tuple[Damage, ...]:
    """Put damaged rows aside, of these leases or of all that may cost money; return the damage.

    Their VMs are then unknown, and closed as such.
    """
    damages = Damages()
    which = _OPEN if keys is None else leases.c.id.in_(list(keys))
    for key, text in connection.execute(sa.select(*_KEPT).where(which)).all():
        if damages.read("leases", key, None, read_lease, text) is None:
            keep(connection, damages.all()[-1], text, at)
            connection.execute(sa.delete(leases).where(leases.c.id == key))
    return damages.all()
