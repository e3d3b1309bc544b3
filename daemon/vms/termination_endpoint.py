"""Termination notices that pool VMs send to the daemon; the route is in `http/routes/vms.py`.

A VM has a key derived from its lease and a secret in the job store, so that every leader knows it. Programs
on the VM may find the key there: it proves only that this VM is leaving.
"""

import hashlib
import hmac
import secrets
from collections.abc import Callable

from daemon.core.errors import RejectedError
from daemon.store.job_store import Store
from environment.model.messages import events as ev

_SECRET = "vm_secret"  # noqa: S105  # under which name it is kept
#: Seconds within which a notice is stored.
_PATIENCE = 10.0
#: Seconds ahead for which a cloud could mean it.
_FARTHEST = 30 * 86_400.0


def vm_keys(store: Store) -> Callable[[str], str]:
    """Make the function that derives VMs' keys from their leases.

    Only a leader may call it, as it may create the secret.
    """
    secret = store.facts.get(_SECRET)
    if secret is None:
        secret = secrets.token_hex(32)
        store.facts.put(_SECRET, secret)
    return lambda lease_id: _key(secret, lease_id)


class TerminationEndpoint:
    """Receives termination notices; for any thread."""

    def __init__(
        self, store: Store, put_and_wait: Callable[[ev.Event, float], bool], now: Callable[[], float]
    ) -> None:
        """`put_and_wait` accepts events, and returns whether their results are stored in time."""
        self._store = store
        self._put_and_wait = put_and_wait
        self._now = now

    def notice(self, lease_id: str, key: str | None, away_at: float, why: str) -> None:
        """Record that the VM of a lease is taken away at a time; RejectedError for a wrong key."""
        secret = self._store.facts.get(_SECRET)
        if secret is None or key is None or not _opens(key, _key(secret, lease_id)):
            detail = f"a report on {lease_id} needs the key that its VM got when it was opened"
            raise RejectedError(
                401, "Not the VM's key", detail, {"WWW-Authenticate": 'Bearer realm="stoker"'}
            )
        now = self._now()
        if away_at > now + _FARTHEST:
            raise RejectedError(422, "No time of a notice", f"time: should be within 30 days of {now:.0f}")
        if not self._put_and_wait(ev.LeaseNotice(now, lease_id, away_at, why), _PATIENCE):
            raise RejectedError(503, "The scheduler is busy", "the notice is not stored yet: send it again")


def _key(secret: str, lease_id: str) -> str:
    return hmac.new(secret.encode(), f"vm/{lease_id}".encode(), hashlib.sha256).hexdigest()


def _opens(given: str, key: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), key.encode())
