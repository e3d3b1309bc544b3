"""docs/reference/config.md: every key of every file, from the schemas that the files are checked by."""

import inspect
import re
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel

import conf.schema.users
from conf.loader import SHIPPED
from conf.schema import Cluster, Config, JobSpec, SharingFile
from conf.schema.training import TrainingSpec
from conf.schema.workload import WorkloadSpec
from tests.docs.shapes import fields

HEAD = """# Reference: files

Made by `make reference` from the schemas of the files. `stoker config check FILE` reports what is wrong with
a config; an unknown key is an error that names the nearest known one.
"""
FILES: tuple[tuple[str, type[BaseModel], str], ...] = (
    ("The daemon's config", Config, "`stoker up --config FILE`; `--set key=value` sets one value."),
    ("A job", JobSpec, "`stoker submit FILE`, and the body of `POST /v1/jobs`: [submit.md](../submit.md)."),
    (
        "A cluster",
        Cluster,
        "`mesos.cluster` of a config, `simulate --cluster`: [clusters.md](../clusters.md).",
    ),
    ("A workload", WorkloadSpec, "`stoker simulate --workload FILE`: [workloads.md](../workloads.md)."),
    (
        "Users",
        conf.schema.users.UsersFile,
        "`users.file` of a config: [sharing.md](../sharing.md#a-file-of-users).",
    ),
    ("Sharing", SharingFile, "`simulate --sharing FILE`: [sharing.md](../sharing.md)."),
    ("Training", TrainingSpec, "`stoker train --config FILE`: [training.md](../training.md)."),
)


def config_reference() -> str:
    """The page."""
    lines, told = [HEAD, *(f"* [{title}](#{_anchor(title)})" for title, _, _ in FILES), ""], set[str]()
    for title, model, of in FILES:
        schema, texts = model.model_json_schema(), _texts(model)
        lines += [f"## {title}", "", of, ""]
        lines += fields(schema, texts.get(model.__name__, {}), schema.get("$defs", {}))
        for name, inner in sorted(schema.get("$defs", {}).items()):
            if name not in told and "properties" in inner:
                told.add(name)
                lines += [f"### {name}", ""]
                lines += [_text(inner.get("description", "")), ""] if inner.get("description") else []
                lines += fields(inner, texts.get(name, {}), schema["$defs"])
    return "\n".join(lines).rstrip() + "\n"


def _anchor(title: str) -> str:
    return re.sub(r"[^a-z ]", "", title.lower()).replace(" ", "-")


def _text(text: str) -> str:
    return "\n".join(line.strip() for line in text.splitlines())


def _texts(model: type[BaseModel]) -> dict[str, dict[str, str]]:
    """By class: texts for fields without a text of their own."""
    found = {one.__name__: _comments(one) for one in _models(model, set())}
    if model is Config:
        for path, text in _of_default_config().items():
            section, _, key = path.rpartition(".")
            kind = Config.model_fields[section].annotation if section else Config
            for one in _models_in(kind):
                found[one.__name__].setdefault(key, text)
    return found


def _models(model: type[BaseModel], seen: set[type]) -> Iterator[type[BaseModel]]:
    if model not in seen:
        seen.add(model)
        yield model
        for field in model.model_fields.values():
            for inner in _models_in(field.annotation):
                yield from _models(inner, seen)


def _models_in(kind: Any) -> Iterator[type[BaseModel]]:
    if inspect.isclass(kind) and issubclass(kind, BaseModel):
        yield kind
    for part in getattr(kind, "__args__", ()):
        yield from _models_in(part)


def _comments(model: type[BaseModel]) -> dict[str, str]:
    """Comments above fields in the source, behind `#:`."""
    found, pending = {}, list[str]()
    for line in map(str.strip, inspect.getsource(model).splitlines()):
        if line.startswith("#:"):
            pending.append(line[2:].strip())
            continue
        if pending and (field := re.match(r"(\w+):", line)):
            found[field[1]] = " ".join(pending)
        pending = []
    return found


def _of_default_config() -> Mapping[str, str]:
    """Comments of conf/default.yaml on each key, behind it and above it; not the indented examples."""
    found: dict[str, str] = {}
    section, key, above = "", "", list[str]()
    for line in (SHIPPED / "default.yaml").read_text(encoding="utf-8").splitlines():
        if given := re.match(r"( *)(\w+):([^#]*)(?:# ?(.*))?$", line):
            indent, name, value, text = given.groups()
            key = f"{section}.{name}" if indent else name
            section = section if indent else "" if value.strip() else name
            found[key] = " ".join([*above, *([text] if text else [])])
            above = []
        elif more := re.match(r" {8,}# (.*)", line):
            found[key] += f" {more[1].strip()}"
        elif block := re.match(r"# (\S.*)", line):
            above.append(block[1])
        elif not line.strip():
            above = []
    return {key: text.strip() for key, text in found.items() if text.strip()}
