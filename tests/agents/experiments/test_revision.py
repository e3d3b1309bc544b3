"""The revision that reports are signed with."""

import ast
import subprocess
from pathlib import Path

from agents.experiments.revision import revision, sign
from agents.experiments.runner import code_digest

COMMANDS = Path(__file__).parents[3] / "daemon/cli"


def test_a_report_is_signed_with_what_is_checked_out(tmp_path: Path) -> None:
    """And with that there is more than the commit; outside of a checkout that nobody knows."""
    folder, report = tmp_path / "code", tmp_path / "report.md"
    assert revision(tmp_path) == ""
    as_who = ["git", "-C", str(folder), "-c", "user.name=ann", "-c", "user.email=ann@example.com"]
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    (folder / "a.py").write_text("")
    subprocess.run([*as_who, "add", "a.py"], check=True)
    subprocess.run([*as_who, "commit", "-qm", "First"], check=True)
    commit = revision(folder)
    assert 7 <= len(commit) <= 12
    (folder / "docs/results").mkdir(parents=True)
    (folder / "docs/results/elastic.md").write_text("of today")
    subprocess.run([*as_who, "add", "--intent-to-add", "docs/results/elastic.md"], check=True)
    assert revision(folder) == commit
    (folder / "a.py").write_text("changed")
    assert revision(folder) == f"{commit}, with changes that are in no commit"
    (folder / "site-packages").mkdir()
    assert revision(folder / "site-packages") == ""  # which is somebody else's commit
    for of, line in (
        (commit, f"Of revision {commit}."),
        ("", "Of a revision that is not known: it was not made in a checkout of Stoker."),
    ):
        report.write_text("# Title\n\nMade by a command.\n", "utf-8")
        sign(report, of)
        assert report.read_text("utf-8") == f"# Title\n\n{line}\n\nMade by a command.\n"
    sign(report)
    now = report.read_text("utf-8").splitlines()[2]
    assert now.endswith(f"; code and data of its runs {code_digest()[:16]}.") or "is not known" in now


def test_every_command_signs_the_report_that_it_writes() -> None:
    """A command that imports a `report` of an experiment calls it, and `sign` or what signs in its end."""
    files = (ast.parse(path.read_text("utf-8")) for path in sorted(COMMANDS.rglob("*.py")))
    commands = [each for file in files for each in ast.walk(file) if isinstance(each, ast.FunctionDef)]
    writing = {each: taken for each in commands if (taken := _taken(each)) - {"sign"}}
    assert len(writing) >= 10
    (ending,) = (each for each in commands if each.name == "reproducing")
    assert "sign" in _called(ending)
    signing = {"sign", "reproducing"}
    signed = {each for each, taken in writing.items() if taken <= _called(each) and _called(each) & signing}
    assert [each.name for each in writing if each not in signed] == []


def _taken(command: ast.FunctionDef) -> set[str]:
    """Names that a command imports from the experiments to write, and sign, a report."""
    imports = (each for each in ast.walk(command) if isinstance(each, ast.ImportFrom))
    names = (
        name.name
        for each in imports
        if (each.module or "").startswith("agents.experiments")
        for name in each.names
    )
    return {name for name in names if name in {"report", "sign"} or name.startswith("report_")}


def _called(command: ast.FunctionDef) -> set[str]:
    calls = (each.func for each in ast.walk(command) if isinstance(each, ast.Call))
    return {func.id for func in calls if isinstance(func, ast.Name)}
