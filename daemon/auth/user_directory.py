"""Users of the file and of the job store, looked up by token or by name.

All data needed for each request is in memory. This daemon's changes apply at once; changes in the file, or by
another daemon on the same store, a second later.
"""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Literal

import structlog

from conf.loader import ConfigError
from conf.schema.users import Role
from daemon.auth.users_file import read_users
from daemon.core.errors import RejectedError
from daemon.core.identity import Person, UserRecord
from daemon.core.tokens import TokenRecord, is_it, make_token, token_id
from daemon.store.rows.database import StoreError
from daemon.store.rows.users import UserRows

log = structlog.get_logger("users")

#: Seconds between two checks for changes by others.
_LOOK = 1.0
#: Tokens that one user may have.
_MOST_TOKENS = 100


@dataclass(frozen=True, slots=True)
class _Known:
    """All users as of one moment: by name, and by the ids of their tokens."""

    users: Mapping[str, UserRecord]
    tokens: Mapping[str, tuple[TokenRecord, Person]]


class Directory:
    """Users of a store, and of a file where there is one. From any thread; `close` ends its own."""

    def __init__(
        self, users: UserRows, file: Path | None = None, *, now: Callable[[], float] = time.time
    ) -> None:
        """ConfigError when the file cannot be used, StoreError when the store cannot be read."""
        self._store, self._file, self._now = users, file, now
        self._changing = threading.Lock()
        self._of_file = {} if file is None else read_users(file)
        self._mark = self._file_mark()
        self._version, self._of_store = users.version(), {user.name: user for user in users.all()}
        self._known = _known(self._of_file, self._of_store)
        self._uses, self._fresh_uses = users.uses(), dict[str, str]()
        #: Reason why the file is not in effect, in words; empty when it is.
        self.trouble = ""
        self._closing = threading.Event()
        self._looking = threading.Thread(target=self._look, name="users", daemon=True)

    def start(self) -> None:
        """Start polling for changes by others."""
        self._looking.start()

    def close(self) -> None:
        """Store pending token uses, and stop polling."""
        self._closing.set()
        if self._looking.is_alive():
            self._looking.join(2 * _LOOK)
        self._keep_uses()

    # ---- asked for each request ------------------------------------------------------------------

    def by_token(self, token: str) -> tuple[Person, str] | str:
        """Owner and id of a token; a text with the reason when it is invalid."""
        number = token_id(token)
        record, person = self._known.tokens.get(number or "", (None, None))
        if not is_it(token, record) or record is None or person is None or number is None:
            return "unknown token: it was revoked, or never existed"
        if not record.good_at(now := self._now()):
            return f"the token {number} has expired; an admin makes another: stoker user token {person.name}"
        day = time.strftime("%Y-%m-%d", time.gmtime(now))
        if self._uses.get(number) != day:
            self._uses[number] = self._fresh_uses[number] = day
        return person, number

    def by_token_id(self, number: str) -> Person | None:
        """Owner of the token with this id; None for an unknown or expired one."""
        record, person = self._known.tokens.get(number, (None, None))
        return None if record is None or not record.good_at(self._now()) else person

    def person(self, name: str) -> Person | None:
        """The user of that name; None when there is none."""
        found = self._known.users.get(name)
        return None if found is None else found.person

    def unix_user(self, name: str) -> str:
        """Account that runs that user's jobs; empty: as configured."""
        found = self._known.users.get(name)
        return "" if found is None else found.unix_user

    # ---- changes by admins -----------------------------------------------------------------------

    def all(self) -> list[tuple[UserRecord, Literal["file", "store"], Mapping[str, str]]]:
        """All users by name: record, source (file, store), and the day of each token's last use."""
        self.refresh()
        return [
            (user, "file" if user.name in self._of_file else "store", self._uses)
            for _, user in sorted(self._known.users.items())
        ]

    def put(
        self, name: str, role: Role | None, unix_user: str | None, queues: tuple[str, ...] | None
    ) -> bool:
        """Create a user, or change the values that are not None; return whether it is new.

        RejectedError, StoreError.
        """
        new = False

        def change(found: UserRecord | None) -> UserRecord:
            nonlocal new
            new = found is None
            user = found or UserRecord(name, "submit", made_at=self._now())
            return replace(
                user,
                role=user.role if role is None else role,
                unix_user=user.unix_user if unix_user is None else unix_user,
                queues=user.queues if queues is None else queues,
            )

        self._change(name, change)
        return new

    def make_token(self, name: str, expires_at: float | None) -> tuple[str, TokenRecord]:
        """Make a token for a user of the store, shown only once; RejectedError, StoreError."""
        token, record = make_token(self._now(), expires_at)

        def change(found: UserRecord | None) -> UserRecord:
            if found is None:
                raise no_such_user(name)
            kept = tuple(one for one in found.tokens if one.good_at(self._now()))
            if len(kept) >= _MOST_TOKENS:
                raise RejectedError(409, "Too many tokens", f"{name} has {_MOST_TOKENS}: end some")
            return replace(found, tokens=(*kept, record))

        self._change(name, change)
        return token, record

    def end_user(self, name: str) -> None:
        """Delete a user and revoke their tokens; RejectedError, StoreError."""

        def change(found: UserRecord | None) -> None:
            if found is None:
                raise no_such_user(name)

        self._change(name, change)

    def end_token(self, number: str) -> str:
        """Revoke a token and return its owner. RejectedError, StoreError."""
        _, person = self._known.tokens.get(number, (None, None))
        if person is None:
            raise RejectedError(404, "No such token", f"there is no token {number}")

        def change(found: UserRecord | None) -> UserRecord:
            if found is None:
                raise no_such_user(person.name)
            return replace(found, tokens=tuple(one for one in found.tokens if one.id != number))

        self._change(person.name, change)
        return person.name

    def owner_of(self, number: str) -> str:
        """Owner of a token; empty for an unknown one."""
        _, person = self._known.tokens.get(number, (None, None))
        return "" if person is None else person.name

    # ---- changes by others -----------------------------------------------------------------------

    def refresh(self) -> None:
        """Load changes of the file and of the store; StoreError."""
        with self._changing:
            changed = False
            if self._file is not None and (mark := self._file_mark()) != self._mark:
                self._mark, changed = mark, True
                self._read_file(self._file)
            if (version := self._store.version()) != self._version:
                self._version, changed = version, True
                self._of_store = {user.name: user for user in self._store.all()}
            if changed:
                self._known = _known(self._of_file, self._of_store)

    def _read_file(self, file: Path) -> None:
        try:
            self._of_file, self.trouble = read_users(file), ""
            log.info("the file of users was read again", file=str(file), users=len(self._of_file))
        except ConfigError as error:
            # A slip in it must not lock everybody out: its last valid content stays in effect, and /readyz
            # says so.
            self.trouble = f"the last valid content of the users file stays in effect: {error}"
            log.error("the users file is invalid: its last valid content stays in effect", error=str(error))

    def _change(self, name: str, change: Callable[[UserRecord | None], UserRecord | None]) -> None:
        with self._changing:
            if name in self._of_file:
                detail = f"{name} stands in the file {self._file}: change that"
                raise RejectedError(409, "A user of the file", detail)
            found = self._store.change(name, change)
            self._version = ""  # another daemon may have changed something as well
            self._of_store = {key: user for key, user in self._of_store.items() if key != name}
            self._of_store |= {} if found is None else {name: found}
            self._known = _known(self._of_file, self._of_store)

    def _file_mark(self) -> object:
        try:
            status = None if self._file is None else self._file.stat()
        except OSError:
            return "gone"
        return status and (status.st_mtime_ns, status.st_ino, status.st_size, status.st_mode, status.st_uid)

    def _look(self) -> None:
        while not self._closing.wait(_LOOK):
            try:
                self.refresh()
                self._keep_uses()
            except StoreError as error:
                log.warning("users cannot be looked up", error=str(error))

    def _keep_uses(self) -> None:
        fresh, self._fresh_uses = self._fresh_uses, {}
        if fresh:
            try:
                self._store.note_uses(fresh)
            except StoreError as error:
                self._fresh_uses = fresh | self._fresh_uses
                log.warning("it is not stored when tokens were used", error=str(error))


def no_such_user(name: str) -> RejectedError:
    """Answer for a user that does not exist."""
    return RejectedError(404, "No such user", f"there is no user {name}; `stoker user add` makes one")


def _known(of_file: Mapping[str, UserRecord], of_store: Mapping[str, UserRecord]) -> _Known:
    """Merge the users: a user of the file replaces the store's user of the same name."""
    users = {**of_store, **of_file}
    tokens = {one.id: (one, user.person) for user in users.values() for one in user.tokens}
    return _Known(MappingProxyType(users), MappingProxyType(tokens))
