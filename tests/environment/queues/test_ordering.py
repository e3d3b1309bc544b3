"""The incremental order beside the naive one, on random walks through random trees."""

import gc
import random
import weakref
from dataclasses import replace
from itertools import islice
from typing import Any

import pytest

from conf.schema.sharing import Criterion
from conf.util.gc_pause import uncollected
from environment.decisions.decision_round import Verdict
from environment.queues.limits import LimitRoom, ShareLimits
from environment.queues.merge_cache import MergeCache
from environment.queues.ordered_queue import OrderedQueue
from environment.queues.ordering import Ordering
from environment.queues.progressive_filling import ProgressiveFilling
from environment.queues.shares import JobHolding
from environment.queues.types import Most, Queue, Queues, Sharing
from environment.resources import NOTHING, Resources
from environment.types import Job, Place, PlacementRequest
from tests.builders import make_job, make_view, make_vms
from tests.environment.queues.naive import Held, Naive

WHOLE = Resources.of(40.0, 65536)
ORDERS: list[tuple[Criterion, ...]] = [
    ("fifo",),
    ("priority",),
    ("fair",),
    ("priority", "fair"),
    ("fair", "deadline"),
    ("deadline", "fair", "shortest"),
    ("shortest",),
    ("priority", "deadline", "fifo"),
]


def some_queues(chance: random.Random) -> Queues:
    """A tree of two levels, with guarantees and limits here and there."""

    def queue(path: str) -> Queue:
        most = Most(
            {"cpus": chance.choice([4.0, 8.0, 12.0])} if chance.random() < 0.3 else {},
            running=chance.choice([1, 2, 5]) if chance.random() < 0.3 else None,
        )
        per_user = Most({"mem": 8192.0}) if chance.random() < 0.2 else Most()
        guaranteed = Resources.of(chance.choice([2, 6]), 4096) if chance.random() < 0.3 else NOTHING
        weights = {"ann": 2.0} if chance.random() < 0.3 else {}
        return Queue(path, chance.choice([0.5, 1.0, 3.0]), guaranteed, most, per_user, user_weights=weights)

    paths = ["default", "prod", "prod.etl", "prod.adhoc", "test", "test.a", "test.b", "test.b.x"]
    return Queues(tuple(map(queue, paths)))


class Walk:
    """One ordering and its naive twin, led through the same events."""

    def __init__(self, seed: int) -> None:
        self.chance = chance = random.Random(seed)  # noqa: S311
        self.sharing = Sharing(
            chance.choice(ORDERS),
            half_life=chance.choice([0.0, 50.0, 1000.0]),
            starves_after=chance.choice([100.0, 1e6]),
            window=1000,
            queues=some_queues(chance) if chance.random() < 0.8 else Queues(),
        )
        self.ordering, self.naive = Ordering(self.sharing), Naive(self.sharing, WHOLE)
        self.now, self.number = 0.0, 0
        self.held: dict[str, Held] = {}

    def step(self) -> None:
        """Something happens."""
        chance = self.chance
        self.now += chance.choice([0.0, 1.0, 7.0, 40.0])
        kind = chance.random()
        if kind < 0.55:
            self.submit()
        elif kind < 0.75 and self.naive.waiting:
            self.leave(chance.choice(list(self.naive.waiting)))
        elif kind < 0.9 and self.naive.waiting:
            job_id = chance.choice(list(self.naive.waiting))
            job = self.naive.waiting[job_id][1].job
            self.leave(job_id)
            self.hold(replace(job, id=f"{job_id} runs"))
        elif self.held:
            self.end(chance.choice(list(self.held)))

    def submit(self) -> None:
        """A job comes."""
        chance = self.chance
        leaves = self.sharing.queues.leaves or ("default", "other")
        self.number += 1
        job = make_job(
            f"job-{self.number}",
            chance.choice([1, 1, 2, 4]),
            chance.choice([0.5, 1.0, 3.0]),
            chance.choice([512, 1024, 6000]),
            self.now,
            chance.choice([None, 10.0, 60.0]),
        )
        job = replace(
            job,
            queue=chance.choice([*leaves, "gone"]),
            owner=chance.choice(["ann", "bob", "cat", ""]),
            priority=chance.choice([0, 0, 5]),
            deadline=chance.choice([None, self.now + 30.0, self.now + 500.0]),
            min_executors=chance.choice([None, 1]),
        )
        request = PlacementRequest(job, job.executors)
        self.naive.waiting[job.id] = self.number, request
        self.ordering.join(request, self.number, self.now)

    def leave(self, job_id: str) -> None:
        """A job waits no more."""
        del self.naive.waiting[job_id]
        self.ordering.leave(job_id)

    def hold(self, job: Job) -> None:
        """Make a job hold its requested resources."""
        amount = job.size * job.executors
        self.held[job.id] = Held(job, amount, self.now)
        self.naive.history.append(self.held[job.id])
        self.ordering.shares.holds(job.id, JobHolding(job.queue, job.owner, amount, 0.0), self.now)

    def end(self, job_id: str) -> None:
        """It ends."""
        held = self.held.pop(job_id)
        held.until = self.now
        self.ordering.shares.holds(job_id, JobHolding(held.job.queue, held.job.owner, NOTHING, 0.0), self.now)


@pytest.mark.parametrize("seed", range(120))
def test_the_order_is_that_of_its_text(seed: int) -> None:
    """After each of many events, for every order, with and without queues."""
    walk = Walk(seed)
    for number in range(60):
        walk.step()
        if number % 4 == 0:
            shown = [request.job.id for request in walk.ordering.turns(WHOLE, walk.now)]
            assert shown == walk.naive.order(walk.now), (number, walk.sharing)


@pytest.mark.parametrize("seed", range(20))
def test_a_round_is_not_touched_by_what_comes_after(seed: int) -> None:
    """A round has its first order, even if jobs join and leave before it is read."""
    walk = Walk(seed)
    for _ in range(40):
        walk.step()
    turns, expected = walk.ordering.turns(WHOLE, walk.now), walk.naive.order(walk.now)
    for _ in range(40):
        walk.step()
    assert [request.job.id for request in turns] == expected


VIEW = make_view(make_vms(1, cpus=1e6, memory_mib=2**34))


@pytest.mark.parametrize("seed", range(120))
def test_a_round_goes_on_as_if_it_began_after_each_placement(seed: int) -> None:
    """Equal at any depth and for any cached state: jobs that limits then hold back are left out."""
    walk = Walk(seed)
    for _ in range(60):
        walk.step()
    turns = walk.ordering.turns(WHOLE, walk.now)
    standings, scene, begun = turns._now, turns._scene, 0
    gone: dict[str, frozenset[str]] = {}
    while turns:
        request, *_ = islice(turns, walk.chance.choice([1, 2, 5, 1000]))
        job, count = request.job, request.count
        turns = turns.after(Verdict(request, VIEW, Place(job.id, (0,) * count)))
        held = JobHolding(job.queue, job.owner, job.size * count, 0.0)
        standings, begun = standings.with_more([held]), begun + count + 1
        queue = walk.ordering.sharing.queues.leaf(job.queue)
        gone = {**gone, queue: gone.get(queue, frozenset()) | {job.id}}
        anew = OrderedQueue(replace(scene, known=MergeCache()), standings, first=(), gone=gone, begun=begun)
        looks = walk.chance.choice([1, 2, 5, 1000])
        shown, expected = ([(r.job.id, r.count) for r in islice(each, looks)] for each in (turns, anew))
        assert shown == expected


@pytest.mark.parametrize("seed", [1, 14, 18, 23, 104, 126])
def test_who_starves_is_kept_what_its_text_says(seed: int) -> None:
    """Placed one by one: a job never admitted, or waiting for another starving job, reserves nothing."""
    walk = Walk(seed)
    walk.sharing = replace(walk.sharing, starves_after=100.0)
    walk.ordering, walk.naive = Ordering(walk.sharing), Naive(walk.sharing, WHOLE)
    for _ in range(120):
        walk.step()
    while True:
        turns, expected = walk.ordering.turns(WHOLE, walk.now), walk.naive.order(walk.now)
        assert [request.job.id for request in turns] == expected
        if not expected:
            return
        job, count = turns[0].job, turns[0].count
        walk.leave(job.id)
        walk.hold(replace(job, executors=count))


def test_limits_are_looked_at_where_something_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits are computed once per queue for all callers, until the queue's holdings change."""
    asked: list[str] = []
    rooms = ShareLimits.rooms

    def counted(*args: Any) -> tuple[LimitRoom, ...]:
        asked.append(args[2])
        return rooms(*args)

    monkeypatch.setattr(ShareLimits, "rooms", counted)
    queues = Queues((Queue("default"), *(Queue(name, most=Most({"cpus": 2.0})) for name in "ab")))
    ordering, number = Ordering(Sharing(("fair",), queues=queues, half_life=0.0)), 0
    for queue in "ab":
        for user in ("ann", "bob", "cy"):
            for cpus in (1.0, 4.0):
                number += 1
                job = replace(make_job(f"job-{number}", 1, cpus), queue=queue, owner=user)
                ordering.join(PlacementRequest(job, 1), number, 0.0)

    def round_of(at: float) -> tuple[int, list[str]]:
        asked.clear()
        return len(ordering.turns(WHOLE, at)), sorted(asked)

    assert round_of(1.0) == (6, ["a", "b"])
    assert round_of(2.0) == (6, [])
    ordering.shares.holds("job", JobHolding("a", "ann", Resources.of(1.5), 0.0), 3.0)
    assert round_of(3.0) == (3, ["a"])


def test_what_was_found_goes_when_nobody_has_it() -> None:
    """At once, by counts of references alone: the collector of garbage has nothing to look for."""
    ordering = Ordering(Sharing(("fair",), queues=Queues((Queue("default"),))))
    for number in range(5):
        ordering.join(PlacementRequest(make_job(f"job-{number}", 1), 1), number, 0.0)
    with uncollected():
        others = _fillings()  # of other tests, which may go meanwhile: these are held, so no id comes again
        turns = ordering.turns(WHOLE, 1.0)
        assert turns[0].job.id == "job-0"
        (mine,) = (weakref.ref(each) for each in _fillings() if not any(each is other for other in others))
        del turns
        assert mine() is None


def _fillings() -> list[ProgressiveFilling]:
    """All that nobody freed."""
    return [each for each in gc.get_objects() if isinstance(each, ProgressiveFilling)]


@pytest.mark.parametrize("order", [("fair",), ("fifo",), ("priority", "fair")])
def test_without_queues_a_name_gives_no_share(order: tuple[Criterion, ...]) -> None:
    """A user with another queue's name for each job has as much as one without any."""
    ordering = Ordering(Sharing(order, half_life=0.0))
    for number in range(8):
        owner, queue = ("ann", "default") if number % 2 == 0 else ("bob", f"queue-{number}")
        job = replace(make_job(f"job-{number}"), owner=owner, queue=queue)
        ordering.join(PlacementRequest(job, 1), number, 0.0)
    ordering.shares.holds("bobs", JobHolding("another", "bob", Resources.of(2.0), 0.0), 0.0)
    found = [request.job.owner for request in ordering.turns(WHOLE, 1.0)]
    assert found == (["ann", "bob"] * 4 if order == ("fifo",) else ["ann", *["ann", "bob"] * 3, "bob"])
