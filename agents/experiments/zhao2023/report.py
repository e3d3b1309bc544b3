"""The report on OgaSched: counterparts of Zhao 2023's figures and tables, and the claims that hold here.

All its statements about results are computed from them. `runs.py` runs the experiments.
"""

import textwrap
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from agents.experiments.paired import METHOD, every, verdict
from agents.experiments.runner import Runner
from agents.experiments.seed_register import SeedRange
from agents.experiments.zhao2023.claims import GAINS, READINGS, chapter_claims
from agents.experiments.zhao2023.jobs_section import jobs_section
from agents.experiments.zhao2023.plots import draw_averages, draw_outcomes, draw_parts, draw_regret
from agents.experiments.zhao2023.runs import (
    HORIZONS,
    LEARNING,
    POLICIES,
    CellOutcome,
    Regret,
    Results,
    cells,
    play,
)
from agents.experiments.zhao2023.tables import (
    Found,
    averages,
    by_experiment,
    gain,
    lead,
    mean,
    of_ceiling,
    panel,
    spread,
    table,
)
from agents.oga.partners import LEARNERS, PARTNERS
from conf.loader import ConfigError, find
from conf.schema.workload import Alibaba

_SWEEPS = {"fig3-instances": "instances", "fig3-types": "job types", "fig3-contention": "contention level"}


def report(
    folder: Path, seeds: SeedRange, runner: Runner, alibaba: Path | None = None, slots: int | None = None
) -> Path:
    """Run all experiments; write zhao2023.md and its pictures; return the path.

    `alibaba` is the folder of Alibaba's trace; without it, that of the workload `alibaba`, where that is
    there. `slots` is the number of slots at most, to see that all works.
    """
    folder.mkdir(parents=True, exist_ok=True)
    chosen = cells(alibaba or _trace())
    horizons: tuple[int, ...] = HORIZONS
    if slots is not None:
        chosen = tuple(
            replace(cell, environment=replace(cell.environment, slots=min(cell.environment.slots, slots)))
            for cell in chosen
        )
        horizons = (slots // 2, slots)
    results, regrets = play(chosen, seeds, runner, horizons)
    path = folder / "zhao2023.md"
    path.write_text(write(results, regrets, seeds, folder), encoding="utf-8")
    return path


def _trace() -> Path | None:
    """The folder of Alibaba's trace, if it is there."""
    try:
        return find(Alibaba().path).parent
    except ConfigError:
        return None


def write(results: Results, regrets: Sequence[Regret], seeds: SeedRange, folder: Path) -> str:
    """The report's text; draws its pictures into the folder."""
    by_name = by_experiment(results)
    parts = [
        _HEAD.format(count=len(seeds), seeds=seeds, method=METHOD),
        judge_claims(results),
        _headline(by_name, folder),
    ]
    parts += [_table3(by_name, request) for request in READINGS]
    parts += [_sweeps(by_name, folder), _steps(by_name, folder), _learning(by_name)]
    parts.append(_large(by_name, folder))
    parts += [_parts(by_name, folder), _utilities(by_name, folder), _regret(regrets, folder)]
    parts.append(jobs_section(by_name, seeds, folder))
    if "alibaba" in by_name:
        parts.append(_alibaba(by_name["alibaba"]))
    return "\n".join(parts)


def judge_claims(results: Results) -> str:
    """The chapter on the paper's claims: for which variant and reading of requests they hold."""
    by_name = by_experiment(results)
    rows = []
    for request, found in by_name["fig2"].items():
        for name in LEARNERS:
            holds = every(
                gain(found[name], found[partner]).at_least(claim) for partner, claim in GAINS.items()
            )
            leads = [lead(found, name, partner) for partner in PARTNERS]
            rows.append((f"`{name}`, {request}", *leads, verdict(holds)))
    rows.insert(0, ("paper", *(f"{claim:+.2%}" for claim in GAINS.values()), ""))
    worst = [
        (cell, partner, value)
        for cell, found in by_name.items()
        if cell.startswith("table3")
        for value, of in found.items()
        for partner in PARTNERS
        if gain(of["oga-conserving"], of[partner]).at_least(0.0) is not True
    ]
    shares = [
        of_ceiling(of["oga-conserving"])
        for cell, found in by_name.items()
        if cell.startswith("table3")
        for of in found.values()
    ]
    grid = (
        "In every cell of Table 3's grid, in both readings, `oga-conserving` is clearly at or above every "
        "partner."
        if not worst
        else "In Table 3's grid `oga-conserving` is not clearly at or above a partner in: "
        + "; ".join(f"{cell} {value} ({partner})" for cell, partner, value in worst)
        + "."
    )
    ceiling = (
        f"Of the per-slot optimum it earns {np.mean(shares):.2%} on average over the cells of the grid, "
        f"{min(shares):.2%} in the least of them."
    )
    over_fairness = [
        (
            f"`{name}`, {request}",
            *(lead(of, name, "fairness") for of in by_name[f"fig7-{request}"].values()),
        )
        for request in READINGS
        for name in LEARNERS
    ]
    utilities = tuple(by_name[f"fig7-{READINGS[0]}"])
    return f"""## The paper's claims, and whether they hold

{_chapter(by_name)}
{_difference(by_name["lighter"])}
### Variants

Gains in the setting of Fig. 2 over each partner; the claim *holds* when all four are at least the paper's:

{table(("variant, reading", *PARTNERS, "holds"), rows)}
{textwrap.fill(grid + " " + ceiling, 110)}

The gain depends on the utilities. Over FAIRNESS (or over its reward, where it lost), by utility:

{table(("variant, reading", *utilities), over_fairness)}
With linear utilities every unit of a resource is worth the same to every port, so a policy that leaves no
unit unused earns nearly the maximum, and policies differ only in overheads. `oga` leaves its reservations for
ports without a job unused, a share of about 1 - rho, regardless of its learning, and so does y*: there the
definition cannot give the paper's lead. With concave utilities there is a point beyond which a unit costs
more overhead than it gains; the partners ignore it, and lose where they allocate far beyond it.
"""


def _chapter(by_name: dict[str, Found]) -> str:
    """A row for each claim of the paper's chapter 4, judged for `oga`."""
    judged = chapter_claims(by_name)
    rows = [(each.statement, each.reading, each.found, verdict(each.holds)) for each in judged]
    count = f"{sum(each.holds is True for each in judged)} of {len(judged)} hold"
    return f"""What chapter 4 says of OGASCHED, judged for `oga`, the paper's algorithm: {count}.

{table(("in the paper", "requests", "here", "holds"), rows, right=False)}"""


def _difference(lighter: Found) -> str:
    """Why leads differ from the paper's: by contention, down from the level of Fig. 2."""
    rows = [(value, *(lead(of, "oga", partner) for partner in PARTNERS)) for value, of in lighter.items()]
    nearest = min(
        lighter,
        key=lambda value: sum(
            abs(gain(lighter[value]["oga"], lighter[value][partner]).mean - claim)
            for partner, claim in GAINS.items()
        ),
    )
    shares = {
        value: np.mean([each.overhead / (each.average + each.overhead) for each in of["fairness"]])
        for value, of in lighter.items()
    }
    last = next(reversed(lighter))
    return f"""### Leads that are not the paper's

The partners give every port all that it asks for, whatever that costs in overhead; so the lead over them is a
matter of how much they ask for. The paper does not state its requests, only that the contention level
multiplies them. In the setting of Fig. 2, requests per channel, `oga` leads by:

{table(("contention", *PARTNERS), rows)}
The paper's leads are {", ".join(f"{claim:.2%}" for claim in GAINS.values())} at its level 11; those nearest
to them here are at {nearest}. There FAIRNESS pays {shares[nearest]:.0%} of its gain as overhead, at {last}
{shares[last]:.0%}. So requests drawn here at {nearest} are most like the paper's at 11.
"""


def _headline(by_name: dict[str, Found], folder: Path) -> str:
    parts = ["## Fig. 2: average and cumulative reward\n"]
    for request, found in by_name["fig2"].items():
        slots = found["oga"][0].slots[-1]
        draw_outcomes(found, f"requests {request}", folder / f"zhao2023-fig2-{request}.png")
        parts += [
            f"Requests {request}, T = {slots}, beta in [0.4, 0.6], contention 11:\n",
            _policies(found),
            f"![Fig. 2, {request}](zhao2023-fig2-{request}.png)\n",
        ]
    return "\n".join(parts)


def _policies(found: dict[str, list[CellOutcome]]) -> str:
    rows = [
        (
            f"`{name}`",
            f"{mean(outcomes):.1f} ± {spread(outcomes):.1f}",
            f"{of_ceiling(outcomes):.1%}",
            f"{np.mean([outcome.seconds_per_slot for outcome in outcomes]) * 1e3:.3f}",
        )
        for name, outcomes in found.items()
    ]
    return table(("policy", "average reward", "of the per-slot optimum", "ms a slot"), rows)


def _table3(by_name: dict[str, Found], request: str) -> str:
    nested = by_name["table3-T"][request]
    slots = nested["oga"][0].slots
    horizons = [h for h in (1000, 2000, 5000, 10_000) if h <= slots[-1]]
    rows = []
    for name, outcomes in nested.items():
        row = [f"`{name}`"]
        for horizon in horizons:
            at = int(np.searchsorted(slots, horizon * 0.999))
            curves = [outcome.curve[at] for outcome in outcomes]
            row.append(f"{np.mean(curves):.1f} ± {np.std(curves, ddof=1):.1f}")
        rows.append(row)
    parts = [
        f"## Table 3, requests {request}\n",
        "T (the average reward up to there):\n",
        table(("policy", *(f"T = {horizon}" for horizon in horizons)), rows),
        "Job arrival probability rho:\n",
        averages(by_name[f"table3-rho-{request}"], "policy"),
        "Edges per instance:\n",
        averages(by_name[f"table3-density-{request}"], "policy"),
    ]
    return "\n".join(parts)


def _sweeps(by_name: dict[str, Found], folder: Path) -> str:
    panels = {what: panel(by_name[name]) for name, what in _SWEEPS.items()}
    draw_averages(panels, folder / "zhao2023-fig3.png")
    parts = ["## Fig. 3: size and contention\n"]
    for name, what in _SWEEPS.items():
        parts += [f"{what.capitalize()}:\n", averages(by_name[name], "policy")]
    return "\n".join([*parts, "![Fig. 3](zhao2023-fig3.png)\n"])


def _steps(by_name: dict[str, Found], folder: Path) -> str:
    names = ("oga", "oga-reactive")
    eta0, decay, size = (by_name[name] for name in ("fig4-eta0", "fig4-decay", "fig4-size"))
    panels = {"eta_0": panel(eta0, names), "decay": panel(decay, names)}
    draw_averages(panels, folder / "zhao2023-fig4.png")
    best = max(eta0, key=lambda value: mean(eta0[value]["oga"]))
    return f"""## Fig. 4: step sizes

eta_0 (decay 0.9999):

{averages(eta0, "policy", names)}
Decay (eta_0 = 25):

{averages(decay, "policy", names)}
By theory, eq. 50 at every slot and Theorem 1's constant:

{averages(size, "policy", names)}
The best first step of those tried is {best} for `oga`.

![Fig. 4](zhao2023-fig4.png)
"""


def _learning(by_name: dict[str, Found]) -> str:
    """Table of the earnings of `oga-conserving` with and without learned y."""
    lines = ["| setting | eta_0 = 25 | eta_0 = 1e-9 | learning y is worth |", "|---|---:|---:|---:|"]
    for name, found in by_name.items():
        if name.startswith("learning-"):
            averages = [[each.average for each in found[which]["oga-conserving"]] for which in LEARNING]
            cells = (f"{np.mean(of):.1f}" for of in averages)
            worth = gain(*(found[which]["oga-conserving"] for which in LEARNING))
            lines.append(f"| {name.removeprefix('learning-')} | {' | '.join(cells)} | {worth} |")
    return "\n".join(["## The value of learning", "", *lines, "", _LEARNING])


def _large(by_name: dict[str, Found], folder: Path) -> str:
    ((value, found),) = by_name["fig5"].items()
    draw_outcomes(found, value, folder / "zhao2023-fig5.png")
    return f"""## Fig. 5: large scale

{value}, T = {found["oga"][0].slots[-1]}, beta in [0.01, 0.015], contention 5, three edges an instance,
requests per channel:

{_policies(found)}
The paper needs 15 hours for this on 48 cores.

![Fig. 5](zhao2023-fig5.png)
"""


def _parts(by_name: dict[str, Found], folder: Path) -> str:
    found = by_name["fig3-contention"]
    parts = {
        name: [
            (
                mean(of[name]) + float(np.mean([outcome.overhead for outcome in of[name]])),
                float(np.mean([outcome.overhead for outcome in of[name]])),
            )
            for of in found.values()
        ]
        for name in POLICIES
    }
    draw_parts(list(found), parts, folder / "zhao2023-fig6.png")
    rows = [
        (f"`{name}`", *(f"{gain:.0f} - {overhead:.0f}" for gain, overhead in row))
        for name, row in parts.items()
    ]
    return f"""## Fig. 6: gain and overhead by contention

Computation gain - communication overhead of a slot, on average:

{table(("policy", *found), rows)}
![Fig. 6](zhao2023-fig6.png)
"""


def _utilities(by_name: dict[str, Found], folder: Path) -> str:
    draw_averages(
        {f"utility, {request}": panel(by_name[f"fig7-{request}"]) for request in READINGS},
        folder / "zhao2023-fig7.png",
    )
    parts = ["## Fig. 7: utilities\n"]
    for request in READINGS:
        found = by_name[f"fig7-{request}"]
        shares = ", ".join(f"{value} {of_ceiling(of['oga-conserving']):.1%}" for value, of in found.items())
        parts += [
            f"Requests {request}; `oga-conserving` of the per-slot optimum: {shares}.\n",
            averages(found, "policy"),
        ]
    return "\n".join([*parts, "![Fig. 7](zhao2023-fig7.png)\n"])


def _regret(regrets: Sequence[Regret], folder: Path) -> str:
    draw_regret(regrets, folder / "zhao2023-regret.png")
    exponents = [regret.exponent for regret in regrets]
    rows = [
        (
            str(slots),
            f"{np.mean([regret.regret[i] for regret in regrets]):.0f}",
            f"{np.mean([regret.bound[i] for regret in regrets]):.0f}",
            f"{max(regret.unsure[i] for regret in regrets):.1f}",
        )
        for i, slots in enumerate(regrets[0].slots)
    ]
    return f"""## Theorem 1: regret

`oga` at Theorem 1's step size against y*, 6 x 16 x 3, requests per channel. y* is found by a convex solver
that also gives an upper bound; *unsure* is the difference between the two, by which the regret may be larger.

{table(("T", "regret", "Theorem 1", "unsure, at most"), rows)}
Fitted exponent of T: {np.mean(exponents):.3f} (from {min(exponents):.3f} to {max(exponents):.3f}); theory: at
most 0.5 for large T.

![Regret](zhao2023-regret.png)
"""


def _alibaba(found: Found) -> str:
    parts = ["## On Alibaba's cluster of 2023\n", _ALIBABA]
    for request, of in found.items():
        parts += [f"Requests {request}:\n", _policies(of)]
    return "\n".join(parts)


_ALIBABA = """Machines, requests and arrivals are those of Alibaba's GPU cluster of 2023 (`--alibaba DIR`):
128 of its machines and the ten most frequent kinds of task. The contention level of 10 multiplies requests.
"""
_LEARNING = """With steps of 1e-9, y stays at its start, shares in proportion to requests: `oga-conserving`
then earns its reward by maximising each slot's reward after the slot's arrivals are known, not by learning y.
Arrivals are independent from slot to slot, so the next slot cannot be predicted; y helps where the
maximisation is weakest, with linear utilities and requests that bound totals. Only the overhead weights
persist from slot to slot.
"""
_HEAD = """# OgaSched against its comparison partners

Made by `stoker oga reproduce --seeds {count}{seeds.option}`, with {seeds}.

Counterparts of Fig. 2 to 7 and Table 3 of Zhao 2023, mean and standard deviation over {count} seeds. {method}

Environments are drawn with Table 2's parameters. The paper does not state the capacities and requests that it
took from Alibaba's traces, so these are drawn to resemble the cluster of 2023 (see
`agents/oga/environments.py`); compare rewards with each other, not with the paper's.

*Requests* can be read in two ways in the paper. `per_channel`: a_l bounds each channel, as in constraint (5).
`total`: a_l bounds the job over all instances, as the partners read it; a job then has 8 to 24 tasks, and
requests the sum of their requests. Every policy gets the same reading.

* `oga`: y(t) is fixed before x(t) is seen (Definition 2). `oga-reactive`: a step on x(t), then y acts.
  `oga-conserving`: reservations of absent ports go to the present ones, by maximising the reward over them,
  with overhead weights that persist from slot to slot; where linear utilities leave a choice, it stays close
  to y. It starts from the best of four allocations: none, shares in proportion to requests, y's for the
  present ports and, where all utilities are linear, ports served in turn. So in no slot does it earn less
  than any of these.
* `drf`, `fairness`, `binpacking`, `spreading` as the paper defines them. FAIRNESS shares among ports that
  have a job (with the joined ones below the line, as printed, it would leave capacity unused). Where requests
  are per channel, a port asks every instance for its whole bound, so BINPACKING and SPREADING, which differ
  in the order of instances, are the same.
* The per-slot optimum is computed for evenly spread slots of each cell, with a gap of at most 0.01 % in most
  (an upper bound by duality comes with it), so *of the per-slot optimum* refers to these slots.
"""
