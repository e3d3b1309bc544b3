"""The walk of a job can be followed: `python -m tests.way` sees it in all of its forms."""

from pathlib import Path

from tests.way import FORMS, trace


def test_a_job_is_seen_in_all_of_its_forms(tmp_path: Path) -> None:
    """From the file that takes the request in to the one that writes what the master is told."""
    passed = trace(tmp_path)
    assert {form.__name__ for form in FORMS} <= set().union(*passed.values())
    assert list(passed).index("daemon/submissions.py") < list(passed).index("framework/translate.py")
