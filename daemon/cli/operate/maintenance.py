"""The commands that maintain a daemon's store and data folder: `backup`, `restore`, `doctor`, `prune`.

They access the store and the data folder directly, as the user that runs the daemon. All but `restore` and
`doctor --repair` may run beside it.
"""

import contextlib
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from stoker.characters import visible

from daemon.cli.shared.daemon_config import (
    ConfigFile,
    Settings,
    data_dir_of,
    read_config,
    sqlite_file_of,
    url_of,
)
from daemon.cli.shared.errors import CommandError, naming
from daemon.cli.shared.options import Ca, Output, TokenFile, notice, print_json

if TYPE_CHECKING:
    from daemon.maintenance.doctor_report import DoctorReport

_PG_DUMP = "use its own tools: pg_dump --format=custom --file=FILE DATABASE"
_PG_RESTORE = "use its own tools: pg_restore --clean --dbname=DATABASE FILE, while no daemon runs"
#: Seconds between two lines of progress.
_TELL = 2.0


def backup(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="The backup file to write.", show_default=False)
    ],
    config: ConfigFile = None,
    settings: Settings = None,
    force: Annotated[bool, typer.Option("--force", help="Replace FILE if it exists.")] = False,
    output: Output = "table",
) -> None:
    """Copy the job store to a file and check the copy; the daemon may run.

    Example: stoker backup stoker.backup
    """
    from daemon.maintenance.backup import back_up

    loaded, _ = read_config(config, settings)
    store = sqlite_file_of(loaded, data_dir_of(loaded), _PG_DUMP)
    tell = _progress("copied")
    copied = back_up(
        store,
        file,
        replace=force,
        progress=lambda done, total: tell(f"{done >> 20} of {total >> 20} MiB"),
    )
    if output == "json":
        print_json({"file": str(file), "jobs": copied.jobs, "schema": copied.schema, "bytes": copied.size})
    else:
        print(f"{file}: {_jobs(copied.jobs)}, {copied.size} bytes, checked.")


def restore(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file made by `stoker backup`.")],
    config: ConfigFile = None,
    settings: Settings = None,
    output: Output = "table",
) -> None:
    """Replace the job store with a backup, while no daemon runs; the old store is kept beside it.

    Example: stoker restore stoker.backup
    """
    from daemon.maintenance.backup import restore as put_back

    loaded, _ = read_config(config, settings)
    data_dir = data_dir_of(loaded)
    store = sqlite_file_of(loaded, data_dir, _PG_RESTORE)
    copied, aside = put_back(file, store, data_dir)
    if output == "json":
        kept = None if aside is None else str(aside)
        print_json({"store": str(store), "jobs": copied.jobs, "schema": copied.schema, "kept": kept})
        return
    print(f"{store}: {_jobs(copied.jobs)}.")
    if aside is not None:
        print(f"The previous data is now {aside}; remove it when all is well.")


def doctor(
    config: ConfigFile = None,
    settings: Settings = None,
    repair: Annotated[
        bool, typer.Option("--repair", help="Repair the faults that can be repaired; stop the daemon first.")
    ] = False,
    url: Annotated[
        str | None,
        typer.Option("--url", envvar="STOKER_URL", help="URL of a daemon to check as well."),
    ] = None,
    token_file: TokenFile = None,
    ca: Ca = None,
    output: Output = "table",
) -> int:
    """Check job store, data folder, Spark installations and provider of VMs; 1 when something is wrong.

    With --url or STOKER_URL it also checks that daemon; without a data folder here, only the daemon.

    Example: stoker doctor --config stoker.yaml
    """
    import os

    from daemon.cli.operate.daemon_check import look_at_daemon
    from daemon.maintenance.doctor import Doctor
    from daemon.maintenance.doctor_report import DoctorReport
    from daemon.maintenance.host_checks import look_at_sparks
    from daemon.maintenance.user_checks import look_at_users
    from daemon.substrate.provider_setup import foreign_provider, place_of
    from framework.spark import SparkHomes

    loaded, folder = read_config(config, settings)
    url = (url or "").strip()
    if url and config is None and not Path(loaded.data_dir).expanduser().is_dir():
        there = DoctorReport()
        look_at_daemon(there, url, token_file, ca)
        return _told(there, output)
    data_dir = data_dir_of(loaded)
    options = loaded.provider
    tell = _progress("looked at")
    examination = Doctor(
        url_of(loaded, data_dir),
        data_dir,
        repair=repair,
        progress=lambda check, number: tell(f"{check}: {number}" if number else check),
        provider=(
            None
            if options is None or options.name == "embedded"
            else lambda: foreign_provider(loaded, options, folder)
        ),
        place=place_of(options),
    )
    try:
        report = examination.examine()
        look_at_sparks(report, SparkHomes(loaded.spark, os.environ))
        look_at_users(report, loaded, folder, url_of(loaded, data_dir))
        if url:
            look_at_daemon(report, url, token_file, ca)
    except OSError as error:
        raise CommandError(str(error)) from None
    return _told(report, output)


def _told(report: "DoctorReport", output: str) -> int:
    """Print a report; the exit code."""
    from dataclasses import asdict

    if output == "json":
        print_json({"well": report.well, **asdict(report)})
        return 0 if report.well else 1
    for finding in report.findings:
        print(visible(f"{finding.check}: {finding.what}"))
        print(visible(f"  {'mended' if finding.mended else finding.advice}"))
    looked_at = ", ".join(f"{check.replace('_', ' ')} {number}" for check, number in report.looked_at.items())
    left = sum(not finding.mended for finding in report.findings)
    print(f"Looked at: {looked_at}.")
    print("All is well." if report.well else f"{left} left to be mended.")
    return 0 if report.well else 1


def prune(
    config: ConfigFile = None,
    settings: Settings = None,
    older_than: Annotated[
        str | None,
        typer.Option("--older-than", metavar="AGE", help="Remove jobs that ended longer ago: 30d, 12h."),
    ] = None,
    keep: Annotated[
        int | None,
        typer.Option("--keep", metavar="N", min=0, help="Keep N ended jobs, and remove the older ones."),
    ] = None,
    size: Annotated[
        str | None,
        typer.Option("--size", metavar="SIZE", help="Keep ended jobs up to this size in total: 500m, 10g."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help=("Only list the jobs that would be deleted."))
    ] = False,
    output: Output = "table",
) -> None:
    """Remove finished jobs with folders, logs, explanations and unused uploads.

    Running and waiting jobs are not touched. Without an option, the config's `retention` decides.

    Example: stoker prune --older-than 30d --dry-run
    """
    from conf.schema import Retention
    from daemon.disk.uploads import Uploads
    from daemon.maintenance.pruning import Pruner, PruningResult, prune_all
    from daemon.store.job_store import Store

    loaded, _ = read_config(config, settings)
    data_dir = data_dir_of(loaded)
    rules, uploads = loaded.retention, Uploads(data_dir / "uploads", loaded.uploads)
    if older_than is not None or keep is not None or size is not None:
        rules = Retention(age=_days(older_than), jobs=keep, size=_mebibytes(size))
    if url_of(loaded, data_dir).startswith("sqlite") and not sqlite_file_of(loaded, data_dir, "").exists():
        raise CommandError(f"{data_dir}: holds no job store (stoker.db) of a daemon")
    tell = _progress("removed")
    with contextlib.closing(Store(url_of(loaded, data_dir))) as store:
        pruner = Pruner(store, data_dir, rules)
        if dry_run:
            while pruner.measure():
                tell("nothing yet: folders are measured")
            found = [job for part in pruner.due(time.time(), page_size=1000) for job in part]
            pruned = PruningResult(len(found), sum(job.size or 0 for job in found))
        else:
            pruned = prune_all(pruner, time.time(), lambda so_far: tell(_jobs(so_far.jobs)))
        files, size_of_files = uploads.sweep(
            store.jobs.open.uploads_needed, _days(older_than), dry_run=dry_run
        )
        kept = store.jobs.ended.kept().jobs - (pruned.jobs if dry_run else 0)
    for trouble in pruned.troubles[:20]:
        notice(f"not removed: {trouble}")
    if output == "json":
        answer = {"jobs": pruned.jobs, "bytes": pruned.size, "dry_run": dry_run, "kept": kept}
        answer |= {"files": files, "file_bytes": size_of_files}
        print_json({**answer, "troubles": list(pruned.troubles)})
        return

    def gone(number: int) -> str:
        return "would go" if dry_run else "is gone" if number == 1 else "are gone"

    over, are = ("that is over", "is") if kept == 1 else ("that are over", "are")
    stay = "would be kept" if dry_run else f"{are} kept"
    print(f"{_jobs(pruned.jobs)} {gone(pruned.jobs)}; {kept} {over} {stay}.")
    if files:
        called = "1 uploaded file" if files == 1 else f"{files} uploaded files"
        print(f"{called} ({size_of_files >> 20} MiB) that no job needs {gone(files)}.")


def _days(text: str | None) -> float | None:
    if text is None:
        return None
    number, unit = text[:-1], text[-1:]
    seconds = {"d": 86_400, "h": 3_600, "m": 60}.get(unit)
    try:
        days = float(number) * (seconds or 0) / 86_400
    except ValueError:
        days = 0.0
    if not 0 < days <= 36_500:
        raise CommandError(f"--older-than: should be like 30d, 12h or 90m, found {text!r}")
    return days


def _mebibytes(text: str | None) -> int | None:
    if text is None:
        return None
    from conf.units import memory_mib

    with naming("--size: "):
        return memory_mib(text)


def _progress(verb: str) -> Callable[[str], None]:
    """Tell on stderr how far it is, now and then, once it takes long."""
    told = time.monotonic()

    def tell(text: str) -> None:
        nonlocal told
        if time.monotonic() > told + _TELL:
            told = time.monotonic()
            print(f"{verb} {text} ...", file=sys.stderr)

    return tell


def _jobs(number: int) -> str:
    return "1 job" if number == 1 else f"{number} jobs"
