"""The YAML loader: a value or an error that says where; never anything else."""

import os
import threading
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import BaseModel
from stoker.bounded_read import read_bounded

from conf.loader import SHIPPED, ConfigError, find, load, parse, plain_value
from conf.schema import Cluster, Config, JobSpec
from conf.schema.measuring_plan import MeasuringPlan

SCHEMAS = (Config, JobSpec, Cluster)
#: Nine times nine times ... values in nine short lines.
BOMB = "a: &a [x]\n" + "\n".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("listen: [", "f.yaml:1: not valid YAML: "),
        ("listen: x: y", "f.yaml:1: not valid YAML: mapping values are not allowed here"),
        ("listen: a:1\n\nlisten: b:1", "f.yaml:3: listen: duplicate key, first in line 1"),
        ("mesos:\n  port: 1\n  port: 2", "f.yaml:3: port: duplicate key, first in line 2"),
        ("- a", "f.yaml:1: expected keys and values, found ['a']"),
        ("text", "f.yaml:1: expected keys and values, found 'text'"),
        ("\0", "f.yaml: not valid YAML: unacceptable character #x0000: special characters are not allowed"),
        ("x: &x [*x]", "f.yaml:1: contains itself"),
        (BOMB, "f.yaml:6: expands to more than 100000 values"),
        ("x: " + "[" * 5000, "f.yaml: nested too deeply"),
        ("x: !!python/object:os.system {}", "f.yaml:1: could not determine a constructor for the tag "
         "'tag:yaml.org,2002:python/object:os.system'"),
        ("x: !!bool maybe", "f.yaml: a value does not fit its tag or kind"),
        ("x: !!timestamp now", "f.yaml: a value does not fit its tag or kind"),
        ('x: "\\UFFFFFFFF"', "f.yaml: not valid YAML"),
        ("policy: {x: y, name: 3}", "f.yaml:1: policy.name: should be a text, found 3"),
        ("mesos: {port: 0x" + "f" * 5000 + "}", "f.yaml:1: a number with 5002 digits is too large"),
        ("\ndecision_timeout: 1e999", "f.yaml:2: 1e999 is too large for a number"),
        ("mesos:\n  port: 010", "f.yaml:2: mesos.port: should be a whole number, found '010'"),
        ("decision_timeout: 1:30", "f.yaml:1: decision_timeout: should be a number, found '1:30'"),
        ("max_queued_jobs: !!int 1:30", "f.yaml:1: '1:30' is not a whole number"),
        ("mesos: {gpus: no}", "f.yaml:1: mesos.gpus: should be true or false, found 'no'"),
        ("mesos: {port: 1" + "0" * 200 + "}", "f.yaml:1: mesos.port: should be less than or equal to 65535"),
        ("x" * (1 << 20) + ": 1", "f.yaml: too long: more than 1048576 characters"),
    ],
    ids=lambda text: text[:20].encode("unicode_escape").decode(),
)  # fmt: skip
def test_errors(text: str, says: str) -> None:
    """Each mistake is reported with file, line and fault."""
    with pytest.raises(ConfigError) as error:
        parse(text, Config, "f.yaml")
    assert str(error.value).startswith(says)


def test_all_errors_are_told_at_once() -> None:
    """The error lists every mistake in the file."""
    with pytest.raises(ConfigError) as error:
        parse("listn: a:1\nmesos: {prt: 1, roles: x}", Config, "f.yaml")
    assert str(error.value).splitlines() == [
        "f.yaml:2: mesos.roles: should be a list, found 'x'",
        "f.yaml:2: mesos.prt: unknown key; did you mean port?",
        "f.yaml:1: listn: unknown key; did you mean listen?",
    ]


def test_aliases_are_fine() -> None:
    """Anchors and merged keys are YAML's way to say something once."""
    text = "vms:\n- &a {type: m1.large, cpus: 4, memory: 16g, price_per_hour: 0.24}\n- {<<: *a, count: 3}"
    cluster = parse(text, Cluster, "f.yaml")
    assert [(group.type, group.count) for group in cluster.vms] == [("m1.large", 1), ("m1.large", 3)]


def test_an_empty_file_is_all_defaults() -> None:
    """Nothing said is nothing changed."""
    assert parse("", Config, "f.yaml") == parse("# only a comment", Config, "f.yaml") == Config()


def test_overrides_take_precedence() -> None:
    """Dotted keys replace single values, whether the file has them or not."""
    config = parse(
        "policy: {name: rr}\ndriver: {on: host}",
        Config,
        "f.yaml",
        {
            "policy.name": "ilp",
            "policy.beta": "0.5",
            "mesos.roles": "[a, b]",
            "driver.on": "cluster",
            "token_file": "",
        },
    )
    assert (config.policy.name, config.policy.options) == ("ilp", {"beta": 0.5})
    assert (config.mesos.roles, config.driver.on, config.token_file) == (("a", "b"), "cluster", None)


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("mesos.prot", "1", "--set mesos.prot: unknown key; did you mean port?"),
        ("policy.name", "3", "--set policy.name: should be a text, found 3"),
        ("policy", "[ff]", "--set policy: should be NAME:KEY=VALUE, as in greedy:beta=0.5, found ['ff']"),
        ("listen", "[", "--set listen:1: not valid YAML"),
        ("listen", "!!bool x", "--set listen: a value does not fit its tag or kind"),
        ("a.b.c", "1", "--set a: unknown key; known keys: listen"),
    ],
)
def test_errors_in_overrides(key: str, value: str, says: str) -> None:
    """A mistake on the command line is not blamed on the file."""
    with pytest.raises(ConfigError) as error:
        parse("policy: {name: rr}", Config, "f.yaml", {key: value})
    assert str(error.value).startswith(says)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("010", "010"), ("1:30", "1:30"), ("190:20:30", "190:20:30"), ("2024-01-01", "2024-01-01"),
        ("no", "no"), ("on", "on"), ("0b11", "0b11"), ("1_000", 1000), ("0x10", 16), ("0o10", 8), ("-7", -7),
        ("1e3", 1000.0),
        ("1.5", 1.5), (".5", 0.5), ("0", 0), ("0.5", 0.5), ("-0.0", 0.0), ("true", True), ("null", None),
        ("~", None), ("1.2.3", "1.2.3"), ("1__0", "1__0"), ("+", "+"), (".", "."), ("1e", "1e"), ("=", "="),
        (".inf", float("inf")),
    ],
)  # fmt: skip
def test_plain_words_are_what_people_mean(text: str, value: object) -> None:
    """Plain words have their usual meaning instead of that of YAML 1.1."""
    assert plain_value(text, "here") == value
    assert type(plain_value(text, "here")) is type(value)


def test_arguments_are_as_they_are_written() -> None:
    """In a job file, where they need no quotes."""
    job = parse("app: a.py\nargs: [010, 1:30, no, 2024-01-01]\nname: 007", JobSpec, "job.yaml")
    assert (job.args, job.name) == (("010", "1:30", "no", "2024-01-01"), "007")


@pytest.mark.parametrize("endless", ["/dev/zero", "/dev/urandom"])
def test_an_endless_file_is_not_read_to_its_end(endless: str) -> None:
    """But refused, in one line."""
    with pytest.raises(ConfigError) as error:
        load(Path(endless), Config)
    assert str(error.value).startswith(f"{endless}: cannot be read: too long: more than")


def test_arguments_are_texts_as_they_are_written() -> None:
    """Number-like arguments stay texts, in a plan too; values that share an anchor stay numbers."""
    head = "app: a.py\nexecutors: &n 0x10\n"
    for text in (
        "args: [1.10, 0x10, 1_000, +5, 1e3, 1e999, True, .5, &x 2.50, *x, *n, '1.10']",
        "<<: {args: [1.10, 0x10, 1_000, +5, 1e3, 1e999, True, .5, 2.50, 2.50, *n, '1.10']}",
    ):
        job = parse(head + text, JobSpec, "job.yaml")
        assert job.args == (
            *("1.10", "0x10", "1_000", "+5", "1e3", "1e999", "True", ".5", "2.50", "2.50", "0x10", "1.10"),
        )
        assert job.executors == 16
    plan = parse("grids: [{apps: {sort: [1]}, args: [1.10]}]", MeasuringPlan, "plan.yaml")
    assert plan.grids[0].args == ("1.10",)
    for text in ("args: [~]", "args: [[1]]", "args: 1.10"):
        with pytest.raises(ConfigError, match=r"job\.yaml:3: args"):
            parse(head + text, JobSpec, "job.yaml")


def test_a_pipe_is_read_and_one_that_nobody_writes_to_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of `--config <(...)`, however late its end comes."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=("policy: {name: rr}\n",), daemon=True)
    writer.start()
    assert load(pipe, Config).policy.name == "rr"
    writer.join()
    with pytest.raises(TimeoutError, match=r"no end within 0.05 s"):
        read_bounded(pipe, 100, patience=0.05)
    assert load(Path("/dev/null"), Config) == Config()


def test_a_byte_order_mark_is_no_part_of_the_first_key(tmp_path: Path) -> None:
    """As some editors put it there."""
    (tmp_path / "f.yaml").write_text("listen: a:1", encoding="utf-8-sig")
    assert load(tmp_path / "f.yaml", Config).listen == "a:1"


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    """A missing file, a folder, and a file that is no text are named, with the reason."""
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    for name, why in [
        ("none", "No such file"),
        (".", "Is a directory"),
        ("binary", "can't decode"),
        ("a\0b", "null"),
    ]:
        with pytest.raises(ConfigError, match=f"cannot be read: .*{why}"):
            load(tmp_path / name, Config)


def test_files_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A named file is looked for beside the one that names it, then here, then among those shipped."""
    here, beside = tmp_path / "here", tmp_path / "beside"
    for folder in (here, beside):
        folder.mkdir()
        (folder / "c.yaml").touch()
    monkeypatch.chdir(here)
    assert find("c.yaml", beside) == beside / "c.yaml"
    assert find("c.yaml") == here / "c.yaml"
    assert find("clusters/paper.yaml", beside) == SHIPPED / "clusters" / "paper.yaml"
    for name in ("nothing.yaml", "x" * 300, "a\0b", "~nobody-of-that-name/x"):
        with pytest.raises(ConfigError):
            find(name)


words = st.sampled_from(
    ["listen", "policy", "name", "mesos", "port", "vms", "type", "cpus", "memory", "app", "args", "x.py",
     "on", ": ", "\n", "\n  ", "- ", "[", "]", "{", "}", ", ", "&a ", "*a", "<<", "? ", "| ", "> ", "# ",
     "'", '"', "\\", "~", "1", "0x1", "1.5", ".nan", ".inf", "-1", "1e400", "1:30", "010",
     "2020-01-01", "yes", "!!int ", "!!float ", "!!bool ", "!!timestamp ", "!!binary ", "!!set ",
     "!!omap ", "!!pairs ", "!!merge ", "!!null ", "!!str ", "!!map ", "!!seq ", "!x ", "---\n", "...\n",
     "%YAML 1.1\n", "\\ud800", "\0", "\ufeff", "\x85", "\U0001f600"]
)  # fmt: skip
texts = st.text(max_size=60) | st.lists(words, max_size=15).map("".join)


@pytest.mark.parametrize("schema", SCHEMAS)
@given(text=texts, override=texts)
@example(text="a: !!int '0x'", override="")
@example(text="a: !!float ''", override="!!int ''")
@example(text="!!omap [a]", override="!!pairs [{}]")
@example(text='"\\ud800": "\\ud800"', override='"\\ud800"')
def test_any_text_is_a_value_or_a_clear_error(schema: type[BaseModel], text: str, override: str) -> None:
    """No file or override has another outcome, and the error can be printed."""
    for overrides in ({}, {"name": override}):
        outcome: BaseModel | ConfigError
        try:
            outcome = parse(text, schema, "f.yaml", overrides)
        except ConfigError as error:
            outcome = error
        assert isinstance(outcome, schema) or str(outcome).encode()


@pytest.mark.parametrize(
    "text",
    [
        "database: [postgresql://me:hidden@host/stoker]",
        "webhooks: {chat: {url: 'https://me:hidden@example.org', secret_env: X}}",
        "webhooks: {chat: {url: 'https://example.org/hidden path', secret_env: X}}",
        "telemetry: {endpoint: 'http://me:hidden@example.org'}",
    ],
)
def test_an_address_that_may_have_a_secret_is_not_shown(text: str) -> None:
    """Errors of the config end in logs and tickets."""
    with pytest.raises(ConfigError, match=r"should be .* is not shown") as error:
        parse(text, Config, "stoker.yaml")
    assert "hidden" not in str(error.value)
    assert str(error.value).startswith("stoker.yaml:1: ")
