"""The page of all results is that of the reports, and sentences of other pages are quoted from them."""

import re
from pathlib import Path

import pytest

from agents.experiments.results.summary import SUMMARY, summary_of
from tests.docs.pages import PAGES

RESULTS = Path("docs/results")


def test_the_page_of_results_quotes_them() -> None:
    """`make results` writes it; a report that is made anew changes it."""
    assert (RESULTS / SUMMARY).read_text("utf-8") == summary_of(RESULTS)


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_quoted_sentences_are_in_a_report(page: Path) -> None:
    """A quotation that begins with a policy."""
    said = {
        line.removeprefix("* ")
        for path in RESULTS.glob("*.md")
        for line in path.read_text("utf-8").splitlines()
    }
    quoted = re.findall(r"^> (`.+)$", page.read_text("utf-8"), re.MULTILINE)
    assert [line for line in quoted if line not in said] == []
