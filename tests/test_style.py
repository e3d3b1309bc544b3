"""What CONTRIBUTING.md says of files and no linter knows."""

import subprocess
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
#: Lines of a file of the packages, at most.
MOST_LINES = 400
#: Made by `make openapi`.
MADE = frozenset({"client/stoker/answers.py"})


def test_files_are_short() -> None:
    """Whoever opens one can read it whole; one that grows beyond that is parted by sense."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.py"],
        cwd=REPOSITORY, capture_output=True, text=True, check=True,
    )  # fmt: skip
    files = {file for file in listed.stdout.splitlines() if not file.startswith("tests/")} - MADE
    assert len(files) > 500
    lines = {file: _lines(REPOSITORY / file) for file in files if (REPOSITORY / file).exists()}
    assert {file: number for file, number in lines.items() if number > MOST_LINES} == {}


def _lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())
