"""The example of docs/sharing.md: its files are valid, and each command prints the output shown.

The daemon is a real one; its jobs run a Spark in miniature.
"""

import os
import re
import shlex
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest
import yaml

from daemon.cli import main
from tests.daemon.fleet import Fleet, fleets
from tests.waiting import until

PAGE = Path(__file__).parents[3] / "docs/sharing.md"
EXAMPLE = PAGE.read_text().partition("\n## An example: three teams\n")[2].partition("\n## ")[0]
#: What differs from run to run: clocks, times that pass, small sums, how fast a policy decides.
VARIES = (
    (r"^stoker: .*; after [\d.]+ .*$", ""),  # progress, where it takes long
    (r"(\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d", "CLOCK"),
    (r"\$\d\.\d+|0\.\d{3,} \$", "DOLLARS"),
    (r"\d+\.\d s\b", "SECONDS"),
    (r"(% +\d+\.\d % +)\d+\.\d %", r"\1USED"),
    (r"(?m)^(ff +- .*?)\d+ *$", r"\1MICROSECONDS"),
    (r"──+", "─"),
    (r"\s+", " "),
)


def commands() -> Iterator[tuple[str, str]]:
    """Commands of the example in order, each with its output: complete, or up to `...`."""
    for block in re.findall(r"```console\n(.*?)```", EXAMPLE, re.DOTALL):
        starts = [found.start() for found in re.finditer(r"^\$ ", block, re.MULTILINE)]
        for start, end in pairwise([*starts, len(block)]):
            line, _, shown = block[start + 2 : end].partition("\n")
            yield line, shown


def alike(text: str) -> str:
    """The text without parts that vary between runs."""
    for pattern, put in VARIES:
        text = re.sub(pattern, put, text, flags=re.MULTILINE)
    return text.strip()


def test_its_commands_print_what_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Commands of the example print the shown output, in order.

    A command is repeated while the daemon still works on its result.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "130")
    for block in re.findall(r"```yaml\n# (\S+)\n(.*?)```", EXAMPLE, re.DOTALL):
        Path(block[0]).write_text(block[1])
    for app in ("sweep.py", "load.py", "index.py", "report.py"):
        Path(app).write_text("")
    Path("admin.token").write_text("admins' own")
    Path("admin.token").chmod(0o600)
    config = yaml.safe_load(Path("stoker.yaml").read_text())
    assert config.pop("mesos") == {"cluster": "cluster.yaml"}
    assert yaml.safe_load(Path("cluster.yaml").read_text())["vms"][0]["count"] == 4  # as those of the fleet

    def printed(words: list[str]) -> str:
        capsys.readouterr()
        code = main(words)
        found = capsys.readouterr()
        assert code == 0 or "huge" in words, (words, found)
        return found.out + found.err

    folder = tmp_path / "fleet"
    folder.mkdir()
    mask = os.umask(0o022)
    try:
        with fleets(folder) as make:
            played = list(play(make(**config, mesos={"jvms": 1000}), monkeypatch, printed))
    finally:
        os.umask(mask)
    assert Path("ann.token").stat().st_mode & 0o777 == 0o600
    assert len(played) >= 20


def play(fleet: Fleet, monkeypatch: pytest.MonkeyPatch, printed: Callable[[list[str]], str]) -> Iterator[str]:
    """Run each command, compare its output with the example and yield the command."""
    for line, shown in commands():
        command, *words = shlex.split(line, comments=True)
        match command, words:
            case "export", [setting]:
                monkeypatch.setenv(*setting.split("=", 1))
            case "umask", [mask]:
                os.umask(int(mask, 8))
            case "stoker", ["up", *_]:
                until(fleet.add().leads, fleet.daemons[0].log)
                monkeypatch.setenv("STOKER_URL", fleet.daemons[0].url)
            case "stoker", [*words, ">", file]:
                Path(file).write_text(printed(words))
            case "stoker", _:
                hold(words, shown, printed)
            case _:
                raise AssertionError(line)
        yield line


def hold(words: list[str], shown: str, printed: Callable[[list[str]], str]) -> None:
    """Compare a command's output with the example; poll only commands that change nothing."""
    before, more, _ = shown.partition("\n...\n")
    before = alike(before)
    last = ""

    def as_shown() -> bool:
        nonlocal last
        last = alike(printed(words))
        return not shown or (last.startswith(before) if more else last == before)

    if words[0] in ("job", "queue"):
        until(as_shown, lambda: (words, last))
    elif not as_shown():
        assert last == before, words
