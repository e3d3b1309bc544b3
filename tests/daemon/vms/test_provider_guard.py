"""A provider that is not the one that opened the store's VMs: nothing is opened, closed or lost there."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from daemon.maintenance.doctor_report import Examination
from daemon.maintenance.host_checks import look_at_place
from daemon.store.job_store import Store
from daemon.vms.provider_guard import GuardedProvider, stored_place
from environment.model.cluster_model import Changes
from environment.model.messages.lease import Lease
from environment.pools import Terms
from environment.resources import Resources
from environment.types import Vm
from framework.providers.interface import Machine, ProviderError, VmRequest
from tests.daemon.store.test_job_store import url_of
from tests.daemon.vms.scripted_provider import ScriptedProvider

VM = Vm("general-1", "general-1", "m5.xlarge", Resources.of(4, 15_000), 0.24, terms=Terms("general", 60.0))
HERE = {"name": "ec2", "region": "eu-west-1", "cluster": "analytics", "endpoint_url": ""}
ELSEWHERE = {**HERE, "region": "us-east-1"}
MACHINE = Machine("i-1", "general-1.17", "general", "running")


class Account(ScriptedProvider):
    """A provider with a known account."""

    def __init__(self, account: str) -> None:
        super().__init__()
        self._account = account

    def account(self) -> str:
        """It."""
        return self._account


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A store with an open VM, which a provider of that place has opened."""
    with contextlib.closing(Store(url_of(tmp_path))) as store:
        GuardedProvider(Account("1"), HERE, store).list()
        lease = Lease("general-1.17", VM, 1.0, "up", machine_id="i-1", agent_id="agent-1")
        store.changes.save(Changes((), (), leases=(lease,)))
        yield store


def refusals(guarded: GuardedProvider) -> set[str]:
    """Kinds of the errors of all calls; none is made."""
    calls = (
        lambda: guarded.open(VmRequest("general-2.18", VM)),
        lambda: guarded.close("i-1"),
        guarded.list,
        guarded.prices,
        guarded.notices,
    )
    kinds: set[str] = set()
    for call in calls:
        with pytest.raises(
            ProviderError, match=r"^1 VM, such as general-1\.17, may be open at ec2 \("
        ) as error:
            call()
        kinds.add(error.value.kind)
    return kinds


@pytest.mark.parametrize(
    ("place", "account"),
    [
        (ELSEWHERE, "1"),
        ({"name": "command", "list": "vms list"}, ""),
        ({"name": "embedded"}, ""),
        (HERE, "2"),
    ],
)
def test_nothing_is_done_at_another_place(store: Store, place: dict[str, str], account: str) -> None:
    """Of another region, kind or account; an opening is not tried again at once."""
    other = Account(account)
    assert refusals(GuardedProvider(other, place, store)) == {"invalid", "unavailable"}
    assert {call for call, _ in other.calls} == {"list"}
    assert stored_place(store) == {**HERE, "account": "1"}
    provider = Account("1")
    provider.machines["i-1"] = MACHINE
    guarded = GuardedProvider(provider, HERE, store)
    guarded.close("i-1")
    assert guarded.list() == ()


def test_another_name_of_the_same_place_is_accepted(store: Store) -> None:
    """Where it lists one of the VMs."""
    provider = Account("1")
    provider.machines["i-1"] = MACHINE
    assert GuardedProvider(provider, ELSEWHERE, store).list() == (MACHINE,)
    assert stored_place(store) == {**ELSEWHERE, "account": "1"}


def test_an_unknown_account_is_no_other_one(store: Store) -> None:
    """A cloud may not tell it for a moment; the known one is kept."""
    assert GuardedProvider(Account(""), HERE, store).list() == ()
    assert stored_place(store) == {**HERE, "account": "1"}


@pytest.mark.parametrize("repair", [False, True])
def test_the_doctor_finds_another_place_and_can_forget_the_earlier_one(store: Store, repair: bool) -> None:
    """Then the VMs are looked for at the new one."""
    exam = Examination(Path(), repair=repair, progress=None)
    look_at_place(exam, store.database, HERE)
    assert exam.report.findings == []
    look_at_place(exam, store.database, ELSEWHERE)
    (found,) = exam.report.findings
    assert "1 VM may be open at ec2 (region eu-west-1" in found.what
    assert (found.mended, stored_place(store) == {}) == (repair, repair)


def test_without_open_vms_any_place_will_do(store: Store) -> None:
    """And so it does with a store of an earlier version, which does not have the place."""
    store.facts.put("provider", "{}")
    assert GuardedProvider(Account("2"), ELSEWHERE, store).list() == ()
    closed = Lease("general-1.17", VM, 1.0, "closed", machine_id="i-1", closed_at=2.0)
    store.changes.save(Changes((), (), leases=(closed,)))
    assert GuardedProvider(Account("1"), HERE, store).list() == ()
    assert stored_place(store) == {**HERE, "account": "1"}
