"""The files in deploy/ fit the tree and follow their own rules; their linters run where installed."""

import configparser
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from conf.loader import SHIPPED, load
from conf.schema import Config
from daemon.cli import main

REPOSITORY = Path(__file__).parents[1]
UNIT = REPOSITORY / "deploy/stoker.service"
CONTAINERFILE = REPOSITORY / "deploy/Containerfile"


def unit() -> configparser.SectionProxy:
    """The unit's section Service."""
    parser = configparser.ConfigParser(interpolation=None, delimiters="=", comment_prefixes="#")
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(UNIT)
    return parser["Service"]


def test_drivers_outlive_the_units_restart() -> None:
    """Only the daemon is ended, nobody else for want of memory, and no folder of theirs goes with it."""
    service = unit()
    assert (service["KillMode"], service["OOMPolicy"]) == ("process", "continue")
    assert not {"PrivateTmp", "RuntimeDirectory", "DynamicUser", "MemoryDenyWriteExecute"} & set(service)
    assert (service["Type"], service["NotifyAccess"]) == ("notify", "main")


def test_the_unit_is_hardened() -> None:
    """No rights of root, and only the necessary paths are writable."""
    service = unit()
    assert service["User"] not in ("root", "0")
    assert (service["NoNewPrivileges"], service["ProtectSystem"], service["CapabilityBoundingSet"]) == (
        "yes", "strict", "",
    )  # fmt: skip
    assert (service["UMask"], service["StateDirectoryMode"]) == ("0077", "0700")


def test_the_units_command_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the shipped config in the place of /etc/stoker's, `config check` takes its options."""
    words = unit()["ExecStart"].split()
    assert words[:2] == ["/opt/stoker/.venv/bin/stoker", "up"]
    settings = [f"data_dir={tmp_path}" if "data_dir" in word else word for word in words[4:]]
    assert main(["config", "check", str(SHIPPED / "default.yaml"), *settings, "--set", "mesos.port=0"]) == 0


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    """As `systemd-analyze verify` says."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    program = tmp_path / "stoker"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    copy = tmp_path / "stoker.service"
    copy.write_text(UNIT.read_text().replace("/opt/stoker/.venv/bin/stoker", str(program)))
    verified = subprocess.run(
        ["systemd-analyze", "verify", str(copy)], capture_output=True, text=True, check=False
    )
    about_us = [line for line in verified.stderr.splitlines() if "stoker" in line]
    assert not [line for line in about_us if "Failed to open /dev/log" not in line], verified.stderr


def instructions() -> list[tuple[str, str]]:
    """The Containerfile's instructions with their arguments, lines that go on made into one."""
    lines = [line for line in CONTAINERFILE.read_text().splitlines() if not line.startswith("#")]
    joined = re.sub(r"\\\n\s*", " ", "\n".join(lines))
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in joined.splitlines() if line)]


def test_the_image_comes_of_the_lock_file_alone() -> None:
    """But for its base, a short name with its version, and packages of that distribution."""
    for word, rest in instructions():
        assert word not in ("ADD", "ARG", "MAINTAINER"), rest
        assert not re.search(r"://(?!127\.0\.0\.1)", rest), f"{rest} names a host"
        if word == "FROM":
            assert re.fullmatch(r"[a-z]+:\d+\.\d+-[a-z-]+( AS [a-z]+)?", rest), rest
        if word == "RUN":
            assert not re.search(r"\bpip\b|curl|wget|git ", rest), f"{rest}: what is installed is in the lock"
    assert "make install" in " ".join(rest for word, rest in instructions() if word == "RUN")
    assert "--no-deps" in (REPOSITORY / "Makefile").read_text()


def test_the_image_runs_as_nobody_in_particular() -> None:
    """The last user is no root, by number, so that a runtime can tell."""
    words = [word for word, _ in instructions()]
    (user,) = [rest for word, rest in instructions() if word == "USER"]
    assert all(int(number) >= 10_000 for number in user.split(":"))
    assert words.index("USER") > max(at for at, word in enumerate(words) if word in ("RUN", "COPY"))


def test_what_the_image_copies_and_serves_is_there(tmp_path: Path) -> None:
    """Folders of the tree, all of its packages, the port of the config, a command with a token."""
    copied = [
        source
        for word, rest in instructions()
        if word == "COPY" and not rest.startswith("--from")
        for source in rest.split()[:-1]
    ]
    assert all((REPOSITORY / source).exists() for source in copied)
    packages = {path.parent.name for path in REPOSITORY.glob("*/__init__.py")} - {"tests"}
    assert packages <= set(copied)
    (exposed,) = [rest for word, rest in instructions() if word == "EXPOSE"]
    assert int(exposed) == Config().address[1]
    (command,) = [json.loads(rest) for word, rest in instructions() if word == "CMD"]
    settings = dict(word.split("=") for word in command[1:] if word != "--set")
    config = load(SHIPPED / "default.yaml", Config, settings)
    assert config.token_file is not None


def test_the_image_is_built_where_a_runtime_is() -> None:
    """It takes minutes, so only where it is asked for."""
    runtime = next((name for name in ("podman", "buildah", "docker") if shutil.which(name)), None)
    if runtime is None or "STOKER_TEST_IMAGE" not in os.environ:
        pytest.skip("no container runtime, or STOKER_TEST_IMAGE is not set")
    command = [runtime, "build", "--file", str(CONTAINERFILE), "--tag", "stoker-test", str(REPOSITORY)]
    subprocess.run(command, check=True, timeout=2800)
