"""Types of the values in all three files: amounts, times, names, texts, each with its check."""

import math
import re
from collections.abc import Callable, Mapping
from itertools import chain
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, WithJsonSchema
from stoker.characters import LONGEST_NAME, UNSEEN_IN_PLANE_0, unseen

from conf.schema.documented_model import DocumentedModel
from conf.units import DEADLINE, RESOURCE_NAME, checked_resources, deadline, memory_mib, moment, seconds
from conf.util.counted import counted

#: Entries of a list or mapping at most, by what it holds; characters in all. A process takes a megabyte.
MOST_ARGUMENTS, MOST_FILES, MOST_SETTINGS, MOST_RESOURCES = 10_000, 1000, 2000, 100
MOST_CHARACTERS = 1 << 20


def like(pattern: str, otherwise: str) -> Callable[[str], str]:
    """Return a check that a text matches; the error explains the pattern in words."""
    compiled = re.compile(pattern)

    def check(text: str) -> str:
        if not compiled.fullmatch(text):
            raise ValueError(otherwise)
        return text

    return check


def web_address(url: str) -> str:
    """Check that the text is a URL for POST requests, without a user or password."""
    try:
        parts = urlsplit(url)
        whole = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        whole = False
    if not whole or url != "".join(url.split()) or not url.isascii():
        raise ValueError("should be a URL such as https://example.org/stoker")
    if parts.username is not None or parts.fragment:
        raise ValueError("should be without a user, a password and a fragment")
    return url


def one_line(text: str) -> str:
    """A check that a reader sees all of a text, in the order in which it is written."""
    if found := unseen(text):
        raise ValueError(f"should be one line without control or invisible characters (here {found})")
    return text


def _numbers_as_texts(values: Any) -> Any:
    """Convert numbers in arguments, as in JSON `"args": [10, "--fast"]`, to texts."""
    if not isinstance(values, list | tuple):
        return values
    return [str(v) if isinstance(v, int | float) and not isinstance(v, bool) else v for v in values]


def at_most(entries: int) -> BeforeValidator:
    """A check of the number of entries of a list or mapping, and of the characters of its texts in all.

    It comes before each entry is looked at, which takes its time with many that are wrong.
    """

    def check(values: Any) -> Any:
        if not isinstance(values, list | tuple | Mapping):
            return values
        if len(values) > entries:
            raise ValueError(
                f"should have at most {counted(entries, 'entry', 'entries')}, and has {len(values):,}"
            )
        texts = chain(values, values.values()) if isinstance(values, Mapping) else values
        size = sum(len(text) for text in texts if isinstance(text, str))
        if size > MOST_CHARACTERS:
            raise ValueError(
                f"should have at most {MOST_CHARACTERS} characters in all, and has {size}: put long values "
                "into a file"
            )
        return values

    return BeforeValidator(check)


def setting_as_text(value: Any) -> Any:
    """Convert a Spark setting from YAML, such as `spark.sql.shuffle.partitions: 8`, to text: 8, true, 0.5."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)):
        return str(value)
    return value


def number_as_text(value: Any) -> Any:
    """Convert a number, as in YAML `spark: 4.3`, to a version's text."""
    return str(value) if type(value) in (int, float) else value


def _three_decimals(cpus: float) -> float:
    """Check that Mesos can represent this number of cpus exactly; drop rounding errors of arithmetic."""
    if cpus < 0.001:
        raise ValueError("should be at least 0.001: Mesos keeps three decimals of a cpu")
    kept = round(cpus, 3)
    if abs(cpus - kept) > 1e-9:
        raise ValueError(f"should have at most three decimals, such as {kept}: Mesos stores no more of a cpu")
    return kept


# Half a surrogate pair, which JSON and YAML can spell, fits in no file, command line or answer.
_NO_NUL = r"[^\x00\ud800-\udfff]*"
_VARIABLE = r"[A-Za-z_][A-Za-z0-9_]*"

Memory = Annotated[
    int,
    BeforeValidator(memory_mib),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": 1},
                {"type": "string", "pattern": r"^[1-9]\d{0,5}[kmgKMG]?$"},
            ],
            "description": "MiB, or an amount with its unit: 512m, 2g",
        },
        mode="validation",
    ),
]
Cpus = Annotated[
    float,
    Field(gt=0, le=1024, allow_inf_nan=False, description="Cores, with at most three decimals"),
    AfterValidator(_three_decimals),
]
#: A name, or nothing.
NameOrNone = Annotated[
    str,
    Field(max_length=LONGEST_NAME, json_schema_extra={"pattern": f"^[^{UNSEEN_IN_PLANE_0}]*$"}),
    AfterValidator(one_line),
]
Name = Annotated[NameOrNone, Field(min_length=1)]
Resources = Annotated[
    Mapping[str, Annotated[float, Field(gt=0, allow_inf_nan=False)]],
    Field(
        description="Other resources of agents, by Mesos' names: gpus, disk (MiB), ...",
        max_length=MOST_RESOURCES,
        json_schema_extra={"propertyNames": {"pattern": f"^{RESOURCE_NAME}$"}},
    ),
    AfterValidator(checked_resources),
    at_most(MOST_RESOURCES),
]
_SPARK_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
SPARK_VERSION = r"\d{1,3}\.\d{1,3}(\.\d{1,3})?"
SparkName = Annotated[
    str,
    BeforeValidator(number_as_text),
    AfterValidator(like(_SPARK_NAME, "should be a name of letters, digits, dots, _ and -, such as 4.3")),
    WithJsonSchema(
        {
            "anyOf": [{"type": "string", "pattern": f"^{_SPARK_NAME}$"}, {"type": "number"}],
            "description": "A name of the daemon's config, such as 4.3",
        },
        mode="validation",
    ),
]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
#: Seconds, or a time with its unit.
Time = Annotated[
    float,
    BeforeValidator(seconds),
    Field(ge=0, le=30 * 86_400, allow_inf_nan=False),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number", "minimum": 0},
                {"type": "string", "pattern": r"^\d+(\.\d+)? *(ms|s|m|min|h|d)?$"},
            ],
            "description": "Seconds, or a time with its unit: 90s, 2m, 1h",
        },
        mode="validation",
    ),
]
#: How a job stands beside others: the higher, the earlier.
Priority = Annotated[int, Field(ge=-1000, le=1000)]
#: Seconds after submission, or a point in time: ISO 8601 with its zone.
Deadline = Annotated[
    float | str,
    BeforeValidator(deadline),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number", "exclusiveMinimum": 0, "maximum": 1e9},
                {"type": "string", "pattern": DEADLINE},
            ],
            "description": "Seconds after submission, such as 7200 or 2h, or a time with its zone, "
            "2026-11-22T18:00:00Z",
        },
        mode="validation",
    ),
]
#: The same of a time before which nothing is to happen.
Moment = Annotated[
    float | str,
    BeforeValidator(moment),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number", "exclusiveMinimum": 0, "maximum": 1e9},
                {"type": "string", "pattern": DEADLINE.replace("^(", "^((in )?")},
            ],
            "description": "Seconds after submission, such as 7200 or in 2h, or a time with its zone, "
            "2026-11-22T18:00:00Z",
        },
        mode="validation",
    ),
]
Port = Annotated[int, Field(ge=0, le=65535)]
Text = Annotated[
    str,
    Field(max_length=32_768, json_schema_extra={"pattern": r"^[^\x00]*$"}),
    AfterValidator(like(_NO_NUL, "should be a text without NUL characters")),
]
#: A setting of Spark's; its schema says what else than a text is taken.
Setting = Annotated[Text, BeforeValidator(setting_as_text)]
Arguments = Annotated[
    tuple[Text, ...],
    Field(strict=False, max_length=MOST_ARGUMENTS),
    BeforeValidator(_numbers_as_texts),
    at_most(MOST_ARGUMENTS),
]
Files = Annotated[tuple[Text, ...], Field(strict=False, max_length=MOST_FILES), at_most(MOST_FILES)]
Settings = Annotated[Mapping[Name, Setting], Field(max_length=MOST_SETTINGS), at_most(MOST_SETTINGS)]
Variable = Annotated[
    str,
    Field(json_schema_extra={"pattern": f"^{_VARIABLE}$"}),
    AfterValidator(like(_VARIABLE, "should be a variable's name: letters, digits and _, no digit first")),
]
Variables = Annotated[Mapping[Variable, Text], Field(max_length=MOST_SETTINGS), at_most(MOST_SETTINGS)]
#: Properties or variables as other programs send them.
Texts = Annotated[Mapping[Text, Text], Field(max_length=MOST_SETTINGS), at_most(MOST_SETTINGS)]


#: What many jobs are called together; a job's id, or that of an array, is given by Stoker.
GroupName = Annotated[
    NameOrNone,
    AfterValidator(like(r"(?!(job|array)-\d+$).*", "should be a name of your own, not an id of Stoker's")),
]
_LABEL = r"[A-Za-z0-9]([A-Za-z0-9._/-]{0,61}[A-Za-z0-9])?"
LabelName = Annotated[
    str,
    Field(json_schema_extra={"pattern": f"^{_LABEL}$"}),
    AfterValidator(like(_LABEL, "should be a label's name: up to 63 letters, digits, ., _, / and -")),
]
LabelValue = Annotated[NameOrNone, Field(max_length=63)]

_ARCHIVE = r"[^,#\n\x00]+\.(tar|tar\.gz|tgz|zip|jar)(#[A-Za-z0-9_][A-Za-z0-9._-]*)?"
_PART = r"[A-Za-z0-9_][A-Za-z0-9._-]*"
_PACKAGE = rf"{_PART}:{_PART}:[A-Za-z0-9_\[(][A-Za-z0-9._+\[\]()-]*"
_REPOSITORY = r"(https?://[^\s,/]+(/[^\s,]*)?|file:///[^\s,]*)"
Archive = Annotated[
    Text,
    Field(json_schema_extra={"pattern": f"^{_ARCHIVE}$"}),
    AfterValidator(
        like(
            _ARCHIVE,
            "should be a .tar, .tar.gz, .tgz, .zip or .jar, optionally followed by #FOLDER: env.tar.gz#env",
        )
    ),
]
Archives = Annotated[tuple[Archive, ...], Field(strict=False, max_length=MOST_FILES), at_most(MOST_FILES)]
Package = Annotated[
    Text,
    Field(max_length=500, json_schema_extra={"pattern": f"^{_PACKAGE}$"}),
    AfterValidator(
        like(_PACKAGE, "should be group:artifact:version, such as org.postgresql:postgresql:42.7.4")
    ),
]
Packages = Annotated[tuple[Package, ...], Field(strict=False, max_length=MOST_FILES), at_most(MOST_FILES)]
Repository = Annotated[
    Text,
    Field(max_length=2000, json_schema_extra={"pattern": f"^{_REPOSITORY}$"}),
    AfterValidator(like(_REPOSITORY, "should be the URL of a repository: https://HOST/PATH or file:///PATH")),
]
Repositories = Annotated[
    tuple[Repository, ...], Field(strict=False, max_length=MOST_FILES), at_most(MOST_FILES)
]


Price = Annotated[float, Field(ge=0, allow_inf_nan=False)]
#: Whether executors may be on VMs that their cloud may take away again.
SpotUse = Literal["never", "allowed", "only"]


class Strict(DocumentedModel):
    """Frozen; a key that is not known is an error; a text is no number."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
