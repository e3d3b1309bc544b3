"""Writes settings in the format of Java's properties files. Knows no setting."""

from collections.abc import Mapping

_ESCAPES = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f", " ": "\\ "}
_ESCAPES_IN_KEYS = {**_ESCAPES, "=": "\\=", ":": "\\:", "#": "\\#", "!": "\\!"}


def properties_text(settings: Mapping[str, str]) -> str:
    """Text of a properties file: one setting per line, pure ASCII, for any keys and values."""
    return "".join(
        f"{_escaped(key, _ESCAPES_IN_KEYS)}={_escaped(value, _ESCAPES)}\n" for key, value in settings.items()
    )


def _escaped(text: str, escapes: Mapping[str, str]) -> str:
    return "".join(escapes.get(character) or _ascii(character) for character in text)


def _ascii(character: str) -> str:
    if " " <= character <= "~":
        return character
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[start : start + 4]}" for start in range(0, len(units), 4))
