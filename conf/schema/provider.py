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
    """Where agents find the Mesos master; null: as `mesos.master` has it."""
    url: Url | None = None
    """Where VMs reach this daemon; null: as `leader.url` or `listen` has it."""


class EmbeddedProvider(Strict):
    """The embedded Mesos starts and stops agents."""

    name: Literal["embedded"] = "embedded"
    """Which kind of provider this is."""


class CommandProvider(_JoinSettings):
    """Programs of the operator: JSON on stdin, JSON on stdout."""

    name: Literal["command"]
    """Which kind of provider this is."""
    open: Program
    """Opens a VM, or says which one is open under this lease."""
    close: Program
    """Closes a VM."""
    list: Program
    """Lists the VMs of this cluster."""
    prices: Program | None = None
    """Says what VMs cost now; null: what the cluster file says."""
    notices: Program | None = None
    """Says which VMs are going to be taken away; null: none are."""
    timeout: Annotated[Seconds, Field(le=3600)] = 60.0
    """Seconds after which a program is killed."""


class Ec2Provider(_JoinSettings):
    """EC2, or a cloud that speaks its language. Credentials are found as boto3 finds them."""

    name: Literal["ec2"]
    """Which kind of provider this is."""
    cluster: ClusterTag
    """The tag by which VMs are known to be of this daemon; no two daemons may share one."""
    region: ClusterTag
    """In which it opens VMs, such as eu-west-1."""
    image: Text | None = None
    """The machine image; null: that of the launch template."""
    images: Mapping[Name, Text] = {}
    """By pool, where it is another one."""
    launch_template: Text | None = None
    """Id or name: disks, keys, roles, and whatever else is not said here."""
    subnets: _Texts = ()
    """VMs are spread over these; empty: that of the launch template, or the region's default."""
    security_groups: _Texts = ()
    """Of its VMs; empty: those of the launch template, or of the subnet."""
    user_data: Text = "user-data/ec2.sh"
    """The template of what a VM runs when it boots."""
    endpoint_url: Url | None = None
    """Of another cloud than AWS."""

    @model_validator(mode="after")
    def _has_an_image(self) -> "Ec2Provider":
        if self.image is None and self.launch_template is None:
            raise ValueError("image or launch_template is missing: they say what a VM boots")
        return self


Provider = Annotated[EmbeddedProvider | CommandProvider | Ec2Provider, Field(discriminator="name")]
