"""The doctor's checks beside jobs and users: facts, data folder, provider of VMs, Spark installations.

`doctor.py` checks the rows of jobs, `user_checks.py` the users.
"""

import contextlib
import itertools
import os
import stat
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path

import sqlalchemy as sa

from conf.loader import ConfigError
from conf.util.counted import counted
from conf.util.regular_file import open_regular
from daemon.core import job_ids
from daemon.disk.job_folders import Folders
from daemon.maintenance.doctor_report import DoctorFinding, DoctorReport, Examination
from daemon.store.facts import OBJECTS, decoded, fact_values
from daemon.store.rows import bill
from daemon.store.rows.database import Database
from daemon.store.rows.tables import facts, leases
from daemon.vms.provider_guard import FACT, differ, told
from environment.model.event_log import decode
from environment.model.messages.lease import ENDED_LEASE
from framework.providers.interface import Provider, ProviderError
from framework.spark import SparkHomes

#: Bytes of a line of an event log: the first has all jobs that were open. Chosen: more than a million have.
_LONGEST_LINE = 1 << 30


def look_at_facts(exam: Examination, database: Database) -> None:
    """Whether the facts can be read that a daemon reads at its start; others can be removed."""
    with database.read() as connection:
        query = sa.select(facts.c.key, facts.c.value).where(facts.c.key.in_(OBJECTS))
        known = connection.execute(query.order_by(facts.c.key)).all()
    exam.count("facts", len(known))
    damaged: dict[str, str] = {}
    for key, value in known:
        try:
            decoded(value)
        except ValueError as error:
            damaged[key] = f"the fact {key!r} cannot be read: {error}"
    if damaged:
        advice = "`stoker doctor --repair` removes it; a daemon goes on without it"
        forget = sa.delete(facts).where(facts.c.key.in_(damaged))
        mended = exam.mend(lambda: database.write(lambda connection: connection.execute(forget)))
        exam.find_all("facts", list(damaged.values()), advice, mended)


def look_at_folders(exam: Examination, known: set[int]) -> None:
    """Whether every job's folder is that of a known one, by number; those of others can be moved aside."""
    names = list(dict.fromkeys(Folders(exam.data_dir).jobs()))
    exam.count("folders", len(names))
    newest = max(known, default=0)
    # A job that was submitted since its row was looked for is newer than all.
    strange = [
        name for name in names if (n := job_ids.job_number(name)) is None or (n not in known and n <= newest)
    ]
    if strange:
        advice = f"`stoker doctor --repair` moves it to {exam.data_dir / 'lost'}"
        what = [f"{name}: a folder of a job that is not in the store" for name in strange]
        exam.find_all("folders", what, advice, exam.mend(lambda: _move(exam.data_dir, strange)))


def _move(data_dir: Path, names: Iterable[str]) -> None:
    """Move folders to `lost`, by descriptors: a link in a stranger's data folder leads nowhere; OSError."""
    with contextlib.suppress(FileExistsError):
        (data_dir / "lost").mkdir(mode=0o700)
    with contextlib.ExitStack() as opened:

        def open_folder(kind: str) -> int:
            found = os.open(data_dir / kind, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            opened.callback(os.close, found)
            return found

        lost = open_folder("lost")
        for kind in ("jobs", "records"):
            try:
                source = open_folder(kind)
            except FileNotFoundError:
                continue
            for name in names:
                with contextlib.suppress(FileNotFoundError):
                    os.rename(name, f"{kind}-{name}-{time.time_ns()}", src_dir_fd=source, dst_dir_fd=lost)


def look_at_permissions(exam: Examination) -> None:
    """Check whether other users may read or write files with secrets."""
    private = [exam.data_dir, *exam.data_dir.glob("stoker.db*"), *exam.data_dir.glob("events*.jsonl")]
    exam.count("permissions", len(private))
    for path in private:
        status = path.lstat()
        mode = stat.S_IMODE(status.st_mode)
        # A folder may be passed: the folders of jobs that run as another user are below it.
        open_to_others = 0o011 if stat.S_ISDIR(status.st_mode) else 0
        if status.st_uid != os.getuid():
            what = f"{path} belongs to user {status.st_uid}, this is user {os.getuid()}"
            exam.find("permissions", what, "run `stoker` as the daemon's user, or chown it")
        elif mode & 0o077 & ~open_to_others and _is_of_one_name(status):
            what = f"{path} may be read or written by others (mode {mode:o}): jobs hold secrets"
            mended = exam.mend(partial(path.chmod, mode & (0o700 | open_to_others)))
            advice = f"chmod {'go-rw' if open_to_others else 'go='} {path}"
            exam.find("permissions", what, advice, mended)


def _is_of_one_name(status: os.stat_result) -> bool:
    """Whether it is a folder, or a file that has no other name, elsewhere."""
    return stat.S_ISDIR(status.st_mode) or (stat.S_ISREG(status.st_mode) and status.st_nlink == 1)


def look_at_event_logs(exam: Examination) -> None:
    """Whether every event that was logged can be read."""
    for path in sorted(exam.data_dir.glob("events*.jsonl")):
        exam.progress(path.name, 0)
        try:
            _look_at_events(exam, path)
        except (OSError, ValueError) as error:
            what = f"{path} cannot be read: {getattr(error, 'strerror', None) or error}"
            exam.find("event log", what, f"remove {path} unless you need it: no daemon reads it")


def _look_at_events(exam: Examination, path: Path) -> None:
    """Look at one log, which somebody else may have replaced by anything; OSError, ValueError."""
    with os.fdopen(open_regular(path), "rb") as file:
        for number in itertools.count(1):
            line = file.readline(_LONGEST_LINE)
            if len(line) == _LONGEST_LINE:
                raise ValueError(f"line {number} has more than {_LONGEST_LINE >> 20} MiB")
            if not line.endswith(b"\n"):
                return  # it ends here, or this is being written just now
            exam.count("event log")
            try:
                decode(line.decode("ascii"))
            except (ValueError, RecursionError) as error:
                what = f"{path}, line {number}: {str(error).splitlines()[0]}"
                advice = f"it does not replay; remove {path} unless you need it: no daemon reads it"
                exam.find("event log", what, advice)
                return


def look_at_provider(exam: Examination, provider: Callable[[], Provider] | None) -> None:
    """Check that the provider lists its VMs; the daemon handles those."""
    if provider is None:
        return
    exam.progress("VMs of the provider", 0)
    try:
        exam.count("VMs of the provider", len(provider().list()))
    except (ConfigError, ProviderError) as error:
        advice = "until it does, no VM is opened, and none that is open is known to be closed"
        exam.find("provider", f"it does not list its VMs: {error}", advice)


def look_at_bill(exam: Examination, database: Database) -> None:
    """Check that the tables of the bill have the same dollars."""
    exam.progress("bill", 0)
    with database.read() as connection:
        found = bill.disagreements(connection)
    exam.count("bill")
    advice = "compare with your cloud's bill; a backup of before the change has the right dollars"
    exam.find_all("bill", [f"dollars of {each}" for each in found], advice)


def look_at_place(exam: Examination, database: Database, here: Mapping[str, str]) -> None:
    """Check that VMs that may be open are at the place that the config names; repair forgets another one."""
    exam.count("place of the VMs")
    with database.read() as connection:
        text = connection.scalar(sa.select(facts.c.value).where(facts.c.key == FACT))
        number = connection.scalar(
            sa.select(sa.func.count()).select_from(leases).where(leases.c.state.not_in(sorted(ENDED_LEASE)))
        )
    before = {key: str(value) for key, value in fact_values(FACT, text).items()}
    if number and before and differ(before, here):
        what = f"{counted(number, 'VM')} may be open at {told(before)}, and the config has {told(here)}"
        advice = "set `provider` back; if they are gone, `stoker doctor --repair` forgets the earlier place"
        delete = sa.delete(facts).where(facts.c.key == FACT)
        exam.find("provider", what, advice, exam.mend(lambda: database.write(lambda c: c.execute(delete))))


def look_at_sparks(report: DoctorReport, homes: SparkHomes) -> None:
    """Add to a report the configured Spark installations that do not match the config."""
    names = homes.names()
    report.looked_at["Sparks"] = len(names)
    if homes.default not in names:
        what = f"the default, {homes.default}, is not available; available are {homes.served()}"
        report.findings.append(DoctorFinding("Sparks", what, f"fetch it: `stoker spark add {homes.default}`"))
    for name in names:
        if why := _is_wrong(homes, name):
            report.findings.append(DoctorFinding("Sparks", why, "`stoker spark list` shows them all"))


def _is_wrong(homes: SparkHomes, name: str) -> str:
    """Fault of a Spark installation on this host; those on the VMs alone are not checked."""
    try:
        homes.here(name)
    except ValueError as error:
        with contextlib.suppress(ValueError):
            return str(error) if Path(homes.there(name).home).is_dir() else ""
        return str(error)
    return ""
