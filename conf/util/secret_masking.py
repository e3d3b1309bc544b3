"""Masks secrets in texts for display. Stored values stay unchanged.

Rules: the value of a name that sounds secret; in a text also NAME=VALUE, "NAME": VALUE and the argument
after --NAME; the user before the @ of a URL, and its signature; the key in the URL by which a driver fetches
an uploaded file; the id of a submission of spark-submit, by which it may be ended; a user's token.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

MASK = "***"

_WORDS = r"secret|passw|passphrase|(?:\b|_|db|pg)pass(?![a-z])|pwd|token|key|credential|auth|signature"
_SECRET = re.compile(_WORDS, re.IGNORECASE)
# Whoever submits a job writes these texts, and matching holds up the whole process: so each pattern takes
# time in proportion to the text. A run of characters is tried from its start only, and is not given back.
#: Characters of a secret at least; what is shorter would tear holes into every text.
_SHORTEST = 4
_USER = re.compile(r"((?<=[A-Za-z0-9+.-])://)[^/\s?#]*@")
_FETCHED = re.compile(r"(/v1/fetch/[^/\s]{1,200}/)[0-9a-f]{64}")
_ASSIGNED = re.compile(
    rf"""((?<![\w.-])(?=[\w.-]*?(?:{_WORDS}|\bsig))[\w.-]++["']?\s*+[=:]\s*+)"""
    r"""(?:"[^"]*"|'[^']*'|[^\s&;,"'}]+)""",
    re.IGNORECASE,
)
_TOKEN = re.compile(r"(stoker_[0-9a-f]{16}_)[A-Za-z0-9_-]{43}")
_SUBMISSION = re.compile(r"(driver-[0-9]{14}-)[0-9]{39}")
_FLAG = re.compile(r"--?[\w.-]+")


def masked_urls(text: str) -> str:
    """The text without users and passwords in its URLs, and keys in those of uploaded files."""
    text = _FETCHED.sub(rf"\1{MASK}", text) if "/v1/fetch/" in text else text
    return _USER.sub(rf"\1{MASK}@", text) if "@" in text else text


def masked_text(text: str) -> str:
    """The text without users in URLs, values of names that sound secret, ids and tokens."""
    text = _ASSIGNED.sub(rf"\1{MASK}", masked_urls(text))
    text = _TOKEN.sub(rf"\1{MASK}", text) if "stoker_" in text else text
    return _SUBMISSION.sub(rf"\1{MASK}", text) if "driver-" in text else text


def without(text: str, secrets: Iterable[str]) -> str:
    """The text with these secrets masked wherever they occur; texts too short to be secret stay."""
    for secret in sorted(set(secrets), key=len, reverse=True):
        if len(secret) >= _SHORTEST:
            text = text.replace(secret, MASK)
    return text


def secrets_in(values: Mapping[str, str], arguments: Sequence[str]) -> tuple[str, ...]:
    """The values of settings or variables, and the arguments, that are masked because of their names."""
    named = [value for name, value in values.items() if _SECRET.search(name)]
    shown = zip(arguments, masked_arguments(arguments), strict=True)
    return (*named, *(argument for argument, mask in shown if mask == MASK))


def masked_values(values: Mapping[str, str]) -> dict[str, str]:
    """Settings or variables without the values of names that sound secret, nor secrets in the others."""
    return {name: MASK if _SECRET.search(name) else masked_text(value) for name, value in values.items()}


def masked_arguments(arguments: Sequence[str]) -> tuple[str, ...]:
    """Arguments of a command without secrets: --password X, password=X, -Dtoken=X, URLs."""
    shown: list[str] = []
    named = False
    for argument in arguments:
        shown.append(MASK if named and not argument.startswith("-") else masked_text(argument))
        named = _FLAG.fullmatch(argument) is not None and _SECRET.search(argument) is not None
    return tuple(shown)
