"""A policy with its options as one text: `greedy:beta=0.5`. Commands, configs and the API read it here."""

from collections.abc import Mapping
from typing import Any

from conf.loader import ConfigError, plain_value

#: The one error text of a policy in another form.
RIGHT_FORM = "should be NAME:KEY=VALUE, as in greedy:beta=0.5"
#: Characters of such a text. Chosen: more than all options of any policy take. Its YAML takes 25 us each.
_LONGEST = 1000


def read_policy(text: str) -> tuple[str, dict[str, Any]]:
    """Name and options of `NAME` or `NAME:KEY=VALUE:KEY=VALUE`, values in YAML; ConfigError for another form.

    The name of a user's own policy has a colon itself: `module:factory`, `module:factory:KEY=VALUE`.
    """
    if len(text) > _LONGEST:
        raise ConfigError(f"should have at most {_LONGEST} characters, and has {len(text):,}")
    name, *rest = text.split(":")
    if rest and "=" not in rest[0]:
        name, rest = f"{name}:{rest[0]}", rest[1:]
    options: dict[str, Any] = {}
    for part in rest:
        key, equals, value = part.partition("=")
        if not (key and equals) or key == "name":
            raise ConfigError(RIGHT_FORM)
        if key in options:
            raise ConfigError(f"{key}: given twice")
        options[key] = plain_value(value, key)
    return name, options


def policy_text(name: str, options: Mapping[str, object]) -> str:
    """The text that is read as this policy; values with a colon or of YAML's syntax are shown as they are."""
    return ":".join((name, *(f"{key}={value}" for key, value in options.items())))
