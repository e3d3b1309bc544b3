"""The page of all reports quotes them, and says where a report has no answer."""

from pathlib import Path

import pytest

from agents.experiments.results.summary import QUESTIONS, SummaryError, UserQuestion, answer

REPORT = """# A report

## One

* `a`: of the first.

### Part

| policy | cost | rule |
|---|---:|---|
| `a` | +1.0 ± 0.2 %* | ok |
| `b` | +2.0 ± 0.2 %* | broken |

## Two

* `a`: of the second, beside x.
* `a`: of the second, beside y.
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with one report."""
    (tmp_path / "report.md").write_text(REPORT, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        (UserQuestion("?", "report", "", "* `a`"), "`a`: of the first."),
        (UserQuestion("?", "report", "Two", "* `a`", "beside y"), "`a`: of the second, beside y."),
        (UserQuestion("?", "report", "One", "| `b` |", columns=("rule", "cost")),
         "`b`: rule: broken; cost: +2.0 ± 0.2 %*."),
    ],
)  # fmt: skip
def test_an_answer_is_the_line_or_row_of_its_report(
    folder: Path, question: UserQuestion, expected: str
) -> None:
    """The first below the heading, and above the next one of its level."""
    assert answer(folder, question) == expected


@pytest.mark.parametrize(
    "question",
    [
        UserQuestion("?", "report", "One", "* `a`", "second"),
        UserQuestion("?", "report", "Three", "* `a`"),
        UserQuestion("?", "report", "Part", "| `b` |", columns=("completion",)),
    ],
)
def test_an_answer_that_is_not_there_is_an_error(folder: Path, question: UserQuestion) -> None:
    """It names the report, and what it looked for."""
    with pytest.raises(SummaryError, match=r"report\.md has no line that begins with"):
        answer(folder, question)


def test_there_are_ten_questions() -> None:
    """No more are read."""
    assert len(QUESTIONS) == 10
