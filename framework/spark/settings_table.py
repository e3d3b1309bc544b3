"""Spark's own settings by name: the kind of their values, and older names that stand for them.

`settings` has a file for each version of Spark, made from its jars (`make settings`). `treatments` defines
Stoker's treatment of each setting.
"""

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).with_name("settings")

_TIMES = re.compile(r"\{\*([0-9]+)\}")


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting that Spark knows."""

    name: str
    kind: str
    """Kind of its values: `boolean`, `whole number`, `size in MiB`, `time in s`, ..."""
    others: Mapping[str, str]
    """Other names of it, with the format of their values: `{}s` makes 30s of 30; empty: unchanged."""
    deprecated: str
    """The version since which Spark warns of it; empty where it does not."""
    versions: tuple[str, ...]
    """Lines of Spark that know it, such as 4.3."""


@functools.cache
def all_settings() -> Mapping[str, Setting]:
    """All settings of all versions, by name; where two differ, the newest version counts."""
    found: dict[str, Setting] = {}
    files = sorted(FOLDER.glob("*.tsv"), key=lambda file: [int(part) for part in file.stem.split(".")])
    for file in files:
        for line in file.read_text(encoding="utf-8").splitlines():
            if line.startswith("#"):
                continue
            name, kind, others, deprecated = (*line.split("\t"), "", "")[:4]
            before = found.get(name)
            pairs = (pair.partition("=") for pair in others.split())
            found[name] = Setting(
                name,
                kind,
                {**(before.others if before else {}), **{other: how for other, _, how in pairs}},
                deprecated,
                (*(before.versions if before else ()), file.stem),
            )
    return found


@functools.cache
def _successors() -> Mapping[str, tuple[str, str]]:
    """Current name of each older name, and the conversion of its value."""
    return {
        other: (setting.name, how)
        for setting in all_settings().values()
        for other, how in setting.others.items()
    }


def current_name(name: str) -> str:
    """The name that Spark uses today for a setting; the same name where there is no newer one."""
    successors = _successors()
    while name in successors:
        name = successors[name][0]
    return name


def current(name: str, value: str) -> tuple[str, str]:
    """A setting by the name of today, with its value as that one has it."""
    successors = _successors()
    while name in successors:
        name, how = successors[name]
        value = _translated(value.strip(), how) if how else value
    return name, value


def _translated(value: str, how: str) -> str:
    if found := _TIMES.search(how):
        try:
            return how.replace(found[0], str(int(float(value) * int(found[1]))))
        except (ValueError, OverflowError):
            return value
    return how.replace("{}", value)
