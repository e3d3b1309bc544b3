"""The revision of the code that makes a report, written below the report's title."""

import subprocess
from pathlib import Path

from agents.experiments.runner import code_digest

_HERE = Path(__file__).parents[2]


def revision(folder: Path = _HERE) -> str:
    """The checked-out commit, shortened, with a mark for local changes; empty without one.

    Packages installed inside another project's checkout do not count as part of its commits.
    """
    try:
        top, commit, changes = (
            subprocess.run(
                ["git", "-C", str(folder), *words], capture_output=True, check=True, text=True, timeout=10.0
            ).stdout.strip()
            for words in (
                ("rev-parse", "--show-toplevel"),
                ("rev-parse", "--short", "HEAD"),
                # A report that was just written is no change of the code that made it.
                ("status", "--porcelain", "--untracked-files=no", "--", ":/", ":(top,exclude)docs/results"),
            )
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    if Path(top) != folder.resolve():
        return ""
    return f"{commit}, with changes that are in no commit" if changes else commit


def sign(report: Path, of: str | None = None) -> None:
    """Write the revision below the title of a Markdown report; None: the checked-out revision.

    A report of the checked-out revision also names the digest of the code and data that runs depend on, which
    tells the same code in another commit.
    """
    title, _, rest = report.read_text("utf-8").partition("\n")
    told = revision() if of is None else of
    digest = f"; code and data of its runs {code_digest()[:16]}" if of is None else ""
    line = (
        f"Of revision {told}{digest}."
        if told
        else "Of a revision that is not known: it was not made in a checkout of Stoker."
    )
    report.write_text(f"{title}\n\n{line}\n{rest}", "utf-8")
