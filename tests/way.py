"""Through which files a job passes, from the request that submits it to the call that launches it.

`python -m tests.way` has a daemon launch one plain job on an embedded Mesos, and prints every file that has a
function which had the job in one of its forms, in the order in which that was first so. Forms are the values
that it becomes one after the other. Their carriers (lists, events, commands) count as their contents.
Methods of the forms themselves do not count, nor does anything after the call to the master.

Each file does one of three things with the job, the first of these that any of its functions does:

* It *moves* it: a function of it gives the job back to its caller, in any form; or it had the job and
  is on the stack at a step of the way. Steps are: a form, or its carrier, is made; a form becomes a row;
  an event of it is put into the inbox; a record is put into the job registry; a process is written as
  Mesos' JSON; the master is told.
* It is *asked*: it is given the job, and answers something that is not the job (a verdict, a size, a share).
* It is *told*: it is given the job, and answers nothing (a log, an estimate, a feed of news).

Files *around* it are on the stack at a step and never had it in a variable.
"""

import contextlib
import sys
import tempfile
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import anyio
import httpx

from conf.schema import Config, JobSpec
from daemon.http.app import create_app
from daemon.http.app_options import AppOptions
from daemon.launch.launcher import Launcher
from daemon.scheduler.build import service_of
from daemon.scheduler.foundation import TermInputs
from daemon.store.job_store import Store
from environment.decisions.decision_round import Verdict
from environment.model.messages.commands import Launch
from environment.model.messages.events import Decided, JobSubmitted, Placement
from environment.model.messages.records import ExecutorRecord, JobRecord
from environment.types import Job, Place, PlacementRequest
from framework.mesos.master_link import MasterLink
from framework.mesos.session import SessionOptions
from framework.spark import ProcessSpec
from tests.daemon.small_scheduler import Leads
from tests.framework.embedded.running import running
from tests.waiting import until

REPOSITORY = Path(__file__).parents[1]
#: What a job becomes, in this order.
FORMS = (JobSpec, Job, JobRecord, PlacementRequest, Place, Placement, ExecutorRecord, ProcessSpec)
_CARRIERS = (JobSubmitted, Verdict, Decided, Launch)
#: Where a form is handed on without being made anew: as a row, to the loop, to the model, to Mesos.
_HANDED_ON = {
    ("daemon/store/rows/job_rows.py", "job_row"), ("daemon/store/rows/job_rows.py", "executor_row"),
    ("daemon/core/event_queue.py", "put"),
    ("environment/model/vms/job_registry.py", "add"), ("environment/model/vms/job_registry.py", "add_task"),
    ("framework/mesos/translate.py", "task_to_json"),
}  # fmt: skip
#: The call that tells the master.
_LAST = ("framework/mesos/master_link.py", "launch")


class Tracer:
    """Sees every call of a function, in all threads that begin while it looks."""

    def __init__(self) -> None:
        #: The files that had the job, and in which forms, in the order in which that was first so.
        self.found: dict[str, set[str]] = {}
        self.told = threading.Event()
        self._on_stack: dict[str, None] = {}
        self._returned: set[str] = set()
        self._answered: set[str] = set()

    def did(self) -> dict[str, str]:
        """Each file's part for the job: moves, asked, told or around."""
        doing = {}
        for file in self.found:
            moves = file in self._returned or file in self._on_stack
            doing[file] = "moves" if moves else "asked" if file in self._answered else "told"
        return doing | {file: "around" for file in self._on_stack if file not in self.found}

    def look(self, frame: FrameType, event: str, returned: object) -> None:
        """One call, or its end."""
        if event not in ("call", "return") or self.told.is_set():
            return
        code = frame.f_code
        if isinstance(frame.f_locals.get("self"), (*FORMS, *_CARRIERS)):
            if event == "call" and code.co_name == "__init__" and frame.f_back:
                self._step(frame.f_back)
            return
        file = _file(frame)
        if file is None or code.co_name.startswith("<"):
            return
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        given = {kind for name in names for kind in _forms(frame.f_locals.get(name))}
        if event == "call":
            self._had(file, given)
            if (file, code.co_name) == _LAST:
                self._step(frame)
                self.told.set()
            elif given and (file, code.co_name) in _HANDED_ON:
                self._step(frame)
        else:
            back = set(_forms(returned))
            self._had(file, back)
            if back:
                self._returned.add(file)
            elif given and returned is not None:
                self._answered.add(file)

    def _had(self, file: str, kinds: set[str]) -> None:
        if kinds:
            self.found.setdefault(file, set()).update(kinds)

    def _step(self, frame: FrameType | None) -> None:
        while frame is not None:
            if file := _file(frame):
                self._on_stack[file] = None
                self._had(file, {kind for value in list(frame.f_locals.values()) for kind in _forms(value)})
            frame = frame.f_back


def _file(frame: FrameType) -> str | None:
    path = Path(frame.f_code.co_filename)
    if not path.is_relative_to(REPOSITORY) or path.relative_to(REPOSITORY).parts[0] in ("tests", ".venv"):
        return None
    return str(path.relative_to(REPOSITORY))


def _forms(value: Any, deep: int = 2) -> Iterator[str]:
    if isinstance(value, (*FORMS, *_CARRIERS)):
        yield type(value).__name__
    elif deep and isinstance(value, list | tuple) and value:
        yield from _forms(value[0], deep - 1)


def trace(folder: Path) -> Tracer:
    """The files, and in which forms each had the job."""
    tracer = Tracer()
    url = f"sqlite:///{folder / 'stoker.db'}"
    with running(folder / "mesos") as mesos, contextlib.closing(Store(url)) as store:
        app = REPOSITORY / "profiles/apps/wordcount.py"
        spark = {"default": "4.3", "versions": {"4.3": {"home": "/opt/spark", "version": "4.3.0"}}}
        config = Config.model_validate({"data_dir": str(folder), "spark": spark})
        threading.setprofile(tracer.look)
        service = service_of(TermInputs(
            config, store, Launcher(config, folder, "127.0.0.1"),
            partial(MasterLink, SessionOptions(master=mesos.address, user="root")), data_dir=folder,
        ))  # fmt: skip
        loop = threading.Thread(target=service.run)
        loop.start()
        try:
            until(lambda: service.health().ready, "it schedules")
            anyio.run(
                _submit,
                create_app(Leads(service), store, AppOptions(token=None, version="0")),
                str(app),
                tracer,
            )
            until(tracer.told.is_set, "the master is told")
        finally:
            threading.setprofile(None)
            service.stop()
            loop.join()
    return tracer


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
        traced = trace(Path(name))
    doing = traced.did()
    for number, (file, does) in enumerate(doing.items(), 1):
        print(f"{number:3} {file:45} {does:6} {', '.join(sorted(traced.found.get(file, ())))}")
    forms = set().union(*traced.found.values()) & {form.__name__ for form in FORMS}
    counts = [f"{list(doing.values()).count(does)} {does}" for does in ("moves", "asked", "told", "around")]
    print(f"{len(traced.found)} files had the job, in {len(forms)} forms: {', '.join(counts)}")
