"""Users of this machine that jobs run as, and their permissions on its files."""

import grp
import os
import pwd
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

#: Seconds for the shell that checks a user's rights.
_PATIENCE = 20.0


@dataclass(frozen=True, slots=True)
class UnixAccount:
    """A user, with the groups that it is a member of."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...] = ()


def find_account(name: str) -> UnixAccount:
    """The user of this name or number.

    KeyError when there is none; one that is only a number is none either, since Hadoop asks for a name.
    """
    entry = pwd.getpwuid(int(name)) if name.isascii() and name.isdecimal() else pwd.getpwnam(name)
    groups = (group.gr_gid for group in grp.getgrall() if entry.pw_name in group.gr_mem)
    return UnixAccount(entry.pw_name, entry.pw_uid, entry.pw_gid, tuple(sorted({*groups} - {entry.pw_gid})))


def ids_of(name: str) -> str:
    """A user's numbers as our programs take them, UID:GID:GROUP...; KeyError when there is no such user."""
    account = find_account(name)
    return ":".join(map(str, (account.uid, account.gid, *account.groups)))


def cannot(account: UnixAccount, *, enter: Iterable[Path] = (), read: Iterable[Path] = ()) -> str:
    """Permissions that the user lacks on these paths, tried by a process of its own; empty for none.

    Only root can test another user. OSError when the test cannot run.
    """
    wanted = [("-x", "enter", path) for path in enter] + [("-r", "read", path) for path in read]
    script = 'while [ $# -gt 0 ]; do [ "$1" "$2" ] || exit $#; shift 2; done; exit 0'
    tests = [text for test, _, path in wanted for text in (test, str(path))]
    own = account.uid == os.geteuid()
    try:
        tried = subprocess.run(
            ["/bin/sh", "-c", script, "sh", *tests],
            user=None if own else account.uid,
            group=None if own else account.gid,
            extra_groups=None if own else list(account.groups),
            cwd="/",
            env={},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_PATIENCE,
            check=False,
        )
    except subprocess.SubprocessError as error:
        raise OSError(f"the rights of {account.name} cannot be checked: {error}") from error
    if not tried.returncode:
        return ""
    _, what, path = wanted[(len(tests) - tried.returncode) // 2]
    return f"{account.name} may not {what} {path}"


def mode_allows(account: UnixAccount, status: os.stat_result, bit: int) -> bool:
    """Whether a mode grants the user `bit` (S_IROTH, S_IXOTH); an access list may grant more."""
    if account.uid == 0:
        return True
    if status.st_uid == account.uid:
        bit <<= 6
    elif status.st_gid in (account.gid, *account.groups):
        bit <<= 3
    return bool(status.st_mode & bit)
