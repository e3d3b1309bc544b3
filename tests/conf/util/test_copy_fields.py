"""Fields copied from one kind of value to another, and those not to be forgotten on the way."""

from dataclasses import dataclass, replace

import pytest
from pydantic import BaseModel

from conf.util.copy_fields import carried, carrier, changed


@dataclass(frozen=True, slots=True)
class Asked:
    """The source value."""

    name: str
    kind: str = "plain"

    @property
    def label(self) -> str:
        """The display name."""
        return self.name.title()


@dataclass(frozen=True, slots=True)
class Known:
    """The target value."""

    name: str
    label: str
    kind: str = "unknown"


class Shown(BaseModel):
    """A value made of that and another source."""

    name: str
    kind: str
    state: str


@dataclass(slots=True)
class Record:
    """Something else."""

    state: str
    name: str = "another"


def test_what_has_one_name_is_carried() -> None:
    """Properties too; explicit values come first, and then the first source."""
    assert carried(Known, Asked("sort")) == Known("sort", "Sort", "plain")
    assert carried(Known, Asked("sort"), kind="given", label="") == Known("sort", "", "given")
    shown = carried(Shown, Asked("sort"), Record("queued"))
    assert shown == Shown(name="sort", kind="plain", state="queued")


def test_a_field_that_nobody_has_is_an_error() -> None:
    """Though it has a default: the programmer is told of the missing field."""
    with pytest.raises(AttributeError, match="no source has a value for field label of Known"):
        carried(Known, Record("queued"))
    with pytest.raises(TypeError, match="colour"):
        carried(Known, Asked("sort"), colour="blue")


def test_some_fields_are_changed() -> None:
    """As `dataclasses.replace` does, and like that not in place, nor a field that there is none of."""
    known = Known("a", "A", "special")
    assert changed(known, kind="plain", name="b") == replace(known, kind="plain", name="b")
    assert known == Known("a", "A", "special")
    with pytest.raises(ValueError, match="other"):
        changed(known, other=1)


def test_what_all_have_is_given_once() -> None:
    """The same comes out as for each alone, and nothing is left at its default by oversight."""
    carry = carrier(Known, kind="special")
    assert carry(Asked("a"), label="B") == carried(Known, Asked("a"), label="B", kind="special")
    assert carry(Asked("c")) == carried(Known, Asked("c"), kind="special")
    assert carry(Asked("d"), kind="other") == carried(Known, Asked("d"), kind="other")
    with pytest.raises(AttributeError, match="name"):
        carrier(Known, kind="special")(object())
