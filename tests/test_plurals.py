"""No text says "1 executors": counts and their nouns come from `counted`."""

import ast
import re
from collections.abc import Iterator

from tests.test_style import PACKAGES, REPOSITORY

#: Plurals of what Stoker counts in texts.
_NOUNS = (
    "accounts agents applications archives arguments attempts characters columns cores cpus days "
    "decisions draws drivers entries episodes events executors explanations files groups hours "
    "iterations jobs JVMs launches lines minutes offers others packages permissions placements points "
    "policies pools ports processes queues records references resources retries rounds rows runs "
    "samples seeds sizes stages steps tasks terms times tokens tries types uploads users versions "
    "violations VMs warnings webhooks windows workloads "
)
#: Words between a number and its noun.
_WORDS = "finished further generated idle more older other queued running such uploaded waiting"
_COUNTED = re.compile(rf"^ (?:(?:{'|'.join(_WORDS.split())}) )?(?:{'|'.join(_NOUNS.split())})\b")
#: Texts where that is no number.
NO_NUMBERS = {
    "daemon/cli/operate/demo_tables.py: stoker jobs",
    "environment/model/jobs/backoff.py: vm.trying tries",
    # It is stopped after many thousands at least, of a workload that has two jobs.
    "environment/simulation/simulator.py: events events",
    "environment/simulation/simulator.py: len(world.jobs) jobs",
    "daemon/maintenance/config_check.py: section.see jobs",
}


def test_no_text_counts_one_of_many() -> None:
    """A plural follows no number in an f-string, unless the same expression also has the singular."""
    assert [one for one in found() if one not in NO_NUMBERS] == []


def test_such_a_count_is_found() -> None:
    """Behind the number, or a word later; not where one is dealt with, nor behind a constant."""
    text = """
f"{n} jobs wait", f"{n:,} more executors", f"{len(x):g} cpus"
"1 job" if n == 1 else f"{n} jobs"
f"{n:.1f} times", f"{MOST} files at most", f"{name} on {self._MOST} VMs", counted(n, "job")
"""
    assert list(counts(ast.parse(text))) == ["n jobs", "n more executors", "len(x) cpus"]


def found() -> Iterator[str]:
    """Such texts: file and what is counted."""
    for package in (*PACKAGES, "client"):
        for path in sorted((REPOSITORY / package).rglob("*.py")):
            name = path.relative_to(REPOSITORY)
            yield from (f"{name}: {text}" for text in counts(ast.parse(path.read_text(encoding="utf-8"))))


def counts(node: ast.AST) -> Iterator[str]:
    """Numbers in f-strings that a plural follows."""
    if isinstance(node, ast.IfExp) and any(ast.unparse(one) == "1" for one in ast.walk(node.test)):
        return
    if isinstance(node, ast.JoinedStr):
        for value, text in zip(node.values, node.values[1:], strict=False):
            if isinstance(value, ast.FormattedValue) and isinstance(text, ast.Constant):
                noun = _COUNTED.match(str(text.value))
                if noun and _may_be_one(value):
                    yield ast.unparse(value.value) + noun.group()
    for child in ast.iter_child_nodes(node):
        yield from counts(child)


def _may_be_one(value: ast.FormattedValue) -> bool:
    """Whether it is shown as a whole number that is not fixed."""
    spec = ast.unparse(value.format_spec) if value.format_spec else ""
    name = ast.unparse(value.value).rpartition(".")[2].lstrip("_")
    return "." not in spec and "%" not in spec and not name.isupper()
