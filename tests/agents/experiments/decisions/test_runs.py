"""Rules by which decisions are judged, and a report of few runs."""

from dataclasses import replace
from pathlib import Path

from agents.experiments.decisions.report import QUICK, report
from agents.experiments.decisions.runs import (
    DRAWING,
    JUDGED,
    POLICIES,
    CaseLimit,
    CaseNumbers,
    Played,
    PolicyRun,
    Task,
    numbers,
    play_one,
    verdicts,
)
from agents.experiments.decisions.shifted_cases import cases, few_gangs
from agents.experiments.paired import Statistic
from agents.experiments.partners import PARTNERS, cheapest
from agents.experiments.runner import RunCall, Runner
from agents.experiments.seed_register import seeds_of
from environment.simulation.durations.beliefs import EXACT


def _numbers(
    cost: float, completion: float, wait: float, duration: float, *, seeds: int = 12, noise: float = 0.0
) -> CaseNumbers:
    """The same on every seed, with a cost that varies by `noise` from one to the next."""
    costs = [cost * (1 + noise * (-1) ** seed) for seed in range(seeds)]
    others = ([value] * seeds for value in (completion, wait, duration))
    return CaseNumbers(Statistic.of(costs), *map(Statistic.of, others))


def test_rules_are_broken_by_what_breaks_them() -> None:
    """Against the cheapest of all partners, here one that overtakes; waits against ff."""
    of = {who.label: _numbers(1.0, 100.0, 50.0, 20.0) for who in POLICIES}
    of |= {who.label: _numbers(1.2, 90.0, 50.0, 20.0) for who in PARTNERS}
    best = PARTNERS[-1].label
    of[best] = _numbers(1.0, 100.0, 50.0, 20.0)
    assert all(verdict.broken == () and verdict.partner == best for verdict in verdicts(of).values())
    of["greedy"] = _numbers(1.04, 101.0, 120.0, 20.0)
    of["ogasched"] = _numbers(1.07, 99.0, 121.0, 20.0)
    found = verdicts(of)
    assert found["greedy"].broken == ("both",)
    assert found["ogasched"].broken == ("+7.0 ± 0.0 %*", "wait x 2.0")
    assert not found["ogasched"].open


def test_a_rule_is_open_where_seeds_do_not_decide() -> None:
    """Means above a bound break no rule within two standard errors, or on few seeds."""
    of = {who.label: _numbers(1.0, 100.0, 50.0, 20.0) for who in POLICIES}
    of["greedy"] = _numbers(1.07, 99.0, 50.0, 20.0, noise=0.2)
    found = verdicts(of)["greedy"]
    assert (found.broken, found.open) == ((), True)
    few = {who.label: _numbers(1.0, 100.0, 50.0, 20.0, seeds=2) for who in POLICIES}
    few["greedy"] = _numbers(1.5, 101.0, 50.0, 20.0, seeds=2)
    found = verdicts(few)["greedy"]
    assert (found.broken, found.open) == ((), True)


def test_the_cheapest_partner_is_of_all_that_ran() -> None:
    """A policy of ours never is one."""
    costs = {
        "greedy": Statistic.of([0.1]),
        "ff": Statistic.of([2.0]),
        "aep:overtake=best": Statistic.of([1.0]),
    }
    assert cheapest(costs) == "aep:overtake=best"


def test_a_task_is_played_by_everybody_beside_its_limit() -> None:
    """Few jobs of one case: every policy once, none below the limit but one that shrinks jobs."""
    runs, limit = play_one(Task("light", EXACT, 200, jobs=3, limit=True))
    assert [run.policy for run in runs] == [who.label for who in POLICIES]
    assert limit is not None
    assert limit.lower <= limit.best + 1e-9
    assert all(run.cost >= limit.lower - 1e-9 for run in runs if run.policy != "ogasched")
    assert set(numbers(runs)) == {"light"}


class _MadeUp(Runner):
    """Runs made up, as the runs themselves are dear."""

    def run(self, calls: list[RunCall[Played]]) -> list[Played]:  # type: ignore[override]
        """Costs rise from each policy to the next."""
        found: list[Played] = []
        for call in calls:
            (task,) = call.arguments
            policies = (*POLICIES, *(DRAWING if task.drawing else ()))
            runs = [
                PolicyRun(task.case, str(task.belief), who.label, task.seed, 1 + 0.01 * n, 100.0, 10.0, 50.0)
                for n, who in enumerate(policies)
            ]
            found.append((runs, CaseLimit(task.case, task.seed, 0.8, 0.9, proven="gangs" in task.case)))
        return found


def test_the_report_tells_of_every_case_and_policy(tmp_path: Path) -> None:
    """The judged policies are dearer than the cheapest partner by what was made up."""
    text = report(tmp_path, seeds_of("decisions", 12), QUICK, _MadeUp()).read_text(encoding="utf-8")
    for each in cases():
        assert each.large or f"| {each.name} | `ff` |" in text
    for who in (*POLICIES, *DRAWING):
        assert f"| `{who.label}` |" in text
    last = JUDGED[-1].label
    assert f"`{last}`" in text
    assert f"+{len(POLICIES) - 1}.0 ± 0.0 %*" in text
    assert f"beside `ff`, the cheapest partner, its cost is {len(PARTNERS)}.0 ± 0.0 % more" in text
    for each in (each for each in cases() if each.misleading):
        n = len(POLICIES) - 1
        assert f"| {each.name} | `{last}` | +{n}.0 ± 0.0 %* | +0.0 ± 0.0 % | yes |" in text
    assert (tmp_path / "decisions-small.png").stat().st_size > 5000


def test_the_same_gangs_come_at_once() -> None:
    """Nothing but when they come differs."""
    apart, together = (few_gangs(3, at_once=way)[0].jobs for way in (False, True))
    assert [job.submitted_at for job in together] == [0.0] * len(together)
    assert [replace(job, submitted_at=0.0) for job in apart] == list(together)
