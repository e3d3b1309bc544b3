"""Route on which a pool VM reports its termination; `vms/termination_endpoint.py` checks its key."""

from typing import Annotated, Literal

from fastapi import FastAPI, Path
from pydantic import AwareDatetime, Field
from stoker.characters import LONGEST_NAME

from daemon.http.routes.spark.applications import Key, bearer
from daemon.http.server.scheduler_interface import Leadership
from daemon.schemas.applications import DoneBody, DriverMessage
from framework.providers.interface import VMS

LeaseName = Annotated[str, Path(description="The VM's lease.", max_length=2 * LONGEST_NAME)]


class NoticeBody(DriverMessage):
    """A cloud's notice that it takes a VM away, in the format of EC2's metadata at spot/instance-action."""

    action: Literal["terminate", "stop", "hibernate"]
    """The change."""
    time: Annotated[AwareDatetime, Field(strict=False)]
    """Time, seconds since the epoch."""


def add_vms(app: FastAPI, leadership: Leadership) -> None:
    """Add it."""

    @app.post(f"{VMS}{{lease:path}}/notice", status_code=202)
    def notice(lease: LeaseName, told: NoticeBody, key: Key = None) -> DoneBody:
        """Report that a VM is taken away; 202: the notice is on disk, and the VM is drained."""
        why = f"its cloud is going to {told.action} it"
        leadership.leader().vms.notice(lease, bearer(key), told.time.timestamp(), why)
        return DoneBody()
