"""The report on Islam 2022: counterparts of its Fig. 4 to 9, and the claims that hold here.

All its statements about results are computed from them. `runs.py` runs the experiments, `claims.py` defines
claims and targets.
"""

from collections.abc import Sequence
from pathlib import Path

from agents.experiments.comparison import SimulatedRun, durations_of, knowledge, statistics_of
from agents.experiments.islam2022.claims import JudgedClaim, Policies, aims, claims, learning_claims
from agents.experiments.islam2022.plots import Found, draw_bars, draw_betas, draw_curves, draw_front
from agents.experiments.islam2022.runs import (
    BASELINES,
    LOOKAHEADS,
    PATTERNS,
    LearningCurve,
    PaperRuns,
    learned,
    play,
    read_curves,
    scaled_scenes,
    scenes,
)
from agents.experiments.paired import METHOD, Statistic, verdict
from agents.experiments.runner import Runner
from agents.experiments.seed_register import SeedRange
from environment.simulation.durations.beliefs import Belief

_METRICS = {
    "cost": ("cost ($)", 3),
    "average_completion": ("completion (s)", 0),
    "p95_completion": ("95 % completion (s)", 0),
    "longest_wait": ("longest wait (s)", 0),
    "average_duration": ("duration (s)", 1),
    "good_placements": ("good placements", 1),
}
#: Metrics for which tables show the value under exact knowledge beside that under belief.
_BESIDE = ("cost", "average_completion")
_FIGURES = {
    "cost": ("Fig. 6: cost of the VMs", "islam2022-cost.png"),
    "average_duration": ("Fig. 7: average duration", "islam2022-duration.png"),
    "good_placements": ("Fig. 8: good placements", "islam2022-good.png"),
}


def report(
    folder: Path,
    seeds: SeedRange,
    scaled: SeedRange,
    runner: Runner,
    curves: Sequence[Path] = (),
    jobs: int | None = None,
    belief: Belief | None = None,
) -> Path:
    """Run all experiments, write islam2022.md and its pictures into the folder; return the path.

    The paper's set-up is run under exact knowledge, as in the paper, and under `belief`; larger clusters run
    under `belief` alone, on the seeds `scaled`. `curves` are folders of training runs with the paper's
    rewards; without any, the section of the folder's report on earlier ones stays. `jobs` is another number
    of jobs than 50 and 100. ConfigError and PolicyError for an invalid input.
    """
    read = [curve for run in curves for curve in read_curves(run)]
    belief = belief or Belief()
    folder.mkdir(parents=True, exist_ok=True)
    trained = learned()
    everyone = (*BASELINES, *trained, *LOOKAHEADS)
    oracle, runs, of_larger = play(
        [
            PaperRuns(scenes(jobs), everyone, seeds),
            PaperRuns(scenes(jobs), everyone, seeds, belief),
            PaperRuns(scaled_scenes(jobs), (*BASELINES, *trained), scaled, belief),
        ],
        runner,
    )
    known, found, larger = _by_scene(oracle), _by_scene(runs), _by_scene(of_larger)
    dqn = ", ".join(f"{each.options['beta']:g}" for each in trained if each.name == "dqn")
    parts = [
        _HEAD.format(seeds=seeds, count=len(seeds), scaled=len(scaled), belief=belief, method=METHOD, dqn=dqn)
    ]
    parts += ["## The paper's claims\n", _CLAIMS.format(belief=belief)]
    parts.append(_beside(claims(known), claims(found), belief))
    parts += ["## Aims for trained policies\n", _AIMS.format(belief=belief)]
    parts += [_judged(aims(found, larger)), durations_of([*runs, *of_larger]) + "\n", _TRIED]
    parts += [_pattern(pattern, runs, oracle, found, known) for pattern in PATTERNS]
    parts += [_figures(found, belief, folder), _front(found, folder), _scaled(larger, of_larger, len(scaled))]
    path = folder / "islam2022.md"
    kept = learned_rules(path.read_text(encoding="utf-8")) if path.exists() else ""
    if read or kept:
        parts.append(_curves(read, folder) if read else kept)
    path.write_text("\n".join(parts), encoding="utf-8")
    return path


def learned_rules(text: str) -> str:
    """Section of a report from `RULES` on, measured by training runs; empty if absent."""
    at = text.find(f"\n{RULES}\n")
    return text[at + 1 :] if at >= 0 else ""


def _by_scene(runs: Sequence[SimulatedRun]) -> Found:
    names = dict.fromkeys(run.workload for run in runs)
    return {name: statistics_of([run for run in runs if run.workload == name]) for name in names}


def _pattern(
    pattern: str, runs: Sequence[SimulatedRun], oracle: Sequence[SimulatedRun], found: Found, known: Found
) -> str:
    both = [run for run in (*runs, *oracle) if run.workload == pattern]
    return f"## {pattern.capitalize()}\n\n{_table(found[pattern], known[pattern])}\n{durations_of(both)}\n"


def _table(policies: Policies, known: Policies | None = None) -> str:
    """A row for each policy; beside it the results under exact knowledge, if given."""
    titles = [title for title, _ in _METRICS.values()]
    if known is not None:
        titles += [f"{_METRICS[metric][0]}, `exact`" for metric in _BESIDE]
    rows = []
    for policy, of in policies.items():
        cells = [_cell(of[metric], digits) for metric, (_, digits) in _METRICS.items()]
        if known is not None:
            cells += [_cell(known[policy][metric], _METRICS[metric][1]) for metric in _BESIDE]
        rows.append((f"`{policy}`", knowledge(policy), *cells))
    return _markdown(("policy", "knows", *titles), rows)


def _cell(value: Statistic, digits: int) -> str:
    return f"{value.mean:.{digits}f} ± {value.spread:.{digits}f}"


def _markdown(columns: Sequence[str], rows: Sequence[Sequence[str]], right: bool = True) -> str:
    rule = "---:|" if right else "---|"
    head = "| " + " | ".join(columns) + " |\n|---|" + rule * (len(columns) - 1) + "\n"
    return head + "".join("| " + " | ".join(row) + " |\n" for row in rows)


def _judged(statements: Sequence[JudgedClaim]) -> str:
    rows = [(each.statement, each.found, _said(each)) for each in statements]
    count = f"{_count(statements)} hold.\n\n"
    return count + _markdown(("aim", "here", "holds"), rows, right=False)


def _beside(known: Sequence[JudgedClaim], believed: Sequence[JudgedClaim], belief: Belief) -> str:
    """Table of claims, judged under exact knowledge and under the belief."""
    rows = [
        (
            one.statement,
            one.found,
            _said(one),
            "the same" if one.found == other.found else other.found,
            _said(other),
        )
        for one, other in zip(known, believed, strict=True)
    ]
    columns = ("in the paper", "here, `exact`", "holds", f"here, `{belief}`", "holds")
    count = f"{_count(known)} hold under `exact`, {_count(believed)} under `{belief}`.\n\n"
    return count + _markdown(columns, rows, right=False)


def _said(statement: JudgedClaim) -> str:
    return verdict(statement.holds, "**yes**")


def _count(statements: Sequence[JudgedClaim]) -> str:
    return f"{sum(each.holds is True for each in statements)} of {len(statements)}"


def _figures(found: Found, belief: Belief, folder: Path) -> str:
    parts = [f"The figures show belief `{belief}`; truth is the profiles'.\n"]
    for metric, (title, file) in _FIGURES.items():
        draw_bars(found, metric, folder / file)
        parts.append(f"## {title}\n\n![{title}]({file})\n")
    draw_betas(found, folder / "islam2022-beta.png")
    parts.append("## Fig. 9: the effect of beta\n\n![The effect of beta](islam2022-beta.png)\n")
    return "\n".join(parts)


def _front(found: Found, folder: Path) -> str:
    draw_front(found, folder / "islam2022-front.png")
    return "## Cost against time\n\n![Cost against completion and duration](islam2022-front.png)\n"


def _scaled(larger: Found, runs: Sequence[SimulatedRun], seeds: int) -> str:
    said = durations_of(runs)
    parts = [_SCALED.format(seeds=seeds)]
    parts += [
        f"### {name[0].upper()}{name[1:]}\n\n{_table(policies)}\n{said}\n"
        for name, policies in larger.items()
    ]
    return "\n".join(parts)


def _curves(curves: Sequence[LearningCurve], folder: Path) -> str:
    draw_curves(curves, folder / "islam2022-curves.png")
    rows = [
        (
            f"{curve.algorithm}, {curve.pattern}",
            curve.setup,
            f"{curve.iterations[-1]:,} of {curve.planned:,}",
            f"{curve.seconds / 60:.1f}",
            f"{curve.returns[0]:,.0f}",
            f"{max(curve.returns):,.0f}",
            f"{curve.returns[-1]:,.0f}",
            "never" if curve.turned is None else f"{curve.turned:,}",
        )
        for curve in curves
    ]
    columns = (
        "run",
        "set-up",
        "iterations",
        "minutes",
        "first return",
        "best",
        "last",
        "positive from iteration",
    )
    judged = [(each.statement, each.found, _said(each)) for each in learning_claims(curves)]
    claimed = _markdown(("in the paper", "here", "holds"), judged, right=False)
    picture = "![Convergence](islam2022-curves.png)"
    return f"{RULES}\n\n{_CURVES}\n{_markdown(columns, rows)}\n{claimed}\n{picture}\n"


_HEAD = """# Trained policies on the paper's workloads

Made by `stoker reproduce islam2022 --seeds {count} --scaled-seeds {scaled} --belief {belief}{seeds.option}`,
with {seeds}.

M. T. Islam, S. Karunasekera, R. Buyya, *Performance and Cost-Efficient Spark Job Scheduling Based on Deep
Reinforcement Learning in Cloud Computing Environments*, chapter 7, with the models in this repository.
Every policy decides about the same {count} generated workloads of each density:
normal (50 jobs, Poisson arrivals at 50 an hour) and burst (100 jobs at 600 an hour), on the paper's twelve
VMs. Cells are the mean ± the standard deviation over seeds. {method} A model's card says how it was trained.

The paper does not publish the durations of its jobs, so compare only the order of policies and their relative
differences with it, not dollars or seconds. *Cost* is eq. 4. *Duration* is from start to end (the paper's
"job duration"), *completion* from submission to end, including the wait: a policy may delay jobs to save
cost, so completion is shown beside cost throughout. *Knows* lists the inputs of a policy's decisions; the
*belief* sets how exactly durations and ends are known. In the paper they are known exactly (`exact` here);
`spread` has the error measured on real jobs ([fidelity.md](fidelity.md)). Both are shown;
[belief.md](belief.md) shows the value of that knowledge, and how it had leaked. `dqn` was trained under
`exact` on these twelve VMs, `reinforce` under beliefs of all kinds on randomly drawn clusters. Trained
policies and `lookahead` may let a job overtake, the others serve first come, first served;
[baselines.md](baselines.md) shows the effect of overtaking alone, and the same baselines with it. beta 1
weighs cost only, beta 0 time only; the five values are the paper's. The paper trains one agent for each
density and beta. Here one model serves both densities: `dqn` has models for {dqn}, `reinforce` one for all.
"""
_CLAIMS = """Judged in the paper's set-up, where durations are known exactly, and under belief `{belief}`.
Claims are judged by differences on the same seed.
"""
_AIMS = """The aims go beyond the paper: against every baseline, on both densities, with one model.
Judged under belief `{belief}`.
"""
#: Beside the results measured here; on seeds 200 to 219, by which those models were chosen.
_TRIED = """### Experiments with earlier models

Until revision 57461b0 there was a `reinforce` model for each beta, trained on twelve VMs, and `lookahead`
considered 16 jobs behind the first. These models reached 14 of the 16 aims above: on their training
workloads, models for one weight do better than one model for all clusters and weights. The results of this
section are from these models, and were not repeated since. Durations were known exactly (truth `profile`,
belief `exact`). Figures are the cost in burst (AEP: 6.16 $ on the seeds 200 to 219, on which models were
chosen). Models that placed the first acceptable job of the queue ended at 5.50 to 5.57 $, for every price of
waiting, with 64 jobs considered, averaged weights, or trials of single decisions. Placing the best of the
jobs that fit instead gave 5.46 $ with the same weights, and was learned in minutes. A discount of 0.975 from
job to job instead of 0.95 (the cost of a wait shows late where many jobs wait), a third workload between the
two densities, and an objective that prices waiting, less so in a second stage, gave 5.36 $, with jobs
completed after 1,310 s instead of 1,650 s.

On larger clusters the number of considered jobs matters: on a hundred VMs, 64 were too few to fill them (42.8
$ in burst), and 256 were enough (40.5 $). Additional training on 48 VMs (a stage of four minutes, with a
discount of 0.985) was 1 to 2 % cheaper there.

A network as lookahead's base policy: placing every job that a plan does not vary by the network raised the
cost by 0.3 to 0.9 % in burst, also with a network trained to place jobs in a given order without waiting.
Letting the network choose the jobs to plan for raised it, too (1.2 %), and letting it choose the first
proposals had no effect. Its rating of a plan's first step helped where the plan covers the whole queue: much
in normal, where later arrivals are unknown. In burst, more jobs waited than were planned for most of the
time; rating these plans as well made schedules 0.4 % dearer. Without that they were 0.2 % cheaper, which 20
seeds may not show: ± 0.1, paired, for 160 (`stoker simulate --workload burst --seed 240 --seeds 160 --policy
...`, these two).
"""
_SCALED = """## On larger clusters

The same models, unchanged: on four times the paper's cluster with four times the jobs at four times the rate,
and on a hundred VMs with eight times both. `dqn` was trained on twelve VMs only, `reinforce` on 3 to 64. The
aims above judge one of them on all clusters, `reinforce:beta=1.0`. {seeds} seeds. `lookahead` is left out
because it takes too long.
"""
#: The text behind it is kept when the report is made again without curves.
RULES = "## Fig. 4 and 5: how the rules are learned"
_CURVES = """Without a mask: an action against the rules costs 200 and ends the episode, and an episode
without one earns up to 10,000. The flat network with the paper's inputs is Table 5 as printed
(`conf/train/dqn-paper.yaml`, `reinforce-paper.yaml`). The other runs (`dqn-rules.yaml`,
`reinforce-rules.yaml`) have the same rewards, but one network that all VMs share, an observation on scales of
about one, and for REINFORCE an entropy bonus. Truth is the profiles', belief `exact`. The return is the mean
over evaluation episodes on workloads never trained on, each played by the best actions. Each is from `stoker
train --config FILE --out DIR`, for burst with `--set 'workloads={burst: 1}' --set iterations=20000`; `stoker
reproduce islam2022 --curves DIR` draws it.

The authors replay one list of 50 jobs in every episode (`input/jobs.csv` of their repository RM_DeepRL). Its
executors have at most 4 cpus, which fit every VM of the cluster, and a job takes 51 s on average, so that 8
of 96 cores are busy and none ever waits. The workloads here are drawn anew for every episode, as the paper
describes them: executors of up to 6 cpus, which only two of the three types of VM hold, and jobs that take
minutes (of the 50 of seed 90000, 31 wait under `ff`); an agent without a mask has to learn to wait, which
costs it at once. Trained on the authors' list, the paper's set-up learns the rules as in Fig. 5a: see
[training.md](../training.md#the-papers-convergence-on-a-list-of-jobs).
"""
