"""Messages of Spark drivers that ask for executors themselves, and the answers.

`http/routes/spark/applications.py` has the routes, `submission/applications.py` makes the answers.
"""

from collections.abc import Callable, Mapping
from typing import Annotated

from pydantic import ConfigDict, Field
from stoker.characters import UNSEEN_IN_PLANE_0

from conf.schema import JobSpec, NameOrNone
from conf.schema.documented_model import DocumentedModel
from conf.schema.fields import MOST_RESOURCES, Texts, at_most
from daemon.core.identity import Submitter
from daemon.schemas.base import Body, Said

#: What says whose a submitted job is, given who its client says to be; see `daemon.auth.permits`.
Admit = Callable[[JobSpec, str], tuple[JobSpec, Submitter]]
_HOST = r"([A-Za-z0-9]([A-Za-z0-9._-]{0,252}[A-Za-z0-9])?|\[[0-9A-Fa-f:.]{2,45}\])"
_MOST = 10_000


class DriverMessage(DocumentedModel):
    """Part of a driver's message."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class DriverBody(DriverMessage):
    """Location of a driver."""

    host: Annotated[str, Field(pattern=f"^{_HOST}$")]
    """Name or address at which executors reach it."""
    port: Annotated[int, Field(ge=1, le=65535)]
    """Its port for them."""
    ui: Annotated[str, Field(max_length=300, pattern=rf"^(https?://{_HOST}(:\d{{1,5}})?/?)?$")] = ""
    """The URL of its Spark UI."""


class ApplicationBody(DriverMessage):
    """A driver that asks for executors."""

    application_id: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$")]
    """The application's id, as its executors have to know it."""
    spark: Annotated[str, Field(pattern=r"^\d{1,3}\.\d{1,3}[A-Za-z0-9._+-]{0,40}$")]
    """The version of its Spark."""
    user: NameOrNone = ""
    """Name of the user that runs it, by the driver's own statement: the job's owner where no users are
    configured."""
    secret: Annotated[str, Field(pattern=r"^[\x21-\x7e]{16,256}$")] | None = Field(default=None, repr=False)
    """The secret of driver and executors; of a driver that registers for the first time."""
    driver: DriverBody
    """Addresses of the driver."""
    properties: Texts
    """Spark's properties; docs/submit.md explains them."""


class ProfileBody(DriverMessage):
    """Number of executors of a resource profile that a driver requests."""

    id: Annotated[int, Field(ge=0, lt=2**31)]
    """The profile's number in Spark."""
    total: Annotated[int, Field(ge=0, lt=2**31)]
    """Total number of requested executors; the job's max limits it."""
    executor: Annotated[
        Mapping[
            Annotated[str, Field(pattern=f"^[^{UNSEEN_IN_PLANE_0}]{{1,100}}$")],
            Annotated[int, Field(ge=0, lt=2**31)],
        ],
        Field(max_length=MOST_RESOURCES),
        at_most(MOST_RESOURCES),
    ]
    """Resources of each, by Spark's names: cores, memory (MiB), memoryOverhead, ..."""


class WantedBody(DriverMessage):
    """Total number of executors that a driver requests now."""

    profiles: Annotated[list[ProfileBody], Field(max_length=1000), at_most(1000)]
    """Request of each resource profile."""


class ReleaseBody(DriverMessage):
    """Executors that a driver releases."""

    numbers: Annotated[list[Annotated[int, Field(ge=0, lt=2**31)]], Field(max_length=_MOST), at_most(_MOST)]
    """Numbers of the executors."""


class NothingBody(DriverMessage):
    """A heartbeat without further content."""


class GoodbyeBody(DriverMessage):
    """Report of a driver's end."""

    stopped: bool = False
    """Its application has stopped its context; the outcome of its process is not known yet."""
    exit_code: Annotated[int, Field(ge=0, le=255)] | None = None
    """The exit code of its process: 0 is success; null where it does not know."""
    signal: Annotated[str, Field(pattern=r"^(SIG[A-Z0-9]{1,10})?$")] = ""
    """The signal that ends it."""
    error: Annotated[str, Field(max_length=1000)] = ""
    """The exception that ends it."""


class RegisteredBody(Body):
    """A driver was registered."""

    id: str
    """Its job."""
    key: str = Field(repr=False)
    """The key that its pages require from now on, as `Authorization: Bearer KEY`."""
    heartbeat: float
    """Seconds between two heartbeats of the driver."""
    executors: int
    """Number of executors at the beginning."""


class GrantedBody(Body):
    """Answer to a driver's request for executors."""

    reason: Said
    """Why it gets fewer executors than it requests; empty when it gets all."""


class LostBody(Body):
    """An executor that ended with its VM."""

    number: int
    """Its number."""
    reason: Said
    """The reason of its end, as far as known."""


class OrdersBody(Body):
    """Orders for a driver."""

    stop: Said | None
    """Why the driver has to stop; null unless it has to."""
    waits: Said | None
    """Reason why its executors are not there yet; null when they are."""
    lost: list[LostBody]
    """Executors that have ended, perhaps unnoticed by the driver."""
    decommission: list[int]
    """Executors that the driver has to release once their blocks have moved."""
    alone: bool
    """Whether to release them even if no other executor can take their blocks."""


class SparkBody(Body):
    """An available Spark version."""

    name: str
    """The name that jobs use."""
    version: str
    """Its version, in full if known."""
    jar: str
    """The path of the jar that handles masters like spark+stoker://HOST:PORT."""


class SparksBody(Body):
    """The available Spark versions."""

    default: str | None
    """The version for jobs that name none; null when no version is available."""
    driver_host: str
    """Address at which executors reach drivers on the daemon's host."""
    sparks: list[SparkBody]
    """The available versions, the default first."""


class DoneBody(Body):
    """Success."""
