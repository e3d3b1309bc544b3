"""Amounts as users write them: memory as 512m, 2g or 2GiB, other resources by name; and times."""

import re
from collections.abc import Mapping
from datetime import datetime

SECONDS_PER_HOUR = 3600.0
SECONDS_PER_DAY = 86_400.0

_MEMORY = re.compile(r"(\d+(?:\.\d+)?)\s*(?:([kmgtp])(?:i?b)?|(b))?", re.IGNORECASE)
_MIB = {"b": 1 / 1024**2, "k": 1 / 1024, "m": 1.0, "g": 1024.0, "t": 1024.0**2, "p": 1024.0**3}

_SECONDS = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|min|h|d)?", re.IGNORECASE)
_LENGTHS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": SECONDS_PER_HOUR, "d": SECONDS_PER_DAY}

#: What a resource may be called: what Mesos' own texts of resources can hold, in ASCII.
RESOURCE_NAME = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}"
_KNOWN_OTHERWISE = {"cpus": "cpus", "mem": "memory", "memory": "memory"}
#: The most of one resource that a job may ask for, or that is believed of a VM; of memory, MiB. Chosen: the
#: thousandths of millions of such VMs can be added up as 64 bits.
MOST_AMOUNT = 1e9
#: The most that is believed of another program: dollars per hour, dollars, and seconds since the epoch (the
#: end of the year 9999, the last of Python's calendar). Beyond it sums are no numbers any more.
MOST_PRICE, MOST_DOLLARS, LATEST = 1e6, 1e9, 253_402_300_799.0


def memory_mib(value: object) -> int:
    """MiB from a number (of MiB) or a text such as 512m, 1g, 1.5GiB; ValueError with examples otherwise.

    Letters mean powers of 1024, as in Spark.
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        amount, unit = max(min(value, 2**31), -1), "m"
    elif isinstance(value, str) and (match := _MEMORY.fullmatch(value.strip())):
        amount, unit = float(match[1]), (match[2] or match[3] or "m").lower()
    else:
        raise ValueError("should be an amount of memory such as 512m or 2g")
    mib = amount * _MIB[unit]
    if not 1 <= mib < 2**31:
        raise ValueError("should be an amount of memory of at least 1m, such as 512m or 2g")
    return round(mib)


def seconds(value: object) -> float:
    """Seconds from a number (of seconds) or a text such as 90s, 2m, 1h; ValueError with examples otherwise.

    Units are those of Spark's times.
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            raise ValueError("should be a time, found a number of more than 300 digits") from None
    if isinstance(value, str) and (match := _SECONDS.fullmatch(value.strip())):
        return float(match[1]) * _LENGTHS[(match[2] or "s").lower()]
    raise ValueError("should be a time such as 90s, 2m or 1h, or a number of seconds")


#: How a deadline that is a text begins; whether the day exists is seen by `deadline`.
DEADLINE = (
    r"^(\d{1,9}(\.\d{1,9})?(ms|s|m|min|h|d)?"
    r"|\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d:\d\d))$"
)
_LONGEST = 1e9
#: Years of such a time: in another zone the first and the last year that there are may be none.
_YEARS = range(1970, 3000)


def deadline(value: object) -> float | str:
    """A deadline as it is stored: seconds after submission, or an ISO time with its zone as it was written.

    ValueError, with examples, for any other value.
    """
    right = "should be a time after submission such as 2h or 7200, or one with its zone: 2026-11-22T18:00:00Z"
    if isinstance(value, datetime):  # as YAML reads it
        value = value.isoformat()
    if isinstance(value, str) and "-" in value:
        try:
            at = datetime.fromisoformat(value)
        except ValueError:
            raise ValueError(right) from None
        if at.tzinfo is None:
            raise ValueError(f"{value} has no zone: write {value}Z, or {value}+01:00")
        if at.year not in _YEARS:
            raise ValueError(f"{value}: should be a time of the years {_YEARS[0]} to {_YEARS[-1]}")
        return value
    try:
        after = seconds(value)
    except ValueError:
        raise ValueError(right) from None
    if not 0 < after <= _LONGEST:
        raise ValueError(f"should be more than 0, up to {_LONGEST:g} seconds after submission")
    return after


def moment(value: object) -> float | str:
    """Parse a time as a deadline; one after submission may also be written like in 2h."""
    if isinstance(value, str) and value.startswith("in "):
        value = value.removeprefix("in ").strip()
    return deadline(value)


def deadline_at(due: float | str | None, submitted_at: float) -> float | None:
    """Deadline of a job that was submitted then, seconds since the epoch; None without a deadline."""
    if due is None:
        return None
    return datetime.fromisoformat(due).timestamp() if isinstance(due, str) else submitted_at + due


def checked_resources(amounts: Mapping[str, float]) -> dict[str, float]:
    """Amounts of resources beside cpus and memory, by name, checked to be exact in Mesos.

    ValueError names the error: Mesos keeps three decimals of a scalar, and hands out gpus whole.
    """
    kept = {name: round(amount, 3) for name, amount in amounts.items() if amount < MOST_AMOUNT}
    for name, amount in amounts.items():
        if not re.fullmatch(RESOURCE_NAME, name):
            raise ValueError(f"{name!r}: should be a resource's name: letters, digits, _, . and -")
        if name in _KNOWN_OTHERWISE:
            raise ValueError(f"{name}: has its own key, {_KNOWN_OTHERWISE[name]}")
        if name == "ports":
            raise ValueError("ports: not an amount; every executor gets the port that it needs")
        if not 0.001 <= amount < MOST_AMOUNT:
            raise ValueError(f"{name}: should be 0.001 to {MOST_AMOUNT:g}, found {amount:g}")
        if abs(amount - kept[name]) > 1e-9:
            raise ValueError(f"{name}: should have at most three decimals, found {amount!r}")
        if name == "gpus" and amount % 1:
            raise ValueError(f"gpus: should be a whole number, as Mesos assigns them, found {amount:g}")
    return kept


def resources_of(text: str) -> dict[str, float]:
    """Parse amounts from a text such as gpus=1;disk=100; ValueError names the error."""
    found: dict[str, float] = {}
    for part in text.split(";") if text.strip() else ():
        name, equals, amount = (piece.strip() for piece in part.partition("="))
        if not equals or name in found:
            raise ValueError(f"should be amounts such as gpus=1;disk=100, each name once, found {text!r}")
        try:
            found[name] = float(amount)
        except ValueError:
            raise ValueError(f"{name}: should be a number, found {amount!r}") from None
    return checked_resources(found)


def resources_text(amounts: Mapping[str, float]) -> str:
    """The text that `resources_of` reads."""
    return ";".join(f"{name}={amount:.10g}" for name, amount in amounts.items())
