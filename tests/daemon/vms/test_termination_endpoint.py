"""A VM announces its termination to the daemon: authority, validation and effects."""

import json
from pathlib import Path
from typing import Any

import pytest

from daemon.http.app import create_app
from daemon.http.app_options import AppOptions
from daemon.store.job_store import Store
from daemon.vms.termination_endpoint import vm_keys
from environment.model.messages import events as ev
from tests.daemon.http.test_api import Api
from tests.daemon.small_scheduler import SmallScheduler

LEASE = "general-3.1795341138"
NOTICE = {"action": "terminate", "time": "1970-01-01T00:03:40Z"}


@pytest.fixture
def scheduler(store: Store) -> SmallScheduler:
    """One at 100 seconds since the epoch."""
    return SmallScheduler(store)


@pytest.fixture
def api(scheduler: SmallScheduler, store: Store) -> Api:
    """A client that sends no token where one is wanted."""
    return Api(create_app(scheduler, store, AppOptions(token="t0ken", version="1")))


def tell(api: Api, key: str | None, lease: str = LEASE, body: Any = NOTICE) -> tuple[int, str]:
    """Status and detail of the answer to a notice."""
    headers = {} if key is None else {"authorization": f"Bearer {key}".encode("latin-1")}
    answer = api("POST", f"/v1/vms/{lease}/notice", json=body, headers=headers)
    return answer.status_code, answer.json().get("detail", "")


def test_a_vm_says_that_it_is_taken_away(api: Api, scheduler: SmallScheduler, store: Store) -> None:
    """By the key of its lease, without the API's token; a name of a pool may have any character."""
    keys = vm_keys(store)
    assert tell(api, keys(LEASE)) == (202, "")
    assert tell(api, keys("a/b 1.7"), "a%2Fb%201.7") == (202, "")
    why = "its cloud is going to terminate it"
    assert scheduler.events == [
        ev.LeaseNotice(100.0, LEASE, 220.0, why), ev.LeaseNotice(100.0, "a/b 1.7", 220.0, why)
    ]  # fmt: skip


def test_a_key_is_of_one_vm(api: Api, scheduler: SmallScheduler, store: Store) -> None:
    """It opens nothing else: neither another VM's door, nor the API; and nothing else opens that door."""
    assert tell(api, "") == tell(api, None)
    assert tell(api, "0" * 64)[0] == 401  # there is no secret yet
    key = vm_keys(store)(LEASE)
    assert vm_keys(store)(LEASE) == key != vm_keys(store)("general-3.1795341139")
    for given in (None, "", "t0ken", key[:-1], f"{key}0", "\u00e9"):
        status, why = tell(api, given)
        assert (status, why) == (
            401,
            f"a report on {LEASE} needs the key that its VM got when it was opened",
        )
    assert tell(api, key, "general-3.1795341139")[0] == 401
    assert api("GET", "/v1/jobs", headers={"authorization": f"Bearer {key}"}).status_code == 401
    assert scheduler.events == []


def test_another_store_has_other_keys(store: Store, tmp_path: Path) -> None:
    """Two daemons' VMs cannot speak for each other."""
    other = Store(f"sqlite:///{tmp_path / 'other.db'}")
    try:
        assert vm_keys(other)(LEASE) != vm_keys(store)(LEASE)
    finally:
        other.close()


@pytest.mark.parametrize(
    "body",
    [
        {},
        [],
        {"action": "paint", "time": NOTICE["time"]},
        {"action": "terminate", "time": "soon"},
        {"action": "terminate", "time": "1970-01-01T00:03:40"},
        {"action": "terminate", "time": "2970-01-01T00:03:40Z"},
        NOTICE | {"lease": "another"},
    ],
)
def test_a_notice_that_is_none(api: Api, scheduler: SmallScheduler, store: Store, body: Any) -> None:
    """Is refused, and nothing is drained."""
    assert tell(api, vm_keys(store)(LEASE), body=body)[0] == 422
    assert scheduler.events == []


def test_a_notice_that_is_not_stored_in_time(api: Api, scheduler: SmallScheduler, store: Store) -> None:
    """The VM tells it again."""
    scheduler.stuck = True
    assert tell(api, vm_keys(store)(LEASE)) == (503, "the notice is not stored yet: send it again")


def test_the_secret_is_shown_nowhere(api: Api, store: Store) -> None:
    """No API answer shows the secret to a client with the token."""
    vm_keys(store)
    secret = store.facts.get("vm_secret")
    assert secret is not None
    for path in ("/v1/cluster", "/v1/jobs", "/readyz", "/metrics", "/openapi.json"):
        shown = api("GET", path, headers={"authorization": "Bearer t0ken"}).text
        assert secret not in json.dumps(shown)
