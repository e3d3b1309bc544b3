"""The routes by which a Spark driver asks for executors, and fetches the jar that does.

A driver registers with the API's token, and then authenticates for its job with the key from that answer.
`submission/applications.py` makes the answers; the driver's side is
`framework/spark/install/StokerBackend.scala`.
"""

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import FastAPI, Header, Path, Request
from fastapi.responses import FileResponse
from pydantic import ConfigDict, Field
from stoker.characters import UNSEEN_IN_PLANE_0

from conf.schema import NameOrNone
from conf.schema.documented_model import DocumentedModel
from conf.schema.fields import MOST_RESOURCES, Texts, at_most
from conf.util.copy_fields import carried
from daemon.auth.permits import permit_of
from daemon.http.server.scheduler_interface import Leadership
from daemon.schemas.applications import ApplicationDoor, Registration
from daemon.schemas.base import Body, Said

_HOST = r"([A-Za-z0-9]([A-Za-z0-9._-]{0,252}[A-Za-z0-9])?|\[[0-9A-Fa-f:.]{2,45}\])"
_MOST = 10_000

JobName = Annotated[str, Path(description="The job's id, such as job-17.", max_length=40)]
Key = Annotated[
    str | None,
    Header(alias="authorization", description="`Bearer KEY`: the application's key."),
]


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
    secret: Annotated[str, Field(pattern=r"^[\x21-\x7e]{16,256}$")] | None = None
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
    key: str
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


def add_applications(app: FastAPI, leadership: Leadership) -> None:
    """Add the routes for drivers."""

    def applications() -> ApplicationDoor:
        return leadership.leader().applications

    @app.post("/v1/applications", status_code=201)
    def register(request: Request, asked: ApplicationBody) -> RegisteredBody:
        """Register a running driver and request executors; when the answer is 201, its job is on disk."""
        admit = permit_of(request).admit
        return carried(RegisteredBody, applications().register(_registration(asked), admit))

    @app.put("/v1/applications/{job_id}")
    def attach(job_id: JobName, asked: ApplicationBody, key: Key = None) -> RegisteredBody:
        """Report the location of a driver that has its job's key."""
        found = applications().attach(job_id, bearer(key), _registration(asked))
        return carried(RegisteredBody, found)

    @app.put("/v1/applications/{job_id}/executors")
    def ask(job_id: JobName, totals: WantedBody, key: Key = None) -> GrantedBody:
        """Set the total number of executors that a driver requests now."""
        return GrantedBody(reason=applications().ask(job_id, bearer(key), totals.profiles))

    @app.post("/v1/applications/{job_id}/release")
    def release(job_id: JobName, given: ReleaseBody, key: Key = None) -> DoneBody:
        """Release executors: they end, and are replaced only on request."""
        applications().release(job_id, bearer(key), given.numbers)
        return DoneBody()

    @app.post("/v1/applications/{job_id}/heartbeat")
    def heartbeat(job_id: JobName, _: NothingBody, key: Key = None) -> OrdersBody:
        """Report that a driver is alive, and return its orders."""
        orders = applications().heartbeat(job_id, bearer(key))
        lost = [LostBody(number=number, reason=reason) for number, reason in orders.lost]
        return carried(OrdersBody, orders, lost=lost, decommission=list(orders.decommission))

    @app.delete("/v1/applications/{job_id}")
    def leave(job_id: JobName, goodbye: GoodbyeBody, key: Key = None) -> DoneBody:
        """Report the end of a driver; its executors are ended."""
        applications().leave(job_id, bearer(key), goodbye)
        return DoneBody()

    @app.get("/v1/spark")
    def sparks() -> SparksBody:
        """List the available Spark versions, each with the path of its jar for masters like spark+stoker://HOST:PORT."""
        driver_host, served = applications().sparks()
        default = served[0].name if served else None
        found = [carried(SparkBody, one, jar=f"/v1/spark/{one.name}/stoker-backend.jar") for one in served]
        return SparksBody(default=default, driver_host=driver_host, sparks=found)

    @app.get("/v1/spark/{name}/stoker-backend.jar", response_class=FileResponse)
    def jar(
        name: Annotated[str, Path(max_length=64, description="A served Spark version, such as 4.3.")],
    ) -> Any:
        """Return the jar that lets Spark use spark+stoker://HOST:PORT, compiled if it is missing."""
        return FileResponse(applications().jar(name), media_type="application/java-archive")


def _registration(asked: ApplicationBody) -> Registration:
    return carried(Registration, asked, asked.driver)


def bearer(header: str | None) -> str | None:
    """The key in a header Authorization."""
    scheme, _, key = (header or "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else None
