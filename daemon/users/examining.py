"""What is wrong with users, for the start, `stoker config check` and `stoker doctor`."""

from collections.abc import Iterable, Iterator
from ipaddress import ip_address

from conf.schema.users import UsersSection
from daemon.rights import Rights
from daemon.users.people import UserRecord

#: Networks with more addresses than this are nobody's own proxies.
_LARGEST = 1 << 24


def lacks_admin(section: UsersSection, token: str | None, users: Iterable[UserRecord]) -> str:
    """Why nobody may manage users; empty when somebody may. `token` is the config's own."""
    if token is not None or any(user.role == "admin" and user.tokens for user in users):
        return ""
    if section.header is not None and (section.header.role == "admin" or section.header.role_header):
        return ""
    return (
        "no user with the role admin has a token, and there is no token_file, whose token is an admin's; "
        "with one, `stoker user add NAME --role admin` makes a user"
    )


def doubtful_proxies(section: UsersSection) -> str:
    """Whom the header is believed of that may be others than a proxy; empty when there is nobody."""
    if section.header is None:
        return ""
    for network in section.header.proxies:
        if network.num_addresses > _LARGEST:
            return f"{network}: all of them may say that they are anybody; name the proxy's own addresses"
        if ip_address(network.network_address).is_loopback:
            return f"{network}: every user of this machine may say that they are anybody"
    return ""


def cannot_run(users: Iterable[UserRecord], rights: Rights, *, here: bool) -> Iterator[str]:
    """Whose jobs will be refused since they cannot run as the user's Unix user, and why."""
    for user in users:
        try:
            rights.of(user.unix_user, here=here)
        except (ValueError, OSError) as error:
            yield f"{user.name}: their jobs are refused: {error}"
