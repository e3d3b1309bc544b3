"""Runs for `stoker shapes`: tables, folders of profiles, data folders of daemons, Spark's event logs."""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from daemon.cli.shared.progress import progress_bar
from profiles.shapes.runs import JobShape, ShapeRun
from profiles.shapes.sources import UNPRICED, UnsizedRun, of_measured, read_table, sized

if TYPE_CHECKING:
    from audit.applications import LoggedApplication

_MIB = 1 << 20
#: Jobs of a daemon, the newest, that are read.
_JOBS = 5000
#: GiB of input below which it tells nothing of the work: Spark does not count every source.
_LEAST_INPUT = 0.01


def read_places(places: Sequence[str]) -> list[ShapeRun]:
    """All runs of these places; Shape-, Profile-, Store- or LogsError where one cannot be used."""
    found, logs = list[ShapeRun](), list[str]()
    for place in places:
        path = Path(place)
        if path.suffix == ".csv":
            found += read_table(path)
        elif (path / "runs.parquet").is_file():
            from profiles.runs import read_runs

            found += of_measured(read_runs(path))
        elif (path / "stoker.db").is_file():
            found += _of_daemon(path)
        else:
            logs.append(place)
    if logs:
        found += _of_logs(logs)
    return found


def _of_daemon(data_dir: Path) -> list[ShapeRun]:
    from daemon.store.job_store import Store
    from daemon.submission.shapes import FINISHED, shape_runs

    with contextlib.closing(Store(f"sqlite:///{(data_dir / 'stoker.db').absolute()}")) as store:
        return shape_runs(store.jobs, store.jobs.page(states=FINISHED, limit=_JOBS))[::-1]


def _of_logs(places: Sequence[str]) -> list[ShapeRun]:
    from audit.read_logs import read_logs

    with progress_bar() as progress:
        read = read_logs(
            places, None, lambda done, total, what: progress(done // _MIB, -(-total // _MIB), f"MiB, {what}")
        )
    return sized(run for application in read.applications for run in _of_application(application))


def _of_application(application: "LoggedApplication") -> Iterator[UnsizedRun]:
    """The application's run; nothing where its executors changed, as then it has no one shape."""
    from audit.names import type_of

    executors = [each for each in application.executors if each.id != "driver" and each.seconds > 0]
    if not executors or application.dynamic or application.cut_short or any(each.lost for each in executors):
        return
    sizes = {(each.cores, each.memory_mib) for each in executors}
    cores, memory_mib = next(iter(sizes))
    if len(sizes) > 1 or not (cores > 0 and memory_mib > 0) or application.seconds <= 0:
        return
    name, gib = type_of(application.name), application.input_mib / 1024
    shape = JobShape("", len(executors), cores, memory_mib / 1024, UNPRICED)
    yield UnsizedRun(name, gib if gib >= _LEAST_INPUT else None, shape, application.seconds)
