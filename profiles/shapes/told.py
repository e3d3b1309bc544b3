"""How the size of a job that was left to Stoker was chosen, as it is stored and told with the job."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from conf.util.counted import counted
from conf.util.dollars import money

if TYPE_CHECKING:
    from profiles.shapes.choice import RankedShape


def seconds_text(seconds: float) -> str:
    """Seconds without their unit, in three digits or whole."""
    return f"{seconds:.3g}" if seconds < 100 else f"{seconds:,.0f}"


class ShapeEstimate(NamedTuple):
    """A shape, its seconds (median, and between which with 80 %), and the dollars an hour of it."""

    executors: int
    cpus: float
    memory_mib: int
    seconds: float
    least: float
    most: float
    dollars_per_hour: float

    @staticmethod
    def of(ranked: "RankedShape") -> "ShapeEstimate":
        """The estimate for a ranked shape."""
        shape = ranked.shape
        return ShapeEstimate(
            shape.executors,
            shape.cores,
            round(shape.memory_gib * 1024),
            ranked.seconds,
            ranked.least,
            ranked.most,
            round(shape.dollars_per_hour, 9),
        )

    @property
    def told(self) -> str:
        """The same in words."""
        return f"{self.size}: {self.spent}"

    @property
    def size(self) -> str:
        """Its executors in words."""
        each = f"{counted(self.cpus, 'cpu')} and {self.memory_mib / 1024:g} GiB"
        return f"{counted(self.executors, 'executor')} of {each}"

    @property
    def spent(self) -> str:
        """Seconds and dollars in words."""
        seconds = [seconds_text(amount) for amount in self[3:6]]
        dollars = [money(amount) for amount in self.dollars]
        return (
            f"{seconds[0]} s ({seconds[1]} to {seconds[2]}) and {dollars[0]} ({dollars[1]} to {dollars[2]})"
        )

    @property
    def dollars(self) -> tuple[float, float, float]:
        """Dollars at the median and at both ends of its seconds."""
        rate = self.dollars_per_hour / 3600
        return rate * self.seconds, rate * self.least, rate * self.most


class ShapeChoice(NamedTuple):
    """The fields that were left to Stoker, the numbers of known runs and shapes, and their findings.

    `taken` is None where no run was known; `smaller` and `larger` are the next shapes beside it, where there
    are any. `learned` tells whether the model chose the shape, not the rule for first runs.
    """

    fields: tuple[str, ...]
    runs: int
    shapes: int
    learned: bool
    taken: ShapeEstimate | None = None
    smaller: ShapeEstimate | None = None
    larger: ShapeEstimate | None = None
    #: Memory, MiB, that it has at least since executors of its type had too little, or by the largest peak
    #: of theirs (`peak_mib`, with overhead); None where neither is known.
    needed_mib: int | None = None
    peak_mib: int | None = None

    @staticmethod
    def read(values: Sequence[Any]) -> "ShapeChoice":
        """The choice of which JSON made lists."""
        fields, runs, shapes, learned, *more = values
        taken, smaller, larger = (None if each is None else ShapeEstimate(*each) for each in more[:3])
        return ShapeChoice(tuple(fields), runs, shapes, learned, taken, smaller, larger, *more[3:])

    @property
    def told(self) -> str:
        """The same in words."""
        named = f"{', '.join(self.fields)} left to Stoker"
        needed = [] if self.needed_mib is None else [_needed(self.needed_mib, self.peak_mib)]
        if self.taken is None:
            untried = f"{named}: no run of its type is known, so that it is tried on the default shape"
            return "; ".join([untried, *needed])
        known = f"{counted(self.runs, 'run')} of its type on {counted(self.shapes, 'shape')}"
        if self.learned:
            parts = [f"{named}: by {known}, {self.taken.told}, 8 of 10 times"]
        else:
            parts = [f"{named}: {known}, too few to choose by, so that another is tried: {self.taken.told}"]
        for word, beside in (("smaller", self.smaller), ("larger", self.larger)):
            parts += [f"the next {word}, {beside.told}"] if beside else []
        return "; ".join([*parts, *needed])


def _needed(memory_mib: int, peak_mib: int | None) -> str:
    least = f"no less than {memory_mib / 1024:g} GiB each, since executors of its type"
    if peak_mib is None:
        return f"{least} had too little memory"
    margin = memory_mib / peak_mib - 1
    return f"{least} were full with {peak_mib / 1024:.3g} GiB at their peak: a margin of {margin:.0%}"
