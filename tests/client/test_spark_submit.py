"""`python -m stoker spark-submit`: how it reads a command line, and its calls to a daemon."""

import hashlib
import json
import re
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from stoker import client, flows, spark_submit
from stoker.command import main
from stoker.spark_arguments import ArgumentsError, parse_properties, read_arguments

from tests.daemon.cli.conftest import Cast, Daemon, served

Capture = pytest.CaptureFixture[str]
PAGES = """\
# a comment
! another
spark.a=1
spark.b : two words  \n  spark.c\tthree
spark.long  first, \\
            second
spark.escaped\\=name = a\\u0041\\tb\\\\c
spark.empty
mine.own = x
"""


def test_flags_are_properties() -> None:
    """Each with its value behind it or behind a =; words after the application are the application's."""
    given = read_arguments(
        ["--master", "mesos://h:1", "--name=n", "-c", "spark.x=a=b", "--conf", "spark.y= 1 ", "--supervise",
         "--executor-memory", "2g", "--num-executors", "3", "--class", "a.B", "-v", "app.jar", "--name", "x",
         "-c"],
        {},
    )  # fmt: skip
    assert given.properties == {
        "spark.master": "mesos://h:1", "spark.app.name": "n", "spark.x": "a=b", "spark.y": " 1 ",
        "spark.driver.supervise": "true", "spark.executor.memory": "2g", "spark.executor.instances": "3",
    }  # fmt: skip
    assert (given.resource, given.main_class) == ("app.jar", "a.B")
    assert given.arguments == ["--name", "x", "-c"]
    assert given.switches == {"--supervise", "--verbose"}


def test_properties_files_are_javas(tmp_path: Path) -> None:
    """With their comments, separators, continued lines and escapes."""
    assert parse_properties(PAGES) == {
        "spark.a": "1", "spark.b": "two words", "spark.c": "three", "spark.long": "first, second",
        "spark.escaped=name": "aA\tb\\c", "spark.empty": "", "mine.own": "x",
    }  # fmt: skip


def test_a_mark_at_the_beginning_of_a_file_is_no_part_of_a_name(tmp_path: Path) -> None:
    """Editors write it (a byte order mark); Spark takes it for a name, and leaves that property out."""
    file = tmp_path / "file"
    file.write_bytes(b"\xef\xbb\xbfspark.executor.instances 3\n")
    given = read_arguments(["--properties-file", str(file), "app.jar"], {})
    assert (given.properties, given.notes) == ({"spark.executor.instances": "3"}, [])


def test_blanks_in_properties_files_are_as_for_spark() -> None:
    """It strips those around a value, but not ends of lines, nor characters that Java does not count."""
    text = "spark.a=\\n x \\t\nspark.b=\\u00a0x\\u00a0\nspark.c=\\t\nspark.d=x\\n"
    found = parse_properties(text)
    assert found == {"spark.a": "\n x", "spark.b": "\u00a0x\u00a0", "spark.c": "", "spark.d": "x\n"}


def test_a_character_in_two_escapes_is_one() -> None:
    """Java's files have those beyond the first plane as two halves."""
    assert parse_properties("spark.a=\\uD83D\\uDE00\n") == {"spark.a": "\U0001f600"}


def test_what_goes_before_what(tmp_path: Path) -> None:
    """Flags before --conf before --properties-file before spark-defaults.conf before the environment."""
    defaults, file = tmp_path / "conf" / "spark-defaults.conf", tmp_path / "file"
    defaults.parent.mkdir()
    defaults.write_text("spark.executor.cores 9\nspark.a 9\nspark.b 9\n")
    file.write_text("spark.executor.cores 8\nspark.a 8\nmine 1\n")
    environ = {"SPARK_HOME": str(tmp_path), "SPARK_EXECUTOR_CORES": "7", "MASTER": "mesos://e:1"}

    def read(*flags: str) -> dict[str, str]:
        return read_arguments([*flags, "a.py"], environ).properties

    assert read() == {
        "spark.executor.cores": "9", "spark.a": "9", "spark.b": "9", "spark.master": "mesos://e:1"
    }  # fmt: skip
    of_file = ["--properties-file", str(file)]
    assert read(*of_file) == {"spark.executor.cores": "8", "spark.a": "8", "spark.master": "mesos://e:1"}
    both = read("--load-spark-defaults", *of_file)
    assert (both["spark.a"], both["spark.b"]) == ("8", "9")
    assert read(*of_file, "--conf", "spark.executor.cores=6")["spark.executor.cores"] == "6"
    flags = ["--executor-cores", "5", *of_file, "--conf", "spark.executor.cores=6"]
    assert read(*flags)["spark.executor.cores"] == "5"
    assert read_arguments([*of_file, "a.py"], {}).notes == ["mine is no property of Spark, and is left out"]


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("--executor-mem 1g a.py", "unrecognized option: --executor-mem"),
        ("-x a.py", "unrecognized option: -x"),
        ("--name", "--name: its value is missing"),
        ("--conf spark.a a.py", "--conf: should be PROPERTY=VALUE, found 'spark.a'"),
        ("--conf spark.stoker.token=t a.py", "can be read by everybody"),
        ("--properties-file /none a.py", "/none: cannot be read: No such file"),
        ("--remote sc://h a.py", "--remote: it is Spark Connect's"),
        ("--keytab k a.py", "Kerberos is not spoken here"),
    ],
)
def test_what_cannot_be_meant_is_said(command: str, why: str, capsys: Capture) -> None:
    """In one line, with spark-submit's exit code."""
    with pytest.raises(ArgumentsError, match=re.escape(why)):
        read_arguments(command.split(), {})
    assert main(["spark-submit", *command.split()]) == 1
    told = capsys.readouterr()
    assert (told.out, told.err.count("\n")) == ("", 1)
    assert told.err.startswith("Error: ")
    assert why in told.err


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("", "missing application resource"),
        ("--deploy-mode client a.py", "--deploy-mode client runs the driver here"),
        ("--deploy-mode both a.py", "should be cluster, found 'both'"),
        ("--master yarn a.py", "--master yarn: should be mesos://"),
        ("--master mesos://zk://h:1/m a.py", "should be mesos://"),
        ("--master spark://h:1,g {app}", "--master spark://h:1,g: g has no port, as in g:8642"),
        ("--master mesos://127.0.0.1:1 {app}", "no daemon answers at http://127.0.0.1:1"),
        ("nowhere.py", "nowhere.py: no such file here"),
        ("--files none*.txt {app}", "none*.txt: no file here has such a name"),
        ("--class", "--class: its value is missing"),
        ("{jar}", "its manifest names none"),
        ("--conf spark.stoker.nosuch=1 {app}", "spark.stoker.nosuch does not exist"),
        ("--status driver-1", "there is no submission driver-1"),
    ],
)
def test_what_goes_wrong_is_one_line(
    daemon: Daemon, tmp_path: Path, capsys: Capture, command: str, why: str
) -> None:
    """Before anything is sent, or in the daemon's words; soon, and with exit code 1."""
    app, jar = tmp_path / "a.py", tmp_path / "a.jar"
    app.touch()
    with zipfile.ZipFile(jar, "w") as archive:
        archive.writestr("META-INF/MANIFEST.MF", "Manifest-Version: 1.0\n")
    began = time.monotonic()
    assert main(["spark-submit", *command.format(app=app, jar=jar).split()]) == 1
    assert time.monotonic() - began < 20  # whoever waits for a daemon does so for minutes
    told = capsys.readouterr()
    assert why in told.err
    assert told.err.startswith("Error: ")
    assert told.err.count("\n") == 1


def created(told: str) -> dict[str, Any]:
    """The answer that spark-submit prints."""
    found: dict[str, Any] = json.loads(told[told.index("{") : told.rindex("}") + 1])
    return found


def test_a_submission_is_sent_with_its_files(
    daemon: Daemon, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As spark-submit would send it, but with the files of this machine; then asked about, and ended."""
    (tmp_path / "app.py").write_text("print(1)\n")
    for name in ("one.txt", "two.txt", "lib.py", "env.tar.gz"):
        (tmp_path / name).write_text(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LOGNAME", "carol")
    master = daemon.url.replace("http", "mesos")
    command = (
        f"spark-submit --master {master} --deploy-mode cluster --conf spark.master.rest.enabled=true "
        "--name wc "
        "--total-executor-cores 3 --conf spark.executor.instances=3 --executor-memory 1g --py-files lib.py "
        "--files *.txt,two.txt#2.txt,https://h/x --archives env.tar.gz#env app.py --size 8"
    )
    assert main(command.split()) == 0
    submission = created(capsys.readouterr().err)["submissionId"]
    spec, record = daemon.cast.store.jobs.spec("job-1"), daemon.cast.store.jobs.get("job-1")
    assert spec is not None
    assert record is not None

    def sent(name: str, text: str = "") -> str:
        return f"stoker-file:{hashlib.sha256((text or name).encode()).hexdigest()}/{name}"

    assert (spec.app, spec.args) == (sent("app.py", "print(1)\n"), ("--size", "8"))
    assert spec.files == (sent("one.txt"), sent("two.txt"), sent("two.txt") + "#2.txt", "https://h/x")
    assert (spec.py_files, spec.archives) == ((sent("lib.py"),), (sent("env.tar.gz") + "#env",))
    assert (spec.name, spec.executors, spec.owner) == ("wc", 3, "carol")
    ask = ["spark-submit", "--master", f"mesos://127.0.0.1:1,{daemon.url.removeprefix('http://')}"]
    assert main([*ask, "--status", submission]) == 0
    assert f"State of driver {submission} is now SUBMITTED." in capsys.readouterr().err
    assert main([*ask, "--kill", submission]) == 0
    assert "job-1 is killed" in capsys.readouterr().err
    assert main([*ask, "--kill", submission]) == 1


def test_files_of_every_kind_are_sent_under_their_alias(
    daemon: Daemon, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`path#alias` names files, jars, Python files and archives alike, as in Spark."""
    kinds = {"files": "conf.txt", "jars": "a.jar", "py-files": "lib.py", "archives": "env.tgz"}
    for name in ("app.py", *kinds.values()):
        (tmp_path / name).write_text(name)
    monkeypatch.chdir(tmp_path)
    flags = [f"--{kind}={name}#renamed{Path(name).suffix}" for kind, name in kinds.items()]
    assert main(["spark-submit", "--master", daemon.url.replace("http", "mesos"), *flags, "app.py"]) == 0
    created(capsys.readouterr().err)
    spec = daemon.cast.store.jobs.spec("job-1")
    assert spec is not None
    for kind, name in kinds.items():
        sent = f"stoker-file:{hashlib.sha256(name.encode()).hexdigest()}/{name}#renamed{Path(name).suffix}"
        assert getattr(spec, kind.replace("-", "_")) == (sent,)


@pytest.mark.parametrize(("state", "code"), [("finished", 0), ("failed", 1)])
def test_it_waits_where_that_is_asked(
    daemon: Daemon, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch, state: Any, code: int
) -> None:
    """And then tells by its exit code how the application ended."""
    app = tmp_path / "app.py"
    app.touch()

    steps: Iterator[Callable[[], object]] = iter(
        [
            lambda: daemon.cast.place("job-1"),
            lambda: daemon.cast.put("job-1", state, "its driver exited", finished_at=time.time()),
        ]
    )
    pauses = SimpleNamespace(sleep=lambda _: next(steps)(), monotonic=time.monotonic)
    monkeypatch.setattr(client, "time", pauses)
    wait = "spark.kubernetes.submission.waitAppCompletion=true"
    assert main(["spark-submit", "--master", daemon.url, "--conf", wait, str(app)]) == code
    told = capsys.readouterr().err
    assert "is now RUNNING." in told
    assert f"is now {state.upper()}." in told
    spec = daemon.cast.store.jobs.spec("job-1")
    assert spec is not None
    assert not [name for name in spec.conf if "wait" in name]


def test_the_token_comes_by_a_file(
    cast: Cast, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the properties, or named by them or by the environment; it is part of no job, and never shown."""
    app, token, file = tmp_path / "app.py", tmp_path / "token", tmp_path / "properties"
    app.touch()
    token.write_text("t0ken\n")
    token.chmod(0o600)
    with served(cast, "t0ken") as url:
        command = ["spark-submit", "-v", "--master", url, "--properties-file", str(file), str(app)]
        file.write_text("")
        assert main(command) == 1
        assert "token" in capsys.readouterr().err
        for text in ("spark.stoker.token t0ken", f"spark.stoker.token.file {token}"):
            file.write_text(text)
            assert main(command) == 0, capsys.readouterr().err
            assert "t0ken" not in capsys.readouterr().err
        file.write_text("")
        monkeypatch.setenv("STOKER_TOKEN_FILE", str(token))
        assert main(command) == 0
    for job_id in ("job-1", "job-2", "job-3"):
        spec = cast.store.jobs.spec(job_id)
        assert spec is not None
        assert "t0ken" not in spec.model_dump_json()


def test_a_jar_names_its_main_class(tmp_path: Path) -> None:
    """The manifest's long lines go on in the next."""
    jar = tmp_path / "a.jar"
    name = "org.example." + "a" * 70
    with zipfile.ZipFile(jar, "w") as archive:
        archive.writestr("META-INF/MANIFEST.MF", f"A: b\r\nMain-Class: {name[:50]}\r\n {name[50:]}\r\n")
    assert spark_submit._manifest_class(str(jar)) == spark_submit._manifest_class(jar.as_uri()) == name


def test_which_spark_is_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one of SPARK_HOME, else an installed one, else the daemon's default."""
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "spark-core_2.13-4.3.0.jar").touch()
    assert spark_submit._own_version({"SPARK_HOME": str(tmp_path)}) == "4.3.0"
    monkeypatch.setattr("importlib.metadata.version", lambda _: "3.5.9")
    assert spark_submit._own_version({}) == "3.5.9"


def test_flags_as_airflow_gives_them(daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The call of its SparkSubmitOperator for a connection with a host, a port and cluster mode."""
    (tmp_path / "app.py").touch()
    monkeypatch.chdir(tmp_path)
    master = daemon.url.replace("http", "spark+stoker")
    command = ["--master", master, "--conf", "spark.a=b", "--num-executors", "3", "--name", "arrow-spark"]
    command += ["--verbose", "--deploy-mode", "cluster", "app.py", "--size", "8"]
    assert main(["spark-submit", *command]) == 0
    spec = daemon.cast.store.jobs.spec("job-1")
    assert spec is not None
    assert (spec.name, spec.executors, spec.args) == ("arrow-spark", 3, ("--size", "8"))


def test_help_and_version(capsys: Capture) -> None:
    """Without a daemon, and without an application."""
    assert main(["spark-submit", "--help"]) == 0
    told = capsys.readouterr().err
    assert all(flag in told for flag in ("--properties-file", "--total-executor-cores", "--kill"))
    assert main(["spark-submit", "--version"]) == 0
    assert flows.SCHEME == "stoker-file"
