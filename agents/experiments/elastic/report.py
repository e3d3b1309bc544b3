"""The reports on elastic VMs, and on moves there: tables, findings, a picture. `runs.py` makes the runs."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from agents.experiments.elastic.runs import ElasticRun, play, scenes, with_every_keeper, with_moves
from agents.experiments.elastic.setups import EVERY_KEEPER, EVERY_POLICY
from agents.experiments.paired import (
    LEAST_PAIRS,
    LEAST_WINDOWS,
    METHOD,
    Statistic,
    difference,
    told,
    verdict,
)
from agents.experiments.reports import TRACES
from agents.experiments.runner import Runner
from agents.experiments.seed_register import SeedRange
from conf.defaults import DRAIN_SECONDS
from conf.util.counted import counted

#: By number of a run the title and the digits.
_TITLES = {
    "bill": ("bill ($)", 1),
    "completion": ("completion (s)", 0),
    "p95": ("95 % completion (s)", 0),
    "openings": ("opened", 0),
    "booting": ("booting (%)", 1),
    "idle": ("idle (%)", 1),
}
_AUTOSCALER, _KARPENTER = "like Cluster Autoscaler", "like Karpenter"
#: All partners, the baselines too.
_ALL = "any partner"
#: Aims: to pay so much less than the cheapest variant of each of them, at no later completion.
AIMS = {_AUTOSCALER: 0.35, _KARPENTER: 0.10, _ALL: 0.0}
#: Those of ours that are judged, chosen before.
JUDGED = ("greedy, planned", "lookahead, planned")
_OURS = ("greedy", "lookahead")

#: By setup and number.
Found = Mapping[str, Mapping[str, Statistic]]


def report(folder: Path, seeds: SeedRange, runner: Runner, jobs: int | None = None) -> Path:
    """Run the comparison, write elastic.md and its picture into the folder; returns the path.

    `jobs` is another number of jobs of every workload, the first ones of a day.
    """
    folder.mkdir(parents=True, exist_ok=True)
    runs = play((*scenes(), *with_every_keeper()), seeds, runner, jobs)
    # A scene of few seeds is of days or windows of a trace.
    least = {scene.name: LEAST_PAIRS if scene.seeds >= LEAST_PAIRS else LEAST_WINDOWS for scene in scenes()}
    apart = {scene.name for scene in with_every_keeper()}
    of_keepers = [run for run in runs if run.scene in apart]
    runs = [run for run in runs if run.scene not in apart]
    asked = seeds.option + (f" --jobs {jobs}" if jobs else "")
    parts = [HEAD.format(count=len(seeds), asked=asked, seeds=seeds, method=METHOD), TRACES]
    for name in dict.fromkeys(run.scene for run in runs):
        of_scene = [run for run in runs if run.scene == name]
        parts += [f"## {name}\n", about(of_scene)]
        for boot in dict.fromkeys(run.boot for run in of_scene):
            found = averages([run for run in of_scene if run.boot == boot])
            parts += [
                f"### {name}, boots of {boot} s\n", table(found, least[name]), findings(found, least[name])
            ]  # fmt: skip
    parts.append(keepers(of_keepers))
    draw(runs, folder / "elastic.png")
    parts.insert(1, "![Bill over completion](elastic.png)\n")
    path = folder / "elastic.md"
    path.write_text("\n".join(parts), encoding="utf-8")
    return path


def averages(runs: Sequence[ElasticRun]) -> Found:
    """Numbers by seed, by setup and number."""
    by_setup: dict[str, list[ElasticRun]] = {}
    for run in runs:
        by_setup.setdefault(run.setup, []).append(run)
    return {
        setup: {number: Statistic({run.seed: run.numbers[number] for run in of}) for number in of[0].numbers}
        for setup, of in by_setup.items()
    }


def best_of(found: Found, partner: str) -> str:
    """The variant of a partner with the least mean bill."""
    of = [
        setup
        for setup in found
        if setup.startswith(partner) or (partner == _ALL and not setup.startswith(("fixed", *_OURS)))
    ]
    return min(of, key=lambda setup: found[setup]["bill"].mean)


def table(found: Found, least: int) -> str:
    """A Markdown table: a row for each setup, its bill beside that of each partner's cheapest variant."""
    partners = [best_of(found, partner) for partner in AIMS]
    titles = [title for title, _ in _TITLES.values()]
    titles[1:1] = [f"beside the cheapest of {partner.removeprefix('like ')}" for partner in AIMS]
    lines = ["| policy and idle policy | " + " | ".join(titles) + " |", "|---|" + "---:|" * len(titles)]
    for setup, numbers in found.items():
        cells = [_cell(numbers[number], digits) for number, (_, digits) in _TITLES.items()]
        cells[1:1] = [str(difference(numbers["bill"], found[partner]["bill"], least)) for partner in partners]
        lines.append(f"| {setup} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _cell(value: Statistic, digits: int) -> str:
    return f"{value.mean:,.{digits}f} ± {value.spread:,.{digits}f}"


def findings(found: Found, least: int) -> str:
    """Savings of ours against the cheapest variant of each partner, at no later a completion."""
    lines = []
    for setup in (judged for judged in JUDGED if judged in found):
        for partner, aim in AIMS.items():
            best = best_of(found, partner)
            bill, completion = (
                difference(found[setup][number], found[best][number], least)
                for number in ("bill", "completion")
            )
            holds = False if completion.higher else bill.at_most(-aim) if aim else bill.below()
            said = f"{aim:.0%} less" if aim else "less"
            lines.append(
                f"* `{setup}` beside `{best}`, the cheapest of {partner.removeprefix('like ')}: bill "
                f"{told(bill, 'less', 'more')}; completion {told(completion, 'sooner', 'later')}. The aim, "
                f"{said} and no later, is {verdict(holds, 'reached', 'missed')}."
            )
    return "\n".join(lines) + "\n"


def keepers(runs: Sequence[ElasticRun]) -> str:
    """The section on each policy with each idle policy: a table for each scene."""
    parts = [_KEEPERS]
    for name in dict.fromkeys(run.scene for run in runs):
        of_scene = [run for run in runs if run.scene == name]
        found, seeds = averages(of_scene), {run.seed for run in of_scene}
        head = " | ".join(["policy", *map(str, EVERY_KEEPER)])
        lines = [f"| {head} |", "|---|" + "---:|" * len(EVERY_KEEPER)]
        for policy in EVERY_POLICY:
            of = [found.get(f"{policy}, {keeper}") for keeper in EVERY_KEEPER]
            if any(of):
                cells = (_bill_and_completion(numbers, len(seeds)) if numbers else "" for numbers in of)
                lines.append(f"| `{policy}` | " + " | ".join(cells) + " |")
        parts += [f"### {name}\n", "\n".join(lines) + "\n", *map(_least_of(found), ("bill", "completion"))]
    return "\n".join(parts)


def _least_of(found: Found) -> Callable[[str], str]:
    def line(number: str) -> str:
        first, second = sorted(found, key=lambda setup: found[setup][number].mean)[:2]
        beside = difference(found[first][number], found[second][number])
        return (
            f"* Least mean {number}: `{first}`; beside the next, `{second}`: {told(beside, 'less', 'more')}."
        )

    return line


def _bill_and_completion(found: Mapping[str, Statistic], seeds: int) -> str:
    bill, completion = found["bill"], found["completion"]
    if seeds == 1:
        return f"{bill.mean:,.1f} $, {completion.mean:,.0f} s"
    return f"{_cell(bill, 1)} $, {_cell(completion, 0)} s"


_KEEPERS = """## Every policy with every idle policy

Boots of 60 s. Cells are the bill and the average completion. `dqn` and `reinforce` are the trained models in
this repository; `ogasched` gives executors less than they ask for. A day has one seed, and omits `ilp`, which
takes minutes for it.
"""


def about(runs: Sequence[ElasticRun]) -> str:
    """Introduction to a scene before its tables."""
    fixed = {run.setup: run.vms for run in runs if run.setup.startswith("fixed")}
    bound = Statistic({run.seed: run.numbers["bound"] for run in runs})
    said = f"No schedule pays less than {_cell(bound, 1)} dollars: perfect packing, no idle VMs, no boots."
    if fixed:
        said += (
            " Fixed clusters have "
            + " and ".join(
                f"{counted(count, 'VM')} ({name.removeprefix('fixed, ')})" for name, count in fixed.items()
            )
            + "."
        )
    if len(seeds := {run.seed for run in runs}) == 1:
        said += f" All figures are of the seed {min(seeds)} alone, so the spread is unknown."
    refused = max(run.refused for run in runs)
    return said + (f" {counted(refused, 'task')} larger than any VM left out." if refused else "") + "\n"


def draw(runs: Sequence[ElasticRun], path: Path) -> None:
    """Bill over completion of the Facebook day, a panel for each boot, into a PNG file."""
    from matplotlib.figure import Figure  # a second to import, and only pictures need it

    of_day = [run for run in runs if run.scene == "Facebook day"]
    boots = list(dict.fromkeys(run.boot for run in of_day))
    figure = Figure(figsize=(4.6 * len(boots), 5.4), layout="constrained")
    panels = figure.subplots(1, len(boots), squeeze=False, sharey=True)[0]
    for axes, boot in zip(panels, boots, strict=True):
        found = averages([run for run in of_day if run.boot == boot])
        for number, (setup, of) in enumerate(found.items()):
            if setup == "fixed, for the mean":
                continue  # its jobs queue for hours
            axes.errorbar(
                of["completion"].mean,
                of["bill"].mean,
                xerr=of["completion"].spread,
                yerr=of["bill"].spread,
                marker="osD^v<>ph*"[number % 10],
                markersize=9 if setup.startswith("greedy") else 6,
                color=f"C{number % 10}",
                linestyle="none",
                elinewidth=0.6,
                label=setup,
            )
        axes.axhline(
            next(iter(found.values()))["bound"].mean, color="k", linewidth=0.8, linestyle=":", label="bound"
        )
        axes.set(title=f"boots of {boot} s", xlabel="average completion (s)")
        axes.grid(alpha=0.3)
    panels[0].set(ylabel="bill ($), a day of Facebook's arrivals", yscale="log")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, fontsize="small")
    figure.savefig(path, dpi=100)


#: Text before the tables.
HEAD = """# The bill of clusters that open and close VMs

Made by `stoker reproduce elastic --seeds {count}{asked}`, with {seeds}.

The same jobs run on VMs that are opened when needed and closed when not ([elastic.md](../elastic.md)). A VM
boots for 30, 60 or 120 seconds, is charged for a minute at least, and then by the second. Durations are those
of the profiles (truth `profile`), and believed with an error of 20 % (belief `0.2`); the durations of
Alibaba's tasks are unknown. Cells are mean ± standard deviation over seeds; *beside* are differences of
bills. {method}

* *fixed*: VMs that are always open: all of the cluster, or as many as have the cores used on average; `ff`
  decides.
* *like Cluster Autoscaler*: `cluster_autoscaler`, in variants of job order, kube-scheduler's scoring and the
  expander that chooses new VMs; a VM is closed when it has been idle for ten minutes.
* *like Karpenter*: `karpenter`, which fills open VMs and opens the cheapest that fits, in variants of job
  order and consolidation rule; an empty VM is closed at once, or (*kept*) when it has been idle for as long
  as it boots. [elastic.md](../elastic.md#partners) lists the settings and where each is documented.
* Baselines with overtaking, which close VMs at once, are also partners.
* `greedy` and `lookahead` are Stoker's, each with the idle policy that closes VMs.

The policies differ in their inputs and in what they may do:

| policy | inputs on jobs, besides their sizes | delays a job that fits | lets jobs overtake another |
|---|---|---|---|
| *fixed* | nothing | no | no |
| like either autoscaler | nothing; *shortest*, *best*: expected durations | no | 128 at most |
| baselines, *shortest*, *best* | expected durations; `aep`, `ilp`: preferred placement | no | 128 at most |
| `greedy` | the same, and 256 jobs of the queue | for 0.5x its expected duration | 128 at most |
| `lookahead` | the same, and 256 jobs of the queue | for 2x its expected duration | 128 at most |

Each partner is represented by its cheapest variant in each table, selected on the seeds of that table, which
favours the partner. The policies judged below a table were chosen beforehand: `greedy` and `lookahead`, each
`planned`.

*Completion* is from submission to end, boots included. *Booting* and *idle* are shares of the bill; *idle*
includes charges beyond the time a VM was open. The rest of the bill is for VMs with executors, including
their unused resources. The bound ignores boots and jobs that pack badly. A few of Alibaba's tasks last for
weeks, which no policy knows in advance: the VMs that these keep open make up most of the bill.
"""


#: Aims for the Facebook day: to pay so much less with moves, and to repeat at most so much work, per cent.
_MOVES_LESS, _MOVES_REPEATED = 0.05, 0.5
_MOVES_DAY = "Facebook day, moves"


def report_moves(folder: Path, seeds: SeedRange, runner: Runner, jobs: int | None = None) -> Path:
    """Run the comparison and write moves.md into the folder; returns the path.

    `jobs` is another number of jobs of every workload, the first ones of a day.
    """
    folder.mkdir(parents=True, exist_ok=True)
    runs = play(with_moves(), seeds, runner, jobs)
    asked = seeds.option + (f" --jobs {jobs}" if jobs else "")
    parts = [
        _MOVES_HEAD.format(count=len(seeds), asked=asked, seeds=seeds, method=METHOD, drain=DRAIN_SECONDS),
        TRACES,
    ]
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
                if scene.name == _MOVES_DAY:
                    most = one["repeated"].mean
                    findings.append(
                        f"* Facebook day, boots of {boot} s: bill {told(bill, 'less', 'more')}; "
                        f"{_MOVES_LESS:.0%} less is "
                        f"{verdict(bill.at_most(-_MOVES_LESS), 'reached', 'missed')}. {most:.2f} % of the "
                        f"work is repeated; at most {_MOVES_REPEATED} % is "
                        f"{verdict(most <= _MOVES_REPEATED, 'reached', 'missed')}."
                    )
    parts += [*findings, "", *_moves_table(rows), _MOVES_LIMITS]
    path = folder / "moves.md"
    path.write_text("\n".join(parts), encoding="utf-8")
    return path


def _moves_table(rows: list[str]) -> Iterator[str]:
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


_MOVES_HEAD = """# VMs that are emptied while jobs run

```console
$ stoker reproduce moves --seeds {count}{asked}
```

Each policy with the idle policy `planned`, once with executors that stay where they are, once with
`--consolidate fitting` ([Moves](../elastic.md#moves)): a VM is emptied whose executors fit on other VMs in
use, where that saves more, by beliefs, than {drain:g} s of draining, repeated work and longer use of other
VMs cost. Truth: the profile's durations; belief 0.2. Seeds: {seeds}. {method}
"""

_MOVES_LIMITS = """*Moved* are executors of a run, *repeated* is the share of all work that is done again,
both on average. Draining is charged in full: a VM that is emptied is paid for and used by nobody meanwhile.
Jobs of these workloads last some minutes, in which a VM less can be paid for; jobs of hours leave more.
"""
