"""Examples in docs/submit.md of commands, Python and spark-submit without a Spark: all of them work.

The daemon here has no cluster: jobs finish at once. With real Spark, tests/doors shows the same.
"""

import re
import shlex
import threading
import time
from pathlib import Path

import pytest
from stoker import flows, spark_submit
from stoker.command import main

from conf.loader import parse
from conf.schema import JobSpec
from daemon.cli import main as daemon_main
from tests.daemon.cli.conftest import Daemon

PAGE = Path(__file__).parents[2] / "docs/submit.md"
#: The sections whose commands are run here, and what is left to other tests, as it needs a data folder.
SECTIONS = ("From the command line", "From Python", "spark-submit without a Spark", "Files")
ELSEWHERE = ("stoker prune",)


def blocks(kind: str) -> list[str]:
    """The blocks of these sections that are of this kind."""
    sections = re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)[1:]
    wanted = [text for text in sections if text.splitlines()[0] in SECTIONS]
    assert len(wanted) == len(SECTIONS)
    return [block for text in wanted for block in re.findall(rf"```{kind}\n(.*?)```", text, re.DOTALL)]


@pytest.fixture
def at_once(daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Daemon:
    """A daemon with jobs that print and finish, in a folder with the files that the page names."""

    def go(job_id: str) -> None:
        time.sleep(0.05)
        daemon.cast.place(job_id)
        daemon.cast.put(job_id, "finished", finished_at=time.time())

    daemon.cast.fate = lambda job_id: threading.Thread(target=go, args=(job_id,)).start()
    daemon.cast.logs["driver stdout"] = "counted\n"
    monkeypatch.setattr(flows, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(spark_submit, "_POLL_SECONDS", 0.01)
    monkeypatch.chdir(tmp_path)
    for name in ("app.py", "helper.py", "words.txt"):
        Path(name).write_text(name)
    Path("job.yaml").write_text("app: app.py\nexecutors: 2\n")
    return daemon


def test_the_job_file_has_all_keys() -> None:
    """The one that is shown for a job is one, and leaves no key out."""
    (text,) = (block for block in blocks("yaml") if "main_class:" in block)
    assert parse(text, JobSpec, "the page").model_fields_set == set(JobSpec.model_fields)


def test_commands(at_once: Daemon) -> None:
    """One after the other, with the daemon's address for the page's."""
    ran = 0
    address = at_once.url.removeprefix("http://")
    for line in (line for block in blocks("console") for line in block.splitlines()):
        assert line.startswith("$ ")
        if line[2:].startswith(ELSEWHERE):
            continue
        words = shlex.split(line[2:].replace("127.0.0.1:8642", address))
        run, words = (
            (main, words[3:]) if words[:3] == ["python", "-m", "stoker"] else (daemon_main, words[1:])
        )
        assert run(words) == 0, line
        ran += 1
    assert ran > 8


def test_python(at_once: Daemon, capsys: pytest.CaptureFixture[str]) -> None:
    """As it stands there."""
    (program,) = blocks("python")
    exec(program, {})  # noqa: S102  # the page is ours
    assert capsys.readouterr().out.endswith("counted\n0.0 \n")
