"""The section `provider`: options of its kinds, and errors in the words of the chosen kind."""

import pytest

from conf.loader import ConfigError, parse
from conf.schema import CommandProvider, Ec2Provider, EmbeddedProvider, Provider
from conf.schema.fields import Strict

EC2 = "provider:\n  name: ec2\n  cluster: spark\n  region: here-1\n"


class Section(Strict):
    """A config of this section alone."""

    provider: Provider = EmbeddedProvider()


def test_kinds() -> None:
    """Which keys there are is said by the name; a program may stand without a list."""
    assert parse("", Section, "c.yaml").provider == EmbeddedProvider()
    ec2 = parse(f"{EC2}  image: ami-1\n  subnets: [a, b]", Section, "c.yaml").provider
    assert isinstance(ec2, Ec2Provider)
    assert (ec2.subnets, ec2.endpoint_url) == (("a", "b"), None)
    command = parse(
        "provider: {name: command, open: ./a, close: [b, c], list: d}", Section, "c.yaml"
    ).provider
    assert isinstance(command, CommandProvider)
    assert (command.open, command.close, command.prices) == (("./a",), ("b", "c"), None)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("provider: {cluster: x}", "c.yaml:1: provider: name is missing: it selects the other keys"),
        ("provider: {name: ec}",
         "c.yaml:1: provider: name should be one of 'embedded', 'command', 'ec2', found 'ec'"),
        (EC2, "c.yaml:1: provider: image or launch_template is missing: one of them defines the VM's image"),
        (f"{EC2}  clustre: x\n  image: a", "c.yaml:5: provider.clustre: unknown key; did you mean cluster?"),
        (f"{EC2}  image: a\n  images: {{a: 1}}", "c.yaml:6: provider.images.a: should be a text, found 1"),
        (f"{EC2}  image: a\n  endpoint_url: x",
         "c.yaml:6: provider.endpoint_url: should be a URL: https://HOST:PORT, found 'x'"),
        ("provider: {name: command, open: [], close: a, list: b}",
         "c.yaml:1: provider.open: should have at least 1 item, found []"),
        ("provider: {name: command, close: a, list: b}",
         "c.yaml:1: provider.open: missing; it has no default"),
    ],
)  # fmt: skip
def test_mistakes(text: str, says: str) -> None:
    """Each names the key as it stands in the file."""
    with pytest.raises(ConfigError) as error:
        parse(text, Section, "c.yaml")
    assert str(error.value) == says


def test_mistakes_on_the_command_line() -> None:
    """They name the option."""
    with pytest.raises(ConfigError) as error:
        parse(f"{EC2}  image: x", Section, "c.yaml", {"provider.regoin": "x"})
    assert str(error.value) == "--set provider.regoin: unknown key; did you mean region?"
