"""Operators' files of secrets: the token of daemon and client, the secret for a master, its credentials."""

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import stoker
from stoker import Stoker
from stoker.bounded_read import read_secret, read_token

from conf.schema import Config
from daemon.http.server.listen_address import token_of
from framework.embedded.credentials import read_credentials

READERS: dict[str, Callable[[Path], object]] = {
    "daemon": lambda path: token_of(Config(token_file=str(path))),
    "client": lambda path: Stoker("http://127.0.0.1:1", path),
    "credentials": read_credentials,
}


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_what_is_no_secret_is_refused_with_the_file_s_name(
    read: Callable[[Path], object], tmp_path: Path
) -> None:
    """It is read no further than a secret can be long, and the error has none of its contents."""
    file = tmp_path / "secret"
    for content, why in {
        b"principal " + b"x" * (1 << 20): "cannot be read: too long",
        b"principal \xe9": "cannot be read: not text in UTF-8",
        b" \n": "is empty",
    }.items():
        file.write_bytes(content)
        with pytest.raises(Exception, match=f"{file}: {why}") as caught:
            read(file)
        assert "xe9" not in str(caught.value)
    with pytest.raises(Exception, match="nothing: cannot be read: No such file or directory"):
        read(tmp_path / "nothing")
    with pytest.raises(Exception, match="~nobody-of-that-name/x: cannot be read"):
        read(Path("~nobody-of-that-name/x"))


def test_a_secret_comes_from_a_pipe(tmp_path: Path) -> None:
    """As of `--token-file <(...)`; the blanks around it are none of it."""
    reader, writer = os.pipe()
    os.write(writer, b"the secret\n")
    os.close(writer)
    assert read_secret(Path(f"/dev/fd/{reader}")) == "the secret"
    os.close(reader)


@pytest.mark.parametrize("mode", [0o644, 0o604, 0o666, 0o602])
@pytest.mark.parametrize("reader", ["daemon", "client", "library"])
def test_a_token_that_everybody_may_read_is_refused(reader: str, mode: int, tmp_path: Path) -> None:
    """The error has the remedy in one line, without the token."""
    file = tmp_path / "token"
    file.write_text("t0p-secret")
    file.chmod(mode)
    readers: dict[str, Callable[[Path], object]] = {
        **READERS,
        "library": lambda path: stoker.Stoker(token_file=path),
    }
    read = readers[reader]
    with pytest.raises(Exception, match=f"{file}: every user of this machine may use the token") as caught:
        read(file)
    assert str(caught.value).endswith(f"; chmod 600 {file}")
    assert "t0p-secret" not in str(caught.value)
    assert "\n" not in str(caught.value)
    for good in (0o600, 0o400, 0o640):
        file.chmod(good)
        read(file)


def test_what_is_mounted_for_us_is_taken_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A secret of a container belongs to another user, or cannot be changed; a pipe has no mode."""
    file = tmp_path / "token"
    file.write_text("t0ken")
    file.chmod(0o444)
    with monkeypatch.context() as patched:
        patched.setattr(os, "geteuid", lambda: file.stat().st_uid + 1)
        assert read_token(file) == "t0ken"
        assert stoker.Stoker(token_file=file).settings.token == "t0ken"
    with monkeypatch.context() as patched:
        mounted = SimpleNamespace(f_flag=os.ST_RDONLY)
        patched.setattr(os, "statvfs", lambda _: mounted)
        assert read_token(file) == "t0ken"
        assert stoker.Stoker(token_file=file).settings.token == "t0ken"
    with pytest.raises(ValueError, match="every user"):
        read_token(file)
    reader, writer = os.pipe()
    os.write(writer, b"t0ken\n")
    os.close(writer)
    assert read_token(Path(f"/dev/fd/{reader}")) == "t0ken"
    os.close(reader)
