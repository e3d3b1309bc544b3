"""docs/elastic.md is right about providers: its configs are valid, its rights are those that are used."""

import ast
import json
import re
from pathlib import Path
from typing import Any

import yaml
from pydantic.alias_generators import to_pascal

from conf.loader import build
from conf.schema import Cluster, CommandProvider, Config, Ec2Provider, EmbeddedProvider
from environment.clusters.cluster_files import vms_of
from framework.providers.user_data import NAMES

REPOSITORY = Path(__file__).parents[1]
TEXT = (REPOSITORY / "docs/elastic.md").read_text()
SOURCE = (REPOSITORY / "framework/providers/ec2.py").read_text()


def blocks(language: str) -> list[str]:
    """The examples in that language."""
    return re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)


def test_its_configs_are_some() -> None:
    """Each is read as its own kind of file."""
    found: list[Any] = [yaml.safe_load(block) for block in blocks("yaml")]
    configs = [build(Config, one, "docs") for one in found if "pools" not in one]
    kinds = {type(config.provider) for config in configs if config.provider is not None}
    assert kinds == {CommandProvider, Ec2Provider, EmbeddedProvider}
    clusters = [vms_of(build(Cluster, one, "docs")) for one in found if "pools" in one]
    assert len(found) == len(configs) + len(clusters)
    assert {vm.terms.spot is not None for vms in clusters for vm in vms if vm.terms} == {True, False}


def test_its_rights_are_those_that_are_used() -> None:
    """No call is without one, and none is given for nothing but tags, which come with a new instance."""
    (policy,) = (json.loads(block) for block in blocks("json"))
    given = set()
    for statement in policy["Statement"]:
        actions = statement["Action"]
        given |= {actions} if isinstance(actions, str) else set(actions)
    used = {node.attr for node in ast.walk(ast.parse(SOURCE)) if isinstance(node, ast.Attribute)}
    used = {name for name in used if name.startswith(("describe_", "run_", "terminate_"))}
    used |= set(re.findall(r'"(describe_\w+)"', SOURCE))
    assert given == {f"ec2:{to_pascal(name)}" for name in used} | {"ec2:CreateTags"}


def test_its_names_are_those_of_templates() -> None:
    """Every one, and no other."""
    assert set(re.findall(r"`\{\{(\w+)\}\}`", TEXT)) == NAMES
