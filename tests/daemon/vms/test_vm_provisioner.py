"""Openings and closings that fail: for any provider behaviour each ends, once, and none hangs."""

import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from conf.util.backoff import Backoff
from daemon.vms import termination_notices, vm_provisioner
from daemon.vms.vm_provisioner import VmProvisioner
from environment.model.messages import events as ev
from environment.model.messages.lease import Lease
from environment.pools import Terms
from environment.resources import Resources
from environment.types import Vm
from framework.providers.interface import Machine, Notice
from tests.daemon.vms.scripted_provider import Fate, Script, ScriptedProvider
from tests.waiting import until

VM = Vm("p-1", "p-1", "m1.large", Resources.of(4, 16384), 0.24, terms=Terms("p", 60.0))
NOW = 1000.0


class Office:
    """Machines working for a provider, and the events they caused."""

    def __init__(self, *fates: Fate, patience: float = 5.0) -> None:
        self.provider = ScriptedProvider(in_turn(*fates), now=lambda: NOW)
        self.events: list[ev.Event] = []
        self.leads = True
        self.now = NOW
        self.machines = VmProvisioner(
            self.provider, self.events.append, lambda: self.leads, lambda: self.now, patience
        )
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._tend)
        self._thread.start()

    def _tend(self) -> None:
        while not self._over.wait(0.005):
            self.machines.tend()

    def close(self) -> None:
        """End."""
        self._over.set()
        self._thread.join()
        self.machines.stop()
        self.provider.let_go()

    def of(self, *kinds: type[ev.Event]) -> list[Any]:
        """The events of these kinds."""
        return [event for event in tuple(self.events) if isinstance(event, kinds)]

    def asked(self, call: str) -> int:
        """How often it was called so."""
        return sum(made == call for made, _ in tuple(self.provider.calls))


def in_turn(*fates: Fate) -> Script:
    """These fates for openings and closings in turn, and then all is well."""
    left = list(fates)
    return lambda call, of: left.pop(0) if left and call in ("open", "close") else "ok"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten pauses from seconds to milliseconds."""
    monkeypatch.setattr(vm_provisioner, "BACKOFF", Backoff(first=0.01, longest=0.04))


@pytest.fixture
def offices() -> Iterator[list[Office]]:
    """Those that are to be closed."""
    made: list[Office] = []
    yield made
    for office in made:
        office.close()


def office(offices: list[Office], *fates: Fate, patience: float = 5.0) -> Office:
    """An office with these fates in its provider."""
    offices.append(Office(*fates, patience=patience))
    return offices[-1]


def lease(lease_id: str = "p-1.1") -> Lease:
    """One that is to be opened."""
    return Lease(lease_id, VM, NOW)


def test_a_vm_is_opened_and_closed(offices: list[Office]) -> None:
    """And both is told, with the provider's name of it."""
    at = office(offices)
    at.machines.open(lease())
    until(lambda: at.of(ev.LeaseOpened), "it is opened")
    assert at.of(ev.LeaseOpened) == [ev.LeaseOpened(NOW, "p-1.1", "m-1", NOW)]
    at.machines.close("p-1.1", "m-1")
    until(lambda: at.of(ev.LeaseClosed), "it is closed")
    assert at.of(ev.LeaseClosed) == [ev.LeaseClosed(NOW, "p-1.1")]
    assert at.provider.machines == {}


def test_what_a_vm_has_cost_is_told_when_it_is_closed(offices: list[Office]) -> None:
    """Where its provider says so; that it has cost more is no news of a list before."""
    at = office(offices)
    at.machines.open(lease())
    until(lambda: at.of(ev.LeaseOpened), "it is opened")
    at.provider.machines["m-1"] = replace(at.provider.machines["m-1"], charged=0.02)
    at.machines.close("p-1.1", "m-1")
    until(lambda: at.of(ev.LeaseClosed), "it is closed")
    assert at.of(ev.LeaseClosed) == [ev.LeaseClosed(NOW, "p-1.1", 0.02)]


@pytest.mark.parametrize(
    ("told", "kept"), [(0.0, NOW), (NOW + 7200, NOW + 5), (NOW + 3, NOW + 3), (None, NOW + 5)]
)
def test_a_vm_is_paid_for_since_it_was_asked_for_at_most(
    offices: list[Office], told: float | None, kept: float
) -> None:
    """A VM is charged from its request at the earliest, at any time of the provider's clock."""
    at = office(offices)
    at.provider.now = lambda: told  # type: ignore[assignment,return-value]  # a provider need not tell
    at.now = NOW + 5
    at.machines.open(lease())
    until(lambda: at.of(ev.LeaseOpened), "it is opened")
    assert at.of(ev.LeaseOpened)[0].opened_at == kept


def test_a_call_that_fails_is_made_again(offices: list[Office]) -> None:
    """A failed call is repeated under the same lease, so the VM is opened once."""
    at = office(offices, "fails")
    at.machines.open(lease())
    until(lambda: at.of(ev.LeaseOpened), "it is opened")
    assert (len(at.provider.machines), at.asked("open"), at.of(ev.LeaseRefused)) == (1, 2, [])
    assert at.machines.status.calls["open", "unavailable"] == 1


@pytest.mark.parametrize("fate", ["capacity", "quota", "invalid"])
def test_a_refusal_is_told_and_nothing_asked_again(offices: list[Office], fate: Fate) -> None:
    """A refusal is reported and not repeated; the reaction is decided elsewhere."""
    at = office(offices, fate)
    at.machines.open(lease())
    until(lambda: at.of(ev.LeaseRefused), "it is refused")
    assert at.of(ev.LeaseRefused) == [ev.LeaseRefused(NOW, "p-1.1", fate, f"no: {fate}")]  # type: ignore[arg-type]
    time.sleep(0.05)
    assert (at.asked("open"), at.machines.status.trouble) == (1, "")


def test_an_opening_is_given_up(offices: list[Office]) -> None:
    """After the third try, when nothing is there."""
    at = office(offices, "fails", "fails", "fails")
    at.machines.open(lease())
    until(lambda: at.of(ev.LeaseRefused), "it is given up")
    assert at.of(ev.LeaseRefused) == [ev.LeaseRefused(NOW, "p-1.1", "unavailable", "it is away")]
    assert (at.asked("open"), at.provider.machines, at.machines.status.trouble) == (3, {}, "")


def test_an_opening_that_may_have_been_carried_out_is_not_said_to_be_refused(offices: list[Office]) -> None:
    """Where its VM cannot be looked for, and where the first of two requests had no answer."""
    at = office(offices)
    until(lambda: at.of(ev.MachinesListed), "nothing is listed for a while")
    at.provider.script = lambda call, _: "fails after" if call == "open" else "fails"
    at.machines.open(lease())
    until(lambda: at.of(ev.LeaseRefused), "it is given up")
    (told,) = at.of(ev.LeaseRefused)
    assert (told.kind, told.message, told.certain) == ("unavailable", "the connection broke", False)
    fates: Iterator[Fate] = iter(("fails after", "quota"))
    other = office(offices)
    until(lambda: other.of(ev.MachinesListed), "nothing is listed for a while")
    other.provider.script = lambda call, _: next(fates) if call == "open" else "ok"
    other.machines.open(lease())
    until(lambda: other.of(ev.LeaseRefused), "it is refused")
    assert [(event.kind, event.certain) for event in other.of(ev.LeaseRefused)] == [("quota", False)]


def test_an_opening_of_which_only_the_answers_are_lost_is_one(offices: list[Office]) -> None:
    """Before it is given up it is looked for: its agent may be there by now, and a job on it."""
    at = office(offices, "fails after", "fails after", "fails after")
    until(lambda: at.of(ev.MachinesListed), "nothing is listed for a while")
    at.machines.open(lease())
    until(lambda: at.of(ev.LeaseOpened), "it is found")
    assert (at.of(ev.LeaseRefused), at.asked("open"), len(at.provider.of("p-1.1"))) == ([], 3, 1)


def test_what_is_listed_was_opened(offices: list[Office], monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked for no more, and told, though no call was ever answered."""
    monkeypatch.setattr(vm_provisioner, "MOST_TRIES", 1_000_000)
    fates: list[Fate] = ["fails after"] * 100_000
    at = office(offices, *fates)
    until(lambda: at.of(ev.MachinesListed), "nothing is listed for a while")
    at.machines.open(lease())
    until(lambda: at.asked("open") > 1, "it is asked for again")
    at.machines.look()
    until(lambda: "p-1.1" in _told(at), "it is told")
    until(lambda: not at.machines.status.trouble, "all is well")
    assert (at.of(ev.LeaseOpened), at.of(ev.LeaseRefused), len(at.provider.of("p-1.1"))) == ([], [], 1)


def test_a_closing_is_tried_for_ever(offices: list[Office]) -> None:
    """Its trouble is told until it is done."""
    fates: list[Fate] = ["fails"] * 6
    at = office(offices, "ok", *fates)
    at.machines.open(lease())
    until(lambda: at.of(ev.LeaseOpened), "it is opened")
    at.machines.close("p-1.1", "m-1")
    until(lambda: at.machines.status.trouble, "it is told")
    assert "close p-1.1 failed" in at.machines.status.trouble
    until(lambda: at.of(ev.LeaseClosed), "it is closed")
    assert (at.provider.machines, at.machines.status.trouble) == ({}, "")


def test_a_vm_that_comes_after_it_was_to_be_closed_is_told(offices: list[Office]) -> None:
    """So that it is closed, though nothing was there when it was looked for."""
    at = office(offices, "late", patience=0.05)
    at.machines.open(lease())
    until(lambda: at.asked("open") == 1, "it is asked for")
    at.machines.close("p-1.1", "")
    until(lambda: at.of(ev.LeaseClosed), "nothing is there")
    at.provider.let_go()
    until(lambda: at.of(ev.LeaseOpened), "it has come")


def test_a_provider_that_never_answers_keeps_nobody_waiting(
    offices: list[Office], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Calls are abandoned, within a limit of hanging ones; VMs opened late are reported."""
    monkeypatch.setattr(vm_provisioner, "MOST_HANGING", 4)
    at = office(offices, patience=0.2)
    at.provider.script = lambda call, of: "late"
    began = time.monotonic()
    for number in range(40):
        at.machines.open(lease(f"p-1.{number}"))
    assert time.monotonic() - began < 40 * 0.2
    until(lambda: "do not return" in at.machines.status.trouble, "it says so")
    time.sleep(0.1)
    assert at.asked("open") <= vm_provisioner.AT_ONCE["open"] + 4
    at.provider.let_go()
    until(lambda: len(_leases(at)) == 40, "each came to something")
    assert all(len(at.provider.of(lease_id)) <= 1 for lease_id in _leases(at))
    opened = {event.lease_id for event in at.of(ev.LeaseOpened)}
    until(lambda: {m.lease for m in at.provider.machines.values()} <= opened | _told(at), "all are told")


@pytest.mark.parametrize("patience", [5.0, 0.02])
def test_openings_that_never_return_keep_no_closing_waiting(
    offices: list[Office], monkeypatch: pytest.MonkeyPatch, patience: float
) -> None:
    """Hanging openings delay no closing and no listing, during or after the wait.

    Otherwise the bill would go on, and lost VMs stay unknown.
    """
    monkeypatch.setattr(vm_provisioner, "LIST_PERIOD", 0.01)
    monkeypatch.setattr(vm_provisioner, "MOST_HANGING", 4)
    at = office(offices, patience=patience)
    at.provider.script = lambda call, of: "late" if call == "open" else "ok"
    for number in range(40):
        at.machines.open(lease(f"p-1.{number}"))
    until(lambda: at.asked("open") >= vm_provisioner.AT_ONCE["open"], "they are begun")
    listed = at.asked("list")
    at.machines.close("p-2.1", "m-77")
    until(lambda: at.of(ev.LeaseClosed), "it is closed")
    until(lambda: at.asked("list") > listed, "it is listed")
    if patience < 1:
        said = "no call to open VMs is made while 20 such calls do not return"
        until(lambda: said in at.machines.status.trouble, "it says so")


def _leases(at: Office) -> set[str]:
    return {event.lease_id for event in at.of(ev.LeaseOpened, ev.LeaseRefused)}


def _told(at: Office) -> set[str]:
    return {machine.lease_id for event in at.of(ev.MachinesListed) for machine in event.machines}


def test_who_does_not_lead_does_not_call(offices: list[Office]) -> None:
    """It is done when it is certain again."""
    at = office(offices)
    at.leads = False
    until(lambda: at.machines._list.due is not None, "it would have listed")
    at.provider.calls.clear()
    at.machines.open(lease())
    time.sleep(0.1)
    assert at.provider.calls == []
    at.leads = True
    until(lambda: at.of(ev.LeaseOpened), "it is opened")


def test_vms_are_listed_at_the_start_and_when_they_are_looked_for(offices: list[Office]) -> None:
    """VMs are listed at the start and on request, with their leases.

    A list is reported again while it may matter.
    """
    at = office(offices)
    until(lambda: at.of(ev.MachinesListed), "it is listed")
    assert at.of(ev.MachinesListed)[0] == ev.MachinesListed(NOW, NOW, ())
    at.machines.open(lease())
    until(lambda: at.of(ev.LeaseOpened), "it is opened")
    at.machines.look()
    until(lambda: len(at.of(ev.MachinesListed)) == 2, "it is listed")
    assert at.of(ev.MachinesListed)[1].machines == (ev.Listed("p-1.1", "m-1", "booting", NOW),)


def test_a_list_that_says_nothing_new_is_not_told_again(
    offices: list[Office], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or the event log would consist of it."""
    monkeypatch.setattr(vm_provisioner, "UNSETTLED", 0.0)
    monkeypatch.setattr(vm_provisioner, "LIST_PERIOD", 0.01)
    at = office(offices)
    at.provider.machines["m-9"] = Machine("m-9", "p-1.9", "p", "running", NOW, charged=0.0)
    at.provider.done = lambda call: at.provider.machines.update(
        {i: replace(m, charged=(m.charged or 0.0) + 0.1) for i, m in at.provider.machines.items()}
    )
    until(lambda: at.of(ev.MachinesListed) and at.of(ev.MachinesListed)[-1].machines, "it is told")
    told = len(at.of(ev.MachinesListed))
    before = at.asked("list")
    until(lambda: at.asked("list") > before + 3, "it is listed again and again")
    assert len(at.of(ev.MachinesListed)) == told


def test_prices_are_told_when_they_change(offices: list[Office], monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is told as long as the cluster file is to be believed, and when it is again."""
    monkeypatch.setattr(vm_provisioner, "PRICES_PERIOD", 0.01)
    at = office(offices)

    def asked() -> int:
        return at.machines.status.calls.get(("prices", "ok"), 0)

    until(lambda: asked() > 2, "they are asked for again and again")
    assert at.of(ev.PoolPrices) == []
    at.provider.priced = {"q": 0.2, "p": 0.1}
    until(lambda: len(at.of(ev.PoolPrices)) == 1, "they are told")
    at.provider.priced = {"p": 0.3}
    until(lambda: len(at.of(ev.PoolPrices)) == 2, "they are told anew")
    at.provider.priced = {}
    until(lambda: len(at.of(ev.PoolPrices)) == 3, "it is told that there are none")
    before = asked()
    until(lambda: asked() > before + 2, "they are asked for again")
    assert at.of(ev.PoolPrices) == [
        ev.PoolPrices(NOW, (("p", 0.1), ("q", 0.2))),
        ev.PoolPrices(NOW, (("p", 0.3),)),
        ev.PoolPrices(NOW, ()),
    ]


def test_a_notice_is_told_once_and_taken_back(offices: list[Office], monkeypatch: pytest.MonkeyPatch) -> None:
    """A notice is reported once, and withdrawn when the provider drops it.

    An expired one is not withdrawn, as its VM is gone; nor one for a VM that is no longer listed.
    """
    monkeypatch.setattr(vm_provisioner, "NOTICE_PERIOD", 0.01)
    monkeypatch.setattr(termination_notices, "OFF_AFTER", 0.05)
    at = office(offices)
    for number in (1, 3, 4):
        at.machines.open(lease(f"p-1.{number}"))
    until(lambda: len(at.of(ev.LeaseOpened)) == 3, "they are opened")
    at.provider.told = [Notice(f"p-1.{number}", NOW + 120, "spot") for number in (1, 3, 4)]
    at.provider.told.append(Notice("p-1.2", NOW - 1))
    until(lambda: len(at.of(ev.LeaseNotice)) == 4, "all are told")
    (gone,) = at.provider.of("p-1.3")
    (going,) = at.provider.of("p-1.4")
    del at.provider.machines[gone.id]
    at.provider.machines[going.id] = replace(going, state="closing")
    at.provider.told = []
    until(lambda: len(at.of(ev.LeaseNotice)) == 5, "one is taken back")
    time.sleep(0.1)
    assert at.of(ev.LeaseNotice)[4:] == [ev.LeaseNotice(NOW, "p-1.1", None)]


def wait_for_notices(at: Office, before: int) -> None:
    """Until they were asked for again."""
    until(lambda: at.asked("notices") > before + 2, "they are asked for")


def test_a_notice_that_is_missing_for_a_moment_is_not_taken_back(
    offices: list[Office], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer may be of an hour before, or of another server; it is neither taken back nor told again."""
    monkeypatch.setattr(vm_provisioner, "NOTICE_PERIOD", 0.01)
    at = office(offices)
    at.machines.open(lease())
    until(lambda: at.of(ev.LeaseOpened), "it is opened")
    for told in ([Notice("p-1.1", NOW + 120)], [], [Notice("p-1.1", NOW + 120)]):
        at.provider.told = told
        before = at.asked("notices")
        wait_for_notices(at, before)
    assert at.of(ev.LeaseNotice) == [ev.LeaseNotice(NOW, "p-1.1", NOW + 120)]


def test_a_provider_with_a_fault_of_its_own_is_one_that_fails(offices: list[Office]) -> None:
    """Any exception of a provider counts as a failed call."""
    at = office(offices)

    def wrong(call: str, of: str) -> Fate:
        raise ZeroDivisionError(call)

    at.provider.script = wrong
    at.machines.open(lease())
    until(lambda: at.of(ev.LeaseRefused), "it is given up")
    assert at.of(ev.LeaseRefused)[0].message == "ZeroDivisionError: open"
    at.provider.script = lambda call, of: "ok"
    until(lambda: not at.machines.status.trouble, "all is well again")


def test_a_stop_waits_for_nobody(offices: list[Office]) -> None:
    """A stop leaves hanging calls to themselves."""
    at = office(offices, "late")
    at.machines.open(lease())
    until(lambda: at.asked("open") == 1, "it hangs")
    began = time.monotonic()
    at.machines.stop()
    assert time.monotonic() - began < 5.0


def test_a_vm_that_is_missing_in_one_list_was_there_until_then(
    offices: list[Office], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lists without news are not reported: the last of them is, before one that lacks a VM."""
    monkeypatch.setattr(vm_provisioner, "UNSETTLED", 0.05)
    monkeypatch.setattr(vm_provisioner, "LIST_PERIOD", 0.01)
    at = office(offices)
    at.provider.machines["m-9"] = Machine("m-9", "p-1.9", "p", "running", NOW)
    until(lambda: at.of(ev.MachinesListed) and at.of(ev.MachinesListed)[-1].machines, "it is told")
    before, told = at.asked("list"), 0

    def quiet() -> bool:
        nonlocal told
        was, told = told, len(at.of(ev.MachinesListed))
        return was == told and at.asked("list") > before + 10

    until(quiet, "nothing new is told")
    at.now = NOW + 250.0
    before = at.asked("list")
    until(lambda: at.asked("list") > before + 2, "it is listed without news")
    del at.provider.machines["m-9"]
    until(lambda: not at.of(ev.MachinesListed)[-1].machines, "it is missed")
    there, missed = at.of(ev.MachinesListed)[told : told + 2]
    assert (there.at, there.asked_at, [one.machine_id for one in there.machines]) == (
        NOW + 250.0, NOW + 250.0, ["m-9"],
    )  # fmt: skip
    assert (missed.asked_at, missed.machines) == (NOW + 250.0, ())
