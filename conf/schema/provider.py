"""Providers that open and close the VMs of pools: a config's section `provider`, a class for each kind.

`framework.providers` implements them.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from conf.schema.fields import Name, Seconds, Strict, Text, like


def _alone(value: Any) -> Any:
    """A program without arguments may stand without a list."""
    return (value,) if isinstance(value, str) else value


_TAG = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
_URL = r"https?://[^\s/?#]+(/[^\s?#]*)?"
Program = Annotated[
    tuple[Annotated[Text, Field(min_length=1)], ...],
    BeforeValidator(_alone),
    Field(strict=False, min_length=1, max_length=100),
]
ClusterTag = Annotated[
    str, AfterValidator(like(_TAG, "should be a name of letters, digits, dots, _ and -, such as spark"))
]
Url = Annotated[Text, AfterValidator(like(_URL, "should be a URL: https://HOST:PORT"))]
_Texts = Annotated[tuple[Annotated[Text, Field(min_length=1)], ...], Field(strict=False)]


class _JoinSettings(Strict):
    """Data that VMs need about this cluster to join it."""

    master: Text | None = None
    """Address of the Mesos master for agents; null: `mesos.master`."""
    url: Url | None = None
    """Address of this daemon for VMs; null: `leader.url` or `listen`."""


class EmbeddedProvider(Strict):
    """The embedded Mesos starts and stops agents."""

    name: Literal["embedded"] = "embedded"
    """Kind of the provider."""


class CommandProvider(_JoinSettings):
    """Programs of the operator: JSON on stdin, JSON on stdout."""

    name: Literal["command"]
    """Kind of the provider."""
    open: Program
    """Opens a VM, or returns the one that is open under this lease."""
    close: Program
    """Closes a VM."""
    list: Program
    """Lists the VMs of this cluster."""
    prices: Program | None = None
    """Returns the present prices of VMs; null: those of the cluster file."""
    notices: Program | None = None
    """Returns the VMs that are going to be taken away; null: none are."""
    timeout: Annotated[Seconds, Field(le=3600)] = 60.0
    """Seconds after which a program is killed."""


class Ec2Provider(_JoinSettings):
    """EC2, or a cloud that speaks its language. Credentials are found as boto3 finds them."""

    name: Literal["ec2"]
    """Kind of the provider."""
    cluster: ClusterTag
    """Tag of this daemon's VMs; two daemons must not share one."""
    region: ClusterTag
    """Region of its VMs, such as eu-west-1."""
    image: Text | None = None
    """The machine image; null: that of the launch template."""
    images: Mapping[Name, Text] = {}
    """Images by pool, where they differ."""
    launch_template: Text | None = None
    """Id or name: disks, keys, roles, and all other settings."""
    subnets: _Texts = ()
    """VMs are spread over these; empty: that of the launch template, or the region's default."""
    security_groups: _Texts = ()
    """Security groups of its VMs; empty: those of the launch template, or of the subnet."""
    user_data: Text = "user-data/ec2.sh"
    """The template of the script that a VM runs at boot."""
    endpoint_url: Url | None = None
    """URL of a compatible cloud other than AWS."""

    @model_validator(mode="after")
    def _has_an_image(self) -> "Ec2Provider":
        if self.image is None and self.launch_template is None:
            raise ValueError("image or launch_template is missing: one of them defines the VM's image")
        return self


Provider = Annotated[EmbeddedProvider | CommandProvider | Ec2Provider, Field(discriminator="name")]
