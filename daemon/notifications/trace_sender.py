"""Sends the trace of each finished job to a collector, again and again until accepted or too old.

`event_sender.py` reads the events, so that nothing is lost with a daemon that is killed.
"""

from collections import OrderedDict
from collections.abc import Collection, Iterable
from contextlib import suppress

from conf.event_kinds import Kind
from conf.schema.webhooks import ENDS
from daemon.notifications.event_sender import SETTLES, EventSender, Source
from daemon.notifications.job_trace import PastJob, trace_of
from daemon.notifications.otel_collector import VERSION, OtelCollector, Target
from daemon.notifications.otlp import SpanEvent, body
from daemon.store.queries.insert_jobs import Admission
from daemon.store.rows.events import NumberedEvent
from environment.model.messages.records import JobRecord

#: Key of its position in the store; no webhook can have this name.
NAME = "/telemetry"
#: Jobs of which it is remembered when they were accepted, and events of one that are read.
_MOST_ACCEPTED, _MOST_EVENTS = 20_000, 1000


class AcceptanceTimes:
    """When jobs were accepted: when the request came and when they were on disk. Of the latest jobs alone.

    Any thread may call it.
    """

    def __init__(self, *, wanted: bool = True) -> None:
        """Nothing is kept where nobody wants it."""
        self._wanted = wanted
        self._found: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def note(self, admissions: Iterable[Admission], came: float, stored: float) -> None:
        """Those that are new were accepted between these times, seconds since the epoch."""
        if not self._wanted:
            return
        for admission in admissions:
            if isinstance(admission, tuple) and admission[1]:
                self._found |= dict.fromkeys((job.id for job in admission[0].job.members()), (came, stored))
        while len(self._found) > _MOST_ACCEPTED:
            with suppress(KeyError):  # another thread was quicker
                self._found.popitem(last=False)

    def of(self, job_id: str) -> tuple[float, float] | None:
        """That of a job, where it is known."""
        return self._found.get(job_id)


class TraceSender(EventSender):
    """For one event loop; `came`, `fails_since` and `rejected` for any thread."""

    whom = "the collector"

    def __init__(
        self, target: Target, give_up: float, accepted: AcceptanceTimes, source: Source, done: int
    ) -> None:
        """Traces are given up so many seconds after their job's end."""
        self._collector = OtelCollector(target)
        super().__init__(NAME, source, self._collector, done)
        self._resource, self._give_up, self._accepted = target.resource, give_up, accepted

    @property
    def kinds(self) -> Collection[Kind]:
        """The ends of jobs."""
        return ENDS

    @property
    def rejected(self) -> int:
        """How many spans the collector has not taken of traces that it took."""
        return self._collector.rejected

    async def tell(self, event: NumberedEvent) -> None:
        """Send the trace of the job that has ended, once it costs nothing more."""
        job, at = await self._job(event), event.happening.at
        if job is None:
            return  # it was pruned
        job, settled = await self._settled(job, at + SETTLES)
        past = await self._patiently(lambda: self._past(job, settled=settled))
        data = body(trace_of(past), self._resource, VERSION)
        await self._bring(lambda _: self._collector.send(data), at + self._give_up, job=job.job.id)

    def _past(self, record: JobRecord, *, settled: bool) -> PastJob:
        job, store = record.job, self._store
        tasks = store.jobs.shown_executors(job.id)
        launched = max((task.launched_at for task in tasks), default=job.submitted_at)
        events = store.events.read(_MOST_EVENTS, job_id=job.id, since=0.0).found
        return PastJob(
            record,
            tasks,
            store.jobs.shown_explanations(job.id),
            store.vms.leases_of({task.vm_id for task in tasks}, job.submitted_at, launched),
            [SpanEvent(each.happening.at, each.happening.kind, each.happening.text) for each in events],
            self._accepted.of(job.id),
            settled,
        )
