"""The user commands and example files of docs/sharing.md work."""

import json
import re
import shlex
from contextlib import closing
from pathlib import Path

import pytest
import yaml

from conf.loader import build
from conf.schema import Config
from conf.schema.users import UsersFile, UsersSection
from daemon.auth.route_roles import TABLE
from daemon.auth.user_directory import Directory
from daemon.cli import main
from tests.daemon.cli.conftest import Cast, cast, served

__all__ = ["cast"]
PAGE = Path(__file__).parents[3] / "docs/sharing.md"
(SECTION,) = re.findall(r"^## Users\n(.*?)(?=^## |\Z)", PAGE.read_text(), re.DOTALL | re.MULTILINE)


def blocks(kind: str) -> list[str]:
    """The blocks of this kind."""
    return re.findall(rf"```{kind}\n(.*?)```", SECTION, re.DOTALL)


def test_its_files_are_some() -> None:
    """Configs, and a file of users."""
    for block in blocks("yaml"):
        found = yaml.safe_load(block)
        build(UsersFile if block.startswith("# users.yaml") else Config, found, "docs")


def test_its_commands(
    cast: Cast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The commands work in order for the admin with the config's token."""
    (tmp_path / "token").write_text("t0ken")
    (tmp_path / "token").chmod(0o600)
    monkeypatch.setenv("STOKER_TOKEN_FILE", str(tmp_path / "token"))
    lines = [line.removeprefix("$ ") for block in blocks("console") for line in block.splitlines()]
    assert len(lines) >= 9
    with (
        closing(Directory(cast.store.users)) as directory,
        served(cast, "t0ken", UsersSection(), directory) as url,
    ):
        monkeypatch.setenv("STOKER_URL", url)
        for line in lines:
            number = directory.all()[0][0].tokens[0].id if "TOKEN_ID" in line else ""
            assert main(shlex.split(line.replace("TOKEN_ID", number))[1:]) == 0, line
        assert [user.name for user, _, _ in directory.all()] == ["ann", "bob"]
        printed = capsys.readouterr().out
        assert printed.count("stoker_") == 2
        assert "was revoked" in printed
        assert main(["user", "list", "-o", "json"]) == 0
        ann, bob = json.loads(capsys.readouterr().out)["users"]
        assert (ann["role"], ann["tokens"], bob["queues"]) == ("admin", [], ["etl", "adhoc"])
        assert "sha256" not in json.dumps([ann, bob])


def test_a_token_for_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    """The text printed on stderr is a valid users file with the token of that user."""
    assert main(["user", "token", "carol", "--for-file", "--expires", "30d"]) == 0
    printed = capsys.readouterr()
    (token,) = build(UsersFile, yaml.safe_load(printed.err), "stderr").users["carol"].tokens
    assert printed.out.startswith(f"stoker_{token.id}_")
    assert main(["user", "token", "carol", "--for-file", "--expires", "soon"]) == 2
    assert capsys.readouterr().err.startswith("stoker: --expires: should be a time")


def test_the_table_of_roles_is_where_it_says() -> None:
    """And is one of all routes."""
    assert "daemon/auth/route_roles.py" in SECTION
    assert ("GET", "/v1/jobs") in TABLE
