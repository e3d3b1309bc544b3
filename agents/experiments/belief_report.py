"""The report on the value of known durations: the same policies and jobs under every belief.

Truth is the same throughout, so only the policies' expectations differ.
`environment.simulation.durations.beliefs` builds the beliefs.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from agents.experiments.comparison import Contender, SimulatedRun, durations_of, statistics_of
from agents.experiments.islam2022.runs import PATTERNS, PaperRuns, play, scenes
from agents.experiments.paired import METHOD, PairedDifference, difference, told
from agents.experiments.runner import Runner
from agents.experiments.seed_register import SeedRange
from environment.simulation.durations.beliefs import EXACT, Belief

#: Policies with beliefs about durations, and `ff`, which has none.
POLICIES = (
    Contender("ff"),
    *(
        Contender(name, {"beta": beta})
        for name in ("ilp", "lookahead", "reinforce", "dqn")
        for beta in (0.5, 1.0)
    ),
    Contender("lookahead", {"beta": 0.5, "draws": 0}),
)
BELIEFS = (Belief(), Belief("sigma", 0.2), Belief("sigma", 0.5), Belief("constant"))
#: By name the title and the digits.
METRICS = {"cost": ("cost $", 3), "average_completion": ("completion s", 0)}

#: Results published while policies were shown true ends: pattern -> metric -> policy -> mean and standard
#: deviation of the seeds 100 to 119. From docs/results/islam2022.md of revision be9d04a.
PUBLISHED: Mapping[str, Mapping[str, Mapping[str, tuple[float, float]]]] = {
    "normal": {
        "cost": {
            "ff": (3.550, 0.209),
            "ilp:beta=0.5": (3.093, 0.227),
            "ilp:beta=1.0": (3.061, 0.211),
            "lookahead:beta=0.5": (3.100, 0.198),
            "lookahead:beta=1.0": (2.940, 0.208),
            "reinforce:beta=0.5": (3.255, 0.209),
            "reinforce:beta=1.0": (2.975, 0.211),
            "dqn:beta=0.5": (3.302, 0.219),
            "dqn:beta=1.0": (3.145, 0.205),
        },
        "average_completion": {
            "ff": (334, 41),
            "ilp:beta=0.5": (324, 38),
            "ilp:beta=1.0": (330, 37),
            "lookahead:beta=0.5": (309, 36),
            "lookahead:beta=1.0": (336, 37),
            "reinforce:beta=0.5": (308, 36),
            "reinforce:beta=1.0": (439, 44),
            "dqn:beta=0.5": (334, 39),
            "dqn:beta=1.0": (392, 49),
        },
    },
    "burst": {
        "cost": {
            "ff": (6.465, 0.410),
            "ilp:beta=0.5": (5.970, 0.310),
            "ilp:beta=1.0": (6.006, 0.310),
            "lookahead:beta=0.5": (5.358, 0.340),
            "lookahead:beta=1.0": (5.245, 0.288),
            "reinforce:beta=0.5": (5.506, 0.352),
            "reinforce:beta=1.0": (5.392, 0.347),
            "dqn:beta=0.5": (5.824, 0.383),
            "dqn:beta=1.0": (5.730, 0.325),
        },
        "average_completion": {
            "ff": (2064, 188),
            "ilp:beta=0.5": (2032, 176),
            "ilp:beta=1.0": (2075, 193),
            "lookahead:beta=0.5": (1518, 114),
            "lookahead:beta=1.0": (1640, 111),
            "reinforce:beta=0.5": (1205, 81),
            "reinforce:beta=1.0": (1312, 125),
            "dqn:beta=0.5": (1308, 72),
            "dqn:beta=1.0": (1311, 77),
        },
    },
}


def against(
    runs: Sequence[SimulatedRun], oracle: Sequence[SimulatedRun], policy: str, metric: str
) -> PairedDifference:
    """The difference of a metric to the same seeds' runs under exact knowledge.

    ValueError where no run is of that policy.
    """
    believed, known = (statistics_of([run for run in of if run.policy == policy]) for of in (runs, oracle))
    if not believed or not known:
        raise ValueError(f"{policy}: no runs to compare")
    return difference(believed[policy][metric], known[policy][metric])


def report(folder: Path, seeds: SeedRange, runner: Runner, jobs: int | None = None) -> Path:
    """Run the policies under every belief, write belief.md and its picture into the folder; returns the path.

    `jobs` is another number of jobs than 50 and 100.
    """
    folder.mkdir(parents=True, exist_ok=True)
    oracle, *played = play(
        [PaperRuns(scenes(jobs), POLICIES, seeds, belief) for belief in (EXACT, *BELIEFS)], runner
    )
    believed = dict(zip(map(str, BELIEFS), played, strict=True))
    said = durations_of([*oracle, *(run for of in believed.values() for run in of)])
    parts = [_HEAD, _LEAKED.format(seeds=seeds, count=len(seeds), method=METHOD)]
    found: dict[str, Differences] = {}
    for pattern in PATTERNS:
        known, others = _of(oracle, pattern), {name: _of(runs, pattern) for name, runs in believed.items()}
        for metric in METRICS:
            shares = {
                contender.label: {
                    name: against(of, known, contender.label, metric) for name, of in others.items()
                }
                for contender in POLICIES
            }
            found[f"{pattern}, {METRICS[metric][0]}"] = shares
            parts.append(f"{_table(pattern, metric, known, shares)}\n{said}\n")
        parts.append(_findings(pattern, {str(EXACT): known, **others}, found[f"{pattern}, cost $"]))
    draw(found, folder / "belief.png")
    parts += ["![Cost of less exact beliefs](belief.png)\n", _LIMITS]
    path = folder / "belief.md"
    path.write_text("\n".join(parts), encoding="utf-8")
    return path


def draw(found: "Mapping[str, Differences]", path: Path) -> None:
    """Draw the differences to exact knowledge, a panel for each of `found`, with errors, into a PNG file."""
    from matplotlib.figure import Figure  # a second to import, and only pictures need it

    figure = Figure(figsize=(11, 8), layout="constrained")
    panels = figure.subplots(2, 2, squeeze=False)
    for axes, (title, policies) in zip(panels.flat, found.items(), strict=True):
        for number, (policy, beliefs) in enumerate(policies.items()):
            places = [place + 0.05 * (number - 4) for place in range(len(beliefs))]
            means = [100 * of.mean for of in beliefs.values()]
            errors = [100 * of.error for of in beliefs.values()]
            style = "osD^v<>ph"[number % 9] + "-"
            axes.errorbar(places, means, errors, fmt=style, linewidth=0.8, markersize=4, label=policy)
        axes.axhline(0, color="black", linewidth=0.6)
        axes.set_xticks(range(len(BELIEFS)), [str(belief) for belief in BELIEFS])
        axes.set(title=f"{title}; truth profile", xlabel="belief", ylabel="% above exact")
        axes.grid(alpha=0.3)
    handles, labels = panels[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=5, fontsize="small")
    figure.savefig(path, dpi=100)


#: By policy and belief, the difference of a metric to its value under exact knowledge.
Differences = Mapping[str, Mapping[str, PairedDifference]]


def _of(runs: Sequence[SimulatedRun], pattern: str) -> list[SimulatedRun]:
    return [run for run in runs if run.workload == pattern]


def _table(pattern: str, metric: str, known: Sequence[SimulatedRun], shares: Differences) -> str:
    title, digits = METRICS[metric]
    columns = [f"{pattern}, {title}", "true ends", "`exact`", *(f"`{belief}`" for belief in BELIEFS)]
    lines = ["| " + " | ".join(columns) + " |", "|---|" + "---:|" * (len(columns) - 1)]
    exact = statistics_of(known)
    for policy, beliefs in shares.items():
        known_here = (exact[policy][metric].mean, exact[policy][metric].spread)
        pairs = (PUBLISHED[pattern][metric].get(policy), known_here)
        cells = ["-" if of is None else f"{of[0]:.{digits}f} ± {of[1]:.{digits}f}" for of in pairs]
        cells += [str(of) for of in beliefs.values()]
        lines.append(f"| `{policy}` | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _findings(pattern: str, runs: Mapping[str, Sequence[SimulatedRun]], shares: Differences) -> str:
    """The cheapest policy under each belief beside the next, and the policy that the belief costs most."""
    lines = []
    for belief, of in runs.items():
        costs = {policy: found["cost"] for policy, found in statistics_of(of).items()}
        first, second = sorted(costs, key=lambda policy: costs[policy].mean)[:2]
        line = (
            f"* {pattern.capitalize()}, `{belief}`: `{first}` has the least mean cost; beside `{second}`, "
            f"the next, {told(difference(costs[first], costs[second]), 'less', 'more')}"
        )
        if belief != str(EXACT):
            loser = max(shares, key=lambda policy: shares[policy][belief].mean)
            line += f"; `{loser}` gets worse by most, {shares[loser][belief]}"
        lines.append(f"{line}.")
    return "\n".join(lines) + "\n"


_HEAD = """# The value of knowing when jobs will end

A simulator knows when every running job will end; a daemon only estimates it, with errors. Stoker's simulator
once showed policies the true ends of running jobs, including the 30 % that a bad placement costs and, where
durations were drawn at random, the drawn value. The rich observation of trained policies also contains those
ends (two of its features are computed from them), so trained policies received more information on durations
than the reports stated. Figures from that time are those of policies that know the future. Today policies see
beliefs, which one module computes for the simulator and the daemon (`environment/view.py`,
`environment/kernel/expected_end.py`). `tests/environment/two_worlds/test_two_worlds.py` plays the same events
in both: every policy sees the same input before every decision, and decides the same.

The belief is an option, `--belief`, of `simulate`, `evaluate` and `reproduce`, a key of training files, and
an option of the Gymnasium environment:

| belief | expected duration of a job |
|---|---|
| `exact` | the true duration, to the second: an oracle, as in Islam 2022 and for `dqn` |
| `spread` | the true duration with a log-normal error as wide as the one measured for its type \
(0.08 without a measurement; [fidelity.md](fidelity.md)); no expectation for an unknown type |
| a number | the true duration with a log-normal error; the number is its standard deviation |
| `constant` | the workload's average duration, for every job |

The belief changes, not the truth: its error is drawn by job and seed, without bias. So a policy that ignores
durations costs the same under each belief (`ff` below). When a job outlasts its expected duration, the
expectation is updated: to the mean of those log-normal durations that are longer than the time passed. With
`--durations DIR --draw sample` the true durations are drawn at random, and `spread` expects the fitted mean.
"""
_LEAKED = """## The leak

Made by `stoker reproduce belief --seeds {count}{seeds.option}` on the paper's cluster, with {seeds}. {method}

*True ends* are the values published for the seeds 100 to 119 while policies were shown true ends (revision
be9d04a), and `exact` those of an oracle on the seeds here: mean ± standard deviation. The other columns are
the increase in cost or time without an oracle.

Where durations are the profiles', as here, an oracle knows the true ends, so the first two columns differ
only where the policies changed: searches were limited by time and are now limited by work, `lookahead` starts
from another plan and lets jobs overtake by another rule, and `reinforce` is one model for every beta, trained
on beliefs of all kinds. The column `spread` shows how much the leak was worth.
"""
_LIMITS = """`lookahead` evaluates each plan on the believed durations and on 16 samples of them, as wide
as the believed error; with `draws: 0` on the believed ones alone. Under `exact` no samples are drawn.

Not covered: unknown types and preferred placements (all are known here), and errors that differ between types
or are correlated between jobs. `reinforce` was trained on clusters and workloads with beliefs of all these
kinds (its card has the details), `dqn` on exact ones.
"""
