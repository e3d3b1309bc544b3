"""The order of jobs as its text has it, found anew each time, without regard to how long that takes.

Its only state is a history of the resources that jobs held, with start and end.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from environment.queues.shares import PAST
from environment.queues.types import Queue, Sharing
from environment.resources import NOTHING, Resources, total
from environment.types import Job, PlacementRequest


@dataclass
class Held:
    """Resources that a job held, with start and end."""

    job: Job
    amount: Resources
    since: float
    until: float = math.inf


@dataclass
class Naive:
    """Waiting jobs, by number, and the history of held resources."""

    sharing: Sharing
    whole: Resources
    waiting: dict[str, tuple[int, PlacementRequest]] = field(default_factory=dict)
    history: list[Held] = field(default_factory=list)

    def order(self, now: float) -> list[str]:
        """The ids of the jobs that may be placed, in order."""
        return [request.job.id for request in self._order(now)]

    def _order(self, now: float) -> list[PlacementRequest]:
        left = {job_id: request for job_id, (_, request) in self.waiting.items()}
        found: list[PlacementRequest] = []
        kept: set[tuple[str, str | None]] = set()
        old = [r for r in left.values() if r.job.submitted_at <= now - self.sharing.starves_after]
        for request in sorted(old, key=self._age):
            if kept & set(self._scopes(request.job)):
                continue
            over = self._over(request, now)
            if over is None:
                found.append(left.pop(request.job.id))
            elif self._ever(request):
                others_hold_nothing = Naive(
                    self.sharing,
                    self.whole,
                    {},
                    [h for h in self.history if h.job.owner == request.job.owner],
                )
                alone = request.job.owner and others_hold_nothing._over(request, now)
                kept.add((over[0], request.job.owner) if alone else over)
        may = [r for r in left.values() if not kept & set(self._scopes(r.job)) and self._over(r, now) is None]
        while may:
            chosen = self._next(may, found, now)
            may.remove(chosen)
            found.append(chosen)
        return found

    def _age(self, request: PlacementRequest) -> tuple[float, int]:
        return request.job.submitted_at, self.waiting[request.job.id][0]

    def _line(self, path: str) -> list[Queue]:
        names = path.split(".")
        known = {queue.path: queue for queue in self.sharing.queues}
        if path not in known:
            return [Queue(path if known else "default")]
        return [known[".".join(names[:count])] for count in range(1, len(names) + 1)]

    def _scopes(self, job: Job) -> list[tuple[str, str | None]]:
        line = self._line(job.queue)
        return [(q.path, None) for q in line] + [(q.path, job.owner) for q in line]

    # ---- who stands where --------------------------------------------------------------------------

    def _stands(self, criterion: str, job: Job, now: float) -> tuple[float, ...]:
        if criterion == "priority":
            return (-job.priority,)
        if criterion == "shortest":
            return (math.inf if job.expected_duration is None else job.expected_duration,)
        if criterion == "deadline":
            if job.deadline is None:
                return (0, math.inf)
            return (int(now + (job.expected_duration or 0) > job.deadline), job.deadline)
        return ()

    def _next(
        self, may: Sequence[PlacementRequest], found: Sequence[PlacementRequest], now: float
    ) -> PlacementRequest:
        order = self.sharing.order
        cut = order.index("fair") if "fair" in order else len(order)

        def stand(request: PlacementRequest, criteria: Sequence[str]) -> tuple[tuple[float, ...], ...]:
            return tuple(self._stands(criterion, request.job, now) for criterion in criteria)

        best = min(stand(request, order[:cut]) for request in may)
        may = [request for request in may if stand(request, order[:cut]) == best]
        if cut == len(order):
            return min(may, key=self._age)

        def within(request: PlacementRequest) -> tuple[object, ...]:
            return (*stand(request, order[cut + 1 :]), self._age(request))

        def user_share(queue: Queue, user: str) -> float:
            return round(self._share((queue.path, user), found, now) / queue.weight_of(user), 12)

        def of_user(queue: Queue, requests: list[PlacementRequest]) -> PlacementRequest:
            firsts = [
                min((r for r in requests if r.job.owner == user), key=within)
                for user in {r.job.owner for r in requests}
            ]
            return min(firsts, key=lambda r: (user_share(queue, r.job.owner), within(r)))

        def ranked(
            depth: int, requests: list[PlacementRequest]
        ) -> tuple[tuple[float, ...], PlacementRequest]:
            """How the best of the queues at this depth stands, and its next job."""
            children: dict[str, list[PlacementRequest]] = {}
            for request in requests:
                children.setdefault(self._line(request.job.queue)[depth].path, []).append(request)
            stands = []
            for path, members in children.items():
                queue, part = self._line(path)[-1], None
                if any(len(self._line(r.job.queue)) > depth + 1 for r in members):
                    rank, chosen = ranked(depth + 1, members)
                    part = rank[1] if rank[0] == 0 else None
                else:
                    chosen = of_user(queue, members)
                if queue.guaranteed:
                    held = self._held((path, None), now) + total(
                        _takes(r) for r in found if self._is_in(r, path)
                    )
                    own = max(held.get(n) / amount for n, amount in queue.guaranteed.thousandths.items())
                    part = own if own < 1 else part
                share = self._share((path, None), found, now) / queue.weight
                stands.append(((0, part) if part is not None else (1, share), self._age(chosen), chosen))
            rank, _, chosen = min(stands, key=lambda one: one[:2])
            return rank, chosen

        return ranked(0, list(may))[1]

    # ---- who has what ------------------------------------------------------------------------------

    def _is_in(self, request: PlacementRequest, path: str) -> bool:
        return any(queue.path == path for queue in self._line(request.job.queue))

    def _of(self, scope: tuple[str, str | None]) -> list[Held]:
        return [each for each in self.history if scope in self._scopes(each.job)]

    def _held(self, scope: tuple[str, str | None], now: float) -> Resources:
        return total(each.amount for each in self._of(scope) if each.since <= now < each.until)

    def _share(self, scope: tuple[str, str | None], found: Sequence[PlacementRequest], now: float) -> float:
        more = total(_takes(r) for r in found if scope in self._scopes(r.job))
        held, half = self._held(scope, now) + more, self.sharing.half_life
        past: dict[str, float] = {}
        if half:
            step = half / 16
            at = now // step * step
            for each in self._of(scope):
                since = each.since // step * step
                until = at if each.until > now else each.until // step * step
                weight = 2.0 ** (-(at - until) / half) - 2.0 ** (-(at - since) / half)
                for name, amount in each.amount.thousandths.items():
                    past[name] = past.get(name, 0.0) + amount * weight
        parts = (
            (held.get(n) + PAST * past.get(n, 0.0)) / amount for n, amount in self.whole.thousandths.items()
        )
        return max(parts)

    def _over(self, request: PlacementRequest, now: float) -> tuple[str, str | None] | None:
        job, least = request.job, request.size * request.fewest
        for of_user in (False, True):
            for queue in self._line(job.queue):
                most = queue.most_per_user if of_user else queue.most
                scope = (queue.path, job.owner if of_user else None)
                held = self._held(scope, now) + least
                if any(held.get(name) > amount * 1000 for name, amount in most.resources.items()):
                    return scope
                running = [each for each in self._of(scope) if each.since <= now < each.until]
                if most.running is not None and len(running) >= most.running:
                    return scope
        return None

    def _ever(self, request: PlacementRequest) -> bool:
        return Naive(self.sharing, self.whole)._over(request, 0.0) is None


def _takes(request: PlacementRequest) -> Resources:
    return total(request.asked) if request.count else NOTHING
