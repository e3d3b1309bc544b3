"""spark-submit's command line: its flags and arguments, its properties files, and their precedence.

Nothing is sent here. The daemon interprets the properties.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

#: Flags, and the properties that they stand for.
PROPERTY_OF = {
    "--name": "spark.app.name",
    "--master": "spark.master",
    "--deploy-mode": "spark.submit.deployMode",
    "--jars": "spark.jars",
    "--packages": "spark.jars.packages",
    "--exclude-packages": "spark.jars.excludes",
    "--repositories": "spark.jars.repositories",
    "--py-files": "spark.submit.pyFiles",
    "--files": "spark.files",
    "--archives": "spark.archives",
    "--driver-memory": "spark.driver.memory",
    "--driver-cores": "spark.driver.cores",
    "--driver-java-options": "spark.driver.extraJavaOptions",
    "--driver-library-path": "spark.driver.extraLibraryPath",
    "--driver-class-path": "spark.driver.extraClassPath",
    "--executor-memory": "spark.executor.memory",
    "--executor-cores": "spark.executor.cores",
    "--total-executor-cores": "spark.cores.max",
    "--num-executors": "spark.executor.instances",
    "--queue": "spark.stoker.queue",
}
#: Variables that stand for properties where nothing else says them.
_VARIABLES = {
    "MASTER": "spark.master",
    "DEPLOY_MODE": "spark.submit.deployMode",
    "SPARK_EXECUTOR_CORES": "spark.executor.cores",
    "SPARK_EXECUTOR_MEMORY": "spark.executor.memory",
    "SPARK_DRIVER_MEMORY": "spark.driver.memory",
}
_OTHERS = ("--class", "--conf", "--properties-file", "--status", "--kill")
_SWITCHES = ("--supervise", "--verbose", "--load-spark-defaults", "--version", "--help")
_SHORT = {"-c": "--conf", "-v": "--verbose", "-h": "--help"}
_NOT_HERE = {
    "--remote": "it is Spark Connect's; start spark-submit itself for it",
    "--proxy-user": "a job's owner is spark.stoker.owner; drivers run as the daemon's config says (run_as)",
    "--principal": "Kerberos is not spoken here",
    "--keytab": "Kerberos is not spoken here",
}
_WITH_VALUE = re.compile(r"(--[^=]+)=(.+)", re.DOTALL)
#: What is secret and must not stand where every user of a machine can read it.
TOKEN, TOKEN_PATH = "spark.stoker.token", "spark.stoker.token.file"


class ArgumentsError(Exception):
    """A command line that spark-submit would not take either, or that cannot be followed without a Spark."""


@dataclass
class Arguments:
    """Parsed command line, completed from files and the environment."""

    properties: dict[str, str] = field(default_factory=dict)
    main_class: str = ""
    resource: str = ""
    """The application."""
    arguments: list[str] = field(default_factory=list)
    status: str = ""
    kill: str = ""
    switches: set[str] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)
    """Notes for the user."""


def read_arguments(command: Sequence[str], environ: Mapping[str, str]) -> Arguments:
    """The command line, as spark-submit understands it: flags before files before the environment.

    ArgumentsError for an invalid command line, or a file that cannot be read.
    """
    found = Arguments()
    flags: dict[str, str] = {}
    settings: dict[str, str] = {}
    rest = list(command)
    while rest:
        text = rest.pop(0)
        split = _WITH_VALUE.fullmatch(text)
        flag = _SHORT.get(text, split[1] if split else text)
        if not flag.startswith("-"):
            found.resource, found.arguments = text, rest
            break
        if flag in _SWITCHES:
            found.switches.add(flag)
            continue
        if flag in _NOT_HERE:
            raise ArgumentsError(f"{flag}: {_NOT_HERE[flag]}")
        if flag not in PROPERTY_OF and flag not in _OTHERS:
            raise ArgumentsError(f"unrecognized option: {flag}; --help lists all")
        if split is None and not rest:
            raise ArgumentsError(f"{flag}: its value is missing")
        value = split[2] if split else rest.pop(0)
        if flag == "--conf":
            name, equals, said = value.partition("=")
            if not equals:
                raise ArgumentsError(f"--conf: should be PROPERTY=VALUE, found {value!r}")
            settings[name.strip()] = said
        elif flag in PROPERTY_OF:
            flags[PROPERTY_OF[flag]] = value
        elif flag == "--class":
            found.main_class = value
        else:
            flags[flag] = value
    if TOKEN in settings:
        raise ArgumentsError(
            f"--conf {TOKEN}: a command line can be read by everybody on this machine; put it into a file "
            "for --properties-file, or name a file with it in STOKER_TOKEN_FILE"
        )
    found.status, found.kill = flags.pop("--status", ""), flags.pop("--kill", "")
    if "--supervise" in found.switches:
        flags["spark.driver.supervise"] = "true"
    said_in_files = _from_files(flags.pop("--properties-file", ""), found, environ)
    said_by_variables = {name: environ[key] for key, name in _VARIABLES.items() if environ.get(key)}
    found.properties = {**said_by_variables, **said_in_files, **settings, **flags}
    for name in sorted(name for name in found.properties if not name.startswith("spark.")):
        del found.properties[name]
        found.notes.append(f"{name} is no property of Spark, and is left out")
    return found


def default_properties(environ: Mapping[str, str]) -> dict[str, str]:
    """Properties of spark-defaults.conf, where the environment names one; ArgumentsError as for others."""
    folder = environ.get("SPARK_CONF_DIR")
    if not folder and environ.get("SPARK_HOME"):
        folder = str(Path(environ["SPARK_HOME"], "conf"))
    file = Path(folder, "spark-defaults.conf") if folder else None
    return _file(file) if file is not None and file.is_file() else {}


def _from_files(named: str, found: Arguments, environ: Mapping[str, str]) -> dict[str, str]:
    """The properties of --properties-file, or those of conf/spark-defaults.conf, or of both."""
    wanted = not named or "--load-spark-defaults" in found.switches
    read = default_properties(environ) if wanted else {}
    return {**read, **_file(Path(named))} if named else read


def _file(path: Path) -> dict[str, str]:
    try:
        return parse_properties(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise ArgumentsError(f"{path}: cannot be read: {why}") from None


def parse_properties(text: str) -> dict[str, str]:
    """Java's properties: a line each of `name=value`, `name: value` or `name value`; # and ! for comments.

    A backslash at the end joins the next line; elsewhere it quotes the next character. Blanks around a value
    go, but not ends of lines, as in Spark.
    """
    found = {}
    for line in _logical_lines(text):
        name, rest = _split(line)
        rest = rest.lstrip(" \t\f")
        if rest[:1] in ("=", ":"):
            rest = rest[1:].lstrip(" \t\f")
        found[_unescaped(name)] = _unescaped(rest).strip(_BLANKS)
    return found


#: What Java counts as blank, but for ends of lines.
_BLANKS = "".join(chr(code) for code in range(33) if chr(code) not in "\r\n")


def _logical_lines(text: str) -> Iterator[str]:
    pending = ""
    for raw in re.split(r"\r\n|\r|\n", text):
        line = raw.lstrip(" \t\f")
        if not pending and (not line or line[0] in "#!"):
            continue
        whole = pending + line
        if (len(whole) - len(whole.rstrip("\\"))) % 2:
            pending = whole[:-1]
            continue
        pending = ""
        yield whole
    if pending:
        yield pending


def _split(line: str) -> tuple[str, str]:
    escaped = False
    for at, character in enumerate(line):
        if escaped:
            escaped = False
        elif character == "\\":
            escaped = True
        elif character in "=: \t\f":
            return line[:at], line[at:]
    return line, ""


_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_CHARACTERS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def _unescaped(text: str) -> str:
    def meant(found: re.Match[str]) -> str:
        what = found[1]
        return chr(int(what[1:], 16)) if len(what) == 5 else _CHARACTERS.get(what, what)

    units = _ESCAPE.sub(meant, text).encode("utf-16", "surrogatepass")
    return units.decode("utf-16", "surrogatepass")  # which makes one character of two of its halves
