"""The report on moves: what it saves to empty VMs whose executors fit on others. `runs.py` makes the runs."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from agents.experiments.elastic.report import averages
from agents.experiments.elastic.runs import play, with_moves
from agents.experiments.paired import LEAST_PAIRS, LEAST_WINDOWS, METHOD, difference, told, verdict
from agents.experiments.runner import Runner
from agents.experiments.seed_register import SeedRange
from conf.defaults import DRAIN_SECONDS

#: Aims for the Facebook day: to pay so much less with moves, and to repeat at most so much work, per cent.
LESS, REPEATED = 0.05, 0.5
_DAY = "Facebook day, moves"


def report(folder: Path, seeds: SeedRange, runner: Runner, jobs: int | None = None) -> Path:
    """Run the comparison and write moves.md into the folder; returns the path.

    `jobs` is another number of jobs of every workload, the first ones of a day.
    """
    folder.mkdir(parents=True, exist_ok=True)
    runs = play(with_moves(), seeds, runner, jobs)
    asked = seeds.option + (f" --jobs {jobs}" if jobs else "")
    parts = [_HEAD.format(count=len(seeds), asked=asked, seeds=seeds, method=METHOD, drain=DRAIN_SECONDS)]
    rows, findings = list[str](), list[str]()
    for scene in with_moves():
        least = LEAST_PAIRS if scene.seeds >= LEAST_PAIRS else LEAST_WINDOWS
        for boot in scene.boots:
            found = averages([run for run in runs if (run.scene, run.boot) == (scene.name, boot)])
            for stays, moves in list(pairwise(found))[::2]:
                one, other = found[moves], found[stays]
                bill, completion = (difference(one[of], other[of], least) for of in ("bill", "completion"))
                cells = [
                    f"{scene.name.removesuffix(', moves')}, {boot} s",
                    f"`{stays.partition(',')[0]}`",
                    f"{other['bill'].mean:,.2f}",
                    f"{one['bill'].mean:,.2f}",
                    f"{bill}",
                    f"{completion}",
                    f"{one['moved'].mean:,.0f}",
                    f"{one['repeated'].mean:.2f} %",
                ]
                rows.append(f"| {' | '.join(cells)} |")
                if scene.name == _DAY:
                    most = one["repeated"].mean
                    findings.append(
                        f"* Facebook day, boots of {boot} s: bill {told(bill, 'less', 'more')}; {LESS:.0%} "
                        f"less is {verdict(bill.at_most(-LESS), 'reached', 'missed')}. {most:.2f} % of the "
                        f"work is repeated; at most {REPEATED} % is "
                        f"{verdict(most <= REPEATED, 'reached', 'missed')}."
                    )
    parts += [*findings, "", *_table(rows), _LIMITS]
    path = folder / "moves.md"
    path.write_text("\n".join(parts), encoding="utf-8")
    return path


def _table(rows: list[str]) -> Iterator[str]:
    titles = [
        "workload, boots",
        "policy",
        "bill ($)",
        "with moves",
        "bill",
        "completion",
        "moved",
        "repeated",
    ]
    yield f"| {' | '.join(titles)} |"
    yield "|---|---|" + "---:|" * (len(titles) - 2)
    yield from rows
    yield ""


_HEAD = """# VMs that are emptied while jobs run

```console
$ stoker reproduce moves --seeds {count}{asked}
```

Each policy with the idle policy `planned`, once with executors that stay where they are, once with
`--consolidate fitting` ([Moves](../elastic.md#moves)): a VM is emptied whose executors fit on other VMs in
use, where that saves more, by beliefs, than {drain:g} s of draining, repeated work and longer use of other
VMs cost. Truth: the profile's durations; belief 0.2. Seeds: {seeds}. {method}
"""

_LIMITS = """*Moved* are executors of a run, *repeated* is the share of all work that is done again, both on
average. Draining is charged in full: a VM that is emptied is paid for and used by nobody meanwhile. Jobs of
these workloads last some minutes, in which a VM less can be paid for; jobs of hours leave more.
"""
