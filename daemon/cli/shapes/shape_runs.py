"""Runs for `stoker shapes`: tables, folders of profiles, data folders of daemons, Spark's event logs."""

import contextlib
from collections.abc import Sequence
from pathlib import Path

from conf.util.counted import counted
from daemon.cli.shared.errors import end_in_order
from daemon.cli.shared.options import notice
from daemon.cli.shared.progress import progress_bar
from profiles.shapes.runs import ShapeRun
from profiles.shapes.sources import of_measured, read_table, sized

_MIB = 1 << 20
#: Jobs of a daemon, the newest, that are read.
_JOBS = 5000
#: Files that were not read which are named.
_NAMED = 5


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
    from daemon.store.sqlite_schema import foreign_store
    from daemon.submission.ended_runs import FINISHED, shape_runs

    with contextlib.closing(foreign_store(data_dir / "stoker.db")) as store:
        return shape_runs(store.jobs, store.jobs.page(states=FINISHED, limit=_JOBS))[::-1]


def _of_logs(places: Sequence[str]) -> list[ShapeRun]:
    from audit.read_logs import read_logs
    from audit.shape_runs import shape_run

    end_in_order()
    with progress_bar() as progress:
        read = read_logs(
            places, None, lambda done, total, what: progress(done // _MIB, -(-total // _MIB), f"MiB, {what}")
        )
    found = [shape_run(each) for each in read.applications]
    runs = [run for run in found if run is not None]
    if read.unread:
        some = "; ".join(f"{each.name}: {each.why}" for each in read.unread[:_NAMED])
        more = f"; and {len(read.unread) - _NAMED} more" if len(read.unread) > _NAMED else ""
        notice(f"{counted(len(read.unread), 'file')} not read: {some}{more}")
    if len(runs) < len(found):
        left = f"{len(found) - len(runs)} of {counted(len(found), 'application')}"
        notice(f"{left} left out: cut off, or with executors that changed, were lost or have no known size")
    return sized(runs)
