"""Limits of queues that a job could never be within, also alone, in both worlds."""

from collections.abc import Iterable, Iterator, Sequence

from environment.queues.shares import ALL_QUEUES
from environment.queues.types import Most, Queue
from environment.resources import Resources, thousandths, told
from environment.types import Vm

#: Key in the config of the bounds of each user of a queue.
PER_USER = "most_per_user"


def all_queues(most_per_user: Most) -> Queue:
    """All queues as one above them, with limits of each user."""
    return Queue(ALL_QUEUES, most_per_user=most_per_user)


def never(line: Sequence[Queue], needs: Resources) -> str:
    """Reason why a job with this minimum need could never run in the last queue; empty when it could.

    `line` are the queue and those above it, from the top.
    """
    for queue in reversed(line):
        for most, whose, key in bounds_of(queue):
            if why := _beyond(most, needs, key):
                return f"{whose} may have {why}"
    return ""


def too_dear(line: Sequence[Queue], needs: Iterable[tuple[Resources, int]], vms: Iterable[Vm]) -> str:
    """Reason why no VMs are cheap enough for these queues at these sizes; empty when some are.

    An executor costs its share of its VM's price, as its job is charged.
    """
    bounds = [(most, whose, key) for queue in line for most, whose, key in bounds_of(queue)]
    bounds = [each for each in bounds if each[0].dollars_per_hour is not None]
    if not bounds:
        return ""
    there = list(vms)
    least = 0.0
    for size, count in needs:
        places = (vm for vm in there if vm.resources.contains(size))
        least += count * min((vm.price_per_hour * size.share_of(vm.resources) for vm in places), default=0.0)
    for most, whose, key in bounds:
        bound = most.dollars_per_hour or 0.0
        if least > bound + 1e-9:
            return f"{whose} may cost ${bound:g} an hour ({key}.dollars_per_hour), and it would ${least:.4g}"
    return ""


def bounds_of(queue: Queue) -> Iterator[tuple[Most, str, str]]:
    """Bounds of a queue or of `all_queues`, each with its subject in words, and its key in the config."""
    yield queue.most, f"queue {queue.path}", "most"
    if queue.path == ALL_QUEUES:
        yield queue.most_per_user, "each user", f"sharing.{PER_USER}"
    else:
        yield queue.most_per_user, f"each user of queue {queue.path}", PER_USER


def _beyond(most: Most, needs: Resources, key: str) -> str:
    """How the bound is below the need, in words; empty when it is not."""
    for name, bound in most.resources.items():
        if needs.get(name) > thousandths(bound):
            said = f"{key}.{'memory' if name == 'mem' else name}"
            return f"{told(name, bound)} at most ({said}), and the job takes {told(name, needs.amount(name))}"
    for name in ("running", "dollars_per_day", "dollars_per_month"):
        if getattr(most, name) == 0:
            return f"0 {name} at most ({key}.{name}), so none of its jobs ever begins"
    return ""
