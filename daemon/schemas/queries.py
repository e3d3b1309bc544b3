"""Parameters of the HTTP API in the query of a URL: filters of jobs, and sections of logs."""

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from conf.schema import Name, NameOrNone
from environment.model.messages.states import JobState

#: Bytes (8 TiB): the systems on which logs are kept read nothing beyond 16 TiB, and refuse to be asked.
LONGEST_LOG = 1 << 43
JobId = Annotated[str, Field(pattern=r"^job-[1-9][0-9]{0,17}$")]


class Query(BaseModel):
    """Query parameters; one that is not known is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


#: What may be asked for at once: names of owners, of queues, or of types.
_MOST_NAMES = 20


def _label(text: str) -> str:
    if "=" not in text[1:]:
        raise ValueError("should be NAME=VALUE, such as team=a")
    return text


#: A label and its value.
Label = Annotated[Name, AfterValidator(_label)]


class JobsQuery(Query):
    """Which jobs to list: of these states, owners, queues and types, and those submitted before this one."""

    state: list[JobState] = []
    """Only jobs in one of these states; without it, in any."""
    owner: Annotated[list[NameOrNone], Field(max_length=_MOST_NAMES)] = []
    """Only jobs of one of these owners; an empty name finds jobs without one."""
    queue: Annotated[list[Name], Field(max_length=_MOST_NAMES)] = []
    """Only jobs in one of these queues."""
    type: Annotated[list[Name], Field(max_length=_MOST_NAMES)] = []
    """Only jobs of one of these types."""
    group: Name | None = None
    """Only jobs of this group, or of the array with this id."""
    label: Annotated[list[Label], Field(max_length=_MOST_NAMES)] = []
    """Only jobs with all of these labels: team=a."""
    limit: Annotated[int, Field(ge=1, le=1000)] = 100
    """Maximum number of jobs."""
    before: JobId | None = None
    """Only jobs listed after this one: older ones, or newer ones with the oldest first."""
    order: Literal["newest", "oldest"] = "newest"
    """Order by submission."""


class AuditQuery(Query):
    """Which jobs to report on."""

    period: Literal["day", "week", "month"] = "week"
    """Jobs that ended in the last day, in the last seven days, or in the last thirty."""


class LogQuery(Query):
    """Which part of which log."""

    executor: Annotated[int, Field(ge=0, lt=2**31)] | None = None
    """The executor's number; without it, the driver's log."""
    stream: Literal["stdout", "stderr"] = "stdout"
    """Standard output or standard error."""
    offset: Annotated[int, Field(ge=0, le=LONGEST_LOG)] = 0
    """Offset of the part in the log, bytes."""
    limit: Annotated[int, Field(ge=4, le=1 << 20)] = 1 << 16
    """Maximum size of the part, bytes."""
