"""The API's answers about jobs and groups as tables and sentences.

Explanations are in `explanation_tables`, policies in `policy_tables`. How a number or a time is written is
in `render`. Input is the API's JSON, so keys here are the API's.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from conf.defaults import DEFAULT_QUEUE
from daemon.cli.shared import render

Json = Mapping[str, Any]

#: Maximum number of a job's losses or gains by preemption that are shown: the last of them.
_GIVEN = 5
#: Of jobs that share a reason, so many are named.
_IDS = 3
#: Number of reasons below a table.
_WHYS = 10
#: Reason of a job that waits only for those before it (daemon/http/routes/jobs/waiting_reasons.py).
_BEHIND = re.compile(
    r"\d+ jobs? (?:is|are) before it, first come first served; (\S+?)(?:, the first of them,)? "
    r"waits because: (.*)",
    re.DOTALL,
)
#: The number of jobs before it, in any order.
_PLACE = re.compile(r"\b\d[\d,]* jobs? (?:is|are) before it")
#: Columns of a table of jobs that are left out where all have this in them.
_USUAL = {"owner": "", "queue": DEFAULT_QUEUE, "priority": 0}


def job_line(job: Json) -> str:
    """A job's shape in words: 3 executors of 1 cpu, 1 GiB."""
    least = f"{job['min_cpus']:g} to " if job["min_cpus"] != job["cpus"] else ""
    each = f"{least}{render.cpus(job['cpus'])}, {render.memory(job['memory_mib'])}{others_of(job)}"
    wanted = "" if job["wanted_executors"] is None else f", {job['wanted_executors']} asked for now"
    fewest = f"{job['min_executors']} to " if wanted or job["min_executors"] != job["executors"] else ""
    return f"{fewest}{render.count(job['executors'], 'executor')} of {each}{wanted}"


def memory_line(job: Json) -> str:
    """The peak of the memory that an ended job's executors used, beside their size and the paid memory."""
    use = job.get("memory_use")
    if use is None:
        return "not reported"
    parts = [f"heap {render.memory(use['heap_mib'])}", f"JVM beside it {render.memory(use['off_heap_mib'])}"]
    python = use["python_mib"]
    parts.append(f"Python {'not reported' if python is None else render.memory(python)}")
    line = f"{render.memory(use['peak_mib'])} of {render.memory(job['memory_mib'])} ({', '.join(parts)})"
    paid = use["reported_mib_seconds"]
    return f"{line}; {use['used_mib_seconds'] / paid:.0%} of the memory that is paid for" if paid else line


def _number(job: Json) -> str:
    """How many executors a job asks for: 3; with dynamic allocation also within which bounds: 3 (1-20)."""
    if job["wanted_executors"] is None:
        return str(job["executors"])
    return f"{job['wanted_executors']} ({job['min_executors']}-{job['executors']})"


def others_of(of: Json) -> str:
    """Resources beside cpus and memory: `, 2 gpus`; empty for most."""
    from environment.resources import told

    return "".join(f", {told(name, amount)}" for name, amount in of["resources"].items())


def change_line(job: Json) -> str:
    """The job's latest change in one line: time, state, reason."""
    why = f": {job['reason']}" if job["reason"] else ""
    return f"{datetime.now().astimezone():%H:%M:%S} {job['name']} {job['state']}{why}"


def ending(job: Json) -> str:
    """How a job ended, in one sentence."""
    text = f"Job {job['id']} ({job['name']}) {job['state']}"
    if job["duration"] is not None:
        text += f" after running {render.duration(job['duration'])}"
    if job["completion"] is not None:
        text += f", {render.duration(job['completion'])} after its submission"
    text += f"; cost {render.money(job['cost'])}"
    text += f". {job['reason']}" if job["state"] != "finished" and job["reason"] else "."
    return f"{text.removesuffix('.')}. Next: {job['next_step']}" if job.get("next_step") else text


def jobs(found: Sequence[Json], wide: bool, filters: str) -> Iterator[RenderableType]:
    """A table of jobs, and below it why those that wait or failed do; in the table where it is wide."""
    if not found:
        yield f"No such jobs: {filters}." if filters else "No jobs. `stoker submit` brings one."
        return
    shown = [key for key, usual in _USUAL.items() if any(job[key] != usual for job in found)]
    rows = [
        (
            job["id"],
            job["name"],
            job["type"],
            *(str(job[key]) for key in shown),
            render.state(job["state"]),
            f"{_number(job)} x {job['cpus']:g} cpu, {render.memory(job['memory_mib'])}{others_of(job)}",
            render.clock(job["submitted_at"]),
            *([render.clock(job["started_at"])] if wide else []),
            render.duration(job["duration"]),
            *([render.duration(job["completion"])] if wide else []),
            render.money(job["cost"]),
            *([_why(job)] if wide else []),
        )
        for job in found
    ]
    columns = ["id", "name", "type", *shown, "state", "executors", "submitted"]
    columns += ["started", "duration", "completion", "cost", "why"] if wide else ["duration", "cost"]
    numbers = ("duration", "completion", "cost")
    cut, spare = ("name", "type", *shown), ("executors", "duration", "submitted", "type", *shown)
    yield render.fitted(columns, rows, wide=wide, right=numbers, cut=cut, spare=spare)
    whys: dict[str, list[Json]] = {}
    for job in found:
        if not wide and (why := _why(job)):
            whys.setdefault(without_place(why), []).append(job)
    if whys:
        yield ""
    for why, alike in list(whys.items())[:_WHYS]:
        others = f" and {len(alike) - _IDS} more" if len(alike) > _IDS else ""
        told = why if len(alike) > 1 else _why(alike[0])
        yield f"{', '.join(job['id'] for job in alike[:_IDS])}{others}: {told}"
    if len(whys) > _WHYS:
        yield f"... and {render.count(len(whys) - _WHYS, 'other reason')}: -o wide has them all."


def _why(job: Json) -> str:
    return job["reason"] if job["state"] not in ("running", "finished") else ""


def without_place(reason: str) -> str:
    """The reason a job waits, without the number of jobs before it: jobs in a row have the same one."""
    if found := _BEHIND.fullmatch(reason):
        return f"behind {found[1]}: {found[2]}"
    return _PLACE.sub("others are before it", reason)


def group_line(found: Json) -> str:
    """How a group does, in one sentence."""
    states = ", ".join(f"{number} {state}" for state, number in found["states"].items())
    text = f"{found['id']} {found['state']}: {states}; cost {render.money(found['cost'])}."
    failure = found["first_failure"]
    return text + (f" First {failure['state']}: {failure['id']}: {failure['reason']}" if failure else "")


def group(found: Json) -> RenderableType:
    """Table of a group or an array, with the states of its jobs."""
    failure = found["first_failure"]
    rows: list[tuple[str, str | Text]] = [
        ("id", found["id"]),
        ("state", render.state(found["state"])),
        ("jobs", ", ".join(f"{number} {state}" for state, number in found["states"].items())),
        ("submitted", render.clock(found["submitted_at"])),
        ("finished", render.clock(found["finished_at"])),
        ("cost", render.money(found["cost"])),
    ]
    if failure:
        rows.append(("first failure", f"{failure['id']} {failure['state']}: {failure['reason']}"))
    return render.pairs(rows)


def _after(one: Json) -> str:
    name = f" ({one['name']})" if one["name"] else ""
    return f"{one['job']}{name}" + (", however it ends" if one["when"] == "any" else "")


_FAULTS = {"user": "its own fault", "infrastructure": "not its fault", "memory": "too little memory"}


def attempt_line(attempt: Json) -> str:
    """Time of a failed attempt, whether the job was at fault, and the reason."""
    whose = _FAULTS[attempt["fault"]]
    return f"{render.clock(attempt['ended'])}, {whose}: {attempt['why']}"


def between(interval: Json, told: Callable[[float], str]) -> str:
    """A mean, and between which ends 90 of 100 draws are, unless that is all the same."""
    mean, low, high = (told(interval[key]) for key in ("mean", "low", "high"))
    return mean if low == high else f"{mean} ({low} to {high})"


def job(found: Json) -> Iterator[RenderableType]:
    """Everything about one job."""
    yield render.pairs(_facts(found))
    if found["tasks"]:
        yield ""
        yield executor_table(found["tasks"])


def _facts(job: Json) -> Iterator[tuple[str, str | Text]]:
    yield "id", job["id"]
    yield "name", f"{job['name']} (type {job['type']})"
    yield "owner", job["owner"] or render.NONE
    yield "queue", job["queue"]
    if job["priority"]:
        yield "priority", str(job["priority"])
    if job["deadline"] is not None:
        yield "deadline", render.clock(job["deadline"])
    if job["group"]:
        yield "group", job["group"]
    if job["array"]:
        bound = f", {job['at_most']} at once" if job["at_most"] else ""
        yield "array", f"{job['array']}, number {job['index']} of {job['count']}{bound}"
    if job["labels"]:
        yield "labels", ", ".join(f"{name}={value}" for name, value in job["labels"].items())
    if job["after"]:
        yield "after", "; ".join(map(_after, job["after"]))
    if job["start_at"] is not None:
        yield "not before", render.clock(job["start_at"])
    if job["place"]:
        yield "place", f"{render.count(job['place'], 'job')} before it"
    yield "state", render.state(job["state"])
    yield "why", job["reason"] or render.NONE
    if job.get("next_step"):
        yield "next", job["next_step"]
    if job["estimate"] is not None:
        yield "starts", between(job["estimate"]["start"], render.clock)
        yield "ends", between(job["estimate"]["end"], render.clock)
        yield "will cost", between(job["estimate"]["cost"], render.money)
        for note in job.get("estimate_notes", ()):
            yield "note", note
    elif job.get("no_estimate"):
        yield "starts", f"no estimate: {job['no_estimate']}"
    if job.get("expected") and job["placed_at"] is not None:
        yield from _expected(job, job["expected"])
    yield "wants", job_line(job)
    if job["state"] in ("finished", "failed", "killed") and job["started_at"] is not None:
        yield "memory used", memory_line(job)
    if job.get("shape"):
        yield "size", job["shape"]["told"]
    yield "Spark", job["spark"] or render.NONE
    if job["spot"] != "allowed":
        yield "spot VMs", job["spot"]
    for key in ("submitted_at", "placed_at", "started_at", "finished_at"):
        yield key.removesuffix("_at"), render.clock(job[key])
    yield "duration", f"{render.duration(job['duration'])} (start to finish)"
    yield "completion", f"{render.duration(job['completion'])} (submission to finish)"
    most = (job.get("spec") or {}).get("max_cost")
    yield "cost", render.money(job["cost"]) + (f" of at most {render.money(most)}" if most else "")
    if job.get("ui"):
        yield "Spark UI", f"{job['ui']} (for a browser: stoker ui {job['id']})"
    if job["exit_code"] is not None:
        yield "exit code", str(job["exit_code"])
    if job["losses"]:
        yield "lost", render.count(job["losses"], "executor")
    if job["retries"]:
        free = f", and {job['free_retries']} free" if job["free_retries"] else ""
        yield "retries", f"{job['retried']} of {job['retries']}{free}"
    if more := job["more_memory"]:
        whose = "each executor" if more["of"] == "executor" else "the driver"
        yield (
            "memory",
            f"{whose} has {render.memory(more['after_mib'])} since {render.clock(more['at'])}, as "
            f"{render.memory(more['before_mib'])} were not enough; "
            f"the failed attempt's {render.money(more['lost'])} are apart in the bill",
        )
    for number, attempt in enumerate(job.get("attempts", ()), 1):
        yield f"failure {number}", attempt_line(attempt)
    yield from given(job)


#: Words for the place of a true value beside an interval.
_WHERE = {
    "start": {"before": "earlier", "after": "later"},
    "end": {"before": "earlier", "after": "later"},
    "cost": {"before": "less", "after": "more"},
}


def _expected(job: Json, expected: Json) -> Iterator[tuple[str, str]]:
    """First and last estimates for a job while it waited, and whether each came true."""
    came = {
        "start": (job["placed_at"], render.clock),
        "end": (job["finished_at"], render.clock),
        "cost": (job["cost"], render.money),
    }
    for when, told in (("first", expected["first"]), ("last", expected["last"])):
        for of, (truth, shown) in came.items() if told else ():
            interval, where = told[of], told["came"][of]
            came_true = f"; came {shown(truth)}, {_WHERE[of].get(where, where)}" if where else ""
            yield f"{when} told {of}", f"{shown(interval['low'])} to {shown(interval['high'])}{came_true}"


def given(job: Json) -> Iterator[tuple[str, str]]:
    """The job's latest preemptions: executors lost to other jobs and taken from them."""
    for gave in job.get("gave", ())[-_GIVEN:]:
        what = "was stopped for" if gave["whole"] else f"{render.count(gave['executors'], 'executor')} to"
        whom = f"{what} {gave['to']} of queue {gave['queue']} (priority {gave['priority']})"
        yield "gave", f"{render.clock(gave['at'])} {whom}, {render.money(gave['lost'])} of its work lost"
    for took in job.get("took", ())[-_GIVEN:]:
        what = "the place" if took["whole"] else render.count(took["executors"], "executor")
        lost = f"{render.money(took['lost'])} of its work lost"
        given_up = f"; not had: {took['given_up']}" if took["given_up"] else ""
        yield "took", f"{render.clock(took['at'])} {what} of {took['of']}, {lost}{given_up}"


def executor_table(executors: Sequence[Json]) -> RenderableType:
    """The executors of a job and where they are."""
    others = any(executor["resources"] for executor in executors)
    # `finished` already says that a command exited with 0.
    messages = ["" if each["state"] == "finished" else each["message"] for each in executors]
    rows = [
        (
            executor_name(executor),
            executor["vm"],
            executor["vm_type"],
            f"{executor['cpus']:g}",
            render.memory(executor["memory_mib"]),
            *([others_of(executor).removeprefix(", ")] if others else []),
            render.state(executor["state"]),
            render.money(executor["cost"]),
            *([message] if any(messages) else []),
        )
        for executor, message in zip(executors, messages, strict=True)
    ]
    columns = ["executor", "VM", "type", "cpus", "memory", *(["others"] if others else [])]
    columns += ["state", "cost", *(["message"] if any(messages) else [])]
    numbers, spare = ("cpus", "memory", "cost"), ("memory", "cpus", "type")
    return render.fitted(columns, rows, right=numbers, wrap=("message",), spare=spare)


def executor_name(executor: Json) -> str:
    """The executor's number, or that it is the driver."""
    return "driver" if executor["number"] is None else str(executor["number"])
