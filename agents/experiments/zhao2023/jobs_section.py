"""The report's section on several jobs of a type (Zhao 2023, 3.4) and on gangs (3.5).

All its statements about results are computed from them; `job_cells` in `runs.py` defines the experiments.
"""

import textwrap
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from agents.experiments.seed_register import SeedRange
from agents.experiments.zhao2023.plots import draw_averages
from agents.experiments.zhao2023.runs import POLICIES
from agents.experiments.zhao2023.tables import Found, averages, gain, mean, panel, table

#: The commands that make the section's numbers.
_COMMANDS = """```console
$ seeds="--seed {first} --seeds {seeds}"
$ stoker oga sweep $seeds --over jobs-per-type --values 1,2,4 --slots 1000
$ stoker oga sweep $seeds --over jobs-per-type --values 1,2,4 --slots 1000 --request total
$ gangs="--instances 64 --slots 500 --request total --jobs-per-type 2 --tasks 4"
$ stoker oga sweep $seeds --over gang --values 0,1,2,3,4 $gangs --contention 3
$ stoker oga sweep $seeds --over contention --values 1,3,10 $gangs
$ stoker oga sweep $seeds --over floor --values 0.25,0.5,1 $gangs --contention 3
```
"""


def jobs_section(by_name: Mapping[str, Found], seeds: SeedRange, folder: Path) -> str:
    """The section's text; draws its picture into the folder."""
    per_channel, total = by_name["jobs-per_channel"], by_name["jobs-total"]
    minimum, contention = by_name["gangs-minimum"], by_name["gangs-contention"]
    panels = {"jobs per type, requests total": panel(total), "minimum of 4 tasks": panel(minimum)}
    panels["contention, gangs of 4"] = panel(contention)
    draw_averages(panels, folder / "zhao2023-jobs.png")
    settings = {
        "jobs of a type at most, per_channel:": per_channel,
        "jobs of a type at most, total:": total,
        "minimum of tasks:": minimum,
        "gangs of 4 at contention": contention,
        "gangs of 4 at a floor of": by_name["gangs-floor"],
    }
    return f"""## Several jobs of a type, and gangs (3.4, 3.5)

These commands compute the section's averages; with `-o json` they also print the number of started jobs and
the share of scheduled tasks.

{_COMMANDS.format(seeds=len(seeds), first=seeds.first)}
The columns give the largest number of jobs of each type in a slot; each arrives with probability rho and has
the request of a single job. Requests per channel:

{averages(per_channel, "policy")}
Requests total:

{averages(total, "policy")}
Gangs: up to two jobs of each of ten types, each of four tasks that ask for a quarter of its request, requests
total, contention 3. The columns give the minimum of a job's tasks that start together, or none does; 0 means
no gangs. A task is scheduled when it gets half of its request of every resource. Every policy's allocation is
settled in the same way, described in `agents/oga/port_jobs.py`:

{averages(minimum, "policy")}
Shares of arrived jobs that started, and of their tasks that were scheduled:

{_started(minimum)}
All four tasks or none, by contention:

{averages(contention, "policy")}
{_started(contention)}
By the floor, all four tasks or none:

{averages(by_name["gangs-floor"], "policy")}
{_started(by_name["gangs-floor"])}
{textwrap.fill(_verdict(settings), 110, break_on_hyphens=False)}

Resources that a policy allocates to a job that cannot start are reassigned only to reach floors; the rest
earns no reward in that slot. `stationary` and `optimum`, which `stoker oga run` compares on demand, are the
best *without* a minimum and are settled like the others; with a minimum they are not upper bounds.

![Several jobs and gangs](zhao2023-jobs.png)
"""


def _started(found: Found) -> str:
    """Policies by values: the shares of jobs that started and of tasks that were scheduled."""
    rows = []
    for name in POLICIES:
        shares = [
            (
                np.mean([outcome.started for outcome in of[name]]),
                np.mean([outcome.scheduled for outcome in of[name]]),
            )
            for of in found.values()
        ]
        rows.append((f"`{name}`", *(f"{started:.1%}, {scheduled:.1%}" for started, scheduled in shares)))
    return table(("jobs, tasks", *found), rows)


def _verdict(settings: Mapping[str, Found]) -> str:
    """Settings with `oga-conserving` as best, those with another best, and those where the lead is open."""
    best, leads = {}, {}
    for what, found in settings.items():
        for value, of in found.items():
            first, second, *_ = sorted(POLICIES, key=lambda name, of=of: -mean(of[name]))  # type: ignore[misc]
            best[f"{what} {value}"] = first
            leads[f"{what} {value}"] = (gain(of[first], of[second]), second)
    others = [f"{where} (`{name}`)" for where, name in best.items() if name != "oga-conserving"]
    if others:
        said = (
            f"In {len(best) - len(others)} of the {len(best)} settings of this section `oga-conserving` "
            f"has the greatest mean; another does with {'; '.join(others)}."
        )
    else:
        said = f"In all {len(best)} settings of this section `oga-conserving` has the greatest mean."
    close = [f"{where} ({lead} over `{second}`)" for where, (lead, second) in leads.items() if not lead.clear]
    if close:
        said += f" The best is not clearly ahead of the next with {'; '.join(close)}."
    return said
