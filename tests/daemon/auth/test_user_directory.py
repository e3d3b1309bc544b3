"""The user directory: users of a file and of the store, and warnings about a config."""

import os
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from conf.loader import ConfigError, build
from conf.schema import Config
from conf.schema.users import UsersSection
from daemon.auth.user_directory import Directory
from daemon.core.errors import RejectedError
from daemon.core.tokens import make_token
from daemon.maintenance.user_checks import doubtful_proxies, lacks_admin
from daemon.store.job_store import Store
from tests.daemon.auth.user_api import house_of


def users_file(folder: Path, text: str, mode: int = 0o600) -> Path:
    """A file of users."""
    path = folder / "users.yaml"
    path.write_text(text)
    path.chmod(mode)
    return path


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o620, 0o602, 0o604])
def test_a_file_that_is_open_to_others_is_refused(store: Store, tmp_path: Path, mode: int) -> None:
    """Whether they could read it or write it."""
    path = users_file(tmp_path, "users: {}", mode)
    with pytest.raises(
        ConfigError, match=r"users.file: .*users.yaml: users other than its owner may use it; chmod 600"
    ):
        Directory(store.users, path)


def test_a_file_of_another_user_is_refused(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A users file owned by another Unix user is refused, as that user could create users."""
    path = users_file(tmp_path, "users: {}")
    if os.geteuid() == 0:
        os.chown(path, 12345, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(ConfigError, match="belongs to another user"):
        Directory(store.users, path)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("users: {ann: {role: root}}", "should be 'read', 'submit', 'operate' or 'admin'"),
        ("users: {'a b': {}}", "should be a name of at most 64 letters"),
        ("users: {ann: {tokens: [{id: x, sha256: y}]}}", "should be a token's id: 16 hex digits"),
        ("users: {ann: {tokens: [{token: stoker_x}]}}", "token: unknown key"),
        ("ann: {}", "unknown key"),
        ("users: [", "not valid YAML"),
    ],
)
def test_a_file_that_says_nothing_sensible(store: Store, tmp_path: Path, text: str, says: str) -> None:
    """An invalid users file is refused with the place and the right form."""
    with pytest.raises(ConfigError, match=says):
        Directory(store.users, users_file(tmp_path, text))


def test_a_file_of_users(store: Store, tmp_path: Path) -> None:
    """Goes before the store, cannot be changed over the API, and is read again when it changes."""
    token, record = make_token(0.0)
    entry = f"{{id: {record.id}, sha256: {record.sha256}, expires: '1970-01-01T01:00:00+00:00'}}"
    path = users_file(tmp_path, f"users: {{dan: {{role: operate, tokens: [{entry}]}}, bob: {{role: read}}}}")
    with house_of(store) as house:
        pass
    with closing(Directory(store.users, path, now=lambda: house.clock[0])) as directory:
        found = directory.by_token(token)
        assert not isinstance(found, str)
        assert found[0].role == "operate"
        bobs = house.people["bob"]["Authorization"].removeprefix("Bearer ")
        assert isinstance(directory.by_token(bobs), str)
        with pytest.raises(RejectedError, match="dan stands in the file"):
            directory.end_user("dan")
        house.clock[0] = 3601.0
        assert "has expired" in str(directory.by_token(token))
        house.clock[0] = 0.0
        users_file(tmp_path, "users: [")
        directory.refresh()
        assert not isinstance(directory.by_token(token), str)
        assert directory.trouble
        users_file(tmp_path, "users: {}\n")
        directory.refresh()
        assert isinstance(directory.by_token(token), str)
        assert not isinstance(directory.by_token(bobs), str)
        assert directory.trouble == ""


def test_another_daemon_on_the_store_learns_of_changes(store: Store) -> None:
    """Another daemon on the store sees a change at its next check; until then it uses its cached users."""
    with closing(Directory(store.users)) as here, closing(Directory(store.users)) as there:
        here.put("ann", "submit", None, None)
        token, record = here.make_token("ann", None)
        there.refresh()
        assert not isinstance(there.by_token(token), str)
        there.end_token(record.id)
        here.refresh()
        assert isinstance(here.by_token(token), str)
        assert here.person("ann") is not None


def test_when_a_token_was_used_last_is_kept(store: Store) -> None:
    """By day."""
    clock = [86_400.0 * 10]
    with closing(Directory(store.users, now=lambda: clock[0])) as directory:
        directory.put("ann", None, None, None)
        token, record = directory.make_token("ann", None)
        assert store.users.uses() == {}
        directory.by_token(token)
    assert store.users.uses() == {record.id: "1970-01-11"}


@pytest.mark.parametrize(
    ("users", "says"),
    [
        ({"header": {"from": ["0.0.0.0/0"]}}, "every client would be trusted"),
        ({"header": {"from": ["::/0"]}}, "every client would be trusted"),
        ({"header": {"from": []}}, "from"),
        ({"header": {"from": ["proxy.example"]}}, "should be the address of the proxy"),
        ({"header": {}}, "from"),
        ({"header": {"from": ["10.0.0.1"], "name": "a b"}}, "should be a header's name"),
        ({"see": "mine"}, "should be 'own' or 'all'"),
        ({"file": 7}, "should be a text"),
    ],
)
def test_sections_that_are_refused(users: Any, says: str) -> None:
    """By the key that is wrong."""
    with pytest.raises(ConfigError, match=says):
        build(Config, {"users": users}, "stoker.yaml")


def test_what_is_doubtful(store: Store) -> None:
    """Proxies that may be anybody, and that there is no admin."""

    def section(**header: Any) -> UsersSection:
        return build(UsersSection, {"header": header} if header else {}, "c")

    assert "every user of this machine" in doubtful_proxies(section(**{"from": ["127.0.0.1"]}))
    assert "all of its hosts" in doubtful_proxies(section(**{"from": ["10.0.0.0/7"]}))
    assert doubtful_proxies(section(**{"from": ["10.0.0.0/8"]})) == doubtful_proxies(section()) == ""
    with closing(Directory(store.users)) as directory:
        directory.put("ann", "admin", None, None)
        users = [user for user, _, _ in directory.all()]
        assert "no user with the role admin has a token" in lacks_admin(section(), None, users)
        assert lacks_admin(section(), "token", users) == ""
        directory.make_token("ann", None)
        assert lacks_admin(section(), None, (user for user, _, _ in directory.all())) == ""
