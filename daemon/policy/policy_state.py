"""Learned state of policies, stored over restarts and over changes of the policy.

A policy that learns has `state` and `restore`; the content of a state is the policy's own.
"""

import base64
import time

import structlog

from daemon.store.job_store import Store
from daemon.store.rows.database import DeposedError, StoreError
from environment.policy import Keeper

log = structlog.get_logger("policy")

#: Seconds between two writes. Chosen: so much learning may be lost when the daemon is killed.
PAUSE = 10.0


class Memory:
    """One policy's memory, under its name. Nothing that goes wrong here is raised: then it learns afresh."""

    def __init__(self, store: Store, name: str) -> None:
        self._store = store
        self._name = name
        self._kept = b""
        self._kept_at = time.monotonic()

    def recall(self, policy: Keeper) -> None:
        """Restore the policy from the stored state of its name."""
        try:
            kept = self._store.facts.get(self._key)
            if kept is not None:
                policy.restore(base64.b64decode(kept, validate=True))
        except BaseException as error:  # SystemExit and its like; a stored state may be anything, too
            why = f"{type(error).__name__}: {error}"
            log.error("the policy's memory cannot be read; it starts empty", policy=self._name, why=why)

    def keep(self, policy: Keeper, *, at_once: bool = False) -> None:
        """Store the policy's learned state if it is due."""
        if not at_once and time.monotonic() < self._kept_at + PAUSE:
            return
        self._kept_at = time.monotonic()
        try:
            state = policy.state()
            if state != self._kept:
                self._store.facts.put(self._key, base64.b64encode(state).decode("ascii"))
                self._kept = state
        except (StoreError, DeposedError) as error:
            log.warning("the policy's memory is not stored", policy=self._name, why=str(error))
        except BaseException as error:  # as above
            why = f"{type(error).__name__}: {error}"
            log.error("the policy does not return its memory", policy=self._name, why=why)

    @property
    def _key(self) -> str:
        return f"learned {self._name}"
