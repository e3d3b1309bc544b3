"""Tables of `stoker job --why`: each decision about a job, and the VMs as the policy saw them."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from conf.defaults import DEFAULT_QUEUE
from conf.util.counted import counted
from daemon.cli.shared import job_tables, render
from daemon.schemas.next_steps import next_step

Json = Mapping[str, Any]

#: An explanation shows so many rows of VMs; alike ones share a row first.
ROWS_SHOWN = 12


def explanation(found: Json, attempts: Sequence[Json] = ()) -> Iterator[RenderableType]:
    """Every decision about a job: for each executor the VMs that were looked at, and why."""
    why = f": {found['reason']}" if found["reason"] else ""
    yield f"Job {found['id']} is {found['state']}{why}"
    # A job that was stopped for another did not fail; that is shown below.
    stopped = tuple(f"was stopped for {gave['to']} of queue" for gave in found.get("gave", ()))
    failures = [attempt for attempt in attempts if not attempt["why"].startswith(stopped)]
    for number, attempt in enumerate(failures, 1):
        yield f"Failure {number}: {job_tables.attempt_line(attempt)}."
    if step := next_step(found["id"], found["state"], found["reason"] or ""):
        yield step
    if stands := "; ".join(_stands(found)):
        yield f"It is in {stands}."
    if found.get("shape"):
        yield f"Size: {found['shape']['told']}."
    yield from (f"It {word}: {text}." for word, text in job_tables.given(found))
    yield from _starts(found)
    if not found["explanations"]:
        yield "No policy has decided about it yet."
    yield from decisions(found["explanations"])


def decisions(found: Sequence[Json]) -> Iterator[RenderableType]:
    """The decisions about a job, each after an empty line."""
    for decision in found:
        yield ""
        yield Text(
            render.plain(
                f"{render.clock(decision['at'])}  {decision['policy']} decided to {decision['decision']}: "
                f"{decision['reason']}"
            ),
            style="bold",
        )
        for fault in decision["faults"]:
            yield Text(f"  replaced because: {render.plain(fault)}", style="yellow")
        yield from _kinds(decision["kinds"], len(decision["choices"]))
        for _, alike in groupby(decision["choices"], key=_told_together):
            yield from _choice([*alike])


def _starts(found: Json) -> Iterator[str]:
    """When a job that waits is expected to start, or why nothing is expected."""
    if expected := found.get("estimate"):
        start = job_tables.between(expected["start"], render.clock)
        yield f"It is expected to start {start} (9 of 10 times)."
    elif found["state"] == "queued" and found.get("no_estimate"):
        yield f"When it starts is not known: {found['no_estimate']}."


def _stands(job: Json) -> Iterator[str]:
    """Where a job stands beside others; nothing for one that is in no queue in particular."""
    if (job["queue"], job["priority"], job["deadline"]) == (DEFAULT_QUEUE, 0, None):
        return
    yield f"queue {job['queue']}"
    if job["priority"]:
        yield f"its priority is {job['priority']}"
    if job["deadline"] is not None:
        yield f"it is due at {render.clock(job['deadline'])}"
    if job["place"] is not None:
        yield f"{render.count(job['place'], 'job')} before it"


def _kinds(kinds: Sequence[Json], executors: int) -> Iterator[RenderableType]:
    """The placement's cost and time beside those of the kinds of VM on which the job could be."""
    if not kinds:
        return
    rows = []
    for kind in kinds:
        mark = Text("chosen" if kind["placed"] else "", style="bold green")
        fits = kind["room"] == executors
        lacks = "" if fits else f"room for {kind['room']} of {counted(executors, 'executor')}"
        ready = render.duration(kind["ready_in"]) if kind["ready_in"] else "now"
        numbers = f"{kind['vms']}", ready, render.duration(kind["seconds"]), render.money(kind["dollars"])
        rows.append((mark, _kind_name(kind), *numbers, lacks or "nothing"))
    yield ""
    numbers = ("VMs", "ready in", "takes", "adds to the bill")
    yield render.table(
        ["", f"all on ({counted(executors, 'executor')})", *numbers, "lacks"], rows, right=numbers
    )


def _kind_name(kind: Json) -> str:
    """Types of VMs, and how many of these are spot VMs or were yet to be opened, where that is not all."""
    notes = []
    for key, note in (("spot", "spot"), ("opens", "to be opened")):
        if number := kind[key]:
            notes.append(note if number == kind["vms"] else f"{number} {note}")
    return ", ".join((*kind["types"], *notes))


def _told_together(choice: Json) -> tuple[Any, ...]:
    """Equal of executors, one after the other, that went to one VM for one reason."""
    if choice["executor"] is None:
        return (id(choice),)
    return choice["vm"], choice["why"], choice["cpus"], choice["memory_mib"], job_tables.others_of(choice)


def _choice(alike: Sequence[Json]) -> Iterator[RenderableType]:
    """The choice for the first of several executors, and that the others follow it."""
    yield ""
    choice, last = alike[0], alike[-1]
    if choice["executor"] is not None:
        size = ""
        if choice["cpus"] is not None:
            amounts = f"{render.cpus(choice['cpus'])}, {render.memory(choice['memory_mib'])}"
            size = f" ({amounts}{job_tables.others_of(choice)})"
        who, first = f"Executor {choice['executor']}", ""
        if last is not choice:
            who = f"Executors {choice['executor']} to {last['executor']}"
            first = "; seen at the first of them"
        yield f"{who} on {choice['vm']}{size}: {choice['why']}{first}"
    candidates = choice["candidates"]
    scored = any(candidate["score"] is not None for candidate in candidates)
    others = [f"free {name}" for name in (candidates[0]["free_resources"] if candidates else ())]
    details = list(dict.fromkeys(name for candidate in candidates for name in candidate["details"]))
    rows, left_out = _candidate_rows(candidates, scored, details)
    numbers = ["free cpus", "free memory", *others, *(["score"] if scored else []), *details]
    yield render.table(["", "VM", "type", *numbers, "lacks"], rows, right=numbers)
    left_out += choice["candidates_left_out"]
    if left_out:
        yield f"... and {counted(left_out, 'more VM')}"


def _candidate_rows(
    candidates: Sequence[Json], scored: bool, details: Sequence[str]
) -> tuple[list[tuple[str | Text, ...]], int]:
    """One row for VMs that are alike, the chosen one first; and how many VMs did not get a row."""
    groups: dict[tuple[Any, ...], list[str]] = {}
    for found in sorted(candidates, key=_worth):
        numbers = [found["score"]] if scored else []
        numbers += [found["details"].get(name) for name in details]
        others = (f"{amount:.10g}" for amount in found["free_resources"].values())
        shown = (*others, *(render.NONE if number is None else f"{number:.4g}" for number in numbers))
        name = f"{found['vm']} "
        lacks = "; ".join(text.removeprefix(name).removeprefix("has ") for text in found["lacks"])
        free = found["free_cpus"], found["free_memory_mib"]
        groups.setdefault((found["chosen"], found["type"], *free, shown, lacks), []).append(found["vm"])
    rows: list[tuple[str | Text, ...]] = []
    for (chosen, kind, free_cpus, free_memory, shown, lacks), names in list(groups.items())[:ROWS_SHOWN]:
        mark = Text("chosen" if chosen else "", style="bold green")
        free = f"{free_cpus:g}", render.memory(free_memory)
        rows.append((mark, _range(names), kind, *free, *shown, lacks or "nothing"))
    return rows, sum(len(names) for names in list(groups.values())[ROWS_SHOWN:])


def _worth(candidate: Json) -> tuple[bool, bool, float]:
    """Sort key: the chosen one, then those with room, the best score first; else in the cluster's order."""
    return not candidate["chosen"], bool(candidate["lacks"]), -(candidate["score"] or 0.0)


def _range(names: Sequence[str]) -> str:
    if len(names) <= 3:
        return ", ".join(names)
    return f"{names[0]}, ..., {names[-1]} ({len(names)})"
