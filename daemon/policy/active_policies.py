"""Acting policy and shadow: as configured, as switched at run time, and as stored over restarts.

`policy_runner.py` limits the time of decisions, `shadow_policy.py` runs the shadow.
"""

import contextlib
import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from threading import Lock
from typing import Any

import structlog
from pydantic import ValidationError

from agents.registry import PolicyError, is_ours
from agents.trial import tried
from conf.schema import Config, PolicyChoice
from daemon.core.errors import RejectedError
from daemon.core.status import PolicyStatus, PromotionStatus
from daemon.policy.policy_runner import PolicyRunner
from daemon.policy.policy_state import Memory
from daemon.policy.promotion import Promotion
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
        self._promotion = self._kept_promotion()
        #: Policies that were switched off; closed by the loop, which may still be using them.
        self._retired: list[PolicyRunner | Shadow] = []
        self._lock = Lock()
        #: Held while the acting policy is stored and switched, so that both agree.
        self._switching = Lock()

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
            promotion = None if self._promotion is None else _status_of(self._promotion)
            return replace(self._deciders.status(), shadow=shadow, promotion=promotion)

    def trouble(self) -> str:
        """Repeated failure of the acting policy, in words; empty when it works."""
        with self._lock:
            return self._deciders.trouble

    def set_policy(self, name: str, options: Mapping[str, Any]) -> PolicyStatus:
        """Switch the acting policy from the next round on; RejectedError when it cannot be made or stored.

        That ends the watch over a promoted policy.
        """
        chosen, deciders = self._tried(name, options)
        with self._switching:
            self._switch(chosen, deciders, None)
        log.info("set", name=name, options=dict(options))
        return self.status()

    def promote(self, promotion: Promotion, why: str) -> None:
        """Switch to a policy that is watched from now on; RejectedError as in `set_policy`.

        RejectedError, too, when another policy acts now than the one that it was compared with.
        """
        chosen, deciders = self._tried(promotion.promoted.name, promotion.promoted.options)
        with self._switching:
            if self._deciders.config != promotion.earlier:
                deciders.close()
                raise RejectedError(409, "Not promoted", "the policy was changed meanwhile")
            self._switch(chosen, deciders, promotion, why)
        log.info("promoted", name=chosen.label, earlier=promotion.earlier.label, why=why)

    def promotion(self) -> Promotion | None:
        """The watched promotion; None where there is none, or it was taken back."""
        with self._lock:
            promotion = self._promotion
        return None if promotion is None or promotion.taken_back else promotion

    def judged(self, before: Promotion, after: Promotion, why: str) -> bool:
        """Store the state of a watch; with `taken_back` the earlier policy acts again, because of `why`.

        Returns whether that changed something: not when the watch has ended meanwhile. RejectedError.
        """
        made = None
        if after.taken_back:
            made = self._tried(after.earlier.name, after.earlier.options)[1]
        with self._switching:
            if self._promotion is not before:
                if made is not None:
                    made.close()
                return False
            if made is not None:
                self._switch(after.earlier, made, after, why)
            else:
                self._keep("policy", self._config.policy, after.promoted, None, after)
                with self._lock:
                    self._promotion = after
        return True

    def check(self, name: str, options: Mapping[str, Any]) -> PolicyChoice:
        """The policy, after a trial decision; RejectedError when it may not be chosen or fails that."""
        self.check_allowed(name)
        with _made():
            chosen = PolicyChoice(name=name, **options)
            tried(name, chosen.options, self._config.decision_timeout)
            return chosen

    def _tried(self, name: str, options: Mapping[str, Any]) -> tuple[PolicyChoice, PolicyRunner]:
        chosen = self.check(name, options)
        with _made():
            return chosen, self._make_deciders(chosen)

    def _switch(
        self, chosen: PolicyChoice, deciders: PolicyRunner, promotion: Promotion | None, why: str = ""
    ) -> None:
        text = f"{chosen.label}: {why}" if why else chosen.label
        self._keep("policy", self._config.policy, chosen, deciders, promotion, text)
        with self._lock:
            self._retired.append(self._deciders)
            self._deciders, self._promotion = deciders, promotion

    def set_shadow(self, name: str | None, options: Mapping[str, Any]) -> PolicyStatus:
        """Switch the shadow policy, or turn it off; RejectedError when it cannot be made or stored."""
        chosen = None if name is None else self.check(name, options)
        with _made():
            shadow = self._make_shadow(chosen)
        label = "none" if chosen is None else chosen.label
        self._keep("shadow", self._config.shadow, chosen, shadow, text=label)
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
        kept = self._store.facts.values(key)
        if not kept.keys() >= {"chosen", "configured"} or kept["configured"] != _plain(configured):
            return configured
        try:
            chosen = None if kept["chosen"] is None else PolicyChoice.model_validate(kept["chosen"])
        except ValidationError as error:
            log.error("a policy chosen earlier cannot be read", choice=key, why=str(error))
            return configured
        if chosen is not None and ":" in chosen.name and not self._is_allowed(chosen.name):
            log.warning("a policy chosen earlier is not in policies_allowed", name=chosen.name)
            return configured
        return chosen

    def _kept_promotion(self) -> Promotion | None:
        """The watched promotion of an earlier daemon, where its policy acts still."""
        kept = self._store.facts.values("policy")
        if "promotion" not in kept or kept.get("configured") != _plain(self._config.policy):
            return None
        if kept.get("chosen") != _plain(self._deciders.config):
            return None
        try:
            return Promotion.of(kept["promotion"])
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            log.error("a promotion cannot be read, and is watched no longer", why=str(error))
            return None

    def _keep(
        self,
        key: str,
        configured: PolicyChoice | None,
        chosen: PolicyChoice | None,
        made: PolicyRunner | Shadow | None,
        promotion: Promotion | None = None,
        text: str | None = None,
    ) -> None:
        """Store a choice, with an event of that text; `made` is closed where that fails."""
        kept = {"configured": _plain(configured), "chosen": _plain(chosen)}
        if promotion is not None:
            kept["promotion"] = promotion.plain()
        happened = [] if text is None else [self._changed(key, text)]
        try:
            self._store.facts.put(key, json.dumps(kept, sort_keys=True), happened)
        except StoreError as error:
            if made is not None:
                made.close()
            raise RejectedError(503, "The job store is not available", str(error)) from error

    def _changed(self, key: str, text: str) -> HistoryEvent:
        return HistoryEvent(
            self._now(), None, "shadow changed" if key == "shadow" else "policy changed", text
        )


@contextlib.contextmanager
def _made() -> Iterator[None]:
    """Reject a request for a policy that cannot be made."""
    try:
        yield
    except (PolicyError, ValueError, TypeError) as error:
        raise RejectedError(422, "Not a policy", str(error)) from error


def _plain(policy: PolicyChoice | None) -> Any:
    return None if policy is None else json.loads(json.dumps(policy.model_dump()))


def _status_of(promotion: Promotion) -> PromotionStatus:
    promoted, earlier = promotion.promoted.label, promotion.earlier.label
    return PromotionStatus(promoted, earlier, promotion.at, promotion.seen, promotion.taken_back)
