"""A decision as a value: made of plain values alone, and of the types that its executor relies on."""

import math
import reprlib
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from conf.util.counted import counted
from environment.resources import Resources
from environment.types import Place, Wait
from environment.view import ClusterView

#: Types of the elements of each part of a placement.
_PARTS: dict[str, tuple[type, ...]] = {
    "placement": (int, np.integer),
    "why": (str,),
    "scores": (float, int, np.floating),
    "sizes": (Resources,),
}


#: Characters of a reason that are kept, and of all that is told of a decision: the rest is cut, as jobs of
#: thousands of executors have so many sentences. Chosen: a page, and some of them.
_LONGEST, _LONGEST_IN_ALL = 10_000, 100_000
#: Numbers for each VM that a decision may have by name; Stoker's own policies have three at most.
_MOST_DETAILS = 100


#: Types with no code of a policy's.
_PLAIN = frozenset({str, int, float, bool, type(None), np.int64, np.float64})
_OF_PLACE, _OF_WAIT = (tuple(part.name for part in fields(kind)) for kind in (Place, Wait))


def plain(decision: object) -> object:
    """The decision rebuilt of plain values, each read once, its texts cut; another kind is returned as it is.

    For the thread of the policy: a class of the policy's own may run its code, and hang, whenever a value
    is looked at, so that nothing of it may reach other threads.
    """
    if isinstance(decision, Place):
        parts = {name: _plain(getattr(decision, name)) for name in _OF_PLACE}
        return Place(**{**parts, "why": _cut(parts["why"])})
    if isinstance(decision, Wait):
        parts = {name: _plain(getattr(decision, name)) for name in _OF_WAIT}
        reason = parts["reason"]
        return Wait(**{**parts, "reason": reason[:_LONGEST] if isinstance(reason, str) else reason})
    return decision


def _cut(why: Any) -> Any:
    """The sentences, as many of them in full as are kept; the others are empty. Other values as they are."""
    if not isinstance(why, tuple) or not all(type(sentence) is str for sentence in why):
        return why
    left, kept = _LONGEST_IN_ALL, list[str]()
    for sentence in why:
        kept.append(sentence[: min(_LONGEST, left)])
        left -= len(kept[-1])
    return tuple(kept)


def _plain(value: Any) -> Any:
    """The same value of the plain type that its own type extends, which counts as what it is."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    if isinstance(value, tuple):
        parts = tuple(tuple.__iter__(value))
        return parts if _PLAIN.issuperset(map(type, parts)) else tuple(map(_plain, parts))
    if isinstance(value, Resources):
        return Resources({_plain(name): _plain(amount) for name, amount in value.thousandths.items()})
    if isinstance(value, Mapping):
        return {_plain(name): _plain(part) for name, part in value.items()}
    if isinstance(value, np.generic):
        return np.generic.item(value)
    base: Any = next((base for base in (str, float, int) if isinstance(value, base)), None)
    return value if base is None else base.__getnewargs__(value)[0]


def misshapen(decision: object, view: ClusterView) -> tuple[str, ...]:
    """Faults of a `plain` decision as a value; the steps after it rely on its types."""
    if isinstance(decision, Wait):
        return _misshapen_wait(decision, len(view.vms))
    if not isinstance(decision, Place):
        return (f"the policy returned {type(decision).__name__}, not Place or Wait",)
    job: object = decision.job_id
    if not isinstance(job, str) or len(job) > _LONGEST:
        return (f"the job of the decision should be the id of a waiting one, found {reprlib.repr(job)}",)
    for name, kinds in _PARTS.items():
        part: object = getattr(decision, name)
        if type(part) is tuple and not part:
            continue
        if not isinstance(part, tuple) or not all(issubclass(kind, kinds) for kind in set(map(type, part))):
            wanted = " or ".join(kind.__name__ for kind in kinds)
            return (f"the {name} of the decision should be a tuple of {wanted}",)
    for size in decision.sizes:
        if not all(type(amount) is int for amount in size.thousandths.values()):
            return (f"a size should have whole thousandths, found {dict(size.thousandths)}",)
    if len(decision.scores) not in (0, len(view.vms)):
        return (f"{len(decision.scores)} scores for {counted(len(view.vms), 'VM')}",)
    return _misshapen_details(decision.details, len(view.vms))


def _misshapen_wait(wait: Wait, vms: int) -> tuple[str, ...]:
    reason: object = wait.reason
    if not isinstance(reason, str):
        return ("the reason to wait is no text",)
    keeps: object = wait.keeps
    if not isinstance(keeps, tuple) or not all(_is_kept(kept, vms) for kept in keeps):
        return (
            f"the VMs that the decision to wait keeps should be pairs of one of the "
            f"{counted(vms, 'VM')} and a time in seconds",
        )
    return ()


def _is_kept(kept: Any, vms: int) -> bool:
    if not isinstance(kept, tuple) or len(kept) != len(("vm", "until")):
        return False
    vm, until = kept
    numbers = isinstance(vm, _PARTS["placement"]) and isinstance(until, _PARTS["scores"])
    return numbers and 0 <= vm < vms and not math.isnan(until)


def _misshapen_details(details: Any, vms: int) -> tuple[str, ...]:
    if not isinstance(details, Mapping):
        return ("the details of the decision should be a mapping",)
    if len(details) > _MOST_DETAILS:
        return (f"the decision has {len(details)} details, more than {_MOST_DETAILS}",)
    for name, values in details.items():
        shaped = isinstance(name, str) and isinstance(values, tuple) and len(values) == vms
        if not (shaped and all(isinstance(value, _PARTS["scores"]) for value in values)):
            return (f"the detail {name!r} of the decision should be {vms} numbers, one for each VM",)
    return ()
