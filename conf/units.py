"""Amounts as users write them: memory as 512m, 2g or 2GiB."""

import re

_MEMORY = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(i?b)?", re.IGNORECASE)
_MIB = {"k": 1 / 1024, "": 1.0, "m": 1.0, "g": 1024.0, "t": 1024.0 * 1024.0}


def memory_mib(value: object) -> int:
    """MiB from a number (of MiB) or a text such as 512m, 1g, 1.5GiB; ValueError with examples otherwise.

    Letters mean powers of 1024, as in Spark.
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        amount, unit = min(value, 2**31), "m"
    elif isinstance(value, str) and (match := _MEMORY.fullmatch(value.strip())):
        amount, unit = float(match[1]), match[2].lower()
    else:
        raise ValueError("should be an amount of memory such as 512m or 2g")
    mib = amount * _MIB[unit]
    if not 1 <= mib < 2**31:
        raise ValueError("should be an amount of memory of at least 1m, such as 512m or 2g")
    return round(mib)
