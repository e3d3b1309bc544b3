"""Tables of the commands under `queue`: the tree of queues with their use, and the details of one queue."""

import time
from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import RenderableType

from conf.util.dollars import percent
from daemon.cli.shared import render

Json = Mapping[str, Any]

#: Columns that a list is left without where it would be too wide, the first first.
_SPARE = ("weight", "guaranteed", "most", "used", "waits longest", "due")
#: The units of amounts in settings, beside those in their names.
_DOLLARS = {"dollars_per_hour": "/h", "dollars_per_day": "/day", "dollars_per_month": "/month"}


def queues(answer: Json, wide: bool) -> Iterator[RenderableType]:
    """All queues, each below its parent, and the order of jobs; unless `wide`, only the columns that fit."""
    found = answer["queues"]
    if not found:
        yield "No queues: a job's queue may be any name, without effect. `stoker queue set NAME` creates one."
    else:
        columns = ["queue", "weight", "due", "share", "used", "guaranteed", "holds", "most"]
        columns += ["running", "waiting", "today", "waits longest"]
        rows = [_row(queue) for queue in found]
        numbers = (*columns[1:5], *columns[8:11])
        yield render.fitted(columns, rows, wide=wide, right=numbers, cut=("queue", "holds"), spare=_SPARE)
        yield ""
    yield f"Order: {', '.join(answer['order']) or 'first come, first served'}."
    if any(queue["changed"] for queue in found):
        yield "* set while the daemon ran; the config differs."
    if not all(queue["known"] for queue in found):
        yield "Queues in brackets no longer exist; their jobs continue, and they accept no new ones."


def _row(queue: Json) -> tuple[str, ...]:
    name = "  " * queue["path"].count(".") + queue["path"].rpartition(".")[2]
    if not queue["known"]:
        name = f"[{queue['path']}]"
    settings = queue["settings"]
    return (
        f"{name}{' *' if queue['changed'] else ''}",
        f"{settings['weight']:g}",
        percent(queue["due"], 1) if queue["known"] else render.NONE,
        percent(queue["share"], 1),
        percent(queue["used"], 1),
        _bounds(settings["guaranteed"]),
        _held(queue),
        _bounds(settings["most"]),
        str(queue["running"]),
        str(queue["waiting"]),
        render.money(queue["dollars_today"]),
        _longest(queue),
    )


def queue(found: Json) -> RenderableType:
    """Everything about one queue."""
    settings = found["settings"]
    users = ", ".join(f"{user} {weight:g}" for user, weight in settings["user_weights"].items())
    submit = found["submit"]
    rows = [
        ("queue", f"{found['path']}{'' if found['leaf'] else ' (its jobs are in queues below it)'}"),
        ("weight", f"{settings['weight']:g}, which is {percent(found['due'], 1)} of the cluster"),
        ("guaranteed", _bounds(settings["guaranteed"])),
        ("most", _bounds(settings["most"])),
        ("most per user", _bounds(settings["most_per_user"])),
        ("may submit", "everybody" if submit is None else ", ".join(submit) or "nobody"),
        ("priority", str(found["priority"])),
        ("spot VMs", found["spot"]),
        ("weights of users", users or render.NONE),
        ("holds", f"{_held(found)}, which is {percent(found['share'], 1)} of the cluster"),
        ("recent use", percent(found["used"], 1)),
        ("jobs", f"{found['running']} running, {found['waiting']} waiting"),
        ("waits longest", _longest(found)),
        ("cost today", render.money(found["dollars_today"])),
    ]
    if found["dollars_this_month"] is not None:
        rows.append(("cost this month", render.money(found["dollars_this_month"])))
    if found["changed"]:
        rows.append(("set", "while the daemon ran; the config differs"))
    if not found["known"]:
        rows.append(("gone", "it accepts no more jobs; its jobs continue"))
    return render.pairs(rows)


def _bounds(amounts: Json) -> str:
    """Amounts in words: 8 cpus, 16 GiB, $2/h, 10 running."""
    return (
        ", ".join(_bound(key, amount) for key, amount in amounts.items() if amount is not None) or render.NONE
    )


def _bound(key: str, amount: float) -> str:
    if key == "memory":
        return render.memory(amount)
    if key in _DOLLARS:
        return f"${amount:g}{_DOLLARS[key]}"
    return f"{amount:g} {key}"


def _held(queue: Json) -> str:
    if not (queue["cpus"] or queue["memory_mib"] or queue["resources"]):
        return render.NONE
    others = "".join(f", {amount:g} {name}" for name, amount in queue["resources"].items())
    return f"{render.cpus(queue['cpus'])}, {render.memory(queue['memory_mib'])}{others}"


def _longest(queue: Json) -> str:
    if not queue["waits"]:
        return render.NONE
    since = queue["waits_since"]
    return str(queue["waits"]) + (f", {render.duration(time.time() - since)}" if since is not None else "")
