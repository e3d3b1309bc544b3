"""Models with fields described by the docstrings below them, read when a schema is requested.

`use_attribute_docstrings` of pydantic reads them as classes are made: a third of a second at each start of a
daemon, although `/openapi.json` is rarely requested. Models that FastAPI takes apart into parameters of a
query still need it: their descriptions are read from the fields and not from the schema.
"""

import ast
import inspect
import sys
from collections.abc import Mapping
from functools import cache
from itertools import pairwise

from pydantic import BaseModel, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema


class DocumentedModel(BaseModel):
    """A model with a JSON schema that contains the docstrings below its fields."""

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler, /
    ) -> JsonSchemaValue:
        """The schema, each property with its text unless its field has another."""
        schema = handler(core_schema)
        properties = handler.resolve_ref_schema(schema).get("properties", {})
        for name, field in cls.model_fields.items():
            keys = {name, field.alias, field.validation_alias, field.serialization_alias}
            for found in (properties[key] for key in keys & properties.keys()):
                if field.description is None and (text := _text_of(cls, name)):
                    found["description"] = text
        return schema


def _text_of(model: type, name: str) -> str | None:
    """Docstring below the field, where it was last declared."""
    for kind in model.__mro__:
        if name in inspect.get_annotations(kind):
            return _texts(kind.__module__).get(kind.__name__, {}).get(name)
    return None


@cache
def _texts(module: str) -> Mapping[str, Mapping[str, str]]:
    """Docstrings below attributes, by class of a module; empty when its source is unavailable."""
    try:
        tree = ast.parse(inspect.getsource(sys.modules[module]))
    except OSError:
        return {}
    return {each.name: _told(each.body) for each in tree.body if isinstance(each, ast.ClassDef)}


def _told(body: list[ast.stmt]) -> dict[str, str]:
    """The attributes that are followed by a text, and that text."""
    told = {}
    for statement, following in pairwise(body):
        match statement, following:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                told[name] = inspect.cleandoc(text)
    return told
