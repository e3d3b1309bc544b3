"""Queues and the order over them, as config has them and as the rest of Stoker knows them."""

from typing import Any

import pytest
from pydantic import ValidationError

from conf.schema import JobSpec
from conf.schema.sharing import SharingFile
from environment.queues.types import Queue, Sharing, sharing_of

TREE = {
    "prod": {
        "weight": 3,
        "guaranteed": {"cpus": 8, "memory": "16g"},
        "most": {"cpus": 16, "gpus": 0, "dollars_per_day": 20, "running": 10, "waiting": 1000},
        "submit": ["ann", "bob"],
        "priority": 10,
        "spot": "never",
        "queues": {"etl": {"weight": 2, "user_weights": {"ann": 2}}, "adhoc": {"priority": 1, "submit": []}},
    }
}


def sharing(**sections: Any) -> Sharing:
    """Sharing as a file with these sections defines it."""
    file = SharingFile.model_validate(sections)
    found = sharing_of(file.sharing, file.queues)
    assert found is not None
    return found


def test_a_tree_is_known_by_paths() -> None:
    """Unset values are inherited from above; jobs that name no queue have one."""
    queues = sharing(queues=TREE).queues
    assert [queue.path for queue in queues] == ["default", "prod", "prod.etl", "prod.adhoc"]
    assert queues.leaves == ("default", "prod.etl", "prod.adhoc")
    assert [queue.path for queue in queues.line("prod.etl")] == ["prod", "prod.etl"]
    assert [queue.path for queue in queues.below("prod")] == ["prod.etl", "prod.adhoc"]
    etl, adhoc, prod = (queues.line(path)[-1] for path in ("prod.etl", "prod.adhoc", "prod"))
    assert (etl.priority, etl.spot, etl.submit) == (10, "never", ("ann", "bob"))
    assert (adhoc.priority, adhoc.submit) == (1, ())
    assert (etl.weight_of("ann"), etl.weight_of("bob")) == (2.0, 1.0)
    assert prod.guaranteed.memory_mib == 16384
    assert prod.most.resources == {"cpus": 16.0, "gpus": 0.0}
    assert (prod.most.running, prod.most.dollars_per_day) == (10, 20.0)
    assert prod.most
    assert not prod.most_per_user


def test_without_queues_any_is_there() -> None:
    """All are one without a tree; a job of a removed queue has its queue even beside others."""
    assert not sharing().queues
    assert sharing().queues.line("gone.long") == (Queue("default"),)
    assert sharing(queues=TREE).queues.line("gone.long") == (Queue("gone.long"),)
    assert sharing_of(None, {}) is None
    assert sharing(queues=TREE).priority_of(None, "prod.etl") == 10
    assert sharing(queues=TREE).priority_of(0, "prod.etl") == 0


def test_another_tree_has_another_digest() -> None:
    """Any difference changes the digest."""
    other = {"prod": {**TREE["prod"], "weight": 4}}
    assert sharing(queues=TREE).queues.digest == sharing(queues=TREE).queues.digest
    assert sharing(queues=TREE).queues.digest != sharing(queues=other).queues.digest


def test_an_order_may_be_one_word() -> None:
    """Or several."""
    assert sharing(sharing={"order": "fair"}).order == ("fair",)
    assert sharing(sharing={"order": ["priority", "fair"]}).order == ("priority", "fair")
    assert sharing(sharing={"half_life": "2h", "starves_after": 60}).half_life == 7200.0


@pytest.mark.parametrize(
    ("sections", "complaint"),
    [
        ({"queues": {"a": {"weight": 0}}}, "greater than 0"),
        ({"queues": {"a.b": {}}}, "dots separate the names"),
        ({"queues": {"default": {"queues": {"a": {}}}}}, "accepts jobs that name no queue"),
        (
            {"queues": {"a": {"guaranteed": {"cpus": 4}, "most": {"cpus": 2}}}},
            "4 cpus are more than its most",
        ),
        (
            {"queues": {"a": {"spot": "only", "queues": {"b": {"spot": "never"}}}}},
            "contradicts the queue above",
        ),
        ({"queues": {"a": {"priority": 1001}}}, "less than or equal to 1000"),
        ({"queues": {"a": {"user_weights": {"ann": 0}}}}, "greater than 0"),
        (
            {
                "queues": {
                    "a" * 60: {"queues": {"b" * 60: {"queues": {"c" * 60: {"queues": {"d" * 60: {}}}}}}}
                }
            },
            "as a path",
        ),
        ({"sharing": {"order": []}}, "at least one"),
        ({"sharing": {"order": ["fair", "fair"]}}, "at most once"),
        ({"sharing": {"order": ["fifo", "fair"]}}, "no word should follow it"),
        ({"sharing": {"order": "random"}}, "'fifo', 'priority'"),
        ({"sharing": {"starves_after": 0}}, "greater than 0"),
        ({"sharing": {"window": 0}}, "greater than or equal to 1"),
    ],
)
def test_what_is_wrong_is_told(sections: Any, complaint: str) -> None:
    """Before anything is done by it."""
    with pytest.raises(ValidationError, match=complaint):
        sharing(**sections)


@pytest.mark.parametrize(
    ("deadline", "complaint"),
    [
        ("2026-11-22T18:00:00", "has no zone: write 2026-11-22T18:00:00Z"),
        ("2026-13-22T18:00:00Z", "should be a time after submission such as 2h"),
        ("9999-12-31T23:59:59-12:00", "should be a time of the years 1970 to 2999"),
        ("1969-12-31T23:59:59Z", "should be a time of the years 1970 to 2999"),
        ("tomorrow", "should be a time after submission such as 2h"),
        (0, "should be more than 0"),
        ("0s", "should be more than 0"),
        (2e9, "should be more than 0, up to"),
        (True, "should be a time after submission"),
    ],
)
def test_a_deadline_that_is_none_is_told(deadline: object, complaint: str) -> None:
    """The error includes the correct form."""
    with pytest.raises(ValidationError, match=complaint):
        JobSpec.model_validate({"app": "a.py", "deadline": deadline})


@pytest.mark.parametrize("deadline", [7200.0, "2026-11-22T18:00:00Z", "2026-11-22 18:00+01:00"])
def test_a_deadline_is_kept_as_it_is(deadline: object) -> None:
    """A deadline read once is read back the same."""
    spec = JobSpec.model_validate({"app": "a.py", "deadline": deadline})
    assert spec.deadline == deadline
    assert JobSpec.model_validate_json(spec.model_dump_json()) == spec
