"""Operators' files of secrets: the token of daemon and client, the secret for a master, its credentials."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from conf.reading import read_secret
from conf.schema import Config
from daemon.cli.client import Client
from daemon.listening import token_of
from framework.embedded.credentials import read_credentials

READERS: dict[str, Callable[[Path], object]] = {
    "daemon": lambda path: token_of(Config(token_file=str(path))),
    "client": lambda path: Client("http://127.0.0.1:1", path),
    "credentials": read_credentials,
}


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_what_is_no_secret_is_refused_with_the_file_s_name(
    read: Callable[[Path], object], tmp_path: Path
) -> None:
    """It is read no further than a secret can be long, and nothing of what it holds is told."""
    file = tmp_path / "secret"
    for content, why in {
        b"principal " + b"x" * (1 << 20): "cannot be read: too long",
        b"principal \xe9": "cannot be read: no text in UTF-8",
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
