"""Policies that fail: the reports, and that one decision on a made-up cluster finds it out."""

import threading
from pathlib import Path

import pytest

from agents.registry import PolicyError, create, look_in
from agents.trial import tried
from environment.decisions.decision_round import decide_once
from environment.decisions.trial import trial
from environment.policy_faults import failure
from environment.types import PlacementRequest
from tests.builders import make_job, make_view, make_vms
from tests.waiting import until

SOURCE = '''"""Policies of a user's."""

import json


def helped(text):
    return json.loads(text)


def fits(view, queue):
    from environment.types import Place
    return Place(queue[0].job.id, (0,) * queue[0].count)


def waits(view, queue):
    from environment.types import Wait
    return Wait("not today")


def raises(view, queue):
    return {}["price"]


def calls(view, queue):
    return helped("{")


def leaves(view, queue):
    raise SystemExit(3)


def nothing(view, queue):
    return None


def lies(view, queue):
    from environment.types import Place
    return Place(queue[0].job.id, (99,) * queue[0].count)


class Endless:
    def __init__(self):
        import threading
        threading.Event().wait(600)

    def decide(self, view, queue):
        return fits(view, queue)


class Counts:
    decide = staticmethod(fits)

    @property
    def guarded(self):
        raise SystemExit(3)


def dawdles(view, queue):
    import threading
    threading.Event().wait(600)


def loops(view, queue):
    while True:
        pass
'''


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with a user's policies, which can be named."""
    folder = tmp_path_factory.mktemp("own")
    path = folder / "tried_policies.py"
    path.write_text(SOURCE)
    look_in(folder)
    return path


@pytest.mark.parametrize("name", ["fits", "waits"])
def test_one_that_decides_is_taken(module: Path, name: str) -> None:
    """To wait is a decision."""
    tried(f"{module.stem}:{name}", {}, 30.0)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("raises", "the policy failed: KeyError: 'price' ({path}, line 21, in raises)"),
        ("calls", "the policy failed: JSONDecodeError: {json} ({path}, line 7, in helped)"),
        ("leaves", "the policy failed: SystemExit: 3 ({path}, line 29, in leaves)"),
        ("nothing", "the policy returned NoneType, not Place or Wait"),
        ("lies", "VM 99 is not one of the 3 VMs"),
    ],
)
def test_one_that_fails_is_found_with_file_and_line(module: Path, name: str, why: str) -> None:
    """Of its own code, where a library raised the error."""
    error = "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"
    with pytest.raises(PolicyError) as found:
        tried(f"{module.stem}:{name}", {}, 30.0)
    told = why.format(path=module, json=error)
    assert str(found.value) == f"policy {module.stem}:{name}: on a made-up cluster, {told}"


def test_one_that_does_not_return_is_found_in_time(module: Path) -> None:
    """Its thread does not keep the process from ending."""
    assert trial(lambda: create(f"{module.stem}:dawdles"), 0.05) == "the policy did not decide within 0.05 s"
    assert all(thread.daemon for thread in threading.enumerate() if thread.name == "trial of a policy")


def test_one_that_loops_burns_no_core_for_ever(module: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is interrupted after a while."""
    monkeypatch.setattr("environment.decisions.trial._ENDLESS", 0.05)
    before = set(threading.enumerate())
    assert trial(lambda: create(f"{module.stem}:loops"), 0.05) == "the policy did not decide within 0.05 s"
    until(lambda: not set(threading.enumerate()) - before)


@pytest.mark.parametrize(
    ("name", "why"),
    [("Endless", "the policy did not decide within 0.5 s"), ("Counts", "the policy failed: SystemExit: 3 (")],
)
def test_one_that_cannot_be_made_or_asked_is_found_in_time(module: Path, name: str, why: str) -> None:
    """A trial waits for none of its code: neither to make it nor to ask what it is."""
    with pytest.raises(PolicyError) as found:
        tried(f"{module.stem}:{name}", {}, 0.5)
    assert why in str(found.value)


def test_a_decision_keeps_the_place_of_the_error(module: Path) -> None:
    """In a simulation and in the daemon alike."""
    verdict = decide_once(
        create(f"{module.stem}:raises").decide, make_view(make_vms(1)), [PlacementRequest(make_job(), 1)]
    )
    assert verdict.faults == (f"the policy failed: KeyError: 'price' ({module}, line 21, in raises)",)


def test_a_long_error_is_cut() -> None:
    """An error without a traceback has no place; a page of text is no reason."""
    assert failure(ValueError("no")) == "the policy failed: ValueError: no"
    assert len(failure(ValueError("x" * 10_000))) < 600
