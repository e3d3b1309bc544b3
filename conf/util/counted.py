"""Counts in words, the same in all texts."""


def counted(number: float, noun: str, plural: str = "") -> str:
    """1 executor, 3 executors, 1,000 jobs, 0.5 cpus; the plural where it is not the noun and an s."""
    amount = f"{int(number):,}" if number == int(number) else f"{number:,g}"
    return f"{amount} {noun if number == 1 else plural or noun + 's'}"
