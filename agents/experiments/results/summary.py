"""The page of all reports: for each question of users, the sentence or row of a report that answers it.

Nothing is computed or judged here: reports write their findings in words and rows, and this page quotes them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

#: The file beside the reports.
SUMMARY = "README.md"


class SummaryError(ValueError):
    """A report has no answer where one was expected; the text says which one and where."""


@dataclass(frozen=True, slots=True)
class UserQuestion:
    """A question and where its answer stands: the first line below a heading that begins so.

    With `columns`, the line is a row, of which these columns are quoted.
    """

    text: str
    report: str
    heading: str
    begins: str
    contains: str = ""
    columns: tuple[str, ...] = ()


_ALL_CASES = "All cases, belief 0.2"
_BESIDE = ("cost beside the cheapest partner", "dearest case", "broken in")
QUESTIONS = (
    UserQuestion(
        "Which policy is cheapest on fixed VMs that have room?",
        "decisions",
        "The two densities of the paper, belief 0.2",
        "* Normal:",
    ),
    UserQuestion(
        "And when jobs have to wait?", "decisions", "The two densities of the paper, belief 0.2", "* Burst:"
    ),
    UserQuestion(
        "Is it still cheaper on workloads that it was not made for?",
        "decisions",
        _ALL_CASES,
        "| `lookahead:beta=1.0` |",
        columns=_BESIDE,
    ),
    UserQuestion(
        "Should a trained policy decide?",
        "decisions",
        _ALL_CASES,
        "| `reinforce:beta=1.0` |",
        columns=_BESIDE,
    ),
    UserQuestion(
        "What do VMs that come and go cost, beside Karpenter?",
        "elastic",
        "burst, boots of 60 s",
        "* `lookahead, planned`",
        "cheapest of Karpenter",
    ),
    UserQuestion(
        "And beside Cluster Autoscaler?",
        "elastic",
        "burst, boots of 60 s",
        "* `lookahead, planned`",
        "cheapest of Cluster Autoscaler",
    ),
    UserQuestion(
        "And in a day of a real cluster's arrivals, beside Karpenter?",
        "elastic",
        "Facebook day, boots of 60 s",
        "* `greedy, planned`",
        "cheapest of Karpenter",
    ),
    UserQuestion(
        "And where nobody knows how long jobs take?",
        "elastic",
        "Alibaba, boots of 60 s",
        "* `greedy, planned`",
        "cheapest of Karpenter",
    ),
    UserQuestion(
        "What does fairness between users cost?", "sharing", "burst", "* `lookahead`: in fair order"
    ),
    UserQuestion("Do estimated starts come true?", "estimates", "", "* `greedy`:"),
)


def write_summary(folder: Path) -> Path:
    """Write the page beside the reports of a folder; returns its path.

    SummaryError when a report has no answer; OSError when one is missing.
    """
    path = folder / SUMMARY
    path.write_text(summary_of(folder), encoding="utf-8")
    return path


def summary_of(folder: Path) -> str:
    """The page, in Markdown."""
    lines = [_HEAD]
    for question in QUESTIONS:
        source = f"[{question.report}.md]({question.report}.md), `make results ONLY={question.report}`"
        lines.append(f"* **{question.text}** {answer(folder, question)} ({source})\n")
    lines.append("## All reports\n")
    for path in sorted(folder.glob("*.md")):
        if path.name != SUMMARY:
            title = path.read_text("utf-8").partition("\n")[0].removeprefix("# ")
            lines.append(f"* [{path.name}]({path.name}): {title}")
    return "\n".join(lines) + "\n"


def answer(folder: Path, question: UserQuestion) -> str:
    """The answer to a question, as its report has it; SummaryError when it has none."""
    text = (folder / f"{question.report}.md").read_text("utf-8")
    titles: list[str] = []
    for line in _below(text, question.heading):
        if line.startswith("| ") and not titles:
            titles = _cells(line)
        if not line.startswith("|"):
            titles = []
        if line.startswith(question.begins) and question.contains in line:
            if not question.columns:
                return line.removeprefix("* ")
            of = dict(zip(titles, _cells(line), strict=True))
            if set(question.columns) <= of.keys():
                quoted = "; ".join(f"{column}: {of[column]}" for column in question.columns)
                return f"{of[titles[0]]}: {quoted}."
    raise SummaryError(
        f"{question.report}.md has no line that begins with {question.begins!r} below {question.heading!r}"
    )


def _below(text: str, heading: str) -> Iterator[str]:
    """Lines below a heading (empty: all), up to the next one of its level or above."""
    level = 0 if heading else -1
    for line in text.splitlines():
        marks = len(line) - len(line.lstrip("#")) if line.startswith("#") else 0
        if level > 0 and 0 < marks <= level:
            return
        if level:
            yield line
        elif marks and line.lstrip("# ") == heading:
            level = marks


def _cells(row: str) -> list[str]:
    return [cell.strip() for cell in row.strip().strip("|").split("|")]


_HEAD = """# What the measurements say

Each answer is quoted from a report, which computed it. A difference is the mean ± its standard error over the
same seeds with and without; a star marks one beyond two standard errors. A negative result stays here as one.
`make results` makes all of these reports anew; those on real Spark name their own commands.
"""
