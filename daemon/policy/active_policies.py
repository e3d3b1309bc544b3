"""Acting policy and shadow: as configured, as switched at run time, and as stored over restarts.

`policy_runner.py` limits the time of decisions, `shadow_policy.py` runs the shadow.
"""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from threading import Lock
from typing import Any

import structlog

from agents.registry import PolicyError, is_ours
from agents.trial import tried
from conf.schema import Config, PolicyChoice
from daemon.core.errors import RejectedError
from daemon.core.status import PolicyStatus
from daemon.policy.policy_runner import PolicyRunner
from daemon.policy.policy_state import Memory
from daemon.policy.shadow_policy import Shadow
from daemon.store.job_store import Store
from daemon.store.rows.database import StoreError
from daemon.store.rows.event_recorder import HistoryEvent
from environment.decisions.sizing import Sizes
from environment.model.vms.job_registry import Changes

log = structlog.get_logger("policy")


class PolicySwitch:
    """The acting policy, its fallback and the shadow. `acting` and `close` are for the scheduling loop."""

    def __init__(
        self,
        config: Config,
        store: Store,
        meanwhile: Callable[[], None] = lambda: None,
        now: Callable[[], float] = time.time,
    ) -> None:
        """Restore the last choice, unless the config has changed since; PolicyError for an invalid policy.

        `meanwhile` is called about every second during a long decision.
        """
        self._config = config
        self._meanwhile = meanwhile
        self._now = now
        self._store = store
        self._deciders = self._make_deciders(self._kept("policy", config.policy) or config.policy)
        self._shadow = self._make_shadow(self._kept("shadow", config.shadow))
        #: Policies that were switched off; closed by the loop, which may still be using them.
        self._retired: list[PolicyRunner | Shadow] = []
        self._lock = Lock()

    def acting(self) -> PolicyRunner:
        """Runner of the acting policy, watched by the shadow; closes runners that were switched off."""
        with self._lock:
            deciders, shadow = self._deciders, self._shadow
            retired, self._retired = self._retired, []
        for earlier in retired:
            earlier.close()
        deciders.watch = shadow.watch if shadow else None
        return deciders

    def observe(self, changes: Changes) -> None:
        """Report jobs that ended to a policy that learns from them."""
        with self._lock:
            deciders = self._deciders
        for job in changes.ended:
            deciders.observe(job)

    def close(self) -> None:
        """End all threads."""
        for each in (*self._retired, self._deciders, self._shadow):
            if each is not None:
                each.close()

    def chosen(self) -> tuple[str, dict[str, Any]]:
        """Name and options of the acting policy."""
        with self._lock:
            config = self._deciders.config
        return config.name, config.options

    def status(self) -> PolicyStatus:
        """Status of the acting policy and of the shadow."""
        with self._lock:
            shadow = None if self._shadow is None else self._shadow.status()
            return replace(self._deciders.status(), shadow=shadow)

    def trouble(self) -> str:
        """Repeated failure of the acting policy, in words; empty when it works."""
        with self._lock:
            return self._deciders.trouble

    def set_policy(self, name: str, options: Mapping[str, Any]) -> PolicyStatus:
        """Switch the acting policy from the next round on; RejectedError when it cannot be made or stored."""
        self.check_allowed(name)
        try:
            chosen = PolicyChoice(name=name, **options)
            tried(name, chosen.options, self._config.decision_timeout)
            deciders = self._make_deciders(chosen)
        except (PolicyError, ValueError, TypeError) as error:
            raise RejectedError(422, "Not a policy", str(error)) from error
        self._keep("policy", self._config.policy, chosen, deciders)
        with self._lock:
            self._retired.append(self._deciders)
            self._deciders = deciders
        log.info("set", name=name, options=dict(options))
        return self.status()

    def set_shadow(self, name: str | None, options: Mapping[str, Any]) -> PolicyStatus:
        """Switch the shadow policy, or turn it off; RejectedError when it cannot be made or stored."""
        if name is not None:
            self.check_allowed(name)
        try:
            chosen = None if name is None else PolicyChoice(name=name, **options)
            if chosen is not None:
                tried(chosen.name, chosen.options, self._config.decision_timeout)
            shadow = self._make_shadow(chosen)
        except (PolicyError, ValueError, TypeError) as error:
            raise RejectedError(422, "Not a policy", str(error)) from error
        self._keep("shadow", self._config.shadow, chosen, shadow)
        with self._lock:
            if self._shadow is not None:
                self._retired.append(self._shadow)
            self._shadow = shadow
        log.info("shadow set", name=name, options=dict(options))
        return self.status()

    def check_allowed(self, name: str) -> None:
        """RejectedError unless the policy is ours or the operator's: to make one is to run its code."""
        if ":" not in name or self._is_allowed(name):
            return
        others = sorted(self._of_the_config())
        detail = (
            f"policy {name} is not one of Stoker's own, and may not be chosen over the API; besides "
            f"Stoker's own, allowed are {', '.join(others) or 'none'} (policies_allowed in the daemon's "
            "config)"
        )
        raise RejectedError(403, "This policy is not allowed", detail)

    def _is_allowed(self, name: str) -> bool:
        return is_ours(name) or name in self._of_the_config()

    def _of_the_config(self) -> set[str]:
        config = self._config
        named = {policy.name for policy in (config.policy, config.fallback, config.shadow) if policy}
        return {name for name in (*config.policies_allowed, *named) if not is_ours(name)}

    def _make_deciders(self, chosen: PolicyChoice) -> PolicyRunner:
        config = self._config
        return PolicyRunner(
            chosen,
            config.fallback,
            config.decision_timeout,
            lambda name: Memory(self._store, name),
            self._meanwhile,
            self._now,
            Sizes.configured(config.sizes),
        )

    def _make_shadow(self, chosen: PolicyChoice | None) -> Shadow | None:
        if chosen is None:
            return None
        seconds, sizes = self._config.decision_timeout, Sizes.configured(self._config.sizes)
        return Shadow(chosen, self._store.comparisons.add, seconds, sizes)

    def _kept(self, key: str, configured: PolicyChoice | None) -> PolicyChoice | None:
        """Last chosen policy, unless the config names another one or no longer allows it."""
        kept = json.loads(self._store.facts.get(key) or "{}")
        if "chosen" not in kept or kept["configured"] != _plain(configured):
            return configured
        chosen = None if kept["chosen"] is None else PolicyChoice(**kept["chosen"])
        if chosen is not None and ":" in chosen.name and not self._is_allowed(chosen.name):
            log.warning("a policy chosen earlier is not in policies_allowed", name=chosen.name)
            return configured
        return chosen

    def _keep(
        self,
        key: str,
        configured: PolicyChoice | None,
        chosen: PolicyChoice | None,
        made: PolicyRunner | Shadow | None,
    ) -> None:
        kept = {"configured": _plain(configured), "chosen": _plain(chosen)}
        try:
            self._store.facts.put(key, json.dumps(kept, sort_keys=True), [self._changed(key, chosen)])
        except StoreError as error:
            if made is not None:
                made.close()
            raise RejectedError(503, "The job store is not available", str(error)) from error

    def _changed(self, key: str, chosen: PolicyChoice | None) -> HistoryEvent:
        text = "none" if chosen is None else chosen.label
        return HistoryEvent(
            self._now(), None, "shadow changed" if key == "shadow" else "policy changed", text
        )


def _plain(policy: PolicyChoice | None) -> Any:
    return None if policy is None else json.loads(json.dumps(policy.model_dump()))
