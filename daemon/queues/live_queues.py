"""Queues as configured, changed while the daemon runs, and stored over restarts.

`conf.schema.sharing` defines valid queues, `queue_admission.py` admits jobs to them.
"""

import json
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from threading import Lock
from typing import Any

import structlog
from pydantic import TypeAdapter, ValidationError

from conf.defaults import DEFAULT_QUEUE
from conf.loader import ConfigError, build
from conf.schema import Config, QueueName, QueueSettings, QueueSpec, SharingFile
from conf.schema.lenient_read import accepted
from conf.util.utc_days import month_of
from daemon.core.errors import RejectedError
from daemon.queues import tree
from daemon.store.job_store import Store
from daemon.store.rows.database import StoreError
from daemon.store.rows.event_recorder import HistoryEvent
from environment.model.messages.records import JobRecord
from environment.queues.shares import Scope, Spent, scopes
from environment.queues.types import ANY, Most, Queues, Sharing, sharing_of

log = structlog.get_logger("queues")

#: The fact of the store with the changes: by path, the queue's config of that time, and the chosen one (None:
#: removed).
_FACT = "queues"
_NAME: TypeAdapter[str] = TypeAdapter(QueueName)


class LiveQueues:
    """The present queues. Every method may be called from any thread and raises RejectedError only.

    A change holds over restarts until the config's settings of that queue change.
    """

    def __init__(self, config: Config, store: Store, changed: Callable[[], None] = lambda: None) -> None:
        """`changed` is called when there are others, once that is on disk. StoreError when it is not read."""
        self._store = store
        self._changed = changed
        self._order = config.sharing
        self._configured: tree.Own = tree.own(config.queues)
        self._lock = Lock()
        #: The changes; see `_FACT`.
        self._changes: dict[str, dict[str, Any]] = {}
        self._own: tree.Own = {}
        self._sharing: Sharing | None = None
        self._take_up()

    @property
    def own(self) -> tree.Own:
        """Own settings of each queue, by path."""
        return self._own

    def queues(self) -> Queues:
        """Effective settings of each queue; when empty, a job may name any queue."""
        return NO_QUEUES if self._sharing is None else self._sharing.queues

    def over_all(self) -> Most:
        """Limits of each user over all queues."""
        return ANY if self._sharing is None else self._sharing.most_per_user

    def sharing(self) -> Sharing | None:
        """Sharing rules of the cluster; None where it is not shared."""
        return self._sharing

    def is_changed(self, path: str) -> bool:
        """Whether the queue is another than the config says."""
        return path in self._changes

    def put(self, path: str, queue: QueueSettings) -> bool:
        """Replace a queue's own settings; return whether it is new."""
        with self._lock:
            return self._put(path, queue)

    def patch(self, path: str, values: Mapping[str, Any]) -> bool:
        """Merge values into a queue's own settings (None removes one); return whether the queue is new."""
        with self._lock:
            there = self._own.get(path)
            merged = _merged({} if there is None else tree.plain(there), values)
            try:
                queue = build(QueueSettings, merged, path)
            except ConfigError as error:
                raise RejectedError(422, "Not a queue", str(error)) from error
            return self._put(path, queue)

    def remove(self, path: str) -> None:
        """Remove a queue."""
        with self._lock:
            if path == DEFAULT_QUEUE:
                detail = f"{path} cannot be removed: jobs that name no queue are in it"
                raise RejectedError(409, "The queue stays", detail)
            if path not in self._own:
                raise no_queue(path, self._own)
            if below := tree.below(self._own, path):
                detail = f"{path} has queues below it: remove {tree.named(below, path)} first"
                raise RejectedError(409, "The queue is not empty", detail)
            self._refuse_with_jobs(path, "is not removed")
            self._keep({name: each for name, each in self._own.items() if name != path}, path, None)
        log.info("removed", queue=path)

    def spent(self, day: str, found: Iterable[tuple[str, str, str, float]]) -> tuple[Spent, ...]:
        """Charges of queues and users on a day and in its month: of days, queues and owners of jobs."""
        if self._sharing is None:
            return ()
        sums: dict[tuple[str, Scope], float] = {}
        for on, queue, owner, dollars in found:
            for scope in scopes(self._sharing, queue, owner):
                for when in (month_of(day), *((day,) if on == day else ())):
                    sums[when, scope] = sums.get((when, scope), 0.0) + dollars
        return tuple(Spent(when, *scope, dollars) for (when, scope), dollars in sums.items())

    def tell_strays(self, jobs: Iterable[JobRecord]) -> None:
        """Log which of these restored jobs are in missing queues; they go on all the same."""
        if not (queues := self.queues()):
            return
        strays = Counter(j.job.queue for j in jobs if not j.ended and j.job.queue not in queues.leaves)
        for path, count in strays.most_common():
            why = "it accepts no more jobs; its jobs continue, with a weight of 1"
            log.warning("jobs are in a missing queue", queue=path, jobs=count, why=why)

    # ---- in between --------------------------------------------------------------------------------

    def _put(self, path: str, queue: QueueSettings) -> bool:
        new = path not in self._own
        if new:
            self._check_place(path)
        self._keep({**self._own, path: queue}, path, queue)
        log.info("made" if new else "set", queue=path, **tree.plain(queue))
        return new

    def _check_place(self, path: str) -> None:
        """RejectedError unless there can be a new queue of this path."""
        for name in path.split("."):
            try:
                _NAME.validate_python(name)
            except ValidationError as error:
                why = error.errors()[0]["msg"].removeprefix("Value error, ")
                raise RejectedError(422, "Not a queue's path", f"{path[:300]}: {why}") from error
        over = path.rpartition(".")[0]
        if not over:
            return
        if over == DEFAULT_QUEUE:
            detail = f"{over}: accepts jobs that name no queue, so it cannot have queues below it"
            raise RejectedError(422, "Not a tree of queues", detail)
        if over not in self._own:
            raise RejectedError(409, "No queue above", f"{over} does not exist: create it before {path}")
        if not tree.below(self._own, over):
            self._refuse_with_jobs(over, f"accepts jobs, and with {path} below it, it would accept none")

    def _refuse_with_jobs(self, path: str, what: str) -> None:
        try:
            count = self._store.jobs.open.in_queue(path)
        except StoreError as error:
            raise RejectedError(503, "The job store is not available", str(error)) from error
        if count:
            jobs = "1 job that is" if count == 1 else f"{count} jobs that are"
            listed = f"`stoker jobs --queue {path}` lists them"
            raise RejectedError(409, "The queue has jobs", f"{path} {what}: it has {jobs} not over; {listed}")

    def _keep(self, own: tree.Own, path: str, chosen: QueueSettings | None) -> None:
        """Store and apply a tree of queues with one changed queue; on failure nothing changes."""
        try:
            specs = _checked(own)
        except ConfigError as error:
            raise RejectedError(422, "Not a tree of queues", str(error)) from error
        changes = dict(self._changes)
        change = {"configured": _plain(self._configured.get(path)), "chosen": _plain(chosen)}
        if change["configured"] == change["chosen"]:
            changes.pop(path, None)
        else:
            changes[path] = change
        try:
            self._store.facts.put(_FACT, json.dumps(changes, sort_keys=True), [_changed(path, chosen)])
        except StoreError as error:
            raise RejectedError(503, "The job store is not available", str(error)) from error
        self._have(specs, changes)
        self._changed()

    def _have(self, specs: Mapping[str, QueueSpec], changes: dict[str, dict[str, Any]]) -> None:
        """Apply these queues from now on."""
        if self._configured and not specs:  # all were removed, but jobs still cannot name any queue
            specs = {DEFAULT_QUEUE: QueueSpec()}
        self._changes, self._own = changes, tree.own(specs)
        self._sharing = sharing_of(self._order, specs)

    def _take_up(self) -> None:
        """Repeat an earlier daemon's changes, as far as the config still has the values that it had then."""
        kept: dict[str, dict[str, Any]] = {
            path: change
            for path, change in self._store.facts.values(_FACT).items()
            if isinstance(change, dict) and change.keys() >= {"configured", "chosen"}
        }
        changes: dict[str, dict[str, Any]] = {}
        own = dict(self._configured)
        gone = {path for path, change in kept.items() if change["chosen"] is None}
        for path in (*sorted(kept.keys() - gone), *sorted(gone, reverse=True)):  # those above are made before
            try:
                self._again(own, path, kept[path])
                changes[path] = kept[path]
            except ValueError as error:
                log.warning("a change of a queue is no longer valid", queue=path, why=str(error))
        try:
            specs = _checked(own)
        except ConfigError:
            own, changes = self._as_far_as_it_goes(changes)
            specs = _checked(own)
        if changes != kept:
            self._store.facts.put(_FACT, json.dumps(changes, sort_keys=True))
        self._have(specs, changes)

    def _as_far_as_it_goes(
        self, changes: Mapping[str, dict[str, Any]]
    ) -> tuple[dict[str, QueueSettings], dict[str, dict[str, Any]]]:
        """The configured queues with those of the changes that, one after the other, make a tree."""
        own, kept = dict(self._configured), dict[str, dict[str, Any]]()
        for path, change in changes.items():
            draft = dict(own)
            try:
                self._again(draft, path, change)
                _checked(draft)
            except (ConfigError, ValueError) as error:
                log.error(
                    "a change of a queue is no longer valid with the config",
                    queue=path,
                    was=change["chosen"],
                    why=str(error),
                )
            else:
                own, kept[path] = draft, change
        return own, kept

    def _again(self, own: dict[str, QueueSettings], path: str, change: Mapping[str, Any]) -> None:
        """Change a queue as it was changed before; ValueError says why it is not."""
        if change["configured"] != _plain(self._configured.get(path)):
            raise ValueError("the config of the queue has changed since")
        if change["chosen"] is None:
            if below := tree.below(own, path):
                raise ValueError(f"it was removed, but the config has {tree.named(below, path)} below it")
            own.pop(path, None)
            return
        if missing := [over for over in tree.above(path) if over not in own]:
            raise ValueError(f"{missing[0]} is not there any more")
        own[path] = accepted(QueueSettings, change["chosen"])


NO_QUEUES = Queues()


def no_queue(path: str, found: Collection[str]) -> RejectedError:
    """Error for a missing queue, which names the existing ones."""
    there = tree.named(list(found), path)
    detail = f"there is no queue {path[:300]}; there are {there}" if there else "there are no queues"
    return RejectedError(404, "No such queue", detail)


def _checked(own: tree.Own) -> Mapping[str, QueueSpec]:
    """Build a tree of these queues; ConfigError when they do not go together."""
    return build(SharingFile, {"queues": tree.nested(own)}, "the tree").queues


def _changed(path: str, chosen: QueueSettings | None) -> HistoryEvent:
    if chosen is None:
        return HistoryEvent(time.time(), None, "queue changed", f"{path} is removed")
    given = chosen.model_dump(mode="json", exclude_defaults=True)
    settings = ", ".join(f"{name}: {json.dumps(value)}" for name, value in given.items())
    return HistoryEvent(time.time(), None, "queue changed", f"{path} has {settings or 'no settings'}")


def _plain(queue: QueueSettings | None) -> dict[str, Any] | None:
    return None if queue is None else tree.plain(queue)


def _merged(values: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """Values with others in their place, key by key (RFC 7396)."""
    merged = dict(values)
    for key, value in change.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, Mapping):
            below = merged.get(key)
            merged[key] = _merged(below if isinstance(below, Mapping) else {}, value)
        else:
            merged[key] = value
    return merged
