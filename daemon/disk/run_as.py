"""The account that runs jobs on the daemon's host, and the files that they may name.

With root, jobs run as another user if one exists, and that user cannot read the daemon's files. All of the
daemon's files are closed to others then, except the path to the jobs' folders.
"""

import getpass
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

import structlog

from conf.loader import ConfigError
from conf.schema import Config
from daemon.core.errors import RejectedError
from framework.host.unix_users import UnixAccount, cannot, find_account
from framework.host.user_files import NoThreadError, OpenFile, UserFiles, has_rights_of, opened, placed
from framework.task_folders import substrate_folder

log = structlog.get_logger("rights")

#: The users that run jobs when root's daemon has `auto`: the first of these that exists.
PREFERRED = ("stoker-jobs", "nobody")
#: The kernel's information about processes, the daemon's environment and memory among it.
_KERNEL = (Path("/proc"), Path("/sys"))
#: Mode of folders that others may pass through, and not list, on the way to a job's own folder.
_PASSAGE = 0o711


@dataclass(frozen=True, slots=True)
class RunAs:
    """`account` runs jobs, None for the daemon's own user; `own` are the daemon's files.

    `needed` are the files that a job must be able to read besides its folder, `jobs` the parent of the job
    folders. With `root`, a user's jobs may run as root.
    """

    account: UnixAccount | None
    own: tuple[Path, ...]
    allowed: tuple[Path, ...] | None
    needed: tuple[Path, ...] = ()
    jobs: Path | None = None
    root: bool = False
    files: UserFiles = field(default_factory=UserFiles)

    def of(self, unix_user: str, *, here: bool = True) -> "RunAs":
        """Rights of jobs that run as this user (empty: the rights of jobs without a user of their own).

        ValueError when jobs cannot run as that user. With `here`, their driver or executors are processes of
        this host; elsewhere the substrate switches to the user.
        """
        if not unix_user:
            return self
        try:
            account = find_account(unix_user)
        except KeyError:
            account = None
        if not self.root and (unix_user == "root" or (account is not None and account.uid == 0)):
            raise ValueError(f"unix_user: {unix_user}: no job runs as root unless users.root allows it")
        if not here:
            # A user whom only the agents know has the rights here of a job without a user.
            return self if account is None else replace(self, account=account)
        if account is None:
            raise ValueError(f"unix_user: {unix_user}: there is no such user on the daemon's host")
        if account.uid == os.geteuid():
            return replace(self, account=None)
        if os.geteuid() != 0:
            raise ValueError(
                f"unix_user: {unix_user}: only a daemon that root runs can run jobs as another user"
            )
        enter = [] if self.jobs is None else [self.jobs]
        if why := _cannot(account, tuple(enter), self.needed):
            raise ValueError(f"unix_user: {why}")
        return replace(self, account=account)

    def check(self, reference: str, judge: Callable[[OpenFile], None] | None = None) -> None:
        """Raise ValueError when a job may not name this file (a path or a URI) as a part of itself.

        With `judge`, the file has to be there; `judge` raises ValueError for one of a wrong kind.
        """
        self.check_all([(reference, judge)])

    def check_all(
        self, references: Sequence[tuple[str, Callable[[OpenFile], None] | None]], asker: str = ""
    ) -> None:
        """Run `check` for all files of a job that `asker` submits; RejectedError if none can be read."""
        here = [(reference, path, judge) for reference, judge in references if (path := _here(reference))]
        if not here:
            return
        about = here[0][0]

        def look() -> None:
            nonlocal about
            for reference, path, judge in here:
                about = reference
                self._look(reference, path, judge)

        try:
            self.files.look(self.account, about, look, asker)
        except NoThreadError as error:
            why = f"{about}: cannot be looked at: {error}"
            raise RejectedError(503, "Files cannot be looked at", why, {"Retry-After": "1"}) from None
        except TimeoutError as error:
            log.warning("a user's file cannot be looked at", file=about, user=asker, why=str(error))
            raise ValueError(f"{about}: cannot be looked at: {error}") from None

    def _look(self, reference: str, path: Path, judge: Callable[[OpenFile], None] | None) -> None:
        """Judge a file, by a thread that has the rights of the job's user."""
        try:
            # Whether it is there or not; with rights that the user lacks, where links lead would tell.
            known = placed(path) if has_rights_of(self.account) else Path(os.path.normpath(path))
            self._check_place(reference, known)
            with opened(path, self.account, folders=judge is None) as found:
                self._check_place(reference, found.path)
                if judge is not None:
                    judge(found)
        except (FileNotFoundError, NotADirectoryError):
            if judge is not None:
                raise ValueError(f"{reference}: no such file on the daemon's host") from None
        except PermissionError:
            name = getpass.getuser() if self.account is None else self.account.name
            raise ValueError(
                f"{reference}: {name} may not read it; jobs run as {name} here (run_as)"
            ) from None
        except (OSError, RuntimeError) as error:  # RuntimeError: links that lead in a circle
            raise ValueError(f"{reference}: cannot be read on the daemon's host: {_why(error)}") from None

    def _check_place(self, reference: str, whole: Path) -> None:
        if any(whole.is_relative_to(own) for own in self.own):
            raise ValueError(f"{reference}: belongs to the daemon; jobs may not use it")
        if any(whole.is_relative_to(folder) for folder in _KERNEL):
            raise ValueError(f"{reference}: is a file of the kernel; jobs may not use it")
        if self.allowed is not None and not any(whole.is_relative_to(one) for one in self.allowed):
            folders = ", ".join(map(str, self.allowed)) or "none"
            raise ValueError(f"{reference}: is in none of the folders of allowed_paths: {folders}")


def _here(reference: str) -> Path | None:
    """The path on this machine that a path or a URI means; None for one that is elsewhere."""
    parts = urlsplit(reference)
    if parts.scheme not in ("", "file", "local"):
        return None
    return Path(unquote(parts.path) if parts.scheme else reference)


def _why(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


def rights_of(config: Config, data_dir: Path, needed: Sequence[Path]) -> RunAs:
    """Account that runs jobs and files that they may name; closes the daemon's files to another account.

    `needed` are the files that a job must be able to read besides its folder: Spark, Java, Python.

    ConfigError when `run_as` names an account that cannot run jobs here.
    """
    rights = own_rights(config, data_dir)
    account = _account(config.run_as, data_dir, needed)
    rights = replace(rights, needed=tuple(needed), jobs=data_dir / "jobs")
    for path in rights.own[1:]:
        if account is not None and path.exists() and not cannot(account, read=[path]):
            log.warning("jobs can read a secret of the daemon's: close it to others", file=str(path))
    return replace(rights, account=account)


def own_rights(config: Config, data_dir: Path) -> RunAs:
    """Rights for jobs that run as the daemon's own user; see `rights_of`."""
    key = None if config.tls is None else config.tls.key or config.tls.cert
    users = config.users
    secrets = (config.token_file, config.mesos.secret_file, key, users and users.file)
    own = (data_dir, *(Path(name).expanduser() for name in secrets if name))
    allowed = config.allowed_paths
    folders = None if allowed is None else tuple(Path(one).expanduser().resolve() for one in allowed)
    root = users is not None and users.root
    return RunAs(None, tuple(path.resolve() for path in own), folders, root=root)


@lru_cache(maxsize=1024)
def _cannot(account: UnixAccount, enter: tuple[Path, ...], needed: tuple[Path, ...]) -> str:
    """Cached `cannot`: one check per user, not per job."""
    return cannot(account, enter=enter, read=needed)


def _account(run_as: str | None, data_dir: Path, needed: Sequence[Path]) -> UnixAccount | None:
    if run_as is None:
        return None
    automatic = run_as == "auto"
    if os.geteuid() != 0:
        if automatic or _is_own(run_as):
            return None
        raise ConfigError(f"run_as: {run_as}: only a daemon that root runs can run jobs as another user")
    account = _first(PREFERRED if automatic else (run_as,))
    if account is None and not automatic:
        raise ConfigError(f"run_as: {run_as}: there is no such user; Spark needs a user with a name")
    why = "there is none of " + ", ".join(PREFERRED)
    if account is not None:
        if account.uid == 0:
            return None
        why = _open(data_dir, account, needed)
        if not why:
            log.info("jobs run as another user", user=account.name)
            return account
        if not automatic:
            raise ConfigError(f"run_as: {why}")
    log.warning("jobs run as root, with all rights of the daemon", why=why)
    return None


def _first(names: Iterable[str]) -> UnixAccount | None:
    for name in names:
        try:
            return find_account(name)
        except KeyError:
            continue
    return None


def _is_own(name: str) -> bool:
    account = _first((name,))
    return account is not None and account.uid == os.geteuid()


def _open(data_dir: Path, account: UnixAccount, needed: Sequence[Path]) -> str:
    """Open the path to jobs' folders, and nothing else, to the user; return why it cannot run jobs, or ""."""
    jobs = data_dir / "jobs"
    before = data_dir.stat().st_mode & 0o777
    jobs.mkdir(mode=_PASSAGE, exist_ok=True)
    for entry in data_dir.iterdir():
        if not entry.is_symlink():
            passage = entry in (jobs, substrate_folder(data_dir))
            entry.chmod(_PASSAGE if passage else entry.stat().st_mode & 0o700)
    data_dir.chmod(_PASSAGE)
    why = cannot(account, enter=[jobs], read=needed)
    if why:
        data_dir.chmod(before)
    return why
