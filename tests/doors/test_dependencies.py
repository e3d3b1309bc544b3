"""Jobs that come after others, arrays and retries on a real daemon, with drivers that have no executors."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.real_daemon import Daemon, real_daemon

APP = """
import os, sys, time
print("PART", sys.argv[1], os.environ.get("STOKER_INDEX"), os.environ.get("STOKER_COUNT"), flush=True)
sys.exit(int(sys.argv[2]))
"""
#: Its driver asks for executors while it runs, and never does.
NONE = ("--max-executors", "1", "--min-executors", "0", "--executors", "0", "--memory", "896m")


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon."""
    folder = tmp_path_factory.mktemp("dependencies")
    (folder / "part.py").write_text(APP)
    with real_daemon(folder) as daemon:
        yield daemon


def submit(house: Daemon, *arguments: str, flags: tuple[str, ...] = ()) -> dict[str, object]:
    """Submit the app by the command line; the job."""
    app = str(house.folder / "part.py")
    found: dict[str, object] = house.stoker("submit", *NONE, *flags, "-o", "json", app, *arguments)
    return found


def test_an_array_and_who_comes_after_it(house: Daemon) -> None:
    """One after the other, each with its number; then the job that waited for all of them, and no sooner."""
    flags = ("--count", "2", "--at-most", "1", "--label", "team=a", "--name", "parts", "--start-at", "in 5s")
    first = submit(house, "{index}", "0", flags=flags)
    assert (first["array"], first["count"]) == ("array-1", 2)
    last = submit(house, "last", "0", flags=("--after", "parts", "--group", "nightly"))
    never = submit(house, "never", "0", flags=("--after", "array-1", "--start-at", "in 1d"))
    assert house.client.job(str(last["id"]))["reason"] == "waits until array-1 (parts) has ended"
    assert house.stoker("wait", "array-1", "-o", "json")["states"] == {"finished": 2}
    house.ended(str(last["id"]))
    jobs: list[Any] = [house.client.job(f"job-{number}") for number in (1, 2, 3)]
    assert jobs[0]["started_at"] >= jobs[0]["submitted_at"] + 5.0
    assert jobs[1]["started_at"] >= jobs[0]["finished_at"]
    assert jobs[2]["started_at"] >= jobs[1]["finished_at"]
    assert [house.printed(f"job-{number}").split()[-3:] for number in (1, 2)] == [
        ["0", "0", "2"],
        ["1", "1", "2"],
    ]
    assert "PART 1 1 2" in house.stoker("logs", "array-1", "--index", "1")
    labelled = house.stoker("jobs", "--label", "team=a", "-o", "json")["jobs"]
    assert [job["id"] for job in labelled] == ["job-2", "job-1"]
    assert house.client.job(str(never["id"]))["reason"].startswith("begins at ")
    assert house.stoker("kill", str(never["id"]), "-o", "json")["state"] == "killed"
    assert "2 finished" in house.stoker("job", "array-1")


def test_a_failure_takes_along_who_comes_after(house: Daemon) -> None:
    """The job fails after its retries, with pauses; an unknown predecessor is refused in one line."""
    bad = submit(house, "bad", "3", flags=("--retries", "1", "--group", "broken", "--name", "bad"))
    after = submit(house, "after", "0", flags=("--after", "bad", "--group", "broken"))
    over = house.ended(str(bad["id"]))
    assert (over["state"], over["exit_code"], over["retried"]) == ("failed", 3, 1)
    assert [attempt["fault"] for attempt in over["attempts"]] == ["user", "user"]
    cancelled = house.ended(str(after["id"]))
    assert cancelled["reason"] == f"never began: it comes after {bad['id']} (bad), which failed"
    found = house.stoker("wait", "broken", "-o", "json", code=1)
    assert (found["state"], found["first_failure"]["id"]) == ("failed", bad["id"])
    said = house.stoker("submit", *NONE, "--after", "nobody", str(house.folder / "part.py"), code=2)
    assert "no job or group nobody" in said


def test_what_the_docs_say_is_taken(house: Daemon) -> None:
    """Each command of docs/submit.md about this: for later, so that nothing of it begins, and then ended."""
    text = (Path(__file__).parents[2] / "docs/submit.md").read_text()
    text = text[text.index("## Dependencies, retries, arrays") : text.index("## Files")]
    lines = [line for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL) for line in block.splitlines()]
    array = "array-12"
    for line in lines:
        words = [re.sub(r"\w+\.py$", str(house.folder / "part.py"), word) for word in shlex.split(line)[1:]]
        if words[0] == "submit":
            later = () if "--start-at" in words else ("--start-at", "in 1d")
            array = house.stoker("submit", *NONE, *later, "-o", "json", *words[1:])["array"] or array
            if "parts" in words and "--count" in words:
                parts = array
        elif words[0] in ("wait", "logs"):  # these are tried above
            assert words[1] in ("nightly", "array-12")
        else:
            house.stoker(*(parts if word == "array-12" else word for word in words))
    states = {job["state"] for job in house.stoker("jobs", "--group", parts, "-o", "json")["jobs"]}
    assert states == {"killed"}
    assert len(lines) == 9
