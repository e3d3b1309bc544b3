"""The strict YAML loader: a file and a schema in, a frozen typed value out, or an error that says where.

Every complaint names the file, the line, the key, what was found and what would be right.
"""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, get_args

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

Schema = TypeVar("Schema", bound=BaseModel)
Location = tuple[str | int, ...]

#: The folder with the files that ship with Stoker.
SHIPPED = Path(__file__).parent


class ConfigError(ValueError):
    """A file or value that cannot be used; the text is fit for a user."""


def load(path: Path, schema: type[Schema], overrides: Mapping[str, str] | None = None) -> Schema:
    """Read a YAML file into the schema; `overrides` maps dotted keys to YAML texts that take precedence."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ConfigError(f"{path}: cannot be read: {why}") from error
    return parse(text, schema, str(path), overrides)


def parse(text: str, schema: type[Schema], name: str, overrides: Mapping[str, str] | None = None) -> Schema:
    """Read YAML text into the schema; `name` stands for the file in errors."""
    root = _compose(text, name)
    values = {} if root is None else _construct(root, name)
    if not isinstance(values, dict):
        raise ConfigError(f"{name}:1: expected keys and values, found {_kind(values)}")
    for key, value in (overrides or {}).items():
        _override(values, key, value)
    return build(schema, values, name, root)


def build(schema: type[Schema], values: Any, name: str, root: yaml.Node | None = None) -> Schema:
    """Validate plain values into the schema; with their YAML node, errors name the line."""
    try:
        return schema.model_validate(values)
    except ValidationError as error:
        lines = [_complaint(schema, detail, name, root) for detail in error.errors()]
        raise ConfigError("\n".join(dict.fromkeys(lines))) from error


def find(name: str, beside: Path | None = None) -> Path:
    """Find a file that another one names: beside that one, in the working folder, or shipped with Stoker."""
    wanted = Path(name).expanduser()
    places = (
        [Path.cwd(), SHIPPED, SHIPPED.parent]
        if beside is None
        else [beside, Path.cwd(), SHIPPED, SHIPPED.parent]
    )
    for place in places:
        if (place / wanted).is_file():
            return place / wanted
    looked = ", ".join(str(place) for place in dict.fromkeys(places))
    raise ConfigError(f"{name}: no such file (looked in {looked})")


def _compose(text: str, name: str) -> yaml.Node | None:
    try:
        return yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ConfigError(f"{name}:{line}: not valid YAML: {error.problem or error.context}") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{name}: not valid YAML: {error}") from error


def _construct(root: yaml.Node, name: str) -> Any:
    for key, first in _duplicates(root):
        raise ConfigError(
            f"{name}:{key.start_mark.line + 1}: {key.value}: given twice, first in line {first}"
        )
    loader = yaml.SafeLoader("")
    try:
        return loader.construct_document(root)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ConfigError(f"{name}:{line}: {error.problem}") from error
    except ValueError as error:  # a date or number that YAML recognises and Python refuses
        raise ConfigError(f"{name}: {error}") from error
    finally:
        loader.dispose()


def _duplicates(
    node: yaml.Node, above: frozenset[int] = frozenset()
) -> Iterator[tuple[yaml.ScalarNode, int]]:
    if id(node) in above:
        return  # an anchor that contains itself
    above = above | {id(node)}
    if isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from _duplicates(item, above)
    elif isinstance(node, yaml.MappingNode):
        seen: dict[str, int] = {}
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    yield key, seen[key.value]
                seen[key.value] = key.start_mark.line + 1
            yield from _duplicates(value, above)


def _override(values: dict[str, Any], dotted: str, text: str) -> None:
    *path, last = dotted.split(".")
    for step in path:
        inner = values.get(step)
        if not isinstance(inner, dict):
            inner = values[step] = {}
        values = inner
    try:
        values[last] = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"--set {dotted}: not valid YAML: {text}") from error


def _complaint(schema: type[BaseModel], detail: ErrorDetails, name: str, root: yaml.Node | None) -> str:
    location: Location = tuple(detail["loc"])
    where, path = _locate(root, location)
    line = f":{where}" if where else ""
    key = ".".join(path) or (str(location[-1]) if location else "")
    head = f"{name}{line}: {key}: " if key else f"{name}{line}: "
    if detail["type"] == "extra_forbidden":
        return head + _unknown(str(location[-1]), _known_keys(schema, location[:-1]))
    if detail["type"] == "missing":
        return f"{head}missing; it has no default"
    message = detail["msg"].removeprefix("Value error, ").removeprefix("Input ")
    return f"{head}{message}, found {_shown(detail['input'])}"


def _unknown(key: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(key, known, n=1)
    hint = f"did you mean {close[0]}?" if close else f"known keys: {', '.join(known)}"
    return f"unknown key; {hint}"


def _locate(root: yaml.Node | None, location: Location) -> tuple[int | None, tuple[str, ...]]:
    """Follow a location into the YAML: the line reached, and the steps that are keys of the file.

    Steps that only name a branch of a union are not in the file and are passed over.
    """
    node, line, path = root, root.start_mark.line + 1 if root else None, []
    for step in location:
        if isinstance(node, yaml.MappingNode):
            found = [(k, v) for k, v in node.value if isinstance(k, yaml.ScalarNode) and k.value == str(step)]
            if found:
                line, node = found[-1][0].start_mark.line + 1, found[-1][1]
                path.append(str(step))
            elif step == location[-1]:
                path.append(str(step))
        elif isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
            node = node.value[step]
            line = node.start_mark.line + 1
            path.append(str(step))
        elif root is None:
            path.append(str(step))
    return line, tuple(path)


def _known_keys(schema: type[BaseModel], location: Location) -> list[str]:
    current: type[BaseModel] = schema
    for step in location:
        if isinstance(step, str) and step in current.model_fields:
            inner = _models(current.model_fields[step].annotation)
            if not inner:
                return []
            current = inner[0]
    return list(current.model_fields)


def _models(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for inner in get_args(annotation) for model in _models(inner)]


def _kind(value: Any) -> str:
    return {list: "a list", str: "a text", type(None): "nothing"}.get(type(value), f"{value!r}")


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
