"""Shares of VMs that commitments pay anyway, for decisions: also of VMs that could yet be opened."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from environment.clusters.commitments import Commitment, Cover, cover
from environment.types import FloatArray, Vm


class _OpenedVm(NamedTuple):
    """A VM as commitments cover it; spot VMs are covered by none."""

    id: str
    pool: str
    type: str
    price_per_hour: float


class CoveredShares:
    """Spreads commitments over VMs; the last shares are kept as long as the same VMs are open."""

    def __init__(self) -> None:
        self._of: tuple[tuple[Vm, ...], Sequence[Commitment], bytes] | None = None
        self._found = np.zeros(0)

    def of(self, vms: tuple[Vm, ...], opened_at: FloatArray, commitments: Sequence[Commitment]) -> FloatArray:
        """Share of each VM that these commitments cover, or would if closed ones were opened in their order.

        As in the bill, those are covered first that have been open longest: `opened_at` are seconds, float64
        [N], infinity for closed VMs, which come after these, NaN for those that are not opened now, which
        come last. Returns float64 [N], read-only.
        """
        key = vms, commitments, opened_at.tobytes()
        if self._of is None or self._of[0] is not vms or self._of[1:] != key[1:]:
            self._of, self._found = key, _shares(vms, opened_at, commitments)
            self._found.flags.writeable = False
        return self._found


def cover_of(vms: Sequence[Vm], order: Sequence[int], commitments: Sequence[Commitment]) -> dict[int, Cover]:
    """The cover of these VMs in this order, by index; spot ones have none."""
    found = cover((_opened(vms[number]) for number in order if not vms[number].spot), commitments)
    return {number: found[vms[number].id] for number in order if vms[number].id in found}


def _shares(vms: Sequence[Vm], opened_at: FloatArray, commitments: Sequence[Commitment]) -> FloatArray:
    shares = np.zeros(len(vms))
    by_age = np.argsort(opened_at, kind="stable").tolist()
    for number, parts in cover_of(vms, by_age, commitments).items():
        shares[number] = sum(share for _, share in parts)
    return shares


def _opened(vm: Vm) -> _OpenedVm:
    return _OpenedVm(vm.id, "" if vm.terms is None else vm.terms.pool, vm.type, vm.price_per_hour)
