"""A job file, flags, or both, made into one valid spec with absolute paths. No network here."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from conf.loader import ConfigError, build, load
from conf.schema import JobSpec
from conf.uploaded_file import SCHEME

_PATH_LISTS = ("py_files", "files", "jars", "archives")
_SCHEME = re.compile(rf"[A-Za-z][A-Za-z0-9+.-]*:/|{SCHEME}:")


def read_spec(target: str, arguments: Sequence[str], flags: Mapping[str, Any]) -> JobSpec:
    """The job that a command line describes; ConfigError when it is no valid one or a local file is missing.

    `target` is a job file (.yaml, .yml) or an app; `flags` hold the given options, and take precedence over
    the file. Relative paths in a file are relative to it, on the command line to the working folder.
    """
    if is_job_file(target):
        file = Path(target)
        base = _absolute(load(file, JobSpec).model_dump(exclude_unset=True), file.absolute().parent)
    else:
        base = _absolute({"app": target}, Path.cwd())
    given = _absolute(dict(flags), Path.cwd())
    if arguments:
        given["args"] = tuple(arguments)
    spec = build(JobSpec, _merged(base, given), "command line")
    _check_files(spec, Path(target) if is_job_file(target) else None)
    return spec


def is_job_file(target: str) -> bool:
    """Whether the target of a submission is a job file, not an application."""
    return target.endswith((".yaml", ".yml"))


def assignments(texts: Sequence[str], flag: str) -> dict[str, str]:
    """`key=value` texts as a mapping; ConfigError naming the flag otherwise."""
    found = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise ConfigError(f"{flag}: should be key=value, found {text!r}")
        found[key] = value
    return found


def amounts(texts: Sequence[str], flag: str) -> dict[str, float]:
    """`name=number` texts as a mapping; ConfigError naming the flag otherwise."""
    found = {}
    for name, amount in assignments(texts, flag).items():
        try:
            found[name] = float(amount)
        except ValueError:
            raise ConfigError(f"{flag}: should be name=number, found '{name}={amount}'") from None
    return found


def _merged(base: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The given values over the base's; mappings are merged key by key."""
    merged = dict(base)
    for key, value in given.items():
        below = merged.get(key)
        merged[key] = below | value if isinstance(below, dict) and isinstance(value, dict) else value
    return merged


def _absolute(values: dict[str, Any], folder: Path) -> dict[str, Any]:
    made = dict(values)
    if "app" in made:
        made["app"] = _absolute_path(made["app"], folder)
    for key in _PATH_LISTS:
        if key in made:
            made[key] = tuple(_absolute_path(path, folder) for path in made[key])
    return made


def _absolute_path(path: str, folder: Path) -> str:
    if _SCHEME.match(path):
        return path
    try:
        return str((folder / Path(path).expanduser()).absolute())
    except RuntimeError:  # ~name of a user that does not exist
        return str((folder / path).absolute())


def _check_files(spec: JobSpec, file: Path | None) -> None:
    wanted = [("app", spec.app), *((key, path) for key in _PATH_LISTS for path in getattr(spec, key))]
    missing = [f"{key}: no such file: {path}" for key, path in wanted if not _is_there(key, path)]
    if missing and file is not None:
        missing.append(f"(a relative path in {file} is from its folder, on the command line from here)")
    if missing:
        raise ConfigError("\n".join(missing))


def _is_there(key: str, path: str) -> bool:
    local = path if key == "app" else path.partition("#")[0]
    local = local.removeprefix("file://")
    return bool(_SCHEME.match(local)) or Path(local).is_file()
