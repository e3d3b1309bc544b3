"""Reads stored values back by their types alone: checks of new submissions may be stricter today.

A job that was answered with 201 is not lost because a later Stoker would reject it.
"""

import types
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, create_model

Model = TypeVar("Model", bound=BaseModel)


def accepted(model: type[Model], values: Any) -> Model:
    """Read a dump as JSON of a model of this kind, regardless of today's limits and checks.

    ValueError when its keys or types differ.
    """
    return _as(model, _bare_model(model).model_validate(values))


def _as(model: type[Model], bare: BaseModel) -> Model:
    return model.model_construct(
        **{name: _whole(field.annotation, getattr(bare, name)) for name, field in model.model_fields.items()}
    )


def _whole(annotation: Any, value: Any) -> Any:
    """The value of a field; models within it, also in tuples and mappings, are of their own kinds again."""
    if isinstance(value, BaseModel):
        kind = next((kind for kind in _models(annotation) if _bare_model(kind) is type(value)), None)
        return value if kind is None else _as(kind, value)  # a default is of its own kind
    if isinstance(value, tuple | list):
        return type(value)(_whole(annotation, each) for each in value)
    if isinstance(value, Mapping):
        return {key: _whole(annotation, each) for key, each in value.items()}
    return value


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    """The models that a value of the annotation may have within it."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for each in get_args(annotation):
        yield from _models(each)


@cache
def _bare_model(model: type[BaseModel]) -> type[BaseModel]:
    """A model with the same fields, without limits and checks."""
    fields: dict[str, Any] = {
        name: (_bare(field.annotation), ... if field.is_required() else field.default)
        for name, field in model.model_fields.items()
    }
    return create_model(model.__name__, __config__=ConfigDict(extra="forbid"), **fields)


def _bare(annotation: Any) -> Any:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _bare(arguments[0])
    if origin is Literal:
        return annotation
    if origin in (Union, types.UnionType):
        return Union[tuple(_bare(each) for each in arguments)]  # noqa: UP007  # their number is known here only
    if origin is not None:
        return origin[tuple(each if each is ... else _bare(each) for each in arguments)]
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return _bare_model(annotation)
    return annotation
