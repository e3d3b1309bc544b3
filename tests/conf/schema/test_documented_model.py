"""Schemas contain the text that stands below fields."""

from typing import Any

from pydantic import ConfigDict, Field

from conf.schema.documented_model import DocumentedModel


class Base(DocumentedModel):
    """Two fields."""

    kept: int
    """Said by the base."""
    anew: int
    """Said by the base, too."""


class Derived(Base):
    """Fields of all kinds."""

    model_config = ConfigDict(alias_generator=str.upper)

    anew: int
    """Said anew,
    in two lines."""
    own: int = Field(description="said by the field")
    """Not this."""
    part: Base
    """A reference."""
    silent: int


def said(schema: dict[str, Any]) -> dict[str, str | None]:
    """By property, its description."""
    return {name: what.get("description") for name, what in schema["properties"].items()}


def test_properties_are_described() -> None:
    """By the class that declared the field last, under the property's own name, unless the field says it."""
    schema = Derived.model_json_schema()
    assert said(schema) == {
        "KEPT": "Said by the base.",
        "ANEW": "Said anew,\nin two lines.",
        "OWN": "said by the field",
        "PART": "A reference.",
        "SILENT": None,
    }
    assert said(schema["$defs"]["Base"]) == {"kept": "Said by the base.", "anew": "Said by the base, too."}
