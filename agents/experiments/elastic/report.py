"""The report on elastic VMs: tables, the main findings, and the picture. `runs.py` makes the runs."""

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from agents.experiments.comparison import Progress, Statistic
from agents.experiments.elastic.runs import (
    EVERY_KEEPER,
    EVERY_POLICY,
    FIRST_SEED,
    ElasticRun,
    play,
    scenes,
    with_every_keeper,
)

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
#: What is aimed at: to pay so much less than each of them, at no longer a completion.
AIMS = {_AUTOSCALER: 0.45, _KARPENTER: 0.12}

#: By setup and number.
Found = Mapping[str, Mapping[str, Statistic]]


def report(folder: Path, seeds: int, jobs: int | None = None, progress: Progress | None = None) -> Path:
    """Run the comparison, write elastic.md and its picture into the folder; returns the path.

    `jobs` is another number of jobs of every workload, the first ones of a day.
    """
    folder.mkdir(parents=True, exist_ok=True)
    runs = play((*scenes(), *with_every_keeper()), seeds, jobs, progress)
    apart = {scene.name for scene in with_every_keeper()}
    of_keepers = [run for run in runs if run.scene in apart]
    runs = [run for run in runs if run.scene not in apart]
    asked = f" --jobs {jobs}" if jobs else ""
    parts = [HEAD.format(seeds=seeds, asked=asked, first=FIRST_SEED, last=FIRST_SEED + seeds - 1)]
    for name in dict.fromkeys(run.scene for run in runs):
        of_scene = [run for run in runs if run.scene == name]
        parts += [f"## {name}\n", about(of_scene)]
        for boot in dict.fromkeys(run.boot for run in of_scene):
            found = averages([run for run in of_scene if run.boot == boot])
            parts += [f"### {name}, boots of {boot} s\n", table(found), findings(found)]
    parts.append(keepers(of_keepers))
    draw(runs, folder / "elastic.png")
    parts.insert(1, "![Bill over completion](elastic.png)\n")
    path = folder / "elastic.md"
    path.write_text("\n".join(parts), encoding="utf-8")
    return path


def averages(runs: Sequence[ElasticRun]) -> Found:
    """Mean and standard deviation over seeds, by setup and number."""
    return {
        setup: {
            number: _statistic([run.numbers[number] for run in runs if run.setup == setup])
            for number in runs[0].numbers
        }
        for setup in dict.fromkeys(run.setup for run in runs)
    }


def _statistic(values: Sequence[float]) -> Statistic:
    return Statistic(statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else 0.0)


def table(found: Found) -> str:
    """A Markdown table: a row for each setup."""
    titles = [title for title, _ in _TITLES.values()]
    lines = ["| who decides and keeps | " + " | ".join(titles) + " |", "|---|" + "---:|" * len(titles)]
    for setup, numbers in found.items():
        cells = (_cell(numbers[number], digits) for number, (_, digits) in _TITLES.items())
        lines.append(f"| {setup} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _cell(value: Statistic, digits: int) -> str:
    return f"{value.mean:,.{digits}f} ± {value.spread:,.{digits}f}"


def findings(found: Found) -> str:
    """Savings of our policies against each partner, at no longer a completion."""
    ours = [setup for setup in found if setup not in AIMS and not setup.startswith(("fixed", "like"))]
    lines = []
    for partner, aim in AIMS.items():
        bill, completion = (found[partner][number].mean for number in ("bill", "completion"))
        name = partner.removeprefix("like ")
        within = [setup for setup in ours if found[setup]["completion"].mean <= completion]
        cheapest = min(ours, key=lambda setup: found[setup]["bill"].mean)
        if within:
            best = min(within, key=lambda setup: found[setup]["bill"].mean)
            saved = 1 - found[best]["bill"].mean / bill
            reached = "reached" if saved >= aim else "missed"
            lines.append(
                f"* Of those whose jobs are done no later than {name}'s, `{best}` pays least: {saved:.1%} "
                f"less, done {completion - found[best]['completion'].mean:.0f} s sooner. The aim, {aim:.0%}, "
                f"is {reached}."
            )
        else:
            lines.append(f"* None of ours is done as soon as {name}'s; the aim, {aim:.0%}, is missed.")
        saved, later = (
            1 - found[cheapest]["bill"].mean / bill,
            found[cheapest]["completion"].mean - completion,
        )
        lines.append(
            f"* The cheapest of all, `{cheapest}`, pays {saved:.1%} less than {name} and is done "
            f"{abs(later):.0f} s {'later' if later > 0 else 'sooner'}."
        )
    return "\n".join(lines) + "\n"


def keepers(runs: Sequence[ElasticRun]) -> str:
    """The section on each policy with each keeper: a table for each scene of such."""
    parts = [_KEEPERS]
    for name in dict.fromkeys(run.scene for run in runs):
        of_scene = [run for run in runs if run.scene == name]
        found, seeds = averages(of_scene), {run.seed for run in of_scene}
        head = " | ".join(["who decides", *map(str, EVERY_KEEPER)])
        lines = [f"| {head} |", "|---|" + "---:|" * len(EVERY_KEEPER)]
        for policy in EVERY_POLICY:
            of = [found.get(f"{policy}, {keeper}") for keeper in EVERY_KEEPER]
            if any(of):
                cells = (_bill_and_completion(numbers, len(seeds)) if numbers else "" for numbers in of)
                lines.append(f"| `{policy}` | " + " | ".join(cells) + " |")
        cheapest = min(found, key=lambda setup: found[setup]["bill"].mean)
        soonest = min(found, key=lambda setup: found[setup]["completion"].mean)
        told = f"The seed {min(seeds)} alone. " if len(seeds) == 1 else ""
        parts += [
            f"### {name}\n",
            "\n".join(lines) + "\n",
            f"{told}`{cheapest}` pays least, and jobs are done soonest under `{soonest}`.\n",
        ]
    return "\n".join(parts)


def _bill_and_completion(found: Mapping[str, Statistic], seeds: int) -> str:
    bill, completion = found["bill"], found["completion"]
    if seeds == 1:
        return f"{bill.mean:,.1f} $, {completion.mean:,.0f} s"
    return f"{_cell(bill, 1)} $, {_cell(completion, 0)} s"


_KEEPERS = """## Every policy with every keeper

Boots of 60 s. Cells are the bill and the average completion. `dqn` and `reinforce` are the trained models
that ship; `ogasched` gives executors less than they ask for. A day is of one seed, and without `ilp`, which
takes minutes for it.
"""


def about(runs: Sequence[ElasticRun]) -> str:
    """Introduction to a scene before its tables."""
    fixed = {run.setup: run.vms for run in runs if run.setup.startswith("fixed")}
    bound = _statistic([run.numbers["bound"] for run in runs])
    said = f"No schedule pays less than {_cell(bound, 1)} dollars: perfect packing, nothing idle, no boots."
    if fixed:
        said += (
            " Fixed clusters have "
            + " and ".join(f"{count} VMs ({name.removeprefix('fixed, ')})" for name, count in fixed.items())
            + "."
        )
    if len(seeds := {run.seed for run in runs}) == 1:
        said += f" All of this is of the seed {min(seeds)} alone, so that nothing is known of the spread."
    refused = max(run.refused for run in runs)
    return said + (f" {refused} tasks are larger than any VM and left out." if refused else "") + "\n"


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
        axes.axhline(found[_KARPENTER]["bound"].mean, color="k", linewidth=0.8, linestyle=":", label="bound")
        axes.set(title=f"boots of {boot} s", xlabel="average completion (s)")
        axes.grid(alpha=0.3)
    panels[0].set(ylabel="bill ($), a day of Facebook's arrivals", yscale="log")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, fontsize="small")
    figure.savefig(path, dpi=100)


#: What stands before the tables.
HEAD = """# The bill where VMs come and go

Made by `stoker reproduce elastic --seeds {seeds}{asked}`: the same jobs, with the seeds {first} to {last},
on VMs that are opened when they are needed and closed when they are not ([elastic.md](../elastic.md)).
Constants of policies and keepers were chosen on other seeds. A VM boots for 30, 60 or 120 seconds, is charged
for a minute at least, and then by the second. Durations are believed with the error that was measured of
their types (belief `spread`); of Alibaba's tasks nothing is known. Cells are mean ± standard deviation over
seeds.

* *fixed*: VMs that are always there, all of the cluster, or so many that they have the cores which are used
  on average; `ff` decides.
* *like Cluster Autoscaler*: `least_allocated`, which spreads as kube-scheduler does and opens a VM for what
  does not fit; a VM is closed when it has been idle for ten minutes.
* *like Karpenter*: `karpenter`, which fills open VMs and opens the cheapest that fits; what is empty is
  closed when it has been idle for as long as it boots, or at once.
* The others are Stoker's policies, each with the name of the keeper that says how long idle VMs are kept.

What each is shown, and what it may do, is not the same:

| who decides | knows of jobs, beside their sizes | has a job wait that fits | lets jobs overtake one |
|---|---|---|---|
| *fixed*, like Cluster Autoscaler, like Karpenter | nothing | no | no |
| `ff`, `rrc`, `best_fit` | nothing | no | no |
| `aep` | preferred placement | no | no |
| `ilp` | preferred placement, expected durations and ends | no | no |
| `greedy` | the same, and 256 jobs of the queue | for 0.5x what it is expected to take | 128 at most |
| `lookahead` | the same, and 256 jobs of the queue | for 2x what it is expected to take | 128 at most |

Who may not overtake serves first come, first served: a job that does not fit holds up all behind it.
Kubernetes, under the real Cluster Autoscaler and Karpenter, goes on with the next, so that both are worse off
here than there wherever jobs wait for others to end, as in burst. How much of what `greedy` and `lookahead`
gain over them comes of knowing, of waiting and of overtaking is not told apart here.

What stands below a table is found on the seeds that it is told of: the best of all of ours there, by means.
Where it is ahead by less than the spread of both, it may not be on other seeds.

*Completion* is from submission to end, boots included. *Booting* and *idle* are shares of the bill; *idle*
has what is charged beyond the time for which a VM was there. What is left of the bill is for VMs that hold
executors, with the room on them that nobody uses. The bound knows no boots and no jobs that fit badly.
A few of Alibaba's tasks last for weeks: which VMs these keep open, nobody knowing it, makes most of the bill.
"""
