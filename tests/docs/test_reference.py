"""docs/reference equals the output of `make reference`, and leaves nothing without a word."""

import re

import pytest

from tests.docs.reference import FOLDER, PAGES


@pytest.mark.parametrize("name", PAGES)
def test_it_is_up_to_date(name: str) -> None:
    """Commands, config and API never change unseen."""
    stored = (FOLDER / name).read_text(encoding="utf-8")
    assert stored == PAGES[name](), "it has changed: `make reference` stores what it is now"


@pytest.mark.parametrize("name", PAGES)
def test_everything_is_described(name: str) -> None:
    """Mend it where the field, option or request is; every link within the page leads somewhere."""
    page = PAGES[name]().partition("\n## Training\n")[0]  # conf/train has files that say it
    assert not re.findall(r"^\| .*\|  \|$", page, re.MULTILINE)
    heads = {
        "".join(c for c in head.lower().replace(" ", "-") if c.isalnum() or c in "-_")
        for head in re.findall(r"^#+ (.*)$", page, re.MULTILINE)
    }
    assert {*re.findall(r"\]\(#([^)]*)\)", page)} <= {*heads, "training"}
