"""A policy with options has one spelling, `greedy:beta=0.5`, in commands, configs and the API."""

from typing import Any

import pytest

from conf.loader import ConfigError, parse
from conf.policy_text import policy_text, read_policy
from conf.schema import Config, PolicyChoice


@pytest.mark.parametrize(
    ("text", "name", "options"),
    [
        ("ff", "ff", {}),
        ("greedy:beta=0.5", "greedy", {"beta": 0.5}),
        ("lookahead:base=reinforce:beta=1", "lookahead", {"base": "reinforce", "beta": 1}),
        ("mine:Policy", "mine:Policy", {}),
        ("mine:Policy:deep=true", "mine:Policy", {"deep": True}),
    ],
)
def test_a_policy_is_read_from_a_text(text: str, name: str, options: dict[str, Any]) -> None:
    """Options follow the name; a name of one's own has a colon itself. Config and API read the same."""
    assert read_policy(text) == (name, options)
    for config in (f"policy: {text}", f"policy: {{name: '{text}'}}"):
        chosen = parse(config, Config, "f.yaml").policy
        assert (chosen.name, chosen.options) == (name, options)
    assert PolicyChoice.model_validate_json(f'"{text}"').name == name


def test_a_policy_is_written_as_it_is_read() -> None:
    """The label of events and tables is the text."""
    chosen = parse("policy: {name: greedy, beta: 0.5}", Config, "f.yaml").policy
    assert chosen.label == policy_text("greedy", {"beta": 0.5}) == "greedy:beta=0.5"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("greedy:beta=1:x", "should be NAME:KEY=VALUE, as in greedy:beta=0.5"),
        ("greedy:=1", "should be NAME:KEY=VALUE, as in greedy:beta=0.5"),
        ("greedy:name=ff", "should be NAME:KEY=VALUE, as in greedy:beta=0.5"),
        ("greedy:beta=1:beta=2", "beta: given twice"),
    ],
)
def test_another_form_is_refused(text: str, complaint: str) -> None:
    """The error shows the right form, and in a file the line and the text found."""
    with pytest.raises(ConfigError) as told:
        read_policy(text)
    assert str(told.value) == complaint
    with pytest.raises(ConfigError) as told:
        parse(f"policy: {text}", Config, "f.yaml")
    assert str(told.value) == f"f.yaml:1: policy: {complaint}, found '{text}'"


@pytest.mark.parametrize(
    ("key", "value", "label"),
    [
        ("policy", "greedy:beta=1", "greedy:beta=1"),
        ("policy.beta", "1", "lookahead:beta=1"),
        ("policy.name", "rr", "rr"),
    ],
)
def test_set_replaces_a_text_or_one_option(key: str, value: str, label: str) -> None:
    """`--set policy.beta=1` changes the option and keeps the policy that the file names."""
    assert parse("policy: lookahead:beta=0.5", Config, "f.yaml", {key: value}).policy.label == label


def test_a_text_beyond_all_options_is_not_read() -> None:
    """YAML takes its time, and the API reads such texts of every user."""
    with pytest.raises(ConfigError, match="at most 1000 characters, and has 200,010"):
        read_policy(f"greedy:x=[{'1,' * 100_000}")
