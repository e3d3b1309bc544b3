"""The revision that reports are signed with."""

import subprocess
from pathlib import Path

from agents.experiments.revision import revision, sign


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
