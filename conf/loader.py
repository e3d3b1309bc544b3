"""The strict YAML loader: a file and a schema in, a frozen typed value out, or an error with its location.

Every error names the file, the line, the key, the value found and the right one.
"""

import difflib
import reprlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails
from stoker.bounded_read import read_bounded, read_secret, read_token

from conf.errors import ReportedError
from conf.yaml_dialect import Reader

Schema = TypeVar("Schema", bound=BaseModel)
Location = tuple[str | int, ...]

#: The folder with the files that ship with Stoker.
SHIPPED = Path(__file__).parent
#: Chosen: beyond any config by far, and still read in seconds.
_LONGEST = 1 << 20
#: As many values may a file stand for when every alias is written out; a few lines of aliases of aliases
#: could otherwise stand for billions.
_MOST_VALUES = 100_000
#: What YAML's own constructors raise for a value that has a tag and is none of that kind.
_BAD_VALUE = (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError)
#: Characters of an unknown key that are compared to the known ones: of a megabyte it would take a second.
_COMPARED = 100
#: With what Pydantic's sentences begin that say what a value should be.
_SUBJECTS = frozenset({"Input", "String", "Tuple", "List", "Dictionary", "Value", "Value error,"})
#: Pydantic's kinds of error, in words for people who write YAML or JSON.
_IN_WORDS = {
    "missing": "missing; it has no default",
    "invalid_key": "keys should be texts",
    "string_type": "should be a text",
    "string_unicode": "should be a text of Unicode characters",
    "int_type": "should be a whole number",
    "int_parsing": "should be a whole number",
    "int_parsing_size": "should be a whole number of reasonable size",
    "int_from_float": "should be a whole number",
    "float_type": "should be a number",
    "float_parsing": "should be a number",
    "bool_type": "should be true or false",
    "bool_parsing": "should be true or false",
    "list_type": "should be a list",
    "tuple_type": "should be a list",
    "dict_type": "should be keys and values",
    "mapping_type": "should be keys and values",
    "model_type": "should be keys and values",
    "model_attributes_type": "should be keys and values",
}
_SHORT = reprlib.Repr()
_SHORT.maxlevel = 3
_SHORT.maxstring = _SHORT.maxlong = _SHORT.maxother = 60


class ConfigError(ReportedError, ValueError):
    """A file or value that cannot be used; the text is fit for a user."""

    def __init__(self, text: str) -> None:
        # YAML can spell half of a surrogate pair, which no terminal or file takes.
        super().__init__(text.encode("utf-8", "backslashreplace").decode("utf-8"))


def load(path: Path, schema: type[Schema], overrides: Mapping[str, str] | None = None) -> Schema:
    """Read a YAML file into the schema; `overrides` maps dotted keys to YAML texts that take precedence."""
    try:
        text = read_bounded(path, _LONGEST)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ConfigError(f"{path}: cannot be read: {why}") from error
    return parse(text, schema, str(path), overrides)


def parse(text: str, schema: type[Schema], name: str, overrides: Mapping[str, str] | None = None) -> Schema:
    """Read YAML text into the schema; `name` stands for the file in errors."""
    root = _compose(text, name)
    values = {} if root is None else _construct(root, name)
    if not isinstance(values, dict):
        raise ConfigError(f"{name}:1: expected keys and values, found {_shown(values)}")
    for key, value in (overrides or {}).items():
        _override(values, key, value)
    return build(schema, values, name, root, overrides or {})


def plain_value(text: str, name: str) -> Any:
    """A single value as YAML text, as on a command line; `name` stands for where it is in errors."""
    root = _compose(text, name)
    return None if root is None else _construct(root, name)


def build(
    schema: type[Schema],
    values: Any,
    name: str,
    root: yaml.Node | None = None,
    overridden: Collection[str] = (),
) -> Schema:
    """Validate plain values into the schema.

    With their YAML node, errors name the line, except for the dotted keys in `overridden`.
    """
    try:
        return schema.model_validate(values)
    except ValidationError as error:
        lines = [_complaint(schema, detail, name, root, overridden) for detail in error.errors()]
        raise ConfigError("\n".join(dict.fromkeys(lines))) from error


def what_is_right(detail: ErrorDetails, schema: type[BaseModel] | None, location: Location) -> str:
    """Explain the error of the value at that location of the schema, and name the right value."""
    kind, given = detail["type"], detail["input"]
    if kind == "union_tag_invalid":
        tag, right = detail["ctx"]["tag"], detail["ctx"]["expected_tags"]
        return f"{_discriminator(detail)} should be one of {right}, found {_shown(tag)}"
    if kind == "union_tag_not_found":
        return f"{_discriminator(detail)} is missing: it selects the other keys"
    if kind == "extra_forbidden":
        return _unknown(str(location[-1]), _known_keys(schema, location[:-1]) if schema else ())
    message = _IN_WORDS.get(kind) or _should(detail["msg"])
    if kind == "missing" or (kind == "value_error" and isinstance(given, dict)):
        return message  # it is about keys that are not there, or about several
    if schema is not None and _is_secret(schema, location):
        return f"{message} (the value found is not shown, as it may have a secret)"
    return f"{message}, found {_shown(given)}"


def find(name: str, beside: Path | None = None) -> Path:
    """Find a file that another one names: beside that one, in the working folder, or shipped with Stoker."""
    try:
        wanted = Path(name).expanduser()
    except RuntimeError as error:
        raise ConfigError(f"{name}: {error}") from error
    places = (
        [Path.cwd(), SHIPPED, SHIPPED.parent]
        if beside is None
        else [beside, Path.cwd(), SHIPPED, SHIPPED.parent]
    )
    for place in places:
        if _is_file(place / wanted):
            return place / wanted
    looked = ", ".join(str(place) for place in dict.fromkeys(places))
    raise ConfigError(f"{name}: no such file (looked in {looked})")


def secret_in(name: str, key: str) -> str:
    """Read the file of secrets named by a key of the config; ConfigError when it cannot be read."""
    try:
        return read_secret(Path(name))
    except ValueError as error:
        raise ConfigError(f"{key}: {error}") from None


def token_in(name: str, key: str) -> str:
    """Read a token as `secret_in` does, from a file that not everybody may read."""
    try:
        return read_token(Path(name))
    except ValueError as error:
        raise ConfigError(f"{key}: {error}") from None


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a name that is too long, a folder that may not be read
        return False


def _compose(text: str, name: str) -> yaml.Node | None:
    if len(text) > _LONGEST:
        raise ConfigError(f"{name}: too long: more than {_LONGEST} characters")
    try:
        return yaml.compose(text, Loader=Reader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ConfigError(f"{name}:{line}: not valid YAML: {error.problem or error.context}") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{name}: not valid YAML: {str(error).splitlines()[0]}") from error
    except RecursionError as error:
        raise ConfigError(f"{name}: nested too deeply") from error
    except _BAD_VALUE as error:  # a character number in an escape, for one
        raise ConfigError(f"{name}: not valid YAML: {error}") from error


def _construct(root: yaml.Node, name: str) -> Any:
    loader = Reader("")
    try:
        _count(root, name, {})
        return loader.construct_document(root)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ConfigError(f"{name}:{line}: {error.problem}") from error
    except ConfigError:
        raise
    except RecursionError as error:
        raise ConfigError(f"{name}: nested too deeply") from error
    except _BAD_VALUE as error:
        why = f": {error}" if isinstance(error, ValueError) else ""
        raise ConfigError(f"{name}: a value does not fit its tag or kind{why}") from error
    finally:
        loader.dispose()


def _count(node: yaml.Node, name: str, counted: dict[int, int]) -> int:
    """Count a node's values, aliases written out; ConfigError for too many, or a node in itself."""
    line = node.start_mark.line + 1
    if id(node) in counted:
        if counted[id(node)] == 0:
            raise ConfigError(f"{name}:{line}: contains itself")
        return counted[id(node)]
    counted[id(node)] = 0
    total = 1
    if isinstance(node, yaml.SequenceNode):
        total += sum(_count(item, name, counted) for item in node.value)
    elif isinstance(node, yaml.MappingNode):
        _no_duplicates(node, name)
        total += sum(_count(key, name, counted) + _count(value, name, counted) for key, value in node.value)
    if total > _MOST_VALUES:
        raise ConfigError(f"{name}:{line}: expands to more than {_MOST_VALUES} values")
    counted[id(node)] = total
    return total


def _no_duplicates(node: yaml.MappingNode, name: str) -> None:
    seen: dict[str, int] = {}
    for key, _ in node.value:
        if not isinstance(key, yaml.ScalarNode):
            continue
        line = key.start_mark.line + 1
        if key.value in seen:
            raise ConfigError(f"{name}:{line}: {key.value}: duplicate key, first in line {seen[key.value]}")
        seen[key.value] = line


def _override(values: dict[str, Any], dotted: str, text: str) -> None:
    *path, last = dotted.split(".")
    for step in path:
        inner = values.get(step)
        if isinstance(inner, str):  # a policy's text is its name with options
            inner = values[step] = {"name": inner}
        elif not isinstance(inner, dict):
            inner = values[step] = {}
        values = inner
    values[last] = plain_value(text, f"--set {dotted}")


def _complaint(
    schema: type[BaseModel],
    detail: ErrorDetails,
    name: str,
    root: yaml.Node | None,
    overridden: Collection[str],
) -> str:
    location = _untagged(schema, tuple(detail["loc"]))
    right = what_is_right(detail, schema, tuple(detail["loc"]))
    dotted = ".".join(str(step) for step in location)
    if any(f"{dotted}.".startswith(f"{key}.") or key.startswith(f"{dotted}.") for key in overridden):
        return f"--set {dotted}: {right}"
    line, path = _locate(root, location)
    key = ".".join(path) or (str(location[-1]) if location else "")
    head = f"{name}{f':{line}' if line else ''}: " + (f"{key}: " if key else "")
    return head + right


def _should(message: str) -> str:
    """Pydantic's sentence without its subject, which is the key before it."""
    subject, found, rest = message.partition(" should ")
    if not found or subject not in _SUBJECTS:
        return message.removeprefix("Value error, ")
    return f"should {rest.partition(' after validation')[0]}"


def _unknown(key: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(key[:_COMPARED], known, n=1)
    hint = f"did you mean {close[0]}?" if close else f"known keys: {', '.join(known) or 'none'}"
    return f"unknown key; {hint}"


def _locate(root: yaml.Node | None, location: Location) -> tuple[int | None, tuple[str, ...]]:
    """Follow a location into the YAML: the line reached, and the steps that are keys of the file.

    Steps that only name a branch of a union, or say that a key is meant, are not in the file and are
    passed over.
    """
    node, line, path = root, root.start_mark.line + 1 if root else None, []
    for step in location:
        if str(step).startswith("["):
            continue
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


def _discriminator(detail: ErrorDetails) -> str:
    return str(detail["ctx"]["discriminator"]).strip("'")


def _untagged(schema: type[BaseModel], location: Location) -> Location:
    """A location without the steps that only name a branch of a union of models."""
    return tuple(step for step, tag in _walk([schema], location) if not tag)


def _walk(models: list[type[BaseModel]], location: Location) -> Iterator[tuple[str | int, bool]]:
    """Each step of a location, and whether it names a branch of a union; `models` becomes where it leads."""
    for step in location:
        tagged = [model for model in models if _tag(model) == step]
        inner = [model.model_fields[step] for model in models if step in model.model_fields]
        if inner:
            models[:] = [found for field in inner for found in _models(field.annotation)]
        elif tagged:
            models[:] = tagged
        yield step, bool(tagged and not inner)


def _is_secret(schema: type[BaseModel], location: Location) -> bool:
    """Whether it is, or is in, a value that is not to be shown: a field without a representation."""
    models = [schema]
    for step in location:
        fields = [model.model_fields[step] for model in models if step in model.model_fields]
        if any(not field.repr for field in fields):
            return True
        models = [found for field in fields for found in _models(field.annotation)] or models
    return False


def _tag(model: type[BaseModel]) -> str | None:
    """Required value of the key `name` that selects a model within a union; None without one."""
    name = model.model_fields.get("name")
    return get_args(name.annotation)[0] if name and get_origin(name.annotation) is Literal else None


def _known_keys(schema: type[BaseModel], location: Location) -> list[str]:
    models = [schema]
    for _ in _walk(models, location):
        pass
    return list(models[0].model_fields) if models else []


def _models(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for inner in get_args(annotation) for model in _models(inner)]


def _shown(value: Any) -> str:
    """A value as found, in YAML's and JSON's words where Python has others, and never long."""
    if value is None or isinstance(value, bool):
        return {None: "nothing", True: "true", False: "false"}[value]
    try:
        text = _SHORT.repr(value)
    except ValueError:  # Python writes no number with thousands of digits
        text = "a number with thousands of digits"
    return text if len(text) <= 60 else f"{text[:57]}..."
