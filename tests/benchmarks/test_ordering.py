"""Cost per decision of ordering very many waiting jobs; prints it, and its ratio to a millisecond."""

import time
from dataclasses import replace
from itertools import islice
from random import Random
from statistics import fmean

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from conf.schema.sharing import Criterion
from environment.decisions.decision_round import Verdict
from environment.queues.ordering import Ordering
from environment.queues.shares import JobHolding
from environment.queues.types import ANY, Most, Queue, Queues, Sharing
from environment.resources import NOTHING, Resources
from environment.types import Place, PlacementRequest
from tests.benchmarks.conftest import Show
from tests.benchmarks.measuring import timed
from tests.builders import make_job, make_view, make_vms

JOBS, USERS, TOP, BELOW = 100_000, 1000, 10, 20
WHOLE = Resources.of(4000.0, 16_000_000)
VIEW = make_view(make_vms(1, cpus=1e6, memory_mib=2**34))
#: As many decisions has a round, so many rounds are timed, and so many jobs run.
DECISIONS, ROUNDS, RUNNING = 10, 40, 300
#: So often what a decision costs is measured: the mean is told.
TIMES = 5


class Waiting:
    """Jobs of users in queues, each user in five of them."""

    def __init__(self, order: tuple[Criterion, ...], most: Most) -> None:
        self.pick = pick = Random(1)  # noqa: S311  # no secret hangs on it
        queues = [Queue("default")]
        for top in range(TOP):
            queues.append(Queue(f"q{top}", pick.choice([1.0, 2.0, 3.0])))
            queues += (Queue(f"q{top}.{n}", pick.choice([1.0, 2.0]), most=most) for n in range(BELOW))
        self.ordering = Ordering(Sharing(order, queues=Queues(tuple(queues))))
        leaves = self.ordering.sharing.queues.leaves[1:]
        mine = [pick.sample(leaves, 5) for _ in range(USERS)]
        self.now, self.number, self.made_so_far = 0.0, 0, 0
        self.running: list[PlacementRequest] = []
        for _ in range(JOBS):
            self.now += 0.1
            user = pick.randrange(USERS)
            self.join(self.made(pick.choice(mine[user]), f"user-{user}"))

    def join(self, request: PlacementRequest) -> None:
        """A job comes."""
        self.number += 1
        self.ordering.join(request, self.number, self.now)

    def made(self, queue: str, owner: str) -> PlacementRequest:
        """The next job."""
        pick = self.pick
        size = pick.randint(1, 8), float(pick.randint(1, 6)), pick.randint(1, 10) * 1024
        self.made_so_far += 1
        job = make_job(f"job-{self.made_so_far}", *size, self.now, pick.uniform(10.0, 1000.0))
        job = replace(job, queue=queue, owner=owner, priority=pick.choice([0, 1, 2]))
        return PlacementRequest(job, job.executors)

    def seconds(self, looks: int) -> float:
        """Seconds of a decision that examines so many jobs and places the first, including its reports."""
        spent = 0.0
        for _ in range(ROUNDS):
            self.now += 5.0
            began = time.thread_time()
            turns, placed = self.ordering.turns(WHOLE, self.now), []
            for _ in range(DECISIONS):
                request, *_ = islice(turns, looks)
                placed.append(request)
                turns = turns.after(Verdict(request, VIEW, Place(request.job.id, (0,) * request.count)))
            spent += time.thread_time() - began
            coming = [self.made(request.job.queue, request.job.owner) for request in placed]
            began = time.thread_time()
            for request, next_one in zip(placed, coming, strict=True):
                job = request.job
                self.ordering.leave(job.id)
                held = JobHolding(job.queue, job.owner, job.size * job.executors, 1.0)
                self.ordering.shares.holds(job.id, held, self.now)
                self.join(next_one)
            self.running += placed
            for request in self.running[:-RUNNING]:
                job = request.job
                over = JobHolding(job.queue, job.owner, NOTHING, 0.0)
                self.ordering.shares.holds(job.id, over, self.now)
            self.running = self.running[-RUNNING:]
            spent += time.thread_time() - began
        return spent / (ROUNDS * DECISIONS)


@pytest.mark.parametrize("most", [ANY, Most({"cpus": 60.0}, running=20)], ids=["free", "limited"])
@pytest.mark.parametrize("order", [("fifo",), ("fair",), ("priority", "fair")], ids=str)
def test_order_of_many_jobs(
    order: tuple[Criterion, ...], most: Most, benchmark: BenchmarkFixture, show: Show
) -> None:
    """Where a policy looks at the first job, and where it looks at a window of 256."""
    waiting = Waiting(order, most)
    first = fmean(waiting.seconds(1) for _ in range(TIMES))
    seconds: list[float] = []
    timed(benchmark, lambda: seconds.append(waiting.seconds(256)), rounds=TIMES, warmup=1)
    window = fmean(seconds[1:])
    limits = ", limits" if most else ""
    show(f"{', '.join(order)}{limits}: {JOBS} jobs of {USERS} users in {TOP * BELOW} queues")
    for looks, spent in ((1, first), (256, window)):
        show(f"  {looks} looked at: {spent * 1e3:.3f} ms a decision, {spent / 1e-3:.2f} of a millisecond")
