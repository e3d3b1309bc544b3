"""The scheduling loop: takes events in, lets the policy decide, stores the outcome, and acts on it.

One thread owns the cluster model. Every batch of events passes through model, store, event log, then the
commands, then the acknowledgements; so everything that the world is told is on disk before. All other threads
(HTTP, the substrate's) only put events into the inbox or read the store.

Here is the order of these steps; `components.py` lists the components, each in its own module.
"""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

import structlog

from daemon.core.event_queue import Item
from daemon.scheduler.cluster_snapshot import ClusterSnapshot, picture_of
from daemon.scheduler.components import Components
from daemon.scheduler.recovery import left_behind
from environment.decisions.explain import Explanation
from environment.model.event_log import encode
from environment.model.messages import commands as cmd
from environment.model.messages import events as ev
from environment.model.vms.job_registry import Changes

log = structlog.get_logger("service")

#: Seconds between ticks, on which timeouts are due and drivers are looked at.
TICK = 0.2


class SchedulingLoop:
    """Schedules for a term; `run` is the loop, `stop` may be called from any thread."""

    def __init__(
        self, parts: Components, taking_up: Callable[[], AbstractContextManager[None]] = nullcontext
    ) -> None:
        """`taking_up` surrounds the restoring of an earlier daemon's state."""
        self._parts = parts
        self._taking_up = taking_up
        base = parts.base
        self._model, self._clock, self._session, self._inbox = (
            base.model,
            base.clock,
            base.session,
            base.inbox,
        )
        #: State of the cluster as of the last event, for other threads.
        self.snapshot = ClusterSnapshot()
        #: Nothing was decided for the disk's sake.
        self._held = False
        #: The subscription that the model knows of: a later one may stand already.
        self._subscription = 0
        self._next_tick = 0.0

    # ---- the loop --------------------------------------------------------------------------------

    def run(self) -> None:
        """Schedule until `stop`; to be called once, in a thread of its own.

        Raises StoreError when the state of an earlier daemon cannot be read.
        """
        parts = self._parts
        try:
            with self._taking_up():
                self._restore()
            parts.saver.disk.start()
            parts.forecasts.start()
            parts.substrate.start()
            while not self._session.over:
                self._session.beat()
                self._turn()
            if self._session.may_act():
                parts.queues.watch.come_due()
                self._handle([Item(ev.ChargesDue(self._clock.now()))])
        finally:
            parts.saver.disk.stop()
            parts.substrate.stop()
            for each in parts.closing:
                each.close()

    def stop(self) -> None:
        """End the loop soon. Jobs go on; a daemon started again takes them up."""
        self._session.end()

    def _turn(self) -> None:
        items = self._inbox.take(TICK / 2)
        self._session.renew()
        if self._session.over:
            return
        if time.monotonic() >= self._next_tick:
            self._next_tick = time.monotonic() + TICK
            for each in self._parts.ticking:
                each.tick()
            again = self._held and not self._parts.saver.disk.trouble
            self._held = self._held and not again
            timers = self._parts.timers
            first, last = timers.first(), timers.events(decides_again=again)
            items = [*map(Item, first), *items, *map(Item, last)]
        self._handle(items)
        if self._model.ready_to_decide():
            self._decide()
        self._parts.forecasts.show()

    def _handle(self, items: list[Item], explanations: tuple[Explanation, ...] = ()) -> None:
        """Run a batch through the model, store the changes, then act and acknowledge."""
        parts = self._parts
        beginning, lines = "", list[str]()
        commands: list[tuple[cmd.Command, int]] = []
        for item in items:
            event = self._informed(item.event)
            caused = self._model.handle(event)
            if isinstance(event, ev.Restored):  # alone in front of all others
                beginning = encode(event)
                lines += map(encode, caused)
            elif self._model.matters:
                lines += [encode(event), *map(encode, caused)]
            if isinstance(item.event, ev.Subscribed):
                self._subscription = item.event.subscription
            commands += ((command, self._subscription) for command in caused)
        changes = parts.saver.save(items, explanations)
        if changes is None:
            return
        self._observe(changes)
        if not self._session.await_certainty():
            return
        parts.saver.log(beginning, lines)
        if not parts.commands.carry_out(commands):
            return
        parts.launching.forget()
        if items:
            self._show(items)
        for item in items:
            if item.stored is not None:
                item.stored()

    def _observe(self, changes: Changes) -> None:
        for each in self._parts.observing:
            each.observe(changes)
        for task in changes.executors:
            if task.state == "lost" and task.running_at is None:
                log.warning("never ran", task=task.task_id, vm=task.vm_name, why=task.message[:300])

    def _show(self, items: list[Item]) -> None:
        """Take the snapshots that other threads read."""
        parts = self._parts
        arrived = {item.event.job.id for item in items if isinstance(item.event, ev.JobSubmitted)}
        parts.submissions.note(self._model, arrived)
        ordered = parts.queues.live.sharing() is not None
        self.snapshot = picture_of(self._model, self._clock.now(), self.snapshot, ordered=ordered)
        parts.queues.watch.look(self._model)
        parts.stages.waits_since = parts.queues.watch.waits_since

    def _informed(self, event: ev.Event) -> ev.Event:
        """The event, with the ends of jobs that a new one depends on and the model has forgotten."""
        if not (isinstance(event, ev.JobSubmitted) and event.job.after):
            return event
        gone = self._model.unknown(event.job)
        return replace(event, ends=tuple(self._session.ends_of(gone).items())) if gone else event

    # ---- deciding --------------------------------------------------------------------------------

    def _decide(self) -> None:
        if trouble := self._parts.saver.disk.trouble:
            self._hold(f"nothing is launched: {trouble}")
            return
        stages = self._parts.stages
        with stages.timed("order"):
            view, requests = self._model.view(), self._model.requests()
        with stages.timed("decide"):
            event, explanations = self._parts.policies.acting().decide(view, requests)
        self._handle([Item(event)], explanations)

    def _hold(self, why: str) -> None:
        """Decide that all wait, as a policy might."""
        self._held = True
        head = next(iter(self._model.requests()))
        self._handle([Item(ev.Decided(self._clock.now(), (), ev.Waiting(head.job.id, why)))])

    def _restore(self) -> None:
        """Take up jobs, tasks and drivers of an earlier daemon."""
        parts, budget = self._parts, self._parts.saver.budget
        policy = parts.policies.status().name
        left = left_behind(parts.base.store, self._clock, self._model.options, policy, parts.queues.live)
        jobs, tasks, restored = left
        parts.timers.keep_time()
        budget.begin()
        parts.saver.recorder.take_up(jobs, tasks, restored.leases, restored.accounts)
        parts.saver.pools.take_up(restored.pools)
        self._handle([Item(restored), *map(Item, budget.look())])
        parts.launching.take_up(jobs, tasks)
        parts.submissions.take_up(jobs)
        parts.queues.live.tell_strays(jobs)
        parts.queues.waiting.note(jobs)
        left.tell(closes_vms=parts.vms.provisioner is not None)
