"""Dollars and shares as text, the same in tables, reports and on pictures."""


def money(dollars: float) -> str:
    """$0.0123, $12.34, -$3.00: four decimals below a dollar, two above, more where four show nothing."""
    if dollars < 0:
        return f"-{money(-dollars)}"
    if dollars >= 1:
        return f"${dollars:,.2f}"
    if dollars >= 0.001 or dollars == 0:
        return f"${dollars:.4f}"
    return f"${dollars:.6f}" if dollars >= 0.000001 else "less than $0.000001"


def percent(share: float | None, digits: int = 0, none: str = "-") -> str:
    """A share in percent, 12 % of 0.12; `none` for None."""
    return none if share is None else f"{100 * share:.{digits}f} %"
