"""Makes the provider that a config names, of those that are reached through programs or the network.

The process that started an embedded Mesos makes its provider (`embedded.py`). Imports that only one provider
needs happen when it is chosen.
"""

import difflib
from collections.abc import Sequence
from pathlib import Path

from conf.loader import ConfigError, find
from conf.schema import CommandProvider, Ec2Provider
from environment.types import Vm
from framework.providers.agent_join import Door
from framework.providers.command import ProgramProvider
from framework.providers.interface import Provider
from framework.providers.user_data import UserData


def make_provider(
    options: CommandProvider | Ec2Provider, places: Sequence[Vm], door: Door, folder: Path
) -> Provider:
    """The provider for the VMs of these pools; nothing is asked yet. `folder` is that of the config.

    ConfigError when something that it needs is not there.
    """
    if isinstance(options, CommandProvider):
        return ProgramProvider(options, door, folder)
    user_data = UserData(find(options.user_data, folder))
    try:
        from framework.providers.ec2 import Ec2
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("boto3", "botocore"):
            raise
        raise ConfigError(
            "provider.name: ec2 needs boto3, which is not installed: in Stoker's checkout, "
            "`pip install --no-deps --requirement requirements-serve.lock` installs it"
        ) from error
    return Ec2(options, places, door, user_data)


def doubt_of(options: CommandProvider | Ec2Provider) -> str:
    """Warning about a possible mistake in valid options; empty for none."""
    if isinstance(options, CommandProvider) or options.endpoint_url is not None:
        return ""
    from framework.providers.ec2 import regions

    close = difflib.get_close_matches(options.region, known := regions(), n=1)
    hint = f"did you mean {close[0]}?" if close else "it may be a new one"
    return "" if options.region in known else f"region {options.region} is not known to boto3: {hint}"
