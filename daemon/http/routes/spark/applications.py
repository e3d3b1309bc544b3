"""The routes by which a Spark driver asks for executors, and fetches the jar that does.

A driver registers with the API's token, and then authenticates for its job with the key from that answer.
`submission/applications.py` makes the answers; the driver's side is
`framework/spark/install/StokerBackend.scala`.
"""

from typing import TYPE_CHECKING, Annotated, Any

from fastapi import FastAPI, Header, Path, Request
from fastapi.responses import FileResponse

from daemon.auth.permits import permit_of
from daemon.http.server.scheduler_interface import Leadership
from daemon.schemas.applications import (
    ApplicationBody,
    DoneBody,
    GoodbyeBody,
    GrantedBody,
    NothingBody,
    OrdersBody,
    RegisteredBody,
    ReleaseBody,
    SparkBody,
    SparksBody,
    WantedBody,
)

if TYPE_CHECKING:
    from daemon.submission.applications import Applications

JobName = Annotated[str, Path(description="The job's id, such as job-17.", max_length=40)]
Key = Annotated[
    str | None,
    Header(alias="authorization", description="`Bearer KEY`: the application's key."),
]


def add_applications(app: FastAPI, leadership: Leadership) -> None:
    """Add the routes for drivers."""

    def applications() -> "Applications":
        return leadership.leader().applications

    @app.post("/v1/applications", status_code=201)
    def register(request: Request, asked: ApplicationBody) -> RegisteredBody:
        """Register a running driver and request executors; when the answer is 201, its job is on disk."""
        return applications().register(asked, permit_of(request).admit)

    @app.put("/v1/applications/{job_id}")
    def attach(job_id: JobName, asked: ApplicationBody, key: Key = None) -> RegisteredBody:
        """Report the location of a driver that has its job's key."""
        return applications().attach(job_id, bearer(key), asked)

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
        return applications().heartbeat(job_id, bearer(key))

    @app.delete("/v1/applications/{job_id}")
    def leave(job_id: JobName, goodbye: GoodbyeBody, key: Key = None) -> DoneBody:
        """Report the end of a driver; its executors are ended."""
        applications().leave(job_id, bearer(key), goodbye)
        return DoneBody()

    @app.get("/v1/spark")
    def sparks() -> SparksBody:
        """List the available Spark versions, each with the path of its jar for masters like spark+stoker://HOST:PORT."""
        driver_host, served = applications().sparks()
        found = [
            SparkBody(name=name, version=version, jar=f"/v1/spark/{name}/stoker-backend.jar")
            for name, version in served.items()
        ]
        return SparksBody(default=next(iter(served), None), driver_host=driver_host, sparks=found)

    @app.get("/v1/spark/{name}/stoker-backend.jar", response_class=FileResponse)
    def jar(
        name: Annotated[str, Path(max_length=64, description="A served Spark version, such as 4.3.")],
    ) -> Any:
        """Return the jar that lets Spark use spark+stoker://HOST:PORT, compiled if it is missing."""
        return FileResponse(applications().jar(name), media_type="application/java-archive")


def bearer(header: str | None) -> str | None:
    """The key in a header Authorization."""
    scheme, _, key = (header or "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else None
