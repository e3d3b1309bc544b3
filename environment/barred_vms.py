"""VMs that bar a job by their terms, such as reservations, regardless of free resources."""

from collections.abc import Collection
from typing import NamedTuple

from conf.schema import SpotUse
from environment.pools import Terms
from environment.resources import Resources


class Bars(NamedTuple):
    """Reasons why a VM may bar jobs: equal for VMs that bar the same ones."""

    spot: bool
    pool: str
    reserved_for: tuple[str, ...]


#: How a job uses spot VMs, and where it never ends, that is barred from none for how they are had.
ANYWHERE: tuple[SpotUse, tuple[str, ...]] = ("allowed", ())
#: Of VMs that bar only jobs that are to be on spot VMs.
NOBODY = Bars(False, "", ())


def barred(terms: Terms | None, job: str, use: SpotUse, unending_on: Collection[str], size: Resources) -> str:
    """Reason why a VM on these terms bars a job, to end a sentence about the VM; empty if it does not.

    The job, by its name, uses spot VMs so, never ends on these pools, and has executors of that size.
    """
    spot = terms is not None and terms.spot is not None
    if use == ("never" if spot else "only"):
        return f"is {'a' if spot else 'no'} spot VM, which {job} may not use (spot: {use})"
    if terms is None:
        return ""
    if terms.spot is not None and terms.pool in unending_on:
        rate = terms.spot.interruptions_per_hour
        return f"is a spot VM, and {job} never ends on spot at this rate ({rate:g} interruptions an hour)"
    kept_for = terms.reserved_for
    if kept_for and not any(size.get(name) for name in kept_for):
        return f"is reserved for jobs that ask for {' or '.join(kept_for)}, and {job} does not"
    return ""
