"""Rows of the bill with the columns of FinOps FOCUS 1.2 (FinOps Open Cost and Usage Specification).

Stoker knows one price of a VM, so the four costs of a row are equal. What Stoker does not have (invoices,
commitment discounts, capacity reservations, other currencies) has no column where FOCUS permits that.
"""

import json
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Literal

from daemon.schemas.base import Body, Said
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
    ChargeCategory: Literal["Usage"] = "Usage"
    """All charges are for usage."""
    ChargeClass: None = None
    """Null: no row corrects an earlier month."""
    ChargeDescription: Said
    """The job, the VM and the purpose, in words."""
    ChargeFrequency: Literal["Usage-Based"] = "Usage-Based"
    """Charges follow usage."""
    ChargePeriodEnd: str
    """Begin of the next day (UTC)."""
    ChargePeriodStart: str
    """Begin of the day (UTC)."""
    ConsumedQuantity: float | None
    """VM hours: of a job on a quarter of a VM, a quarter of the time. Null for days without known hours."""
    ConsumedUnit: Literal["Hours"] | None
    """Unit of the consumed quantity; null where that is null."""
    ContractedCost: float
    """As the billed cost."""
    ContractedUnitPrice: float | None
    """As the list price."""
    EffectiveCost: float
    """As the billed cost."""
    InvoiceIssuerName: Literal["Stoker"] = "Stoker"
    """Issuer of the bill."""
    ListCost: float
    """As the billed cost."""
    ListUnitPrice: float | None
    """Dollars an hour of the whole VM, the mean of the day where it changed; null without a quantity."""
    PricingCategory: Literal["Standard", "Dynamic"]
    """Dynamic for a spot VM."""
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
    x_Kind: Literal["used", "idle", "booting", "draining", "rounding"]  # noqa: N815  # FOCUS's form of others' columns
    """Purpose of the payment, as in the bill."""


class FocusBody(Body):
    """The bill of a day with the columns of FinOps FOCUS 1.2."""

    rows: list[FocusRow]
    """By VM and job; their costs add up to the bill of the day."""


def focus_body(charges: Iterable[Charge], account: str, region: str | None) -> FocusBody:
    """Rows of these charges for a billing account; `region` is that of all pools."""
    return FocusBody(rows=[_row(charge, account, region if charge.pool else None) for charge in charges])


def _row(charge: Charge, account: str, region: str | None) -> FocusRow:
    begin = datetime.strptime(charge.day, "%Y-%m-%d").replace(tzinfo=UTC)
    month = begin.replace(day=1)
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
        BillingPeriodEnd=_time((month + timedelta(days=31)).replace(day=1)),
        BillingPeriodStart=_time(month),
        ChargeDescription=f"{charge.job} on {where}: {charge.kind}"
        if charge.job
        else f"{where}: {charge.kind}",
        ChargePeriodEnd=_time(begin + timedelta(days=1)),
        ChargePeriodStart=_time(begin),
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


def _time(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
