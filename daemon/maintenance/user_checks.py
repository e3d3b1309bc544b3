"""Faults of users, for the start, `stoker config check` and `stoker doctor`."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from conf.loader import ConfigError
from conf.schema import Config
from conf.schema.users import UsersSection
from daemon.auth.users_file import read_users, users_path
from daemon.core.identity import UserRecord
from daemon.disk.run_as import RunAs, own_rights
from daemon.maintenance.doctor_report import DoctorFinding, DoctorReport
from daemon.store.rows.damaged_rows import Damages
from daemon.store.rows.database import Database, StoreError
from daemon.store.rows.record_tables import USERS
from daemon.store.sqlite_schema import refuse_foreign

#: Networks with more addresses than this are more than one's own proxies.
_LARGEST = 1 << 24


def lacks_admin(section: UsersSection, token: str | None, users: Iterable[UserRecord]) -> str:
    """Why no user may manage users; empty when somebody may. `token` is the config's own."""
    if token is not None or any(user.role == "admin" and user.tokens for user in users):
        return ""
    if section.header is not None and (section.header.role == "admin" or section.header.role_header):
        return ""
    return (
        "no user with the role admin has a token, and there is no token_file, whose token is an admin's; "
        "with one, `stoker user add NAME --role admin` adds a user"
    )


def doubtful_proxies(section: UsersSection) -> str:
    """Trusted networks of the header that may contain hosts other than a proxy; empty without any."""
    if section.header is None:
        return ""
    for network in section.header.proxies:
        if network.num_addresses > _LARGEST:
            return f"{network}: all of its hosts may claim to be any user; name the proxy's own addresses"
        if network.network_address.is_loopback:
            return f"{network}: every user of this machine may claim to be any user"
    return ""


def look_at_users(report: DoctorReport, config: Config, folder: Path, url: str) -> None:
    """Add to a report the faults of the users of the config (of that folder) and of the store."""
    section = config.users
    if section is None:
        return
    found: list[tuple[str, str]] = []
    users = _of_store(url)
    if section.file is not None:
        try:
            users |= read_users(users_path(section.file, folder))
        except ConfigError as error:
            found.append((str(error), "until it is mended no daemon starts with this config"))
    report.looked_at["users"] = len(users)
    rights = own_rights(config, Path(config.data_dir).expanduser().absolute())
    here = config.vms_here or config.driver.on == "host"
    if why := lacks_admin(section, config.token_file, users.values()):
        found.append((why, "give the config a token_file, or an admin a token"))
    if why := doubtful_proxies(section):
        found.append((why, "mend users.header.from"))
    advice = "give them another one: stoker user add NAME --unix-user USER"
    found += [(why, advice) for why in cannot_run(users.values(), rights, here=here)]
    report.findings += [DoctorFinding("users", why, advice) for why, advice in found]


def _of_store(url: str) -> dict[str, UserRecord]:
    database = Database(url)
    try:
        if database.path is not None:
            refuse_foreign(database.path)
        with database.read() as connection:
            return {user.name: user for user in USERS.all(connection, Damages())}
    except StoreError:
        return {}  # other checks report the error of the store
    finally:
        database.close()


def cannot_run(users: Iterable[UserRecord], rights: RunAs, *, here: bool) -> Iterator[str]:
    """Users with jobs that will be rejected since their Unix user cannot run them, and the reason."""
    for user in users:
        try:
            rights.of(user.unix_user, here=here)
        except (ValueError, OSError) as error:
            yield f"{user.name}: their jobs are refused: {error}"
