"""Storing a batch before anything acts on it: changed records, history, facts, then the event log."""

from collections.abc import Callable, Sequence
from pathlib import Path

from conf.schema import Config
from daemon.core.event_queue import Item
from daemon.disk.disk_monitor import DiskWatch
from daemon.disk.event_log import EventLog
from daemon.policy.policy_watch import PolicyWatch
from daemon.queues.queue_observer import QueueWatch
from daemon.scheduler.budget import BudgetWatch
from daemon.scheduler.foundation import Foundation
from daemon.store.rows.event_recorder import EventRecorder
from daemon.vms.pool_watch import PoolWatch
from environment.decisions.explain import Explanation
from environment.model.event_log import encode
from environment.model.messages import events as ev
from environment.model.vms.job_registry import Changes


class Saver:
    """For the loop's thread; `budget`, `pools`, `event_log` and `disk` tell any thread their troubles."""

    def __init__(
        self,
        config: Config,
        base: Foundation,
        queues: QueueWatch,
        policy_trouble: Callable[[], str],
        data_dir: Path,
    ) -> None:
        """`policy_trouble` tells the acting policy's repeated failure in words, or nothing."""
        self._model, self._clock, self._session, self._queues = base.model, base.clock, base.session, queues
        self._policy = PolicyWatch(policy_trouble)
        files = config.event_log
        self.event_log = EventLog(data_dir / "events.jsonl", size=files.size << 20, earlier=files.earlier)
        self.disk = DiskWatch(data_dir)
        vms, facts = base.store.vms, base.store.facts
        self.budget = BudgetWatch(config.budget, vms.spent, base.clock.now, facts.get, vms.accounts)
        self.pools, self.recorder = PoolWatch(), EventRecorder()

    def save(self, items: Sequence[Item], explanations: tuple[Explanation, ...]) -> Changes | None:
        """Store the model's changes; None when they are not stored, as the daemon stops or no longer leads.

        Then nothing came of the batch, and the next daemon learns from the substrate.
        """
        changes = self._model.take_changes()
        subscribed = [item.event.framework_id for item in items if isinstance(item.event, ev.Subscribed)]
        facts = {"framework_id": subscribed[-1]} if subscribed else {}
        of_budget, budget_facts = self.budget.take_news()
        of_queues, queue_facts = self._queues.take_news(self._model)
        facts |= budget_facts | queue_facts
        now = self._clock.now()
        if changes or explanations or facts or self._policy.changed or self.recorder.due(now):
            of_others = (*self.pools.tell(now, changes.setbacks), *self._policy.tell(now))
            history = [*of_budget, *of_queues, *of_others, *self.recorder.tell(now, changes, explanations)]
            if not self._session.save(changes, explanations, facts, history):
                return None
        return changes

    def log(self, beginning: str, lines: list[str]) -> None:
        """Write a batch to the event log, which begins anew with `beginning` or when it is full."""
        if beginning:
            self.event_log.begin(beginning)
        if lines:
            self.event_log.write(lines)
        if self.event_log.full:
            self.event_log.turn(encode(self._model.snapshot()))

    def close(self) -> None:
        """Close the event log."""
        self.event_log.close()
