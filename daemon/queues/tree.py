"""A tree of queues, as own settings by path and in the config's form.

A change of one queue changes one value here; `conf.schema` validates them all together.
"""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from conf.schema.sharing import QueueSettings, QueueSpec, paths

#: The queues' own settings, by path; those above are before those below.
Own = Mapping[str, QueueSettings]
#: How many queues are named in a text.
_NAMED = 10


def own(queues: Mapping[str, QueueSpec]) -> dict[str, QueueSettings]:
    """Own settings of each queue of a tree."""
    return {path: settings(queue) for path, queue in paths(queues)}


def settings(queue: QueueSettings) -> QueueSettings:
    """Own settings of a queue alone."""
    said = {name: getattr(queue, name) for name in QueueSettings.model_fields}
    return QueueSettings.model_construct(**said)


def nested(queues: Own) -> dict[str, Any]:
    """Tree of these queues in the config's form; without queues that lack a parent."""
    top: dict[str, Any] = {}
    inner = {"": top}
    for path, queue in queues.items():
        over, _, name = path.rpartition(".")
        if over in inner:
            inner[over][name] = {**plain(queue), "queues": inner.setdefault(path, {})}
    return top


def plain(queue: QueueSettings) -> dict[str, Any]:
    """Settings of a queue that differ from the defaults, in JSON form."""
    return queue.model_dump(mode="json", exclude_defaults=True, include=set(QueueSettings.model_fields))


def above(path: str) -> Iterator[str]:
    """The paths above that one, the nearest first."""
    while "." in path:
        path = path.rpartition(".")[0]
        yield path


def below(queues: Own, path: str) -> list[str]:
    """The paths right below that one."""
    return [each for each in queues if each.rpartition(".")[0] == path]


def named(found: list[str], wanted: str) -> str:
    """Queues in words, the likeliest to be meant by `wanted` first: prod.etl, prod.adhoc and 3 more."""
    close = get_close_matches(wanted, found, n=_NAMED, cutoff=0.5)
    first = [*close, *(path for path in sorted(found) if path not in close)]
    more = len(first) - _NAMED
    return ", ".join(first[:_NAMED]) + (f" and {more} more" if more > 0 else "")
