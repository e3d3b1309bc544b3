"""A job's way can be followed: `python -m tests.way` sees it in all of its forms, and the walk tells it."""

import re
from pathlib import Path

from tests.way import FORMS, REPOSITORY, trace

#: Who has to do with a job when it waits for a while, as it does where the machine is busy.
_WAITING = {"environment/model/vms/pool_slots.py", "environment/model/jobs/waiting_reasons.py"}


def test_a_job_is_seen_in_all_of_its_forms_and_documented_on_its_way(tmp_path: Path) -> None:
    """The trace leads from the file that takes the request in to the one that writes the call to the master.

    The document's number of files is a bound: a change that adds a file to the way updates it there.
    """
    traced = trace(tmp_path)
    passed, did = list(traced.found), traced.did()
    assert {form.__name__ for form in FORMS} <= set().union(*traced.found.values())
    assert passed.index("daemon/http/routes/jobs/submissions.py") < passed.index(
        "framework/mesos/translate.py"
    )
    assert {did["daemon/submission/admission.py"], did["framework/mesos/translate.py"]} == {"moves"}
    assert did["environment/decisions/feasibility.py"] == "asked"
    assert did["daemon/queues/waiting_counts.py"] == "asked"
    walk = (REPOSITORY / "docs/architecture.md").read_text().partition("## It runs")[0]
    moves = {file for file, does in did.items() if does == "moves"} - _WAITING
    assert {file for file in moves if f"`{file}`" not in walk} == set(), "the walk names whoever moves a job"
    said = re.search(r"(\d+)\s+files\s+had\s+the\s+job:\s+(\d+)\s+move\s+it", walk)
    assert said, "the walk says how many there are"
    assert len(set(passed) - _WAITING) <= int(said[1])
    assert len(moves) <= int(said[2])
