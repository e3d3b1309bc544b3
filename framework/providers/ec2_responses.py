"""The parts of EC2's answers that Stoker reads, as frozen types; all else in them is ignored."""

from datetime import datetime
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_pascal
from stoker.characters import visible

from conf.units import MOST_PRICE
from framework.providers.interface import ProviderError

_Id = Annotated[str, Field(pattern=r"^[A-Za-z0-9-]{1,64}$")]
_Word = Annotated[str, Field(max_length=300)]


class Ec2Answer(BaseModel):
    """Part of an answer."""

    model_config = ConfigDict(frozen=True, alias_generator=to_pascal, extra="ignore")


class _Tag(Ec2Answer):
    key: _Word
    value: _Word


class _InstanceState(Ec2Answer):
    name: _Word


class _Placement(Ec2Answer):
    availability_zone: _Word = ""


class Ec2Instance(Ec2Answer):
    """A VM."""

    instance_id: _Id
    instance_type: _Word
    launch_time: datetime
    state: _InstanceState
    tags: tuple[_Tag, ...] = ()
    placement: _Placement = _Placement()
    private_ip_address: _Word | None = None
    instance_lifecycle: _Word | None = None

    @property
    def is_spot(self) -> bool:
        """Whether its cloud may take it away."""
        return self.instance_lifecycle == "spot"

    def tag(self, key: str) -> str:
        """The value of a tag; empty when it has none of that key."""
        return next((tag.value for tag in self.tags if tag.key == key), "")


class Instances(Ec2Answer):
    """VMs that were opened together."""

    instances: tuple[Ec2Instance, ...] = ()


class Ec2Reservations(Ec2Answer):
    """A page of VMs."""

    reservations: tuple[Instances, ...] = ()


class _Cpus(Ec2Answer):
    default_v_cpus: Annotated[int, Field(ge=1, alias="DefaultVCpus")]


class _Memory(Ec2Answer):
    size_in_mi_b: Annotated[int, Field(ge=1, alias="SizeInMiB")]


class InstanceType(Ec2Answer):
    """Size of VMs of a type."""

    instance_type: _Word
    v_cpu_info: Annotated[_Cpus, Field(alias="VCpuInfo")]
    memory_info: _Memory


class InstanceTypes(Ec2Answer):
    """Those that were asked for."""

    instance_types: tuple[InstanceType, ...] = ()


class _SpotPrice(Ec2Answer):
    availability_zone: _Word
    instance_type: _Word
    product_description: _Word = ""
    spot_price: Annotated[float, Field(ge=0, le=MOST_PRICE, allow_inf_nan=False)]
    timestamp: datetime

    @property
    def is_linux(self) -> bool:
        """Whether it is the price without a licence."""
        return self.product_description.startswith("Linux/UNIX")


class SpotPrices(Ec2Answer):
    """A page of prices, dollars per hour."""

    spot_price_history: tuple[_SpotPrice, ...] = ()


class _SpotStatus(Ec2Answer):
    code: _Word = ""
    message: str = ""
    update_time: datetime


class _SpotRequest(Ec2Answer):
    instance_id: _Id | None = None
    status: _SpotStatus


class SpotRequests(Ec2Answer):
    """A page of spot instances that are going to be ended."""

    spot_instance_requests: tuple[_SpotRequest, ...] = ()


class _Event(Ec2Answer):
    code: _Word = ""
    description: str = ""
    not_before: datetime

    @property
    def ahead(self) -> bool:
        """Whether it is still to come."""
        return not self.description.startswith(("[Completed]", "[Canceled]"))


class _Status(Ec2Answer):
    instance_id: _Id
    events: tuple[_Event, ...] = ()


class Statuses(Ec2Answer):
    """A page of VMs with their scheduled events."""

    instance_statuses: tuple[_Status, ...] = ()


_Read = TypeVar("_Read", bound=Ec2Answer)


def read(schema: type[_Read], answer: Any) -> _Read:
    """Parse an answer; ProviderError names the field that differs from EC2's format."""
    try:
        return schema.model_validate(answer)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        field = ".".join(str(step) for step in first["loc"])
        raise ProviderError("unavailable", visible(f"EC2's answer: {field}: {first['msg']}"[:300])) from None
