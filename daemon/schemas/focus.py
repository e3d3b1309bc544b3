"""Rows of the bill with the columns of FinOps FOCUS 1.2 (FinOps Open Cost and Usage Specification).

Stoker knows one price of a VM, so the four costs of a row are equal where no commitment covers it
(`with_commitments`). What Stoker does not have (invoices, capacity reservations, other currencies) has no
column where FOCUS permits that.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal

from conf.util.utc_days import midnight, month_of, next_day, next_month
from daemon.schemas.base import Body, Said
from daemon.schemas.bill import CommitmentBody
from daemon.store.rows.bill import ChargePage, CoveredTime
from environment.clusters.commitments import Commitment
from environment.model.messages.vm_accounts import Charge


class FocusRow(Body):
    """A charge of a day (UTC), named as FOCUS 1.2 names its columns: a job on a VM, or an unused part."""

    BilledCost: float
    """Dollars."""
    BillingAccountId: Said
    """The framework's name, `mesos.framework_name` of the config."""
    BillingAccountName: Said
    """The same."""
    BillingAccountType: Literal["Framework"] = "Framework"
    """Kind of the billing account."""
    BillingCurrency: Literal["USD"] = "USD"
    """Currency of all costs."""
    BillingPeriodEnd: str
    """Begin of the next month (UTC), such as 2026-12-01T00:00:00Z."""
    BillingPeriodStart: str
    """Begin of the month (UTC)."""
    ChargeCategory: Literal["Usage", "Purchase"] = "Usage"
    """Usage of VMs, or the purchase of a commitment."""
    ChargeClass: None = None
    """Null: no row corrects an earlier month."""
    ChargeDescription: Said
    """The job, the VM and the purpose, in words."""
    ChargeFrequency: Literal["Usage-Based", "Recurring"] = "Usage-Based"
    """Charges follow usage; commitments are paid in any case."""
    ChargePeriodEnd: str
    """Begin of the next day (UTC)."""
    ChargePeriodStart: str
    """Begin of the day (UTC)."""
    CommitmentDiscountCategory: Literal["Usage", "Spend"] | None = None
    """Usage for reserved VMs, Spend for dollars per hour; null without a commitment, as the next four."""
    CommitmentDiscountId: Said | None = None
    """Name of the commitment in the config."""
    CommitmentDiscountName: Said | None = None
    """The same."""
    CommitmentDiscountStatus: Literal["Used", "Unused"] | None = None
    """Whether a usage was covered, or what was committed was not used; null for a purchase."""
    CommitmentDiscountType: Literal["Reservation", "Savings Plan"] | None = None
    """Kind of the commitment."""
    ConsumedQuantity: float | None
    """VM hours: of a job on a quarter of a VM, a quarter of the time. Null for days without known hours."""
    ConsumedUnit: Literal["Hours"] | None
    """Unit of the consumed quantity; null where that is null."""
    ContractedCost: float
    """As the list cost; of covered usage, its part of the commitment."""
    ContractedUnitPrice: float | None
    """As the list price."""
    EffectiveCost: float
    """The billed cost, with what was committed spread over the usage that it covers, and the unused part."""
    InvoiceIssuerName: Literal["Stoker"] = "Stoker"
    """Issuer of the bill."""
    ListCost: float
    """Cost at the VM's own price."""
    ListUnitPrice: float | None
    """Dollars an hour of the whole VM, the mean of the day where it changed; null without a quantity."""
    PricingCategory: Literal["Standard", "Dynamic", "Committed"]
    """Dynamic for a spot VM, Committed for what a commitment covers."""
    PricingQuantity: float | None
    """As the consumed quantity."""
    PricingUnit: Literal["Hours"] | None
    """Unit of the priced quantity; null where that is null."""
    ProviderName: Literal["Stoker"] = "Stoker"
    """Provider of the service."""
    PublisherName: Literal["Stoker"] = "Stoker"
    """Publisher of the service."""
    RegionId: Said | None
    """Region of the VMs of pools where `provider` of the config has one."""
    RegionName: Said | None
    """The same."""
    ResourceId: Said | None
    """The VM's lease, or the name of a fixed VM; null where the bill is not stored by VM and job."""
    ResourceName: Said | None
    """The same."""
    ResourceType: Said | None
    """Type of the VM; null without a VM."""
    ServiceCategory: Literal["Compute"] = "Compute"
    """Category of the service."""
    ServiceName: Literal["Spark on VMs"] = "Spark on VMs"
    """Name of the service."""
    ServiceSubcategory: Literal["Virtual Machines"] = "Virtual Machines"
    """Subcategory of the service."""
    SkuId: Said
    """Pool (fixed: none) and type of the VM, such as general/m1.large."""
    SkuMeter: Literal["VM hours"] = "VM hours"
    """What is measured."""
    SkuPriceId: Said
    """The SKU and its terms: general/m1.large/spot, or /standard."""
    SubAccountId: Said | None
    """Queue of the job; null for an unused part."""
    SubAccountName: Said | None
    """The same."""
    SubAccountType: Literal["Queue"] | None
    """Kind of the sub account; null without a queue."""
    Tags: Said
    """JSON with those of `job`, `user`, `queue`, `group`, `pool` and `policy` that the charge has."""
    x_Kind: Literal["used", "idle", "booting", "draining", "rounding", "committed"]  # noqa: N815  # FOCUS's form of others' columns
    """Purpose of the payment, as in the bill; committed for a purchase, and for its unused part."""


class FocusBody(Body):
    """The bill of a day with the columns of FinOps FOCUS 1.2."""

    rows: list[FocusRow]
    """By VM and job; the costs of all pages add up to the bill of the day, once it is over."""
    next: str | None
    """`after` for the next page; null on the last."""


def focus_body(page: ChargePage, account: str, region: str | None) -> FocusBody:
    """Rows of these charges for a billing account; `region` is that of all pools."""
    rows = [row_of(charge, account, region if charge.pool else None) for charge in page.found]
    return FocusBody(rows=rows, next=None if page.next is None else json.dumps(page.next))


def row_of(charge: Charge, account: str, region: str | None) -> FocusRow:
    """The row of a charge."""
    month = month_of(charge.day)
    dollars, hours = charge.dollars, charge.hours or None
    price = None if hours is None else dollars / hours
    unit: Literal["Hours"] | None = None if hours is None else "Hours"
    queue, vm = charge.queue or None, charge.vm or None
    sku = f"{charge.pool or 'fixed'}/{charge.type}"
    tags = {
        "job": charge.job,
        "user": charge.owner,
        "queue": charge.queue,
        "group": charge.group,
        "pool": charge.pool,
        "policy": charge.policy,
    }
    where = f"{vm} ({charge.type})" if vm else f"VMs of {sku}"
    return FocusRow(
        BilledCost=dollars,
        BillingAccountId=account,
        BillingAccountName=account,
        BillingPeriodEnd=_time(next_month(month)),
        BillingPeriodStart=_time(midnight(f"{month}-01")),
        ChargeDescription=f"{charge.job} on {where}: {charge.kind}"
        if charge.job
        else f"{where}: {charge.kind}",
        ChargePeriodEnd=_time(next_day(charge.day)),
        ChargePeriodStart=_time(midnight(charge.day)),
        ConsumedQuantity=hours,
        ConsumedUnit=unit,
        ContractedCost=dollars,
        ContractedUnitPrice=price,
        EffectiveCost=dollars,
        ListCost=dollars,
        ListUnitPrice=price,
        PricingCategory="Dynamic" if charge.spot else "Standard",
        PricingQuantity=hours,
        PricingUnit=unit,
        RegionId=region,
        RegionName=region,
        ResourceId=vm,
        ResourceName=vm,
        ResourceType=charge.type if vm else None,
        SkuId=sku,
        SkuPriceId=f"{sku}/{'spot' if charge.spot else 'standard'}",
        SubAccountId=queue,
        SubAccountName=queue,
        SubAccountType="Queue" if queue else None,
        Tags=json.dumps({name: text for name, text in tags.items() if text}),
        x_Kind=charge.kind,
    )


def _time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


# ---- commitments ------------------------------------------------------------------------------------


def with_commitments(
    page: FocusBody,
    day: str,
    paid: Iterable[CommitmentBody],
    commitments: Sequence[Commitment],
    covered: Iterable[CoveredTime],
    listed: Mapping[tuple[str, str], float],
    account: str,
) -> FocusBody:
    """The rows of a page with the commitments that were paid on its day; the last page has their own rows.

    A row of usage is split into covered parts and a bare one, by the share of the dollars of its pool and
    type (`listed`, at list prices) that each commitment covered on that day. Billed costs of all pages add up
    to the bill with commitments; so do effective costs.
    """
    by_name = {each.name: each for each in commitments}
    parts: dict[str, list[tuple[Commitment, float, float]]] = {}
    for time in covered:
        sku, of = f"{time.pool or 'fixed'}/{time.type}", by_name.get(time.commitment)
        whole = listed.get((time.pool, time.type), 0.0)
        if of is not None and whole > 0.0 < time.dollars:
            used = of.used(time.dollars, time.hours) / time.dollars
            parts.setdefault(sku, []).append((of, time.dollars / whole, used))
    rows = [part for row in page.rows for part in _split(row, parts.get(row.SkuId, []))]
    if page.next is None:
        for each in paid:
            rows += _own(by_name[each.name], each, day, account)
    return FocusBody(rows=rows, next=page.next)


def _split(row: FocusRow, parts: Sequence[tuple[Commitment, float, float]]) -> Iterator[FocusRow]:
    """The covered parts of a row, and the bare one; `used` are committed dollars for each at list price."""
    bare = 1.0 - sum(share for _, share, _ in parts)
    for of, share, used in parts:
        dollars = row.ListCost * share
        yield _scaled(
            row, share, BilledCost=0.0, EffectiveCost=dollars * used, ContractedCost=dollars * used,
            PricingCategory="Committed", **_names(of), CommitmentDiscountStatus="Used",
            ContractedUnitPrice=None if row.ListUnitPrice is None else row.ListUnitPrice * used,
        )  # fmt: skip
    if not parts:
        yield row
    elif bare > 1e-9:
        yield _scaled(row, bare)


def _scaled(row: FocusRow, share: float, **changes: Any) -> FocusRow:
    names = (
        "BilledCost",
        "ContractedCost",
        "EffectiveCost",
        "ListCost",
        "ConsumedQuantity",
        "PricingQuantity",
    )
    values = {name: value * share for name in names if (value := getattr(row, name)) is not None}
    return row.model_copy(update={**values, **changes})


def _own(of: Commitment, paid: CommitmentBody, day: str, account: str) -> Iterator[FocusRow]:
    """The purchase of a commitment on a day, and the part that no VM used."""
    plain = row_of(Charge(day, "", of.pool, of.type, "", "", "", "", "rounding", 0.0), account, None)
    sku = f"commitment/{of.name}"
    same = {
        **_names(of),
        "SkuId": sku,
        "SkuPriceId": sku,
        "PricingCategory": "Committed",
        "x_Kind": "committed",
    }
    yield plain.model_copy(
        update={
            **same,
            "ChargeCategory": "Purchase",
            "ChargeFrequency": "Recurring",
            "ChargeDescription": f"commitment {of.name} ({of.covers})",
            "BilledCost": paid.committed,
            "ContractedCost": paid.committed,
            "ListCost": paid.committed,
        }
    )
    if paid.unused > 0.0:
        yield plain.model_copy(
            update={
                **same,
                "ChargeDescription": f"commitment {of.name} ({of.covers}): unused",
                "CommitmentDiscountStatus": "Unused",
                "EffectiveCost": paid.unused,
            }
        )


def _names(of: Commitment) -> dict[str, str]:
    reserved = bool(of.vms)
    return {
        "CommitmentDiscountCategory": "Usage" if reserved else "Spend",
        "CommitmentDiscountId": of.name,
        "CommitmentDiscountName": of.name,
        "CommitmentDiscountType": "Reservation" if reserved else "Savings Plan",
    }
