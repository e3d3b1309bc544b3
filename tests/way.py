"""Through which files a job passes, from the request that submits it to the call that launches it.

`python -m tests.way` has a daemon launch one plain job on an embedded Mesos, and prints every file that has a
function which was given the job in one of its forms, in the order in which that was first so. Forms are what
it becomes one after the other. What carries them (lists, events, commands) counts as what is in it.
Methods of the forms themselves do not count, nor does what happens once the master was told.
"""

import contextlib
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import anyio
import httpx

from conf.schema import Config, JobSpec
from daemon.api import create_app
from daemon.launcher import Launcher
from daemon.service import Service
from daemon.store import Store
from environment.model.commands import Launch
from environment.model.events import Decided, JobSubmitted, Placement
from environment.model.records import ExecutorRecord, JobRecord
from environment.rounds import Verdict
from environment.types import Job, Place, PlacementRequest
from framework.session import SessionOptions
from framework.spark import ProcessSpec
from tests.framework.embedded.running import running
from tests.waiting import until

REPOSITORY = Path(__file__).parents[1]
#: What a job becomes, in this order.
FORMS = (JobSpec, Job, JobRecord, PlacementRequest, Place, Placement, ExecutorRecord, ProcessSpec)
_CARRIERS = (JobSubmitted, Verdict, Decided, Launch)


class Tracer:
    """Sees every call of a function, in all threads that begin while it looks."""

    def __init__(self) -> None:
        self.found: dict[str, set[str]] = {}
        self.told = threading.Event()

    def look(self, frame: FrameType, event: str, returned: object) -> None:
        """One call, or its end."""
        if event not in ("call", "return") or self.told.is_set():
            return
        path, code = Path(frame.f_code.co_filename), frame.f_code
        if not path.is_relative_to(REPOSITORY) or path.relative_to(REPOSITORY).parts[0] in ("tests", ".venv"):
            return
        if code.co_name == "launch" and path.name == "link.py":
            self.told.set()
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        if code.co_name.startswith("<") or isinstance(frame.f_locals.get("self"), (*FORMS, *_CARRIERS)):
            return
        given = [frame.f_locals.get(name) for name in names] if event == "call" else [returned]
        if kinds := {kind for value in given for kind in _forms(value)}:
            self.found.setdefault(str(path.relative_to(REPOSITORY)), set()).update(kinds)


def _forms(value: Any, deep: int = 2) -> Iterator[str]:
    if isinstance(value, (*FORMS, *_CARRIERS)):
        yield type(value).__name__
    elif deep and isinstance(value, list | tuple) and value:
        yield from _forms(value[0], deep - 1)


def trace(folder: Path) -> dict[str, set[str]]:
    """The files, and in which forms each had the job."""
    tracer = Tracer()
    url = f"sqlite:///{folder / 'stoker.db'}"
    with running(folder / "mesos") as mesos, contextlib.closing(Store(url)) as store:
        app = REPOSITORY / "profiles/apps/wordcount.py"
        spark = {"default": "4.3", "versions": {"4.3": {"home": "/opt/spark", "version": "4.3.0"}}}
        config = Config.model_validate({"data_dir": str(folder), "spark": spark})
        threading.setprofile(tracer.look)
        service = Service(
            config, store, Launcher(config, folder, "127.0.0.1"),
            SessionOptions(master=mesos.address, user="root"), data_dir=folder,
        )  # fmt: skip
        loop = threading.Thread(target=service.run)
        loop.start()
        try:
            until(lambda: service.health().ready, "it schedules")
            anyio.run(_submit, create_app(service, store, token=None, version="0"), str(app), tracer)
            until(tracer.told.is_set, "the master is told")
        finally:
            threading.setprofile(None)
            service.stop()
            loop.join()
    return tracer.found


async def _submit(app: Any, path: str, tracer: Tracer) -> None:
    sys.setprofile(tracer.look)
    try:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost:8642") as client:
            spec = {"app": path, "executors": 2, "cpus": 1, "memory": 1024, "driver": {"on": "cluster"}}
            answer = await client.post("/v1/jobs", json=spec)
            assert answer.status_code == 201, answer.text
    finally:
        sys.setprofile(None)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        passed = trace(Path(name))
    for number, (file, forms) in enumerate(passed.items(), 1):
        print(f"{number:3} {file:45} {', '.join(sorted(forms))}")
