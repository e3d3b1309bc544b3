"""Every command that talks to the daemon, against the real API: for people, as JSON, and with bad input."""

import hashlib
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from stoker import flows

from conf.uploaded_file import UploadedFile
from daemon.cli import main
from daemon.cli.jobs import upload
from daemon.core.cluster_status import PoolStatus
from daemon.core.shadow_comparison import Comparison, Outcome
from tests.daemon.cli.conftest import VMS, Cast, Daemon, served

Capture = pytest.CaptureFixture[str]
Pauses = Callable[..., None]


@pytest.fixture
def app(tmp_path: Path) -> str:
    """An app that is there."""
    path = tmp_path / "count.py"
    path.write_text("")
    return str(path)


@pytest.fixture
def job_id(daemon: Daemon, app: str, capsys: Capture) -> str:
    """A job that waits."""
    assert daemon.run("submit", "--type", "sort", "-o", "json", app) == 0
    submitted: str = json.loads(capsys.readouterr().out)["id"]
    return submitted


def as_json(daemon: Daemon, capsys: Capture, *arguments: str) -> Any:
    """Run a command with -o json and return the parsed output."""
    command, *rest = arguments
    words = (
        [*rest, "-o", "json"] if command != "submit" else ["-o", "json", *rest]
    )  # what is behind an app is its
    assert daemon.run(command, *words) == 0
    return json.loads(capsys.readouterr().out)


def test_submit_says_what_was_submitted(daemon: Daemon, app: str, capsys: Capture) -> None:
    """A submission is answered with the job's id, name and shape."""
    flags = ["--executors", "3", "--cpus", "0.5", "--memory", "1g"]
    assert daemon.run("submit", *flags, app, "--", "10", "--fast") == 0
    assert capsys.readouterr().out == "Job job-1 (count) submitted: 3 executors of 0.5 cpus, 1 GiB.\n"
    spec = daemon.cast.store.jobs.spec("job-1")
    assert spec is not None
    assert spec.args == ("10", "--fast")


@pytest.mark.parametrize(
    ("arguments", "theirs"),
    [
        (["--size", "4"], ("--size", "4")),
        (["--", "--size"], ("--size",)),
        (["--", "--", "x"], ("--", "x")),
        (["in", "-o", "json"], ("in", "-o", "json")),
        ([], ()),
    ],
)
@pytest.mark.parametrize("before", [[], ["--name", "x.yaml"], ["--name=n", "--"]])
def test_what_stands_after_an_app_is_the_apps(
    daemon: Daemon, app: str, before: list[str], arguments: list[str], theirs: tuple[str, ...]
) -> None:
    """Arguments after an app go to the app, whichever form they have; a `--` only starts them."""
    assert daemon.run("submit", *before, app, *arguments) == 0
    spec = daemon.cast.store.jobs.spec("job-1")
    assert spec is not None
    assert spec.args == theirs


def test_flags_that_the_app_gets_are_told(daemon: Daemon, app: str, tmp_path: Path, capsys: Capture) -> None:
    """A Stoker flag after the app is passed to the app, with a warning; after a job file it is Stoker's."""
    assert daemon.run("submit", app, "--wait", "--name=x", "--mine") == 0
    told = capsys.readouterr().err
    assert told == (
        f"stoker: --wait, --name=x: passed to the application, since it comes after {app}; "
        "put options of stoker before it\n"
    )
    file = tmp_path / "job.yaml"
    file.write_text(f"app: {app}\n")
    assert daemon.run("submit", str(file), "--name", "x", "--", "--name") == 0
    spec = daemon.cast.store.jobs.spec("job-2")
    assert spec is not None
    assert (spec.name, spec.args) == ("x", ("--name",))
    assert not capsys.readouterr().err


def test_every_flag_reaches_the_job(daemon: Daemon, app: str) -> None:
    """Every flag of the command line reaches the daemon unchanged."""
    flags = ["--name", "n", "--py-files", f"{app},{app}", "--files", app, "--jars", app, "--class", "a.B"]
    flags += ["--packages", "a:b:1,c:d:2", "--repositories", "https://example.org/m"]
    flags += ["--conf", "spark.x=1", "--conf", "spark.y=a=b", "--env", "A=1", "--driver", "cluster"]
    flags += ["--driver-memory", "2g", "--driver-cores", "0.5"]
    flags += ["--resource", "gpus=2", "--resource", "disk=0.5"]
    assert daemon.run("submit", *flags, app) == 0
    spec = daemon.cast.store.jobs.spec("job-1")
    assert spec is not None
    assert (spec.name, spec.main_class, spec.py_files) == ("n", "a.B", (app, app))
    assert (spec.packages, spec.repositories) == (("a:b:1", "c:d:2"), ("https://example.org/m",))
    assert (spec.files, spec.jars, spec.env) == ((app,), (app,), {"A": "1"})
    assert spec.conf == {"spark.x": "1", "spark.y": "a=b"}
    assert spec.resources == {"gpus": 2.0, "disk": 0.5}
    assert spec.driver is not None
    assert (spec.driver.on, spec.driver.memory, spec.driver.cpus) == ("cluster", 2048, 0.5)


def test_the_size_of_a_driver_needs_its_place(daemon: Daemon, app: str, capsys: Capture) -> None:
    """Else a flag for its memory would move it from where the daemon's config has it."""
    assert daemon.run("submit", "--driver-memory", "2g", app) == 2
    assert "need --driver host or --driver cluster" in capsys.readouterr().err


def test_files_are_sent_where_that_is_wanted(
    daemon: Daemon, app: str, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files are uploaded with --upload or to a remote daemon.

    A partial upload resumes, and a file already there is not sent.
    """
    Path(app).write_text("print('hello')\n")
    large = tmp_path / "large.zip"
    large.write_bytes(os.urandom(3 << 20))
    flags = ["--files", f"{large},https://h/x", "--archives", f"{large}#data", "--py-files", f"file://{app}"]
    assert daemon.run("submit", *flags, app, "in") == 0
    uploads = daemon.cast.uploads
    sha256 = hashlib.sha256(large.read_bytes()).hexdigest()
    assert uploads.status(sha256) is None  # the daemon is here, and has the paths
    uploads.put(sha256, 3 << 20, 0, large.read_bytes()[:1000])
    # The daemon was stopped when it had all of the application, and had not looked at that yet.
    app_sha256 = hashlib.sha256(Path(app).read_bytes()).hexdigest()
    (uploads._folder / f"{app_sha256}.part").write_bytes(Path(app).read_bytes())
    sent: list[int] = []
    put = flows._put

    def noted(sha256: str, size: int, offset: int, data: bytes) -> Any:
        sent.append(len(data))
        return put(sha256, size, offset, data)

    monkeypatch.setattr(flows, "_put", noted)
    assert daemon.run("submit", "--upload", *flags, app, "in") == 0
    monkeypatch.setattr(upload, "is_here", lambda _: False)
    assert daemon.run("submit", *flags, app, "in") == 0
    assert sum(sent) == (3 << 20) - 1000
    assert max(sent) <= 1 << 20
    first, second = daemon.cast.store.jobs.spec("job-2"), daemon.cast.store.jobs.spec("job-3")
    assert first is not None
    assert first == second
    name = f"stoker-file:{sha256}/large.zip"
    assert (first.files, first.archives) == ((name, "https://h/x"), (f"{name}#data",))
    assert (first.app, first.args) == (first.py_files[0], ("in",))
    assert first.app == f"stoker-file:{app_sha256}/count.py"
    assert uploads.path(UploadedFile(sha256, "large.zip")).read_bytes() == large.read_bytes()
    bad = tmp_path / "stdout"
    bad.write_text("")
    capsys.readouterr()
    assert daemon.run("submit", "--files", str(bad), app) == 2
    assert "a file of Stoker's has that name" in capsys.readouterr().err


def test_where_a_daemon_is() -> None:
    """Every name or address of this machine is local; an address of no known host is remote."""
    assert upload.is_here("http://127.0.0.1:8642")
    assert upload.is_here("http://localhost:8642")
    assert not upload.is_here("http://192.0.2.1:8642")


def test_whose_job_it_is_and_in_which_queue(
    daemon: Daemon, app: str, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The flag's word goes before the file's, and that before the login name; lists can be asked for both."""
    monkeypatch.setenv("LOGNAME", "carol")
    file = tmp_path / "job.yaml"
    file.write_text(f"app: {app}\nowner: alice\nqueue: night\n")
    for command in ([app], [str(file)], [str(file), "--owner", "bob", "--queue", "day"]):
        assert daemon.run("submit", *command) == 0
    kept = [record.job for record in daemon.cast.store.jobs.page(newest_first=False)]
    assert [(job.owner, job.queue) for job in kept] == [
        ("carol", "default"), ("alice", "night"), ("bob", "day")
    ]  # fmt: skip
    capsys.readouterr()
    for wanted, job_id in (("--owner=alice", "job-2"), ("--queue=day", "job-3")):
        assert [job["id"] for job in as_json(daemon, capsys, "jobs", wanted)["jobs"]] == [job_id]
    assert daemon.run("jobs") == 0
    printed = capsys.readouterr().out
    assert {"owner", "alice", "bob", "carol", "queue", "night", "day"} < set(printed.split())
    assert daemon.run("job", "job-2") == 0
    assert {"owner", "alice", "queue", "night"} < set(capsys.readouterr().out.split())


def test_who_has_no_name_is_nobody(daemon: Daemon, app: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job has no owner when the system knows no name of the submitting user."""
    monkeypatch.setattr("getpass.getuser", lambda: os.environ["NOBODY_HAS_THIS"])
    assert daemon.run("submit", app) == 0
    record = daemon.cast.store.jobs.get("job-1")
    assert record is not None
    assert record.job.owner == ""


def test_one_key_is_one_job(daemon: Daemon, app: str, capsys: Capture) -> None:
    """The same submission twice with one key is one job; another one with that key is refused."""
    ids = [as_json(daemon, capsys, "submit", "--idempotency-key", "k", app)["id"] for _ in range(2)]
    assert ids == ["job-1", "job-1"]
    assert daemon.run("submit", "--executors", "2", "--idempotency-key", "k", app) == 2
    assert capsys.readouterr().err.startswith("stoker: ")


def test_what_the_daemon_refuses_is_said_in_its_words(daemon: Daemon, app: str, capsys: Capture) -> None:
    """A problem+json answer is shown as its detail, with exit code 2."""
    assert daemon.run("submit", "--cpus", "8", app) == 2
    assert "m1.large-1 has 4 cpus" in capsys.readouterr().err


@pytest.mark.parametrize(("state", "code"), [("finished", 0), ("failed", 1), ("killed", 1)])
def test_wait_stays_until_the_end(
    daemon: Daemon, app: str, capsys: Capture, at_each_pause: Pauses, state: Any, code: int
) -> None:
    """With --wait the exit code reports how the job ended, and stderr the events on the way."""
    at_each_pause(
        lambda: daemon.cast.place("job-1"),
        lambda: daemon.cast.put("job-1", state, "so it is", finished_at=time.time()),
    )
    assert daemon.run("submit", "--wait", app) == code
    printed = capsys.readouterr()
    assert printed.out.startswith(f"Job job-1 (count) {state}")
    assert "count running" in printed.err
    assert f"count {state}" in printed.err


def test_wait_prints_the_job_as_it_ended(
    daemon: Daemon, app: str, capsys: Capture, at_each_pause: Pauses
) -> None:
    """With --wait -o json the only output is the job at its end."""
    at_each_pause(lambda: daemon.cast.put("job-1", "finished", "", finished_at=time.time()))
    assert as_json(daemon, capsys, "submit", "--wait", app)["state"] == "finished"


def test_jobs(daemon: Daemon, app: str, job_id: str, capsys: Capture) -> None:
    """Jobs are listed with state and reason, the newest first; --state and --limit narrow it."""
    daemon.cast.put(job_id, "failed", "its driver ended with exit code 1")
    assert daemon.run("submit", app) == 0
    capsys.readouterr()
    assert daemon.run("jobs") == 0
    printed = capsys.readouterr().out
    assert printed.index("job-2") < printed.index("job-1")
    assert "its driver ended with exit code 1" in printed
    assert [job["id"] for job in as_json(daemon, capsys, "jobs", "--state", "failed")["jobs"]] == ["job-1"]
    assert [job["id"] for job in as_json(daemon, capsys, "jobs", "--limit", "1")["jobs"]] == ["job-2"]


def test_no_jobs(daemon: Daemon, capsys: Capture) -> None:
    """An empty list is said in words, and is JSON all the same."""
    assert daemon.run("jobs") == 0
    assert "No jobs." in capsys.readouterr().out
    assert as_json(daemon, capsys, "jobs")["jobs"] == []


def test_job(daemon: Daemon, job_id: str, capsys: Capture) -> None:
    """A job is shown with its executors and where they are."""
    assert daemon.run("job", job_id) == 0
    assert "queued" in capsys.readouterr().out
    daemon.cast.place(job_id)
    assert daemon.run("job", job_id) == 0
    printed = capsys.readouterr().out
    assert "m1.large-1" in printed
    assert "count (type sort)" in printed
    assert as_json(daemon, capsys, "job", job_id)["id"] == job_id


@pytest.mark.parametrize("command", ["job", "logs", "kill", "explain"])
@pytest.mark.parametrize("wrong", ["job-99", "../x", "a b", "\N{SNOWMAN}"])
def test_an_unknown_job_is_said_so(daemon: Daemon, capsys: Capture, command: str, wrong: str) -> None:
    """A job that is not there is an error with exit code 2."""
    assert daemon.run(command, wrong) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("stoker: ")


def test_logs(daemon: Daemon, job_id: str, capsys: Capture) -> None:
    """The driver's stdout is printed by default, its stderr without one, or the requested log.

    A log of any length is printed in full.
    """
    daemon.cast.place(job_id)
    text = "".join(f"line {i}\n" for i in range(20))
    daemon.cast.logs = {"driver stdout": text, "driver stderr": "warned\n", "0 stderr": "executor\n"}
    for flags, expected in (
        ([], text),
        (["--stderr"], "warned\n"),
        (["--executor", "0", "--stderr"], "executor\n"),
        (["--executor", "0"], "executor\n"),
        (["--executor", "0", "--stdout"], ""),
    ):
        assert daemon.run("logs", job_id, *flags) == 0
        printed = capsys.readouterr()
        assert printed.out == expected
        told = "executor 0 printed nothing to stdout; this is its stderr"
        assert (told in printed.err) == (flags == ["--executor", "0"])
    assert daemon.run("logs", job_id, "--executor", "7") == 2
    assert daemon.run("logs", job_id, "-o", "json", "--stderr") == 0
    parts = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert "".join(part["text"] for part in parts) == "warned\n"


def test_logs_follow_until_the_end(
    daemon: Daemon, job_id: str, capsys: Capture, at_each_pause: Pauses
) -> None:
    """With -f the log is printed as it grows, until the job has ended."""
    daemon.cast.place(job_id)
    daemon.cast.logs["driver stdout"] = "one\n"

    def grow() -> None:
        daemon.cast.logs["driver stdout"] += "two\n"
        daemon.cast.put(job_id, "finished")

    at_each_pause(grow)
    assert daemon.run("logs", job_id, "-f") == 0
    assert capsys.readouterr().out == "one\ntwo\n"


def test_decommission(daemon: Daemon, job_id: str, capsys: Capture) -> None:
    """One executor or several, with a reason."""
    assert daemon.run("decommission", job_id, "0") == 0
    assert f"The driver of {job_id} releases executor 0;" in capsys.readouterr().out
    answer = as_json(daemon, capsys, "decommission", job_id, "0", "2", "--reason", "vm-1 is emptied")
    assert answer["reason"] == "gives [0, 2] up: vm-1 is emptied"
    assert daemon.run("decommission", job_id) == 2


def test_kill(daemon: Daemon, job_id: str, capsys: Capture) -> None:
    """A job is ended; doing so twice is no error."""
    for _ in range(2):
        assert daemon.run("kill", job_id) == 0
        assert capsys.readouterr().out.startswith(f"Job {job_id} ")
    assert as_json(daemon, capsys, "kill", job_id)["state"] == "killed"


def test_cluster(daemon: Daemon, capsys: Capture) -> None:
    """VMs are listed with their used resources and their cost."""
    assert daemon.run("cluster") == 0
    printed = capsys.readouterr().out
    assert "1 of 4" in printed
    assert "$0.2400/h" in printed
    assert "2 VMs up, $0.4800/h if all are used; 1 in use at $0.2400/h; 1 of 8 cpus used" in printed
    assert "state" not in printed
    assert [vm["name"] for vm in as_json(daemon, capsys, "cluster")["vms"]] == [vm.name for vm in VMS]


def test_a_cluster_with_pools(daemon: Daemon, capsys: Capture) -> None:
    """Those of a pool that are closed are a line, with why none of them is opened."""
    daemon.cast.pools = (
        PoolStatus("p", "m1.large", 4.0, 16384, {}, 0.24, 60.0, 0, 20, 3, "refused until 12:00:00"),
    )
    assert daemon.run("cluster", "-o", "wide") == 0
    printed = capsys.readouterr().out
    line = next(line for line in printed.splitlines() if line.startswith("17 of p"))
    assert line.split() == [
        "17", "of", "p", "closed", "m1.large", "4", "16", "GiB", "$0.2400/h", "refused", "until", "12:00:00"
    ]  # fmt: skip
    assert "m1.large-1   up" in printed
    (pool,) = as_json(daemon, capsys, "cluster")["pools"]
    assert (pool["name"], pool["open"], pool["max"]) == ("p", 3, 20)


def test_policies(daemon: Daemon, capsys: Capture) -> None:
    """Policies are listed with their options, the deciding one marked; it can be shown and switched."""
    assert daemon.run("policy", "list") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in lines if line.startswith("decides")] == ["ff"]
    assert "rrc" in [policy["name"] for policy in as_json(daemon, capsys, "policy", "list")["policies"]]

    assert daemon.run("policy", "set", "random", "seed=7") == 0
    assert "seed=7" in capsys.readouterr().out
    assert daemon.run("policy", "show") == 0
    assert "it chose a full VM" in capsys.readouterr().out
    status = as_json(daemon, capsys, "policy", "show")
    assert (status["name"], status["options"]) == ("random", {"seed": 7})
    assert as_json(daemon, capsys, "policy", "set", "rr")["name"] == "rr"


def test_a_shadow_policy_and_what_it_would_have_done(
    daemon: Daemon, job_id: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second policy looks on until told not to; where it differs is a table, with estimates of its cost."""
    assert daemon.run("policy", "compare") == 0
    assert "Nothing to compare yet" in capsys.readouterr().out
    for spelling in (("random", "seed=7"), ("random:seed=7",)):
        assert daemon.run("policy", "shadow", *spelling) == 0
        printed = capsys.readouterr().out
        said = "random:seed=7: 7 decisions compared, 2 different, 1 missed while it was busy, 1 fault"
        assert said in printed
    assert "it went wrong" in printed
    sides = Outcome("ff", {"m1.large-1": 2}, "", 0.24), Outcome("random", None, "bad luck", 0.0)
    daemon.cast.store.comparisons.add([Comparison(7.0, job_id, *sides)])
    assert daemon.run("policy", "compare") == 0
    printed = capsys.readouterr().out
    assert "ff: 2 on m1.large-1" in printed
    assert "random waits: bad luck" in printed
    assert "would have failed" in " ".join(printed.split())
    answer = as_json(daemon, capsys, "policy", "compare", "--limit", "0")
    assert answer["totals"][0]["compared"] == 1
    answer["totals"][0]["shadow_fallback_share"] = 0.75
    with monkeypatch.context() as patched:
        patched.setattr("stoker.Stoker.comparison", lambda *_: answer)
        assert daemon.run("policy", "compare") == 1
    said = "stoker: random failed in 75% of its decisions or placements: its numbers are not its own\n"
    assert capsys.readouterr().err == said
    assert as_json(daemon, capsys, "policy", "shadow", "--off")["shadow"] is None
    for wrong in ([], ["rr", "--off"]):
        assert daemon.run("policy", "shadow", *wrong) == 2
        assert "give a POLICY, or --off" in capsys.readouterr().err


@pytest.mark.parametrize("wrong", [["nearest"], ["ff", "a=1"], ["random", "seed=x"], ["name=x"]])
def test_a_policy_that_cannot_be_is_refused(daemon: Daemon, capsys: Capture, wrong: list[str]) -> None:
    """An unknown policy or option is an error with exit code 2, and the old policy stays."""
    assert daemon.run("policy", "set", *wrong) == 2
    assert capsys.readouterr().err.startswith("stoker: ")
    assert daemon.cast.status.name == "ff"


def test_explain_a_placement(daemon: Daemon, job_id: str, capsys: Capture) -> None:
    """Each executor is explained: the VMs considered, with shortages or scores, the choice and its reason."""
    daemon.cast.place(job_id)
    assert daemon.run("explain", job_id) == 0
    printed = capsys.readouterr().out
    assert "Executor 0 on m1.large-1: the first with room" in printed
    assert "replaced because: the policy failed" in printed
    chosen = next(line for line in printed.splitlines() if line.startswith("chosen"))
    assert "m1.large-1" in chosen
    assert "0.5" in chosen
    assert "0 cpus free, 1 needed" in printed


def test_explain_a_wait(daemon: Daemon, job_id: str, capsys: Capture) -> None:
    """A waiting job has a reason; VMs with equal shortages share a row, and left-out rows are counted."""
    daemon.cast.wait(job_id, vms=40)
    assert daemon.run("explain", job_id) == 0
    printed = capsys.readouterr().out
    assert "no VM has room" in printed
    assert "m1.large-1, ..., m1.large-40 (40)" in printed
    assert "0.5 cpus free, 1 needed" in printed
    assert "and 7 more VMs" in printed


def test_explain_before_any_decision(daemon: Daemon, job_id: str, capsys: Capture) -> None:
    """A job about which nothing was decided yet still has a reason."""
    assert daemon.run("explain", job_id) == 0
    assert "waits for its turn" in capsys.readouterr().out
    assert as_json(daemon, capsys, "explain", job_id)


def test_a_token_is_sent(cast: Cast, tmp_path: Path, capsys: Capture) -> None:
    """The daemon answers with the right token; without it the error names the missing token."""
    token = tmp_path / "token"
    token.write_text("secret\n")
    token.chmod(0o600)
    with served(cast, "secret") as url:
        assert main(["cluster", "--url", url, "--token-file", str(token)]) == 0
        capsys.readouterr()
        assert main(["cluster", "--url", url]) == 2
        assert "--token-file" in capsys.readouterr().err


def test_the_environment_names_daemon_and_token(
    cast: Cast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """STOKER_URL and STOKER_TOKEN_FILE stand for the flags; a proxy is not asked for this machine."""
    token = tmp_path / "token"
    token.write_text("secret")
    token.chmod(0o600)
    with served(cast, "secret") as url:
        monkeypatch.setenv("STOKER_URL", f"{url}/")
        monkeypatch.setenv("STOKER_TOKEN_FILE", str(token))
        monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
        assert main(["policy", "show"]) == 0
