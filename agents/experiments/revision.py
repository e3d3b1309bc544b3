"""Which revision of the code a report is made with, written below its title."""

import subprocess
from pathlib import Path

_HERE = Path(__file__).parents[2]


def revision(folder: Path = _HERE) -> str:
    """The commit that is checked out there, shortened, with what it lacks; empty where there is none.

    What is installed below somebody else's checkout is none of its commits.
    """
    try:
        top, commit, changes = (
            subprocess.run(
                ["git", "-C", str(folder), *words], capture_output=True, check=True, text=True, timeout=10.0
            ).stdout.strip()
            for words in (
                ("rev-parse", "--show-toplevel"),
                ("rev-parse", "--short", "HEAD"),
                ("status", "--porcelain", "--untracked-files=no"),
            )
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    if Path(top) != folder.resolve():
        return ""
    return f"{commit}, with changes that are in no commit" if changes else commit


def sign(report: Path, of: str | None = None) -> None:
    """Say below the title of a report (Markdown) of which revision it is; None: of what is checked out."""
    title, _, rest = report.read_text("utf-8").partition("\n")
    told = revision() if of is None else of
    line = (
        f"Of revision {told}."
        if told
        else "Of a revision that is not known: it was not made in a checkout of Stoker."
    )
    report.write_text(f"{title}\n\n{line}\n{rest}", "utf-8")
