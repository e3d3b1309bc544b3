"""Sizes of jobs that leave them to Stoker (`auto`), chosen from ended jobs; the same rule in both worlds.

The daemon reads ended jobs from its store (`daemon.submission.shapes`), the simulator from the episode
(`environment.simulation.auto_jobs`).
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace

from conf.schema import JobSpec, SpotUse
from environment.shape_kinds import kinds_of
from environment.types import Vm
from profiles.curve import Curve
from profiles.shapes.advice import ShapeAdvice, advise, any_shape, open_shapes
from profiles.shapes.belief import by_type
from profiles.shapes.candidates import Bounds, OpenShape
from profiles.shapes.errors import KnownTypes
from profiles.shapes.memory_needs import MemoryNeed
from profiles.shapes.runs import JobShape, ShapeRun
from profiles.shapes.sources import distinct

#: Runs of a type, the newest, that are learned from, and ended jobs that are looked at for other types.
#: Chosen: more than the model makes use of.
MOST_RUNS, MOST_OTHERS = 32, 500
#: Shapes, the best ones, that are tried where a queue's limit or the quota is in the way.
_TRIED = 64
#: Other types that are learned from, the newest. Chosen: no prior gets better by more; each takes 32 KiB.
_MOST_TYPES = 32
#: Seconds after which other types are read again, and types and users for which they are kept.
_FRESH, _KEPT = 600.0, 16


class OtherTypes:
    """Beliefs about a type from others, by the type and by the owners that may be learned from; cached."""

    def __init__(self) -> None:
        #: By type and owners, the others that were known, and when they were read.
        self._known: dict[tuple[str, ...], tuple[float, KnownTypes]] = {}

    def beside(
        self, type_name: str, owners: Collection[str], now: float, newest: Callable[[], Iterable[ShapeRun]]
    ) -> KnownTypes:
        """The other types among the `newest` runs, which are read again after a while; `now` in seconds."""
        key = (type_name, *owners)
        found = self._known.get(key)
        if found is None or now - found[0] > _FRESH:
            others = [
                runs[:MOST_RUNS]
                for name, runs in by_type(newest()).items()
                if name != type_name and distinct(runs) > 1
            ]
            if len(self._known) >= _KEPT:
                self._known.clear()
            found = self._known[key] = now, KnownTypes(others[:_MOST_TYPES])
        return found[1]


def chosen(
    own: Sequence[ShapeRun],
    known: KnownTypes,
    vms: Collection[Vm],
    spot: SpotUse,
    within: OpenShape,
    beta: float,
    fits: Callable[[JobShape], bool],
    need: MemoryNeed | None = None,
) -> ShapeAdvice:
    """The best shape for a type with these runs among those that fit, or the best one where none does.

    Without VMs, which may come later, it is the first shape within the bounds. The job may be on spot VMs as
    `spot` says. `beta` weighs money, the rest time. ShapeError where no VM has room for any shape.
    """
    shapes = shapes_on(vms, spot, within, own, need) if vms else [any_shape(within)]
    advice = advise(own, known, shapes, within, beta=beta)
    order = [advice.shape, *(each.shape for each in advice.ranked[:_TRIED])]
    return replace(advice, shape=next((one for one in order if fits(one)), advice.shape))


def shapes_on(
    vms: Iterable[Vm],
    spot: SpotUse,
    within: OpenShape,
    own: Sequence[ShapeRun] = (),
    need: MemoryNeed | None = None,
) -> list[JobShape]:
    """Shapes of a job with these runs of its type that those of the VMs have room for which it may be on.

    ShapeError where there is none.
    """
    kinds = kinds_of(vm for vm in vms if spot == "allowed" or vm.spot == (spot == "only"))
    return open_shapes(kinds, within, own, need)


def names_type(type_name: str) -> bool:
    """Whether it names a type, of which jobs are alike; jobs that name none learn from no other."""
    return type_name != str(JobSpec.model_fields["type"].default)


def sized_by_curve(auto: Collection[str], *, measured: bool) -> bool:
    """Whether the number of executors follows from the curve of a type, instead of from ended jobs."""
    return measured and set(auto) == {"executors"}


def counts_by_curve(
    curve: Curve, bounds: Bounds, cpus: float, memory_mib: int, min_executors: int | None
) -> tuple[int, int]:
    """The fewest and the most executors that are worth having by a curve; the policy chooses between them."""
    least, most = bounds
    fewest = max(min_executors or 1, int(least or 1))
    worth = curve.worth_having(cpus, memory_mib)
    return fewest, max(fewest, min(worth, int(most or worth)))
