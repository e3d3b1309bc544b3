"""Ids of jobs and arrays as text: `job-7`, `array-12`."""

import re

_JOB_ID, _ARRAY_ID = (re.compile(rf"{kind}-([1-9][0-9]{{0,17}})") for kind in ("job", "array"))


def job_number(job_id: str) -> int | None:
    """7 for `job-7`; None for a text that is no job's id."""
    match = _JOB_ID.fullmatch(job_id)
    return int(match[1]) if match else None


def array_number(array_id: str) -> int | None:
    """12 for `array-12`; None for a text that is no array's id."""
    match = _ARRAY_ID.fullmatch(array_id)
    return int(match[1]) if match else None


def job_id(number: int) -> str:
    """`job-7` for 7."""
    return f"job-{number}"
