"""Things that pages mention exist: commands, metrics, files, tests, and link targets."""

import re
from pathlib import Path

import pytest

from tests.docs.pages import PAGES as FOR_USERS
from tests.docs.pages import REPOSITORY

#: In which pages name files.
FOLDERS = "agents|conf|daemon|deploy|docs|environment|framework|profiles|tests"
REFERENCES = sorted((REPOSITORY / "docs/reference").glob("*.md"))
PAGES = sorted({*FOR_USERS, *REPOSITORY.glob("*.md")})
#: As many lines as a stranger reads.
_LONGEST_README = 150


def test_no_report_goes_to_what_is_published_unless_told_so() -> None:
    """Not by any option of any command, when it is left out."""
    import typer

    from daemon.cli import app

    def defaults(command: object, path: str) -> dict[str, str]:
        inner = getattr(command, "commands", None)
        if inner:
            return {k: v for name, sub in inner.items() for k, v in defaults(sub, f"{path} {name}").items()}
        options = {option.name: str(option.default) for option in command.params}  # type: ignore[attr-defined]
        return {f"{path} {name}": value for name, value in options.items()}

    found = defaults(typer.main.get_command(app), "stoker")
    assert found["stoker profile validate out"] == "stoker-results/fidelity.md"
    assert not [name for name, value in found.items() if value.startswith("docs")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_what_pages_name_is_there(page: Path) -> None:
    """Commands, metrics of the daemon, files of the tree, tests."""
    import typer

    from daemon.cli import app

    text, known = page.read_text(encoding="utf-8"), typer.main.get_command(app)
    for words in re.findall(r"(?:^ {4}|`)(?:\.venv/bin/)?stoker ([a-z][a-z0-9 -]*)", text, re.MULTILINE):
        command: object = known
        for word in words.split():
            inner = getattr(command, "commands", None)
            if not inner:
                break
            assert word in inner, f"stoker {words}"
            command = inner[word]
    # That page's table is held to what a daemon tells, by a test of its own.
    shown = (REPOSITORY / "docs" / "metrics.md").read_text("utf-8")
    metrics, named = (
        {name.removesuffix("_total") for name in re.findall(r"`(stoker_[a-z_]+)", of)} for of in (shown, text)
    )
    assert named <= metrics
    for name in re.findall(rf"`((?:{FOLDERS})/[\w./-]+\.\w+)`", text):
        assert (REPOSITORY / name).exists(), name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_tests_that_pages_name_are_there(page: Path) -> None:
    """`test_module::test_name`, and `::test_name` for another one of the module before."""
    functions: dict[str, str] = {}
    for path in (REPOSITORY / "tests").rglob("test_*.py"):
        functions[path.stem] = functions.get(path.stem, "") + path.read_text()
    module = ""
    for name, function in re.findall(
        r"`(?:[a-z/_0-9]*/)?(test_\w+)?(?:\.py)?(?:::(test_\w+))?`", page.read_text()
    ):
        module = name or module
        if module:
            assert module in functions, module
        if function:
            assert f"def {function}(" in functions[module], f"{module}::{function}"


def anchors(page: Path) -> set[str]:
    """Possible anchors behind `#` in a link to the page: its headings, as code hosts name them."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    heads = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {"".join(c for c in head.lower().replace(" ", "-") if c.isalnum() or c in "-_") for head in heads}


@pytest.mark.parametrize("page", [*PAGES, *REFERENCES], ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_links_lead_somewhere(page: Path) -> None:
    """To files and folders that are there, and to headings in them."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in target:
            continue
        name, _, anchor = target.partition("#")
        found = page.parent / name if name else page
        assert found.exists(), target
        assert not anchor or anchor in anchors(found), target


def test_every_page_is_in_the_table_of_contents() -> None:
    """And README is one that a stranger reads."""
    contents = (REPOSITORY / "docs/README.md").read_text(encoding="utf-8")
    for page in [*(REPOSITORY / "docs").glob("*.md"), *REFERENCES]:
        assert page.name == "README.md" or f"({page.relative_to(REPOSITORY / 'docs')})" in contents, page.name
    readme = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    assert len(readme.splitlines()) <= _LONGEST_README


def test_the_glossary_defines_each_word_once_in_order() -> None:
    """Alphabetically, in one or two sentences; the words that all pages use are among them."""
    text = (REPOSITORY / "docs/glossary.md").read_text(encoding="utf-8")
    found = dict(re.findall(r"^\| \*\*(.+?)\*\* \| (.+) \|$", text, re.MULTILINE))
    assert len(found) == text.count("| **")
    assert [*found] == sorted(found, key=str.lower)
    assert found.keys() >= {
        *(
            "VM",
            "agent",
            "application",
            "belief",
            "bill",
            "driver",
            "executor",
            "fallback",
            "gang",
            "job",
            "lease",
        ),
        *("offer", "placement", "policy", "pool", "profile", "queue", "shadow"),
    }
    for word, meaning in found.items():
        assert 1 <= len(re.findall(r"\.(?: |$)", re.sub(r"\(\[.*?\)\)", "", meaning))) <= 2, word
