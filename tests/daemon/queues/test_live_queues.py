"""Queues changed while the daemon runs: stored changes, settings of the config, refusals."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs

from conf.loader import build
from conf.schema import Config, JobSpec, QueueSettings
from daemon.core.errors import RejectedError
from daemon.queues.live_queues import LiveQueues
from daemon.store.job_store import Store
from daemon.store.rows.database import StoreError
from environment.model.cluster_model import Changes
from tests.builders import make_job

PROD = {"prod": {"weight": 3, "queues": {"etl": {"weight": 2}, "adhoc": {}}}, "dev": {}}


def live(store: Store, queues: Any = PROD, changed: Callable[[], None] = lambda: None) -> LiveQueues:
    """The queues of a daemon with these in its config, as one that starts has them."""
    return LiveQueues(build(Config, {"queues": queues}, "config"), store, changed)


def weights(of: LiveQueues) -> dict[str, float]:
    """The weight of each queue, by path."""
    return {queue.path: queue.weight for queue in of.queues()}


CONFIGURED = {"default": 1, "prod": 3, "prod.etl": 2, "prod.adhoc": 1, "dev": 1}


def refused(call: Callable[..., object], *arguments: object) -> tuple[int, str]:
    """The status and the text of a refusal."""
    with pytest.raises(RejectedError) as error:
        call(*arguments)
    return error.value.status, error.value.detail


def submit(store: Store, queue: str, *, over: bool = False) -> None:
    """A job in the queue."""
    record, _ = store.jobs.new.add_one(
        JobSpec(app="a.py"), lambda job_id: replace(make_job(job_id), queue=queue), None, 1
    )
    if over:
        store.changes.save(Changes((replace(record, state="finished", finished_at=2.0),), ()))


def test_a_change_holds_over_restarts(store: Store) -> None:
    """A change applies key by key and outlives a restart; null removes one.

    The `changed` callback runs once the change is on disk.
    """
    told: list[str | None] = []
    queues = live(store, changed=lambda: told.append(store.facts.get("queues")))
    assert weights(queues) == CONFIGURED
    assert not queues.patch("prod.etl", {"weight": 5, "most": {"cpus": 16, "memory": "32g"}})
    assert not queues.patch("prod.etl", {"most": {"cpus": None}, "submit": ["ann"]})
    assert queues.patch("prod.ml", {"weight": 4}), "it is new"
    queues.remove("dev")
    assert [bool(text and "etl" in text) for text in told] == [True] * 4
    for each in (queues, live(store)):
        assert weights(each) == {"default": 1, "prod": 3, "prod.etl": 5, "prod.adhoc": 1, "prod.ml": 4}
        etl = each.queues().get("prod.etl")
        assert etl is not None
        assert (etl.most.resources, etl.submit) == ({"mem": 32768.0}, ("ann",))
        assert [path for path in each.own if each.is_changed(path)] == ["prod.etl", "prod.ml"]


def test_what_is_set_back_is_the_configs_again(store: Store) -> None:
    """So a later word of the config holds."""
    queues = live(store)
    queues.put("dev", QueueSettings(weight=2))
    queues.put("dev", QueueSettings())
    assert not queues.is_changed("dev")
    assert weights(live(store, {**PROD, "dev": {"weight": 7}}))["dev"] == 7


def test_the_config_has_the_last_word_queue_by_queue(store: Store) -> None:
    """Where it says something else of a queue than then, that holds from then on; other changes stay."""
    queues = live(store)
    queues.put("dev", QueueSettings(weight=5))
    queues.put("prod", QueueSettings(weight=6))
    with capture_logs() as logs:
        edited = live(store, {**PROD, "dev": {"weight": 2}, "lab": {}})
    assert weights(edited) == {**CONFIGURED, "dev": 2, "prod": 6, "lab": 1}
    assert [(each["queue"], each["why"]) for each in logs] == [
        ("dev", "the config of the queue has changed since")
    ]
    assert weights(live(store))["dev"] == 1, "what was overruled once does not come back"


def test_changes_go_with_a_queue_that_the_config_drops(store: Store) -> None:
    """One below it cannot be there either; a removed one that has queues in the config by now comes back."""
    queues = live(store)
    queues.put("dev.x", QueueSettings())
    queues.remove("prod.adhoc")
    edited = live(store, {"prod": {"weight": 3, "queues": {"adhoc": {"queues": {"a": {}}}}}})
    assert weights(edited) == {"default": 1, "prod": 3, "prod.adhoc": 1, "prod.adhoc.a": 1}
    assert not any(edited.is_changed(path) for path in edited.own)


def test_changes_that_do_not_go_with_the_config_any_more_are_dropped(store: Store) -> None:
    """Each is well by itself, and together they would guarantee too much: the daemon starts, and says so."""
    before = live(store)
    before.patch("prod.etl", {"guaranteed": {"cpus": 8}})
    before.patch("prod.adhoc", {"weight": 7})
    with capture_logs() as logs:
        edited = live(store, {"prod": {**PROD["prod"], "most": {"cpus": 4}}})
    assert edited.queues().line("prod.etl")[-1].guaranteed.cpus == 0
    assert "the guarantees below it are 8 cpus, more than its most, 4" in logs[0]["why"]
    assert (logs[0]["queue"], logs[0]["was"]["guaranteed"]["cpus"]) == ("prod.etl", 8)
    assert weights(edited)["prod.adhoc"] == 7, "what goes with the config holds"
    assert list(json.loads(store.facts.get("queues") or "")) == ["prod.adhoc"]


def test_without_queues_any_is_there_until_one_is_made(store: Store) -> None:
    """And those of a config that are all removed leave the one that is always there."""
    queues = live(store, {})
    assert (queues.sharing(), bool(queues.queues())) == (None, False)
    queues.put("prod", QueueSettings())
    assert weights(queues) == {"default": 1, "prod": 1}
    queues.remove("prod")
    assert not queues.queues()
    configured = live(store, {"prod": {}})
    configured.remove("prod")
    assert weights(configured) == weights(live(store, {"prod": {}})) == {"default": 1}


def test_a_queue_with_jobs_is_not_removed(store: Store) -> None:
    """Those that are over do not count; the refusal says how many others there are."""
    queues = live(store)
    submit(store, "dev", over=True)
    submit(store, "dev")
    submit(store, "dev")
    status, why = refused(queues.remove, "dev")
    assert (status, "has 2 jobs that are not over" in why) == (409, True), why
    status, why = refused(queues.put, "dev.x", QueueSettings())
    assert (status, "would accept none" in why) == (409, True), why
    assert weights(queues) == CONFIGURED
    queues.patch("dev", {"weight": 2})


@pytest.mark.parametrize(
    ("path", "status", "why"),
    [
        ("prod", 409, "prod has queues below it: remove prod.etl, prod.adhoc first"),
        ("prdo", 404, "there is no queue prdo; there are prod, "),
        ("default", 409, "default cannot be removed"),
    ],
)
def test_what_cannot_be_removed_stays(store: Store, path: str, status: int, why: str) -> None:
    """The refusal says why."""
    found, text = refused(live(store).remove, path)
    assert (found, why in text) == (status, True), text


@pytest.mark.parametrize(
    ("path", "change", "status", "why"),
    [
        ("dev", {"weight": 0}, 422, "dev: weight: should be greater than 0, found 0"),
        ("dev", {"wieght": 1}, 422, "wieght: unknown key; did you mean weight?"),
        ("dev", {"queues": {}}, 422, "queues: unknown key"),
        ("dev", {"guaranteed": {"cpus": 4}, "most": {"cpus": 2}}, 422, "4 cpus are more than its most"),
        ("prod", {"most": {"cpus": 1}, "spot": "only"}, 0, ""),
        ("prod.etl", {"guaranteed": {"cpus": 9}}, 0, ""),
        ("the lab", {}, 422, "should be a queue's name"),
        ("prod..x", {}, 422, "should be a queue's name"),
        ("default.x", {}, 422, "accepts jobs that name no queue"),
        ("lab.x", {}, 409, "lab does not exist: create it before lab.x"),
        (".".join(["dev", *"abcdefghij" * 10]), {}, 409, "does not exist"),
    ],
)
def test_what_no_queue_can_be_is_refused(
    store: Store, path: str, change: dict[str, Any], status: int, why: str
) -> None:
    """An invalid change is refused with the right form and changes nothing, also on disk."""
    queues = live(store)
    if not status:
        assert not queues.patch(path, change)
        return
    found, text = refused(queues.patch, path, change)
    assert (found, why in text) == (status, True), text
    assert weights(queues) == CONFIGURED
    assert store.facts.get("queues") is None


def test_the_whole_tree_is_looked_at(store: Store) -> None:
    """A change valid for its own queue is refused when it conflicts with a queue above."""
    queues = live(store)
    queues.patch("prod", {"most": {"cpus": 4}})
    status, why = refused(queues.patch, "prod.etl", {"guaranteed": {"cpus": 5}})
    assert (status, "prod: the guarantees below it are 5 cpus" in why) == (422, True), why


def test_a_change_that_is_not_kept_does_not_hold(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a restart would take it back unseen."""
    queues = live(store)

    def full(*_: object) -> None:
        raise StoreError("no room")

    monkeypatch.setattr(store.facts, "put", full)
    assert refused(queues.patch, "dev", {"weight": 2}) == (503, "no room")
    assert weights(queues) == CONFIGURED


def test_jobs_of_queues_that_are_gone_are_told(store: Store) -> None:
    """Jobs in queues missing from the config are reported at the start, and none is lost."""
    for queue in ("gone", "gone", "prod", "dev"):
        submit(store, queue)
    with capture_logs() as logs:
        live(store).tell_strays(store.jobs.page())
        live(store, {}).tell_strays(store.jobs.page())
    assert [(each["queue"], each["jobs"]) for each in logs] == [("gone", 2), ("prod", 1)]
