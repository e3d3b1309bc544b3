"""The schemas: permitted contents of a file, and the files that ship with Stoker."""

import contextlib
import importlib
import math
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError
from stoker.characters import unseen

import conf.schema
from conf.loader import SHIPPED, ConfigError, build, load, parse
from conf.schema import Cluster, Config, Driver, JobSpec, PolicyChoice, VmGroup

YAML_FILES = sorted(SHIPPED.rglob("*.yaml"))


@pytest.mark.parametrize("path", YAML_FILES, ids=lambda path: str(path.relative_to(SHIPPED)))
def test_every_shipped_file_is_yaml(path: Path) -> None:
    """Every YAML file in conf/ holds keys and values."""
    assert isinstance(yaml.safe_load(path.read_text()), dict)


@pytest.mark.parametrize("path", sorted((SHIPPED / "clusters").glob("*.yaml")), ids=lambda path: path.stem)
def test_every_shipped_cluster_loads(path: Path) -> None:
    """Every cluster file in conf/ is one."""
    cluster = load(path, Cluster)
    assert cluster.vms or cluster.pools


def all_below(schema: type[BaseModel]) -> Iterator[type[BaseModel]]:
    """All schemas made from this one."""
    for each in schema.__subclasses__():
        yield each
        yield from all_below(each)


@pytest.mark.parametrize(
    "value",
    [
        10**400,
        -(10**400),
        [10**400],
        {"a": -(10**400)},
        "9" * 400,
        "1e999",
        "x" * 10**5,
        "\ud800",
        math.nan,
        True,
    ],
    ids=lambda value: f"{type(value).__name__} {str(value)[:8]!a}",
)
def test_no_value_of_a_field_is_more_than_wrong(value: object) -> None:
    """Such as a whole number of 400 digits: any value in a file or a body is taken, or refused in words."""
    for module in pkgutil.walk_packages(conf.schema.__path__, "conf.schema."):
        importlib.import_module(module.name)
    schemas = [each for each in {*all_below(BaseModel)} if each.__module__.startswith("conf.")]
    assert len(schemas) > 50
    for schema in schemas:
        for name, field in schema.model_fields.items():
            with contextlib.suppress(ValidationError):
                schema.model_validate({field.alias or name: value})


def test_the_default_config_is_the_default() -> None:
    """default.yaml equals the defaults without a config file."""
    assert load(SHIPPED / "default.yaml", Config) == Config()


def keys_of(schema: type[BaseModel], prefix: str = "") -> set[str]:
    """The dotted keys of a schema; those of a part that is missing by default are not listed."""
    keys: set[str] = set()
    for name, field in schema.model_fields.items():
        keys.add(prefix + name)
        if isinstance(field.default, BaseModel):
            keys |= keys_of(type(field.default), f"{prefix}{name}.")
    return keys


def keys_in(values: dict[Any, Any], prefix: str = "") -> set[str]:
    """The dotted keys of a file. YAML reads the bare word `on` as true."""
    keys: set[str] = set()
    for key, value in values.items():
        name = "on" if key is True else key
        keys.add(prefix + name)
        if isinstance(value, dict):
            keys |= keys_in(value, f"{prefix}{name}.")
    return keys


def test_the_default_config_has_every_key() -> None:
    """default.yaml shows exactly the keys that there are."""
    named = {"policy.name", "fallback.name"}  # written as texts
    assert keys_in(yaml.safe_load((SHIPPED / "default.yaml").read_text())) == keys_of(Config) - named


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("app: [1]", "job.yaml:1: app: should be a text, found [1]"),
        ("name: x", "job.yaml:1: app: missing; it has no default"),
        ("app: x", "job.yaml:1: app should be a Python file (.py) or a jar (.jar)"),
        ("app: x.jar", "job.yaml:1: a jar needs main_class, the class whose main method is the job"),
        ("app: x.py\nexecutors: 0", "job.yaml:2: executors: should be greater than or equal to 1, found 0"),
        ("app: x.py\nexecutors: 1.5", "job.yaml:2: executors: should be a whole number, found 1.5"),
        ("app: x.py\nexecutors: true", "job.yaml:2: executors: should be a whole number, found true"),
        ("app: x.py\nexecutors: {min: 2}", "job.yaml:2: executors.max: missing; it has no default"),
        ("app: x.py\nexecutors: {max: 0}",
         "job.yaml:2: executors.max: should be greater than or equal to 1, found 0"),
        ("app: x.py\nexecutors:\n  max: 4\n  mim: 1",
         "job.yaml:4: executors.mim: unknown key; did you mean min?"),
        ("app: x.py\nexecutors: {min: 3, max: 2}",
         "job.yaml:2: executors: should have min <= initial <= max, found 3, 3, 2"),
        ("app: x.py\nexecutors: {max: 2}\nmin_executors: 1",
         "job.yaml:1: min_executors needs a fixed number of executors; executors.min is such a bound"),
        ("app: x.py\nexecuters: 1", "job.yaml:2: executers: unknown key; did you mean executors?"),
        ("app: x.py\ncpus: -1", "job.yaml:2: cpus: should be greater than 0, found -1"),
        ("app: x.py\ncpus: {min: 2}", "job.yaml:2: cpus.max: missing; it has no default"),
        ("app: x.py\ncpus: {min: 0, max: 2}", "job.yaml:2: cpus.min: should be greater than 0, found 0"),
        (
            "app: x.py\ncpus: {min: 1, max: 4}\nexecutors: {max: 4}",
            "job.yaml:1: cpus: bounds need a fixed number of executors, not bounds of them",
        ),
        ("app: x.py\ncpus: {min: 3, max: 2}", "job.yaml:2: cpus: should have min <= max, found 3, 2"),
        ("app: x.py\ncpus: .nan", "job.yaml:2: cpus: should be a finite number, found nan"),
        ("app: x.py\nmemory: 1q",
         "job.yaml:2: memory: should be an amount of memory such as 512m or 2g, found '1q'"),
        ("app: x.py\nargs: 3", "job.yaml:2: args: should be a list, found 3"),
        ("app: x.py\nargs: [{}]", "job.yaml:2: args.0: should be a text, found {}"),
        ("app: x.py\nconf:\n  a: [3]", "job.yaml:3: conf.a: should be a text, found [3]"),
        ("app: x.py\nconf: [a]", "job.yaml:2: conf: should be keys and values, found ['a']"),
        ("app: x.py\ndriver: here", "job.yaml:2: driver: should be keys and values, found 'here'"),
        (
            "app: x.py\ndriver: {on: x}",
            "job.yaml:2: driver.on: should be 'host', 'cluster' or 'client', found 'x'",
        ),
        ("app: x.py\nname: ~\ntype: ~", "job.yaml:3: type: should be a text, found nothing"),
        ('app: x.py\nname: "a\\nb"',
         "job.yaml:2: name: should be one line without control or invisible characters (here \\n), "
         "found 'a\\nb'"),
        ('app: "x\\0.py"', "job.yaml:1: app: should be a text without NUL characters, found 'x\\x00.py'"),
        ("app: x.py\n1: x", "job.yaml:2: 1: keys should be texts, found 1"),
    ],
)  # fmt: skip
def test_errors_of_a_job_file(text: str, says: str) -> None:
    """Each kind of mistake gets the line, the key, the value found and the correct form."""
    with pytest.raises(ConfigError) as error:
        parse(text, JobSpec, "job.yaml")
    assert str(error.value) == says


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("listen: nowhere", "should be HOST:PORT, such as 127.0.0.1:8642"),
        ("listen: a:65536", "should be HOST:PORT"),
        ("mesos: {roles: []}", "mesos.roles: should have at least 1 item, found []"),
        ("mesos: {principal: me}", "principal and secret_file go together"),
        ("spark: {connect_timeout: .inf}", "connect_timeout: should be a finite number"),
        ("driver: {on: client}", "driver: should be {on: host} or {on: cluster}"),
        ("policy: 3", "policy: should be NAME:KEY=VALUE, as in greedy:beta=0.5, found 3"),
    ],
)
def test_errors_of_a_config(text: str, says: str) -> None:
    """The daemon's config is checked as strictly."""
    with pytest.raises(ConfigError) as error:
        parse(text, Config, "stoker.yaml")
    assert says in str(error.value)


def test_a_jobs_arguments_may_be_numbers() -> None:
    """In `args: [10, --fast]` the number is the argument's text; the label is the app's name."""
    spec = parse("app: jobs/count.py\nargs: [10, 0.5, --fast]", JobSpec, "job.yaml")
    assert spec.args == ("10", "0.5", "--fast")
    assert JobSpec.model_validate({"app": "a.py", "args": [10, 0.5, "--fast"]}).args == spec.args
    assert spec.label == "count"


@pytest.mark.parametrize(
    ("schema", "values"),
    [
        (JobSpec, {"app": "a.py"}),
        (Driver, {"on": "cluster"}),
        (VmGroup, {"type": "m1.large", "memory": "16g", "price_per_hour": 0.24}),
    ],
)
def test_cpus_have_three_decimals(schema: type[BaseModel], values: dict[str, Any]) -> None:
    """More decimals than Mesos keeps are refused and not rounded, in jobs, drivers and VMs alike."""
    for cpus in (0.001, 0.125, 0.999, 1, 2.5, 1023.999):
        assert build(schema, {**values, "cpus": cpus}, "x").model_dump()["cpus"] == cpus
    for cpus, why in (
        (
            0.12345,
            "x: cpus: should have at most three decimals, such as 0.123: Mesos stores no more of a cpu",
        ),
        (1.0005, "x: cpus: should have at most three decimals"),
        (1000.00001, "x: cpus: should have at most three decimals"),
        (0.0001, "x: cpus: should be at least 0.001: Mesos keeps three decimals of a cpu"),
    ):
        with pytest.raises(ConfigError) as error:
            build(schema, {**values, "cpus": cpus}, "x")
        assert str(error.value).startswith(why)
        assert str(error.value).endswith(f", found {cpus}")


def test_what_arithmetic_adds_to_cpus_is_no_decimal() -> None:
    """A program that sends 0.1 + 0.2 means 0.3, and is understood."""
    assert JobSpec(app="a.py", cpus=0.1 + 0.2).cpus == 0.3


def test_a_policys_options() -> None:
    """All keys but the name are the policy's own options."""
    policy = parse("policy: {name: ilp, beta: 0.75}", Config, "stoker.yaml").policy
    assert (policy.name, policy.options) == ("ilp", {"beta": 0.75})
    assert PolicyChoice().options == {}


@pytest.mark.parametrize(
    ("listen", "address"), [("127.0.0.1:1", ("127.0.0.1", 1)), ("[::1]:80", ("::1", 80))]
)
def test_the_address_to_listen_on(listen: str, address: tuple[str, int]) -> None:
    """IPv6 addresses stand in brackets."""
    assert Config(listen=listen).address == address


characters = st.characters(exclude_categories=["Cs", "Cc"]).filter(lambda text: not unseen(text))
texts = st.text(characters, min_size=1, max_size=10)
specs = st.builds(
    JobSpec,
    app=texts.map(lambda stem: f"{stem}.py"),
    name=st.none() | texts,
    type=texts,
    executors=st.integers(1, 10_000),
    cpus=st.integers(1, 1_024_000).map(lambda thousandths: thousandths / 1000),
    memory=st.integers(1, 2**31 - 1) | st.sampled_from(["1g", "512m"]),
    args=st.lists(texts, max_size=3),
    conf=st.dictionaries(texts, texts, max_size=2),
)


@given(specs)
def test_a_spec_survives_json_and_yaml(spec: JobSpec) -> None:
    """A specification stored as JSON or written as YAML is read back equal."""
    assert JobSpec.model_validate_json(spec.model_dump_json()) == spec
    assert parse(yaml.safe_dump(spec.model_dump(mode="json")), JobSpec, "job.yaml") == spec


def test_cpus_of_an_executor_may_be_bounds() -> None:
    """Between them Stoker chooses; without them there is nothing to choose."""
    bounds = JobSpec.model_validate({"app": "x.py", "cpus": {"min": 1, "max": 4}})
    assert (bounds.fewest_cpus, bounds.most_cpus) == (1.0, 4.0)
    number = JobSpec.model_validate({"app": "x.py", "cpus": 2})
    assert (number.fewest_cpus, number.most_cpus) == (None, 2.0)
