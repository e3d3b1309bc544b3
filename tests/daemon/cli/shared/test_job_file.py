"""Job files and flags are converted to a job specification."""

from pathlib import Path

import pytest

from conf.loader import ConfigError
from conf.schema import DynamicExecutors, JobSpec
from daemon.cli.jobs import submit
from daemon.cli.shared.job_file import amounts, assignments, read_spec


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a job file beside its app, seen from another working folder."""
    jobs = tmp_path / "jobs"
    jobs.mkdir()
    (jobs / "app.py").write_text("")
    (jobs / "util.py").write_text("")
    (jobs / "job.yaml").write_text(
        "app: app.py\nexecutors: 3\nmemory: 2g\npy_files: [util.py]\nargs: [10, x]\n"
        "conf: {spark.a: '1', spark.b: '2'}\ndriver: {on: cluster, cpus: 2.0}\n"
    )
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "app.py").write_text("")
    monkeypatch.chdir(elsewhere)
    return jobs


def test_paths_in_a_job_file_are_relative_to_it(folder: Path) -> None:
    """The app and its files are found beside the job file, wherever the user is."""
    spec = read_spec("../jobs/job.yaml", [], {})
    assert Path(spec.app).samefile(folder / "app.py")
    assert Path(spec.app).is_absolute()
    assert [Path(path).samefile(folder / "util.py") for path in spec.py_files] == [True]
    assert (spec.executors, spec.memory, spec.args) == (3, 2048, ("10", "x"))


def test_settings_of_spark_are_written_as_it_reads_them(folder: Path) -> None:
    """Numbers and truth values in a job file are no mistake; a list is."""
    file = folder / "numbers.yaml"
    file.write_text("app: app.py\nconf: {a: 8, b: true, c: 0.5, d: '08'}\n")
    assert read_spec(str(file), [], {}).conf == {"a": "8", "b": "true", "c": "0.5", "d": "08"}
    for wrong in ("[8]", ".inf", "null"):
        file.write_text(f"app: app.py\nconf: {{a: {wrong}}}\n")
        with pytest.raises(ConfigError, match="conf"):
            read_spec(str(file), [], {})


def test_settings_of_spark_keep_their_blanks(folder: Path) -> None:
    """A separator may be a tab; in a job file and by a flag."""
    blank = {"spark.t.sep": "\t", "spark.t.trail": "  spaced  "}
    file = folder / "blank.yaml"
    file.write_text('app: app.py\nconf: {spark.t.sep: "\\t", spark.t.trail: "  spaced  "}\n')
    spec = read_spec(str(file), [], {})
    assert spec.conf == blank
    assert assignments([f"{name}={value}" for name, value in blank.items()], "--conf") == blank
    assert JobSpec.model_validate_json(spec.model_dump_json()).conf == blank


def test_a_missing_file_of_a_job_file_is_told_with_where_it_was_looked_for(folder: Path) -> None:
    """A missing file is reported with the base folder of relative paths.

    The author may have meant the working folder.
    """
    (folder / "job.yaml").write_text("app: none.py\n")
    with pytest.raises(ConfigError, match=r"none\.py\n\(a relative path in .*job\.yaml is from "):
        read_spec(str(folder / "job.yaml"), [], {})
    with pytest.raises(ConfigError, match=r"none\.py$"):
        read_spec("none.py", [], {})


def test_flags_take_precedence(folder: Path) -> None:
    """A flag replaces the file's value; settings are merged one by one; flags' paths are the user's."""
    flags = {"executors": 5, "conf": {"spark.b": "9"}, "driver": {"on": "host"}, "py_files": ("app.py",)}
    spec = read_spec(str(folder / "job.yaml"), ["new"], flags)
    assert (spec.executors, spec.args) == (5, ("new",))
    assert spec.conf == {"spark.a": "1", "spark.b": "9"}
    assert spec.driver is not None
    assert (spec.driver.on, spec.driver.cpus) == ("host", 2.0)
    assert spec.py_files == (str(Path.cwd() / "app.py"),)


def test_an_app_alone_is_a_job(folder: Path) -> None:
    """Without a job file the app is relative to the working folder, and the defaults hold."""
    spec = read_spec("app.py", ["--fast"], {"type": "sort"})
    assert spec.app == str(Path.cwd() / "app.py")
    assert (spec.executors, spec.args, spec.type) == (1, ("--fast",), "sort")


def test_bounds_of_executors(folder: Path) -> None:
    """They are dynamic allocation; a number on the command line is that many all the time."""
    (folder / "job.yaml").write_text("app: app.py\nexecutors: {max: 8}\n")
    spec = read_spec(str(folder / "job.yaml"), [], {})
    assert isinstance(spec.executors, DynamicExecutors)
    assert (spec.executors.min, spec.executors.begins_with, spec.executors.max) == (0, 1, 8)
    assert (spec.fewest_executors, spec.most_executors) == (1, 8)
    spec = read_spec(str(folder / "job.yaml"), [], {"executors": {"min": 2, "max": 9}})
    assert spec.executors == DynamicExecutors(min=2, max=9)
    spec = read_spec(str(folder / "job.yaml"), [], {"executors": 4})
    assert (spec.executors, spec.fewest_executors) == (4, None)


def test_docs_submit_says_how_many_executors_there_may_be(folder: Path) -> None:
    """The page's job file is one, and the flags beside it are such bounds."""
    page = (Path(__file__).parents[4] / "docs/submit.md").read_text()
    section = page.partition("## Dynamic allocation\n")[2]
    (folder / "etl.py").touch()
    (folder / "etl.yaml").write_text(section.partition("```yaml\n")[2].partition("```")[0])
    assert read_spec(str(folder / "etl.yaml"), [], {}).executors == DynamicExecutors(min=1, max=20)
    assert "`stoker submit etl.py --max-executors 20 --min-executors 1`" in section
    assert submit._executors(None, 1, 20) == {"executors": {"min": 1, "max": 20}}
    assert submit._executors("3", 2, None) == {"executors": 3, "min_executors": 2}


def test_flags_say_how_few_cpus_are_enough() -> None:
    """A minimum and a maximum by flags equal `cpus: {min, max}` of a job file."""
    assert submit._cpus("4.0", 1.0) == {"min": 1.0, "max": 4.0}
    assert submit._cpus("4.0", None) == 4.0
    assert submit._cpus(None, None) is None
    with pytest.raises(ConfigError, match=r"cpus\.max: missing"):
        read_spec("app.py", [], {"cpus": submit._cpus(None, 1.0)})


def test_files_are_found_without_their_other_names(folder: Path) -> None:
    """Of all lists alike."""
    Path("lib.zip").write_bytes(b"")
    for name in ("files", "jars", "py_files"):
        spec = read_spec("app.py", [], {name: ("lib.zip#other.zip",)})
        assert getattr(spec, name) == (f"{Path.cwd()}/lib.zip#other.zip",)
        with pytest.raises(ConfigError, match=rf"{name}: no such file: .*/nope\.zip#x"):
            read_spec("app.py", [], {name: ("nope.zip#x",)})


def test_archives_are_found_without_the_folder_that_they_become(folder: Path) -> None:
    """The text behind the # is no part of the archive's file name."""
    Path("env.tar.gz").touch()
    spec = read_spec("app.py", [], {"archives": ("env.tar.gz#env",)})
    assert spec.archives == (f"{Path.cwd()}/env.tar.gz#env",)
    with pytest.raises(ConfigError, match=r"archives: no such file: .*/nope\.zip#x"):
        read_spec("app.py", [], {"archives": ("nope.zip#x",)})


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"archives": ("env.rar#env",)}, "should be a .tar, .tar.gz, .tgz, .zip or .jar"),
        ({"archives": ("env.zip#../env",)}, "should be a .tar"),
        ({"archives": ("a.zip,b.zip",)}, "should be a .tar"),
        ({"packages": ("postgresql",)}, "should be group:artifact:version"),
        ({"packages": ("a:b:1,c:d:2",)}, "should be group:artifact:version"),
        ({"packages": ("--conf:b:1",)}, "should be group:artifact:version"),
        ({"repositories": ("/srv/maven",)}, "should be the URL of a repository"),
        ({"repositories": ("ftp://example.org/",)}, "should be the URL of a repository"),
    ],
)
def test_what_spark_could_not_find_is_refused(folder: Path, flags: dict[str, str], message: str) -> None:
    """Archives, packages and repositories are checked before anything is sent."""
    Path("env.rar").touch()
    with pytest.raises(ConfigError, match=message):
        read_spec("app.py", [], flags)


def test_files_elsewhere_stay_as_they_are(folder: Path) -> None:
    """A URI is not looked for on this machine."""
    spec = read_spec("app.py", [], {"files": ("hdfs://name/data", f"file://{folder}/app.py")})
    assert spec.files == ("hdfs://name/data", f"file://{folder}/app.py")


@pytest.mark.parametrize(
    ("target", "flags", "told"),
    [
        ("none.py", {}, "app: no such file: "),
        ("app.py", {"jars": ("a.jar",)}, "jars: no such file: "),
        ("~nobody-here/app.py", {}, "no such file"),
        ("none.yaml", {}, "none.yaml: cannot be read: No such file or directory"),
        ("app.txt", {}, "app should be a Python file (.py) or a jar (.jar)"),
        ("app.py", {"memory": "much"}, "memory: should be an amount of memory such as 512m or 2g"),
        ("app.py", {"executors": -1}, "command line: executors: "),
        ("app.py", {"resources": {"gpus": 0.5}}, "resources: gpus: should be a whole number"),
        ("app.py", {"env": {"1A": "x"}}, "env"),
        ("", {}, "app"),
        ("app.py\0", {}, "app"),
    ],
)
def test_bad_input_is_named(folder: Path, target: str, flags: dict[str, object], told: str) -> None:
    """A faulty submission is refused with an explanation in words."""
    with pytest.raises(ConfigError) as caught:
        read_spec(target, [], flags)
    assert told in str(caught.value)


def test_bad_yaml_names_its_line(folder: Path) -> None:
    """A broken job file is named with the line."""
    bad = folder / "bad.yaml"
    bad.write_text("app: app.py\nexecutor: 3\n")
    with pytest.raises(ConfigError, match=r"bad\.yaml:2: executor: unknown key; did you mean executors\?"):
        read_spec(str(bad), [], {})


def test_assignments() -> None:
    """Values may contain equals signs; text other than key=value is refused with its flag."""
    assert assignments(["a=1", "b=x=y", "c="], "--conf") == {"a": "1", "b": "x=y", "c": ""}
    for wrong in ("a", "=1"):
        with pytest.raises(ConfigError, match="--conf: should be key=value"):
            assignments([wrong], "--conf")


def test_amounts() -> None:
    """Numbers are read by name; text other than name=number is refused with its flag."""
    assert amounts(["gpus=2", "disk=0.5"], "--resource") == {"gpus": 2.0, "disk": 0.5}
    with pytest.raises(ConfigError, match=r"--resource: should be name=number, found 'gpus=many'"):
        amounts(["gpus=many"], "--resource")
