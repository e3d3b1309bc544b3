"""Commitments cover the VMs that are open longest, to the cent, over openings, closings and days."""

from dataclasses import replace
from typing import Any

import pytest

from conf.loader import ConfigError, build
from conf.schema.daemon import CommitmentSpec
from environment.clusters.commitments import Commitment, active_at, cover
from environment.model.messages import vm_accounts
from environment.model.messages.lease import Lease
from environment.model.messages.vm_accounts import Account, Accounts, Charge
from environment.pools import Terms
from tests.builders import make_vm, make_vms

HOUR = 3600.0
#: 2026-11-22, 22:00 UTC.
BEGIN = 1795305600.0 + 22 * HOUR
YEAR = Commitment("year", "2026-01-01", "2026-11-22", pool="general", vms=1, price_per_hour=0.1)
PLAN = Commitment("plan", "2026-01-01", "2027-12-31", type="m1.large", dollars_per_hour=0.21, discount=0.3)


def lease(number: int, opened_at: float) -> Lease:
    """A VM of general at $0.24 an hour."""
    vm = replace(make_vm(price_per_hour=0.24), terms=Terms("general"))
    return Lease(f"general-{number}.1", vm, opened_at, opened_at=opened_at, ready_at=opened_at)


def sums(charges: tuple[Charge, ...]) -> dict[tuple[str, str], tuple[float, float]]:
    """Covered dollars and hours by day and commitment."""
    found = [each for each in charges if each.kind == "covered"]
    assert len({(each.day, each.policy) for each in found}) == len(found)
    return {(each.day, each.policy): (round(each.dollars, 9), round(each.hours, 9)) for each in found}


def test_a_reservation_covers_as_many_vms_as_it_has_until_it_ends() -> None:
    """One of two; when it closes the other is covered; on the day after the last none is."""
    accounts = Accounts(lambda _: (), lambda _: None)
    accounts.commitments = (YEAR,)
    first, second = lease(1, BEGIN), lease(2, BEGIN)
    accounts.lease(first, BEGIN)
    accounts.lease(second, BEGIN)
    accounts.charge_all(BEGIN + 0.5 * HOUR)
    first.closed_at, first.state = BEGIN + HOUR, "closed"
    accounts.lease(first, BEGIN + HOUR)
    accounts.charge_all(BEGIN + 2 * HOUR - 1.0)
    accounts.charge_all(BEGIN + 2 * HOUR)
    accounts.charge_all(BEGIN + 3 * HOUR)
    charges, _ = accounts.take()
    assert sums(charges) == {("2026-11-22", "year"): (0.48, 2.0)}
    assert round(sum(each.dollars for each in charges if each.kind != "covered"), 9) == 0.96


def test_a_plan_covers_vms_in_part_and_what_was_covered_goes_on_after_a_restart() -> None:
    """$0.21 an hour at 30 % less are $0.3: a VM of $0.24 and a quarter of the next."""
    accounts = Accounts(lambda _: (), lambda _: None)
    accounts.commitments = (PLAN,)
    for number in (1, 2):
        accounts.lease(lease(number, BEGIN), BEGIN)
    accounts.charge_all(BEGIN + HOUR)
    charges, kept = accounts.take()
    assert sums(charges) == {("2026-11-22", "plan"): (0.3, 1.25)}
    again = Accounts(lambda _: (), lambda _: None)
    again.commitments = (PLAN,)
    again.resume(kept, "ff", (), BEGIN + HOUR, found=True)
    again.charge_all(BEGIN + 3 * HOUR)
    assert sums(again.take()[0]) == {
        ("2026-11-22", "plan"): (0.3, 1.25),
        ("2026-11-23", "plan"): (0.3, 1.25),
    }


def test_what_is_left_of_one_goes_to_the_next() -> None:
    """A VM is covered once; a commitment of another pool or type, or of another time, covers nothing."""
    vms = [Account(f"vm-{n}", "", "m1.large", 0.24, n, n, pool="general" if n else "") for n in range(3)]
    others = [replace(YEAR, name="gpu", pool="gpu"), replace(YEAR, name="old", until="2026-11-21")]
    found = cover(vms, active_at(BEGIN, (*others, YEAR, PLAN)))
    assert found == {
        "vm-0": (("plan", 1.0),),
        "vm-1": (("year", 1.0),),
        "vm-2": (("plan", pytest.approx(0.25)),),
    }
    assert YEAR.committed(BEGIN, BEGIN + 9 * HOUR) == pytest.approx(0.2)
    assert [YEAR.used(0.48, 2.0), PLAN.used(0.3, 1.25)] == pytest.approx([0.2, 0.21])


def test_without_commitments_nothing_is_charged_beside_the_bill() -> None:
    """And accounts know of none."""
    accounts = Accounts(lambda _: (), lambda _: None)
    accounts.lease(lease(1, BEGIN), BEGIN)
    accounts.charge_all(BEGIN + HOUR)
    charges, kept = accounts.take()
    assert ({each.kind for each in charges}, [each.covered for each in kept]) == ({"idle"}, [()])


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ({"until": "2025-12-31"}, "until: 2025-12-31 is before its first day, since: 2026-01-01"),
        ({"pool": ""}, "should cover either a pool or a type"),
        ({"vms": 0}, "should have either vms, with price_per_hour, or dollars_per_hour, with discount"),
        ({"price_per_hour": -1}, "price_per_hour: should be greater than or equal to 0, found -1"),
        ({"discount": 0.2}, "discount: belongs to the other kind of commitment"),
        ({"since": "soon"}, "since: should be a day such as 2026-01-01, found 'soon'"),
    ],
)
def test_a_commitment_without_sense_is_an_error(spec: dict[str, Any], says: str) -> None:
    """One line, with what is right."""
    plain = {"since": "2026-01-01", "until": "2026-12-31", "pool": "general", "vms": 2, "price_per_hour": 0.1}
    with pytest.raises(ConfigError) as raised:
        build(CommitmentSpec, plain | spec, "commitments.year")
    assert says in str(raised.value)


def test_vms_that_come_and_go_at_once_are_covered_by_one_look_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else 2,000 joins look at 2,000 VMs each; what is covered from then on is the same."""
    looks = []

    def counted(*asked: Any) -> dict[str, Any]:
        looks.append(asked)
        return cover(*asked)

    monkeypatch.setattr(vm_accounts, "cover", counted)
    accounts = Accounts(lambda _: (), lambda _: None)
    accounts.commitments = (replace(YEAR, pool="", type="m1.large", vms=30),)
    vms = make_vms(40)
    accounts.see(vms, BEGIN, known=True)
    accounts.see(vms[20:], BEGIN + HOUR, known=True)
    accounts.charge_all(BEGIN + 1.5 * HOUR)
    charges, _ = accounts.take()
    assert len(looks) == 2
    assert sums(charges) == {("2026-11-22", "year"): (round(0.24 * 40, 9), 40.0)}
