"""Generate the types of the client's answers and job options from the HTTP API's description.

`make openapi` writes those that the client's modules import; `mypy` and editors use them for the client.
"""

import ast
from collections.abc import Mapping
from pathlib import Path
from typing import Any

STORED = Path(__file__).parents[2] / "client/stoker/answers.py"

_HEAD = '''\
"""Types of the API's responses and of job settings, generated from docs/openapi.json by `make openapi`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, Literal, TypedDict, Union

File = Union[str, "PathLike[str]"]
'''
_PLAIN = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
#: Options for which Python has more to offer than JSON; the app is an argument of its own.
_OPTIONS = {
    "app": "",
    "args": "Sequence[str | int | float]",
    **dict.fromkeys(("py_files", "files", "jars", "archives"), "Sequence[File]"),
}


def client_types(described: Mapping[str, Any]) -> str:
    """The module's text."""
    schemas = described["components"]["schemas"]
    wanted: dict[str, bool] = {}
    imported = _imported()
    for path in described["paths"].values():
        for operation in path.values():
            for response in operation["responses"].values():
                for content in response.get("content", {}).values():
                    if _type(content["schema"], whole=True) in imported:
                        _collect(content["schema"], schemas, wanted, whole=True)
    submitted = described["paths"]["/v1/jobs"]["post"]["requestBody"]["content"]["application/json"]
    _collect(submitted["schema"], schemas, wanted, whole=False)
    parts = [_typed(name, schemas[name], whole) for name, whole in sorted(wanted.items(), key=_named)]
    return _HEAD + "".join(f"\n\n{part}" for part in parts)


def _imported() -> set[str]:
    """Names of types that the client's modules import."""
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in STORED.parent.glob("*.py")]
    imports = [each for tree in trees for each in ast.walk(tree) if isinstance(each, ast.ImportFrom)]
    return {alias.name for each in imports if each.module == "stoker.answers" for alias in each.names}


def _collect(schema: Any, schemas: Any, wanted: dict[str, bool], *, whole: bool) -> None:
    if isinstance(schema, list):
        for each in schema:
            _collect(each, schemas, wanted, whole=whole)
    elif isinstance(schema, dict):
        if isinstance(reference := schema.get("$ref"), str):
            name = reference.rpartition("/")[2]
            if name not in wanted:
                wanted[name] = whole
                _collect(schemas[name], schemas, wanted, whole=whole)
        for key, each in schema.items():
            if key not in ("default", "enum", "const"):
                _collect(each, schemas, wanted, whole=whole)


def _named(item: tuple[str, bool]) -> str:
    return _name(item[0])


def _name(schema: str) -> str:
    if schema.endswith("Input"):
        return schema.replace("Spec", "").removesuffix("Input") + "Options"
    return schema.removesuffix("Body")


def _typed(name: str, schema: Mapping[str, Any], whole: bool) -> str:
    made = _name(name)
    special = _OPTIONS if made == "JobOptions" else {}
    lines = [f"class {made}(TypedDict{'' if whole else ', total=False'}):"]
    lines.append(f"{_docstring(schema.get('description', made))}\n")
    for key, each in schema.get("properties", {}).items():
        if kind := special.get(key, _type(each, whole)):
            lines.append(f"    {key}: {kind}")
            if text := each.get("description", ""):
                lines.append(_docstring(text))
    return "\n".join(lines) + "\n"


def _docstring(text: str) -> str:
    """Docstring line of a class, or of an attribute below it."""
    first, *others = text.strip().splitlines()
    if not others:
        return f'    """{first}"""'
    rest = "\n".join(f"    {line}".rstrip() for line in others)
    return f'    """{first}\n{rest}\n    """'


def _type(schema: Mapping[str, Any], whole: bool) -> str:
    if "$ref" in schema:
        return _name(schema["$ref"].rpartition("/")[2])
    if "anyOf" in schema:
        return " | ".join(dict.fromkeys(_type(each, whole) for each in schema["anyOf"]))
    if "const" in schema:
        return f"Literal[{schema['const']!r}]"
    if "enum" in schema:
        return f"Literal[{', '.join(map(repr, schema['enum']))}]"
    kind = schema.get("type")
    if kind == "array":
        inner = _type(schema.get("items", {}), whole)
        return f"list[{inner}]" if whole else f"Sequence[{inner}]"
    if kind == "object":
        patterns = list(schema.get("patternProperties", {}).values())
        more = schema.get("additionalProperties") or (patterns[0] if patterns else None)
        inner = _type(more, whole) if isinstance(more, dict) else "Any"
        return f"dict[str, {inner}]" if whole else f"Mapping[str, {inner}]"
    return _PLAIN.get(str(kind), "Any")
