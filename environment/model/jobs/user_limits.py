"""Limits that users set for their own jobs: `max_runtime` in seconds, and `max_cost` in dollars."""

import math

from conf.util.dollars import money
from environment.model.jobs.lifecycle import JobLifecycle
from environment.model.jobs.waiting_queue import WaitingLine
from environment.model.messages.event_context import EventContext
from environment.model.messages.options import NO_EXECUTORS
from environment.model.messages.records import JobRecord
from environment.model.vms.job_registry import JobRegistry
from environment.model.vms.usage_ledger import Ledger


class UserLimits:
    """Ends jobs beyond their limits, or sees to it that they get nothing more; to be called at ticks."""

    def __init__(
        self, turn: EventContext, roster: JobRegistry, line: WaitingLine, lives: JobLifecycle, ledger: Ledger
    ) -> None:
        self._turn = turn
        self._roster = roster
        self._line = line
        self._lives = lives
        self._ledger = ledger

    def tend(self) -> None:
        """End the jobs that have run for longer than their users allow, and bound those that cost more."""
        for job in self._roster.limited():
            limit, began = job.job.max_runtime, self._roster.began(job)
            if job.ended:
                continue
            if limit is not None and began is not None and self._turn.now - began > limit:
                self._end_here(job, f"it ran for longer than its max_runtime, {limit:g} s")
            elif job.job.max_cost is not None:
                self._bound(job, job.job.max_cost)

    def _end_here(self, job: JobRecord, why: str) -> None:
        self._lives.stop_driver(job)
        self._lives.end(job, "failed", why)

    def _bound(self, job: JobRecord, limit: float) -> None:
        """See to it that a job which has cost so many dollars gets nothing more."""
        spent = job.cost + self._ledger.due_of(self._roster.open_tasks(job), self._turn.now)
        if spent < limit or job.aborting:  # one that is undone ends when that is done
            return
        has = f"has cost {money(spent)} of its max_cost, {money(limit)}"
        if job.job.at_max_cost == "end":
            self._end_here(job, f"it {has}, and is ended (at_max_cost: end)")
            return
        told, job.bounded = job.bounded, job.bounded or f"{has}, and gets no more executors"
        if not told:
            self._turn.note()  # what the job may have from now on depends on this tick
        if job.state == "queued":
            self._end_here(job, f"it {job.bounded}; it was to begin again")
        elif self._without_executors(job):
            self._end_here(job, f"it {job.bounded}; it has none left")
        elif not told or self._roster.missing(job):
            self._line.leave(job)
            self._roster.replace_gone(job)
            self._roster.explain(job, f"{job.bounded}; those that it has go on")
            self._lives.look_whether_all_run(job)

    def _without_executors(self, job: JobRecord) -> bool:
        """Whether it has had no executor for a while, though it needs one: its driver is not about to end."""
        if not self._roster.stands(job) or (job.wanted and not any(each.total for each in job.wanted)):
            return False
        tasks = [task for task in self._roster.tasks(job.job.id) if task.number is not None]
        last = max((task.ended_at or math.inf for task in tasks), default=math.inf)
        return self._turn.now - last > NO_EXECUTORS
