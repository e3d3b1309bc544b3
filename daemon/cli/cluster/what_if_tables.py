"""Tables of forecasts of the queue."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from rich.console import RenderableType

from conf.policy_text import policy_text
from daemon.cli.shared import render

_Row = tuple[str, ...]


_FIGURES = ("draws", "billed", "jobs end in", "all over in", "late", "never", "fallback")
_JOB = ("job", "name", "starts in", "ends in", "costs", "")


def ahead(answer: Mapping[str, Any], *, jobs: bool) -> Iterator[RenderableType]:
    """The forecast of each case under each policy; with `jobs`, also the start of each job."""
    waiting, found = answer["waiting"], answer["policies"]
    who = "1 job waits" if waiting == 1 else f"{waiting} jobs wait"
    if answer["recorded"]:
        who = f"{render.count(waiting, 'job')} came since {render.clock(answer['at'])}"
    if answer["others"]:
        who += (
            f", and {answer['others']} more that are not simulated: paused, held by a limit, or far behind "
            "in the order"
        )
    if not waiting and not answer["recorded"]:
        yield render.wrapped(
            "No job waits, so all policies give the same result; --since simulates past jobs."
        )
    fixed = [each["fixed"] for each in found if each["draws"]]
    if answer["note"]:
        yield from (render.wrapped(answer["note"]), "")
    how = "Means of the draws, and below them the range of 9 of 10:"
    if answer["recorded"]:
        how = "Each has its true duration:"
    yield render.wrapped(f"{who}. {how}")
    if any(fixed) and (waiting or answer["recorded"]):
        where = "No VM opens or closes here, so" if all(fixed) else "Where no VM opens or closes,"
        yield render.wrapped(
            f"{where} no policy changes the bill. Policies change the cost of jobs: the price of VMs while "
            "jobs hold them (eq. 4)."
        )
    began = answer["at"] if answer["recorded"] else None
    names = {"all over in": "all over at"} if began else {}
    if fixed and all(fixed):
        names["billed"] = "cost of jobs"
    figures = tuple(names.get(name, name) for name in _FIGURES)
    for case, of_case in groupby(found, key=itemgetter("case")):
        rows = [row for each in of_case for row in _rows(each, began)]
        yield f"\n{case}"
        yield render.fitted(
            ("policy", *figures),
            rows,
            right=figures,
            wrap=("policy",),
            spare=("draws", "never"),
        )
    for each in found:
        if each["failure"]:
            yield render.wrapped(f"{each['case']}, {_label(each)}: {each['failure']}")
    if any(each["fallback_share"] for each in found):
        yield "Fallback: the share of its decisions that a policy failed to take, so that another took them."
    for each in found if jobs and waiting else ():
        yield f"\n{each['case']}, {_label(each)}"
        yield from _jobs(each)
    yield "\nNothing was changed. Assumptions:"
    for said in answer["assumes"]:
        yield render.wrapped(said, mark="- ")


def _rows(found: dict[str, Any], began: float | None) -> Iterator[_Row]:
    def over(seconds: float) -> str:
        return render.duration(seconds) if began is None else render.clock(began + seconds)

    figures = (
        _cell(found["dollars"], render.money),
        _cell(found["completion"], render.duration),
        _cell(found["seconds"], over),
    )
    share = f"{100 * found['fallback_share']:.3g} %" if found["draws"] else render.NONE
    said = (_label(found), str(found["draws"])), (str(found["late"]), str(len(found["never"])), share)
    yield from _below(said[0], figures, said[1])


def _jobs(found: dict[str, Any]) -> Iterator[RenderableType]:
    rows: list[_Row] = []
    for job in found["jobs"]:
        figures = (
            _cell(job["start"], render.duration),
            _cell(job["end"], render.duration),
            _cell(job["cost"], render.money),
        )
        rows += _below((job["id"], job["name"]), figures, ("late" if job["late"] else "",))
    if rows:
        yield render.fitted(_JOB, rows, right=_JOB[2:5], cut=("name",), wrap=("job",))
    for never in found["never"]:
        yield render.wrapped(f"{never['id']} would not run: {never['why']}")


def _below(before: _Row, figures: Sequence[_Row], behind: _Row) -> Iterator[_Row]:
    """The means in a row, and in the next two the ends of the intervals, where there are any."""
    mean, low, high = zip(*figures, strict=True)
    yield (*before, *mean, *behind)
    for which, ends in (("from", low), ("to", high)):
        if any(ends):
            yield (f"  {which}", *("" for _ in before[1:]), *ends, *("" for _ in behind))


def _cell(found: dict[str, float] | None, told: Callable[[float], str]) -> _Row:
    """The mean, and the ends as they stand below it."""
    if found is None:
        return render.NONE, "", ""
    mean, low, high = (told(found[key]) for key in ("mean", "low", "high"))
    return (mean, "", "") if low == high else (mean, low, high)


def _label(found: dict[str, Any]) -> str:
    return policy_text(found["name"], found["options"])
