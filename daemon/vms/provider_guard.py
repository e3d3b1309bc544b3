"""Makes no call to a provider that does not have the store's VMs: of another region, account or program.

Such a provider lists none of them, so that they would count as lost, and closing them would succeed there,
while they are paid for elsewhere. The store has the place where its VMs were opened; with another one in the
config, and VMs that may be open, the new one is used once it lists one of them.
"""

import json
import threading
from collections.abc import Mapping, Sequence

import structlog

from conf.util.counted import counted
from daemon.store.job_store import Store
from daemon.store.rows.database import StoreError
from framework.providers.interface import Machine, Notice, Provider, ProviderError, Refusal, VmRequest

log = structlog.get_logger("machines")

#: The fact of the store that has the place of its VMs.
FACT = "provider"
#: The part of a place that its provider finds out, and that may be unknown.
ACCOUNT = "account"


class GuardedProvider:
    """A provider; its calls fail while the store's VMs are elsewhere. For any thread."""

    def __init__(self, provider: Provider, place: Mapping[str, str], store: Store) -> None:
        """`place` names kind, region and the like of the config; StoreError when the VMs cannot be read."""
        self._provider, self._place, self._store = provider, dict(place), store
        leases = store.vms.leases()
        self._known = {name for lease in leases for name in (lease.id, lease.machine_id) if name}
        self._named = counted(len(leases), "VM") + (f", such as {leases[0].id}," if leases else "")
        self._lock = threading.Lock()
        self._sure = False

    def open(self, wanted: VmRequest) -> Machine:
        """See `Provider`; refused, since nothing may be opened twice."""
        self._check("invalid")
        return self._provider.open(wanted)

    def close(self, machine_id: str) -> float | None:
        """See `Provider`."""
        self._check()
        return self._provider.close(machine_id)

    def list(self) -> Sequence[Machine]:
        """See `Provider`."""
        self._check()
        return self._provider.list()

    def prices(self) -> Mapping[str, float]:
        """See `Provider`."""
        self._check()
        return self._provider.prices()

    def notices(self) -> Sequence[Notice]:
        """See `Provider`."""
        self._check()
        return self._provider.notices()

    def account(self) -> str:
        """See `Provider`."""
        return self._provider.account()

    def _check(self, kind: Refusal = "unavailable") -> None:
        """Raise ProviderError of that kind while the store's VMs are elsewhere."""
        with self._lock:
            if self._sure:
                return
            try:
                before = stored_place(self._store)
                here = {**self._place, ACCOUNT: self._provider.account()}
                if self._known and before and differ(before, here) and not self._lists_known():
                    raise ProviderError(kind, self._why(before, here))
                if not here[ACCOUNT]:  # as long as it is unknown
                    here[ACCOUNT] = before.get(ACCOUNT, "") if not differ(before, here) else ""
                if here != before:
                    self._store.facts.put(FACT, json.dumps(here))
            except StoreError as error:
                raise ProviderError("unavailable", f"the place of the VMs cannot be read: {error}") from error
            self._sure = True

    def _lists_known(self) -> bool:
        listed = (name for machine in self._provider.list() for name in (machine.lease, machine.id))
        return any(name in self._known for name in listed)

    def _why(self, before: Mapping[str, str], here: Mapping[str, str]) -> str:
        why = (
            f"{self._named} may be open at {told(before)}, and the config has {told(here)}, which lists none "
            "of them: nothing is opened or closed; set `provider` back, or, if they are gone, stop the "
            "daemon and run `stoker doctor --repair`"
        )
        log.error("the provider is another one", why=why)
        return why


def stored_place(store: Store) -> dict[str, str]:
    """The place of the store's VMs; empty where none is stored. StoreError."""
    return {key: str(value) for key, value in store.facts.values(FACT).items()}


def differ(before: Mapping[str, str], here: Mapping[str, str]) -> bool:
    """Whether these are two places, as far as is known."""
    keys = {*before, *here}
    if not (before.get(ACCOUNT) and here.get(ACCOUNT)):
        keys.discard(ACCOUNT)
    return any(before.get(key, "") != here.get(key, "") for key in keys)


def told(place: Mapping[str, str]) -> str:
    """A place in words: ec2 (region eu-west-1, cluster analytics)."""
    rest = ", ".join(f"{key} {value}" for key, value in place.items() if key != "name" and value)
    return f"{place.get('name', '')}{f' ({rest})' if rest else ''}"
