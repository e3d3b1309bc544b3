"""Rules for every command: help is light, mistakes are one line, no error ends in a traceback."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from daemon.cli import main
from tests.daemon.ports import free_port

COMMANDS = [
    ["up"],
    ["submit"],
    ["jobs"],
    ["job"],
    ["logs"],
    ["explain"],
    ["kill"],
    ["cluster"],
    ["policy"],
    ["policy", "list"],
    ["policy", "show"],
    ["policy", "set"],
    ["demo"],
    ["mesos"],
    ["version"],
]


def test_help_imports_nothing_heavy() -> None:
    """`stoker --help` answers without the libraries that take time to import."""
    heavy = "httpx rich pydantic yaml fastapi sqlalchemy pymesos numpy tensorflow"
    program = (
        "import sys; from daemon.cli import main; main(['--help']); "
        f"print(sorted(set('{heavy}'.split()) & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert "submit" in done.stdout
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_explains_itself(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Every command has a help text."""
    assert main([*command, "--help"]) == 0
    assert "Usage: " in capsys.readouterr().out


@pytest.mark.parametrize(("command", "title"), [([], "Jobs:"), (["policy"], "Commands:")])
def test_no_command_shows_the_commands(
    command: list[str], title: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a command, the help is shown."""
    assert main(command) == 0
    assert title in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["version"], ["--version"]])
def test_version(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """The version can be asked for either way."""
    assert main(arguments) == 0
    assert capsys.readouterr().out.startswith("stoker 0.")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["fly"], "No such command 'fly'"),
        (["jobs", "--fast"], "No such option: --fast"),
        (["job"], "Missing argument 'ID'"),
        (["jobs", "--state", "good"], "--state: should be one of queued, placing, "),
        (["jobs", "--limit", "0"], "--limit: should be greater than or equal to 1, found '0'"),
        (["simulate", "--seeds", "x"], "--seeds: should be a whole number, found 'x'"),
        (["submit", "--cpus", "x", "a.py"], "--cpus: should be a number or auto, found 'x'"),
        (["jobs", "-o", "xml"], "-o / --output: should be one of table, wide, json, yaml, name, found 'xml'"),
        (["jobs", "--url", "127.0.0.1:8642"], "the daemon's URL should be like http://127.0.0.1:8642"),
        (["jobs", "--url", "http://localhost:99999"], "the daemon's URL should be like"),
        (["jobs", "--token-file", "/nowhere"], "token file /nowhere: cannot be read: No such file"),
        (
            ["history", "job-1", "--url", "http://stoker:8642"],
            "--url http://stoker:8642: this reads event logs where",
        ),
        (["submit", "none.py"], "app: no such file: "),
        (["submit", "--executors", "many", "a.py"], "--executors"),
        (["submit", "--conf", "x", "a.py"], "--conf: should be key=value, found 'x'"),
        (["submit", "--memory", "-1g", "a.py"], "memory: should be an amount of memory"),
        (["policy", "set", "ff", "x"], "options: should be key=value"),
        (["policy", "set", "ff", "x=[1"], "options: x:1: not valid YAML"),
        (["up", "--config", "none.yaml"], "none.yaml: cannot be read"),
        (["up", "--config", "/dev/zero"], "/dev/zero: cannot be read: too long"),
        (["submit", "/dev/zero.yaml"], "/dev/zero.yaml: cannot be read: No such file"),
        (["train", "--config", "/dev/zero"], "/dev/zero"),
        (["up", "--set", "listen"], "--set: should be key=value"),
        (["up", "--set", "colour=red"], "colour: unknown key"),
        (["mesos", "--cluster", "none.yaml"], "none.yaml: no such file"),
        (["mesos", "--port", "70000"], "--port: should be less than or equal to 65535, found '70000'"),
    ],
)
def test_bad_input_is_one_line_and_code_2(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Bad input is one line on stderr and exit code 2."""
    assert main(arguments) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("stoker: ")
    assert told in printed.err
    assert printed.err.count("\n") == 1


@pytest.mark.parametrize(
    "command",
    [
        ["jobs"],
        ["job", "x"],
        ["logs", "job-1"],
        ["kill", "x"],
        ["explain", "x"],
        ["cluster"],
        ["policy", "list"],
        ["policy", "show"],
        ["policy", "set", "ff"],
    ],
    ids=" ".join,
)
def test_no_daemon_is_said_so(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """When no daemon answers at the URL, the error names the likely cause."""
    url = f"http://127.0.0.1:{free_port()}"
    assert main([*command, "--url", url]) == 2
    assert f"no daemon answers at {url}: is `stoker up` running?" in capsys.readouterr().err


def test_token_file_must_hold_a_token(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An empty token file, or one that is no text, is refused before anything is sent."""
    for content in (b"", b"two\nlines", b"\xff\xfe"):
        (tmp_path / "token").write_bytes(content)
        assert main(["jobs", "--token-file", str(tmp_path / "token")]) == 2
        assert f"token file {tmp_path / 'token'}: " in capsys.readouterr().err


def test_a_file_that_ends_early_is_not_taken_for_an_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Typer would end with code 130 and without a word, as after Ctrl-C."""

    def ends_early(_: str) -> str:
        raise EOFError("no data left in file")

    monkeypatch.setattr("importlib.metadata.version", ends_early)
    with pytest.raises(EOFError, match="no data left"):
        main(["version"])


def test_a_reader_that_left_is_no_error() -> None:
    """When the reader of a pipe has gone, the command ends quietly."""
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "daemon.cli", "--help"], stdout=writer, stderr=subprocess.PIPE, text=True
    )
    os.close(writer)
    assert done.stderr == ""
    assert done.returncode == 1


def test_mesos_serves_until_it_is_told_to_end(tmp_path: Path) -> None:
    """`stoker mesos` says where it listens, hands the address over, and ends cleanly on SIGTERM."""
    ready = tmp_path / "address"
    command = [
        sys.executable,
        "-m",
        "daemon.cli",
        "mesos",
        "--port",
        "0",
        "--work-dir",
        str(tmp_path / "work"),
    ]
    with subprocess.Popen(
        [*command, "--ready-file", str(ready)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert "with 12 agents" in line
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 0
    assert ready.read_text() in line


@pytest.mark.parametrize("arguments", [["simulate", "--help"], ["version"]])
def test_an_output_that_takes_nothing_is_told_in_words(arguments: list[str]) -> None:
    """A full disk behind it; one that is closed takes nothing and is no fault."""
    command = [sys.executable, "-m", "daemon.cli", *arguments]
    with Path("/dev/full").open("w") as full:
        told = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (told.returncode, told.stderr) == (
        1,
        "stoker: the output cannot be written: No space left on device\n",
    )
    closed = subprocess.run(
        ["sh", "-c", 'exec "$@" >&-', "sh", *command], stderr=subprocess.PIPE, text=True, check=False
    )
    assert (closed.returncode, closed.stderr) == (0, "")
