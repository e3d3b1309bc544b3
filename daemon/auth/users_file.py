"""The file of users that a config names: read when it is its owner's alone."""

import os
import stat
from pathlib import Path

from conf.loader import ConfigError, parse
from conf.schema.users import TokenEntry, UsersFile
from conf.util.regular_file import read_regular
from daemon.core.identity import UserRecord
from daemon.core.tokens import TokenRecord

#: Bytes; thousands of users with their tokens take less.
_LONGEST = 4 << 20


def read_users(path: Path) -> dict[str, UserRecord]:
    """The users of the file by name; ConfigError when it is open to others, or says nothing sensible."""
    if why := open_to_others(path):
        raise ConfigError(f"users.file: {why}")
    try:
        text = read_regular(path, _LONGEST).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigError(f"users.file: {path}: cannot be read: no text in UTF-8") from None
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ConfigError(f"users.file: {path}: cannot be read: {why}") from None
    users = parse(text, UsersFile, str(path)).users
    return {
        name: UserRecord(name, user.role, user.unix_user, user.queues, tuple(map(_token, user.tokens)))
        for name, user in users.items()
    }


def _token(entry: TokenEntry) -> TokenRecord:
    expires_at = None if entry.expires is None else entry.expires.timestamp()
    return TokenRecord(entry.id, entry.sha256, expires_at=expires_at)


def users_path(name: str, folder: Path) -> Path:
    """Path of the users file that the config of this folder names."""
    return folder / Path(name).expanduser()


def open_to_others(path: Path) -> str:
    """Reason why users other than its owner, us or root, could change or read the file; empty if none."""
    try:
        status = path.stat()
    except OSError as error:
        return f"{path}: cannot be read: {error.strerror}"
    if status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        return f"{path}: users other than its owner may use it; chmod 600 {path}"
    if status.st_uid not in (os.geteuid(), 0):
        return f"{path}: belongs to another user, who could add users; chown it to the daemon's"
    return ""
