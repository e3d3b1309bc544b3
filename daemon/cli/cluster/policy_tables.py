"""The API's answers about policies as tables: those there are, the one that decides, comparisons."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from conf.policy_text import policy_text
from daemon.cli.shared import render

Json = Mapping[str, Any]


def policies(found: Sequence[Json], current: str, wide: bool) -> RenderableType:
    """The policies that there are; the one that decides is marked. With their options where it is wide."""
    rows = [
        (
            Text("decides" if info["name"] == current else "", style="bold green"),
            info["name"],
            info["summary"],
            *([", ".join(_option(option) for option in info["options"])] if wide else []),
        )
        for info in found
    ]
    columns = ["", "name", "description", *(["options"] if wide else [])]
    return render.fitted(columns, rows, wide=wide, wrap=("description",))


def _option(option: Json) -> str:
    return option["name"] if option["default"] is None else f"{option['name']}={option['default']}"


def policy(status: Json) -> RenderableType:
    """The acting policy, with its decisions so far."""
    rows = [
        ("policy", policy_text(status["name"], status["options"])),
        ("decisions", f"{status['placed']} placed, {status['waited']} waited"),
        ("faults", str(status["faults"])),
        ("fallback", status["fallback"] or "none: a job waits when the policy fails"),
    ]
    for of, held in status["estimates"].items():
        if known := sum(held.values()):
            share = (
                f"{held['within']} of {known} ({held['within'] / known:.0%}) within the 90 % interval "
                "first predicted"
            )
            rows.append((f"{of}s", f"{share}, {held['before']} below, {held['after']} above"))
    if status["last_fault"]:
        rows.append(("last fault", status["last_fault"]))
    if status["cut_short"]:
        rows.append(("cut short", f"{render.count(status['cut_short'], 'decision')}, by its time limit"))
    if status["guarded"]:
        rows.append(("guarded", f"{render.count(status['guarded'], 'decision')} taken by its guard"))
    if shadow := status["shadow"]:
        rows.append(("shadow", _shadow(shadow)))
        if shadow["last_fault"]:
            rows.append(("its last fault", shadow["last_fault"]))
    if promotion := status["promotion"]:
        rows.append(("promotion", _promotion(promotion)))
    if status["busy"]:
        rows.append(("busy", f"for {render.duration(status['busy'])} with a decision that timed out"))
    return render.pairs(rows)


def _promotion(found: Json) -> str:
    text = f"{found['promoted']} over {found['earlier']}, {render.clock(found['at'])}"
    if found["taken_back"]:
        return f"{text}; taken back: {found['seen']}"
    return f"{text}; cost {found['seen']}" if found["seen"] else f"{text}; not compared yet"


def promotion(found: Json) -> Iterator[RenderableType]:
    """The acting policy and the candidate on past jobs, their differences and the judgement."""
    jobs = render.count(found["jobs"], "job")
    yield render.wrapped(f"{jobs} since {render.clock(found['since'])}, {found['ended']} of them ended.")
    rows = [
        (
            policy_text(each["name"], each["options"]),
            str(each["draws"]),
            render.money(each["dollars"] and each["dollars"]["mean"]),
            render.duration(each["completion"] and each["completion"]["mean"]),
            _share(each["fallback_share"]),
        )
        for each in found["policies"]
    ]
    rows.append(("difference", "", _difference(found["cost"]), _difference(found["completion"]), ""))
    columns = ("policy", "draws", "cost", "mean completion", "fallback")
    yield render.table(columns, rows, right=columns[1:])
    if any(each["fixed"] for each in found["policies"]):
        yield render.wrapped(
            "No VM opens or closes here, so no policy changes the bill: cost is the price of VMs while jobs "
            "hold them (eq. 4)."
        )
    yield render.wrapped("The errors are those of other durations of the same jobs, not of other days.")
    label = policy_text(found["policies"][1]["name"], found["policies"][1]["options"])
    if found["promoted"]:
        yield render.wrapped(f"{label} acts now. It is taken back when it is dearer over a day.")
    else:
        yield render.wrapped(found["why"] or f"{label} would be promoted. Nothing was changed.")


def _difference(found: Json | None) -> str:
    if found is None:
        return render.NONE
    error = "unknown" if found["error"] is None else f"{100 * found['error']:.1f}"
    return f"{100 * found['mean']:+.1f} ± {error} %"


def _shadow(shadow: Json) -> str:
    name = policy_text(shadow["name"], shadow["options"])
    text = f"{name}: {render.count(shadow['compared'], 'decision')} compared, {shadow['different']} different"
    missed = f", {shadow['missed']} missed while it was busy" if shadow["missed"] else ""
    faults = f", {render.count(shadow['faults'], 'fault')}" if shadow["faults"] else ""
    return text + missed + faults


def comparison(found: Json) -> Iterator[RenderableType]:
    """Where shadow policies would have decided otherwise: the sums, then single decisions."""
    if not found["totals"]:
        yield "Nothing to compare yet. `stoker policy shadow NAME` runs a policy as the shadow."
        return
    rows = [
        (
            totals["acting"],
            totals["shadow"],
            str(totals["compared"]),
            str(totals["different"]),
            str(totals["only_acting_placed"]),
            str(totals["only_shadow_placed"]),
            str(totals["priced"]),
            render.money(totals["acting_cost"]),
            render.money(totals["shadow_cost"]),
            _share(totals["acting_fallback_share"]),
            _share(totals["shadow_fallback_share"]),
        )
        for totals in found["totals"]
    ]
    columns = ["acted", "looked on", "decisions", "different", "only the first placed"]
    columns += [
        "only the second placed",
        "priced",
        "VMs taken",
        "would have taken",
        "fallback",
        "would have failed",
    ]
    yield render.table(columns, rows, right=columns[2:])
    if found["differences"]:
        yield ""
        yield _differences(found["differences"])
    yield ""
    yield render.wrapped(
        "Each decision by itself, on the cluster that the acting policy made: the price of the VMs newly "
        "taken, for as long as the job ran. That is neither a bill nor what the jobs would have cost under "
        "the other policy: `stoker what-if --since today` simulates that."
    )


def _share(share: float | None) -> str:
    """That of the decisions that a policy failed to take; a dash where that is not known."""
    return "-" if share is None else f"{100 * share:.3g} %"


def _differences(found: Sequence[Json]) -> RenderableType:
    rows = [
        (
            render.clock(each["at"]),
            each["job"],
            _outcome(each["acting"]),
            _outcome(each["shadow"]),
            render.duration(each["duration"]),
            render.money(each["acting"]["cost"]),
            render.money(each["shadow"]["cost"]),
        )
        for each in found
    ]
    columns = ("at", "job", "acted", "looked on", "duration", "VMs taken", "would have taken")
    return render.table(columns, rows, right=columns[4:])


def _outcome(outcome: Json) -> str:
    if outcome["vms"] is None:
        return f"{outcome['policy']} waits: {outcome['reason']}"
    vms = ", ".join(f"{count} on {vm}" for vm, count in outcome["vms"].items())
    return f"{outcome['policy']}: {vms}"
