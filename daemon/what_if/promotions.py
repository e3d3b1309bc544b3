"""Promotes a policy that recorded jobs show to be better, and takes it back when it is worse for a day.

`policy/promotion.py` judges; the plays are requests to the what-if service, with its limits and in its turn.
"""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import structlog

from conf.schema import PolicyChoice
from conf.util.counted import counted
from daemon.core.errors import RejectedError
from daemon.policy.active_policies import PolicySwitch
from daemon.policy.promotion import (
    LEAST_JOBS,
    PairedRuns,
    PolicyRuns,
    Promotion,
    is_worse,
    paired,
    shares,
    why_not,
)
from daemon.what_if.cases import Present
from daemon.what_if.recorded_jobs import Page, RecordedJobs, recorded
from daemon.what_if.what_if import PolicyAhead, WhatIfService
from environment.model.vms.job_registry import Changes

log = structlog.get_logger("promotion")

#: Seconds between two comparisons, and from the daemon's start to its first: VMs should have joined by then.
_HOUR, _FIRST = 3600.0, 600.0
#: Seconds between two looks at the clock.
_TICK = 30.0
#: Draws of a comparison, and seconds that they may take: less than users wait for their turn.
_DRAWS, _SECONDS = 20, 20.0
#: The daemon among the users that ask the what-if service.
_WHO = "stoker policy promotion"


@dataclass(frozen=True, slots=True)
class PromotionAnswer:
    """Plays of recorded jobs under the acting policy and the candidate, and the judgement on them.

    `why` is the reason why the candidate may not be promoted, empty where it may.
    """

    present: Present
    past: RecordedJobs
    acting: PolicyAhead
    candidate: PolicyAhead
    found: PairedRuns
    why: str
    promoted: bool = False


class Promotions:
    """Promotions of one term. `observe` and `start` are for the loop, which nothing here delays."""

    def __init__(
        self,
        what_if: WhatIfService,
        policies: PolicySwitch,
        page: Page,
        switched: Callable[[str], None],
        now: Callable[[], float] = time.time,
    ) -> None:
        """`page` lists recorded jobs; `switched` is called with the name of a policy that acts now."""
        self._what_if, self._policies, self._page = what_if, policies, page
        self._switched, self._now = switched, now
        self._next, self._failed = now() + _FIRST, ""
        self._ended, self._over = threading.Event(), threading.Event()
        self._ended.set()  # jobs may have ended since an earlier daemon's last comparison
        self._thread = threading.Thread(target=self._run, name="promotions", daemon=True)

    def promote(
        self, chosen: PolicyChoice, since: float, *, draws: int, seconds: float, who: str, dry_run: bool
    ) -> PromotionAnswer:
        """Play the jobs since then under the acting policy and this one, and switch to it if it is better.

        `seconds` limits the plays. RejectedError when it is no policy, too few jobs have ended, or they
        cannot be played.
        """
        self._policies.check(chosen.name, chosen.options)
        name, options = self._policies.chosen()
        acting = PolicyChoice(name=name, **options)
        if acting == chosen:
            raise RejectedError(409, "Not promoted", f"{chosen.label} is the acting policy")
        past = recorded(self._page, since)
        if (jobs := len(past.took)) < LEAST_JOBS:
            why = f"since: at least {LEAST_JOBS} jobs that have ended are needed, found {jobs}"
            raise RejectedError(422, "Too few jobs", why)
        present, (before, candidate) = self._play((acting, chosen), past, draws, seconds, who)
        found = paired(_runs(candidate), _runs(before))
        why = why_not(_runs(candidate), _runs(before))
        answer = PromotionAnswer(present, past, before, candidate, found, why)
        if found.cost is None or why or dry_run:
            return answer
        now = self._now()
        self._policies.promote(Promotion(chosen, acting, now, now), f"promoted: {shares(found.cost)}")
        self._switched(chosen.name)
        return replace(answer, promoted=True)

    def observe(self, changes: Changes) -> None:
        """Note that jobs ended."""
        if changes.ended:
            self._ended.set()

    def start(self) -> None:
        """Watch from now on."""
        self._thread.start()

    def close(self) -> None:
        """Stop watching."""
        self._over.set()

    def look(self) -> None:
        """Compare a promoted policy with the earlier one if that is due, and take it back if it is worse."""
        promotion, now = self._policies.promotion(), self._now()
        if promotion is None or now < self._next or not self._ended.is_set():
            return
        self._next = now + _HOUR
        self._ended.clear()
        try:
            self._judge(promotion, now)
            self._failed = ""
        except Exception as error:  # a comparison is never worth more than the daemon
            self._ended.set()
            why = f"{error.title}: {error}" if isinstance(error, RejectedError) else repr(error)
            if why != self._failed:
                log.warning("the promoted policy cannot be compared", why=why)
            self._failed = why

    def _judge(self, promotion: Promotion, now: float) -> None:
        past = recorded(self._page, promotion.since(now))
        if (jobs := len(past.took)) < LEAST_JOBS:
            self._policies.judged(promotion, replace(promotion, seen=f"too few jobs have ended: {jobs}"), "")
            return
        choices = promotion.earlier, promotion.promoted
        _, (earlier, promoted) = self._play(choices, past, _DRAWS, _SECONDS, _WHO)
        found = paired(_runs(promoted), _runs(earlier))
        if found.cost is None or not found.cost.enough:
            draws = counted(len(promoted.drawn), "draw")
            trouble = found.trouble or f"{draws} within {_SECONDS:g} s, too few"
            raise RejectedError(503, "Not compared", trouble)
        seen = f"{shares(found.cost)} over the last day"
        if not promotion.due(now):
            self._policies.judged(promotion, replace(promotion, seen=f"{shares(found.cost)} so far"), "")
        elif is_worse(_runs(promoted), _runs(earlier)):
            after = replace(promotion, judged_at=now, seen=seen, taken_back=True)
            why = f"policy taken back: {seen}"
            if self._policies.judged(promotion, after, why):
                log.warning(why, policy=promotion.promoted.label, earlier=promotion.earlier.label)
                self._switched(promotion.earlier.name)
        else:
            self._policies.judged(promotion, replace(promotion, judged_at=now, seen=seen), "")

    def _play(
        self, choices: tuple[PolicyChoice, ...], past: RecordedJobs, draws: int, seconds: float, who: str
    ) -> tuple[Present, list[PolicyAhead]]:
        asked: list[tuple[str, Mapping[str, Any]]] = [(each.name, each.options) for each in choices]
        return self._what_if.ask(asked, draws=draws, seconds=seconds, who=who, past=past, varied=True)

    def _run(self) -> None:
        while not self._over.wait(_TICK):
            self.look()


def _runs(ahead: PolicyAhead) -> PolicyRuns:
    dollars = {draw: found[0] for draw, found in ahead.drawn.items()}
    completion = {draw: found[1] for draw, found in ahead.drawn.items()}
    return PolicyRuns(dollars, completion, ahead.fallback_share, (*ahead.never,), ahead.failure)
