"""The register of seeds: those on which something was chosen, and the block of each report (`seeds.yaml`).

Reports take their seeds from `seeds_of`, and call `refuse_used` with all that they are about to draw.
"""

import functools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from agents.experiments.seeded_workload import Draw, canonical
from conf.loader import ConfigError, load
from conf.schema import Name, Strict

PATH = Path(__file__).with_name("seeds.yaml")
Number = Annotated[int, Field(ge=0)]
#: First and last, both included.
Span = Annotated[tuple[Number, Number], Field(strict=False)]


#: The block of runs that see whether all works.
REHEARSAL = "rehearsal"


class UsedSeedError(ConfigError):
    """A result on a seed that something was chosen on; the text names the seed and the use."""


class SeedUse(Strict):
    """Seeds of some sources, and their purpose."""

    purpose: Literal["tuning", "training", "selection", "published"]
    what: str
    sources: Annotated[tuple[Name, ...], Field(strict=False, min_length=1)]
    numbers: Annotated[tuple[Span, ...], Field(strict=False, min_length=1)]

    def covers(self, source: str, number: int) -> bool:
        """Whether the source of that name was used with that number."""
        return source in self.sources and any(first <= number <= last for first, last in self.numbers)


class SeedRegister(Strict):
    """The whole file."""

    sources: Mapping[Name, Mapping[str, object]]
    used: Annotated[tuple[SeedUse, ...], Field(strict=False)]
    blocks: Mapping[Name, Span]

    def uses(self, draw: Draw) -> list[SeedUse]:
        """Uses of drawn workloads; a source that the register does not name has none."""
        names = [name for name, content in self.sources.items() if canonical(content) == draw.source]
        return [use for use in self.used for name in names if use.covers(name, draw.number)]


@dataclass(frozen=True, slots=True)
class SeedRange:
    """Consecutive seeds of a report, its own block's or others."""

    report: str
    first: int
    count: int

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.first, self.first + self.count))

    def __len__(self) -> int:
        return self.count

    def at_most(self, count: int) -> "SeedRange":
        """The first `count` of them, or all."""
        return SeedRange(self.report, self.first, min(count, self.count))

    @property
    def option(self) -> str:
        """The command-line option for seeds of another block than the report's own, with a space before."""
        return "" if self.own and self.report != REHEARSAL else f" --seed {self.first}"

    @property
    def own(self) -> bool:
        """Whether they are of the report's own block."""
        first, last = register().blocks[self.report]
        return first <= self.first and self.first + self.count - 1 <= last

    def __str__(self) -> str:
        span = f"seeds {self.first} to {self.first + self.count - 1}"
        if self.report == REHEARSAL:
            return f"{span}, which are for rehearsals: nothing here is a result"
        if not self.own:
            return f"{span}, which are not of the block of this report"
        return (
            f"{span}, of the block of this report: nothing was tuned, trained or selected on them "
            "(`agents/experiments/seeds.yaml`)"
        )


@functools.cache
def register() -> SeedRegister:
    """The register of this revision; ConfigError for an invalid one."""
    return load(PATH, SeedRegister)


def seeds_of(report: str, count: int, first: int | None = None) -> SeedRange:
    """`count` seeds of the report, from `first` on, or from the first of its block."""
    return SeedRange(report, register().blocks[report][0] if first is None else first, count)


def refuse_used(draws: Iterable[Draw]) -> None:
    """Raise UsedSeedError for the first draw that is registered as used."""
    there = register()
    for draw in draws:
        if uses := there.uses(draw):
            use = uses[0]
            raise UsedSeedError(
                f"seed or position {draw.number} of {draw.name}: not for results, it was used for "
                f"{use.purpose} ({use.what}); {PATH.name} lists used seeds and the free blocks of reports"
            )
