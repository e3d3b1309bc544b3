"""The routes that receive files in parts, and that serve drivers elsewhere the files of their jobs.

`uploads.py` stores files; `disk/file_delivery.py` checks the keys.
"""

from typing import Annotated, Any
from urllib.parse import quote

from fastapi import FastAPI, Path, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool
from starlette.responses import FileResponse

from conf.schema.documented_model import DocumentedModel
from conf.uploaded_file import SHA256
from daemon.auth.permits import permit_of
from daemon.core.errors import RejectedError
from daemon.disk import file_delivery
from daemon.disk.uploads import Upload
from daemon.http.server.gate import FILES
from daemon.http.server.scheduler_interface import Leadership
from daemon.store.job_store import Store

#: Beyond the limit of any file system.
_LARGEST = 1 << 50

Sha256 = Annotated[str, Path(pattern=f"^{SHA256}$", description="The SHA-256 of the whole file, in hex.")]


class PartQuery(BaseModel):
    """Which part of a file the body is."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    size: Annotated[int, Field(ge=0, le=_LARGEST)]
    """Bytes of the whole file."""
    offset: Annotated[int, Field(ge=0, le=_LARGEST)] = 0
    """Offset of this part: the number of bytes already received."""


class UploadBody(DocumentedModel):
    """Status of a file that a client uploads."""

    model_config = ConfigDict(frozen=True)

    sha256: str
    """The SHA-256 of its content."""
    received: int
    """Bytes received so far, the offset of the next part."""
    complete: bool
    """Whether the whole file is stored with the right hash; jobs then refer to it by
    stoker-file:SHA256/NAME."""


def add_files(app: FastAPI, leadership: Leadership, store: Store) -> None:
    """Make the app answer under /v1/files and /v1/fetch."""
    binary: dict[str, Any] = {
        "requestBody": {
            "description": "The part: 1 MiB at most",
            "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
        }
    }
    some = {"model": UploadBody, "description": "The part is stored; others are missing"}
    known = {"model": UploadBody, "description": "The file existed already"}

    @app.get(FILES + "{sha256}")
    def upload(request: Request, sha256: Sha256) -> UploadBody:
        """Return the status of an upload; uploads of other users count as missing."""
        found = leadership.leader().uploads.status(sha256, permit_of(request).person.name)
        if found is None:
            raise RejectedError(404, "No such file", f"no part is stored of a file with the hash {sha256}")
        return _body(found)

    @app.put(FILES + "{sha256}", status_code=201, responses={200: known, 202: some}, openapi_extra=binary)
    async def put_upload(
        sha256: Sha256, query: Annotated[PartQuery, Query()], request: Request, response: Response
    ) -> UploadBody:
        """Send the next part of a file; 201: the file is complete and on disk."""
        data, user = await request.body(), permit_of(request).person.name

        def put() -> tuple[bool, Upload]:
            uploads = leadership.leader().uploads
            before = uploads.status(sha256, user)
            put = uploads.put(sha256, query.size, query.offset, data, user)
            return before is not None and before.complete, put

        known_before, found = await run_in_threadpool(put)
        response.status_code = 200 if known_before else 201 if found.complete else 202
        return _body(found)

    @app.get(file_delivery.PATH + "{job_id}/{key}/{name}", include_in_schema=False)
    def fetch(job_id: str, key: str, name: str) -> Response:
        """Give a file to a driver of the job, which is known by the key."""
        record = store.jobs.get(job_id)
        found = None if record is None else leadership.leader().handed(record, key)
        if found is None or found[1] != name:
            raise RejectedError(404, "No such file", "no job uses this file, or no longer")
        quoted = quote(found[1], safe="")
        headers = {
            "Content-Disposition": f"attachment; filename*=UTF-8''{quoted}",
            "X-Content-Type-Options": "nosniff",
        }
        return FileResponse(found[0], headers=headers, media_type="application/octet-stream")


def _body(upload: Upload) -> UploadBody:
    return UploadBody(sha256=upload.sha256, received=upload.received, complete=upload.complete)
