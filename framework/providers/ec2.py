"""VMs of EC2, and of clouds with its API, by boto3.

Tags identify an instance; it has them from its first moment on. The request carries a token made from the
lease, so that AWS opens no second instance. For clouds that ignore tokens, instances with these tags are
searched first. Results of filters are filtered again here: not every cloud knows all filters, and an instance
that is mistaken for ours may be closed. `user_data.py` defines how a VM joins; `ec2_responses.py` checks
answers.
"""

import contextlib
import hashlib
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

import boto3
from botocore.config import Config as ClientConfig
from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError
from stoker.characters import visible

from conf.loader import ConfigError
from conf.schema import Ec2Provider
from conf.util.counted import counted
from environment.types import Vm
from framework.providers import ec2_responses as answers
from framework.providers.agent_join import Door, joining
from framework.providers.ec2_errors import refusal
from framework.providers.interface import Machine, Notice, ProviderError, VmRequest
from framework.providers.user_data import UserData

_CLUSTER, _POOL, _LEASE = "stoker-cluster", "stoker-pool", "stoker-lease"
#: The tagged resources of a VM; a disk that outlives its VM can be found by its tags.
_TAGGED = ("instance", "volume")
#: States of an instance that is paid for, or still has disks that are; one that is shutting down is not.
_THERE = ["pending", "running", "stopping", "stopped"]
#: Seconds to connect, and without a byte of an answer.
_CONNECT, _READ = 5, 20
#: Connections that are kept: as many calls as a daemon makes at once.
_CONNECTIONS = 16
#: Instances of one answer, and answers of one list: beyond that something does not end.
_PAGE, _MOST_PAGES = 500, 200
#: Seconds for which spot prices are believed: a cloud changes them a few times a day.
_PRICES_HOLD = 300.0
#: Seconds from the notice to the end of a spot instance.
_NOTICE = 120.0
#: The status of a request for a spot instance that is going to be ended.
_MARKED = "marked-for-termination"
#: Events of an instance that end it.
_ENDS = ["instance-stop", "instance-retirement"]

#: Exceptions that the client raises for an unreadable answer, besides its own errors.
_UNREADABLE = (
    ResponseParserError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError,
)  # fmt: skip
#: Characters of an error's text that are shown then.
_LONGEST = 300

_Answer = TypeVar("_Answer", bound=answers.Ec2Answer)


class Ec2:
    """Opens and closes instances; see `contract.Provider`. For any thread."""

    def __init__(self, options: Ec2Provider, places: Sequence[Vm], door: Door, user_data: UserData) -> None:
        """`places` are the VMs of the pools; ConfigError when no client can be made of the options."""
        self._options = options
        self._door = door
        self._user_data = user_data
        self._spot = {_pool(vm): vm.type for vm in places if _is_spot(vm)}
        session = boto3.session.Session()
        self._client = _client(session, options, "ec2", attempts=3)
        # Tried once: where tokens are unknown, a retry of the client would open another instance.
        self._opener = _client(session, options, "ec2", attempts=1)
        self._identities = None if options.endpoint_url else _client(session, options, "sts", attempts=1)
        self._sizes: dict[str, answers.InstanceType] = {}
        self._prices: tuple[float, dict[tuple[str, str], float]] = (0.0, {})

    def open(self, wanted: VmRequest) -> Machine:
        """Open a VM, or return the one that is open under this lease already."""
        self._check_size(wanted.vm)
        request = self._request(wanted)
        there = self._instances({f"tag:{_LEASE}": [wanted.lease]})
        its = sorted(
            (one for one in there if one.tag(_LEASE) == wanted.lease), key=lambda one: one.launch_time
        )
        if its:
            return self._machine(its[0])
        answer = _call(self._opener.run_instances, **request)
        found = answers.read(answers.Instances, answer).instances
        if len(found) != 1:
            raise ProviderError("unavailable", f"EC2 answers with {len(found)} instances instead of one")
        if found[0].state.name not in _THERE:
            why = f"{found[0].instance_id}, which was opened under the lease {wanted.lease}, is closed"
            raise ProviderError("invalid", why)
        return self._machine(found[0])

    def close(self, machine_id: str) -> None:
        """Close a VM, which then costs nothing more; one that is not there is closed."""
        try:
            _call(self._client.terminate_instances, InstanceIds=[machine_id])
        except ProviderError as error:
            if "InvalidInstanceID.NotFound" not in str(error):
                raise

    def list(self) -> Sequence[Machine]:
        """All VMs of this cluster that cost something now."""
        found = tuple(self._instances({}))
        if any(one.is_spot for one in found):
            with contextlib.suppress(ProviderError):  # then they cost as much as the cluster file says
                self._spot_prices()
        return tuple(self._machine(one) for one in found)

    def prices(self) -> Mapping[str, float]:
        """Present price of a VM of each spot pool, dollars per hour: the mean of the zones."""
        by_zone = self._spot_prices()
        found = {
            pool: [price for (name, _), price in by_zone.items() if name == kind]
            for pool, kind in self._spot.items()
        }
        return {pool: sum(prices) / len(prices) for pool, prices in found.items() if prices}

    def notices(self) -> Sequence[Notice]:
        """Notices for VMs about to be taken away: spot ones, and those with a host that will be stopped."""
        found = []
        marked = [{"Name": "status-code", "Values": [_MARKED]}]
        gone = {
            request.instance_id: (request.status.update_time.timestamp() + _NOTICE, request.status.message)
            for page in self._pages("describe_spot_instance_requests", answers.SpotRequests, Filters=marked)
            for request in page.spot_instance_requests
            if request.status.code == _MARKED
        }
        events = [{"Name": "event.code", "Values": _ENDS}]
        for page in self._pages("describe_instance_status", answers.Statuses, Filters=events):
            for status in page.instance_statuses:
                for event in status.events:
                    if event.ahead and event.code in _ENDS:
                        gone[status.instance_id] = (event.not_before.timestamp(), event.description)
        if gone:  # of the whole account: our tags show which are ours
            for machine in self.list():
                if machine.id in gone:
                    found.append(Notice(machine.lease, *gone[machine.id]))
        return tuple(found)

    def account(self) -> str:
        """The account of the credentials, where AWS tells; other clouds are not asked."""
        if self._identities is None:
            return ""
        with contextlib.suppress(
            ProviderError
        ):  # without a way to it, VMs are opened and closed all the same
            account = str(_call(self._identities.get_caller_identity).get("Account", ""))
            return account if account.isalnum() else ""
        return ""

    # ---- asking ----------------------------------------------------------------------------------

    def _request(self, wanted: VmRequest) -> dict[str, Any]:
        options, vm, told = self._options, wanted.vm, joining(wanted, self._door)
        pool = _pool(vm)
        words = {"lease": wanted.lease, "pool": pool, "cluster": options.cluster, **told._asdict()}
        try:
            user_data = self._user_data.filled(words)
        except ValueError as error:
            raise ProviderError("invalid", str(error)) from None
        token = hashlib.sha256(f"{options.cluster}/{wanted.lease}".encode()).hexdigest()
        tags = {_CLUSTER: options.cluster, _POOL: pool, _LEASE: wanted.lease, "Name": wanted.lease}
        listed = [{"Key": key, "Value": value} for key, value in tags.items()]
        request: dict[str, Any] = {
            "ClientToken": token,
            "MinCount": 1,
            "MaxCount": 1,
            "InstanceType": vm.type,
            "UserData": user_data,
            "InstanceInitiatedShutdownBehavior": "terminate",
            "MetadataOptions": {"HttpTokens": "required", "HttpPutResponseHopLimit": 1},
            "TagSpecifications": [{"ResourceType": kind, "Tags": listed} for kind in _TAGGED],
        }
        if image := options.images.get(pool, options.image):
            request["ImageId"] = image
        if template := options.launch_template:
            key = "LaunchTemplateId" if template.startswith("lt-") else "LaunchTemplateName"
            request["LaunchTemplate"] = {key: template}
        if options.subnets:  # always the same one for a lease: with another, it would be another request
            request["SubnetId"] = options.subnets[int(token, 16) % len(options.subnets)]
        if options.security_groups:
            request["SecurityGroupIds"] = [*options.security_groups]
        if _is_spot(vm):
            once = {"SpotInstanceType": "one-time", "InstanceInterruptionBehavior": "terminate"}
            request["InstanceMarketOptions"] = {"MarketType": "spot", "SpotOptions": once}
        return request

    def _check_size(self, vm: Vm) -> None:
        """Raise ProviderError `invalid` when the pool's size exceeds that of the instance type."""
        size = self._sizes.get(vm.type)
        if size is None:
            answer = _call(self._client.describe_instance_types, InstanceTypes=[vm.type])
            types = answers.read(answers.InstanceTypes, answer).instance_types
            found = [one for one in types if one.instance_type == vm.type]
            if not found:
                raise ProviderError("invalid", f"EC2 has no instance type {vm.type}")
            size = self._sizes[vm.type] = found[0]
        cpus, memory = size.v_cpu_info.default_v_cpus, size.memory_info.size_in_mi_b
        if vm.cpus > cpus or vm.memory_mib > memory:
            asked = f"{counted(vm.cpus, 'cpu')} and {vm.memory_mib} MiB"
            has = f"{counted(cpus, 'cpu')} and {memory} MiB"
            why = f"an instance of {vm.type} has {has}, but its pool says {asked}"
            raise ProviderError("invalid", why)

    def _instances(self, filters: Mapping[str, Sequence[str]]) -> Iterator[answers.Ec2Instance]:
        wanted = {f"tag:{_CLUSTER}": [self._options.cluster], "instance-state-name": _THERE, **filters}
        asked = [{"Name": name, "Values": values} for name, values in wanted.items()]
        for page in self._pages("describe_instances", answers.Ec2Reservations, Filters=asked):
            for one in (one for reservation in page.reservations for one in reservation.instances):
                if one.tag(_CLUSTER) == self._options.cluster and one.state.name in _THERE:
                    yield one

    def _pages(self, deed: str, schema: type[_Answer], **request: Any) -> Iterator[_Answer]:
        token: str | None = None
        for _ in range(_MOST_PAGES):
            more = {} if token is None else {"NextToken": token}
            answer = _call(getattr(self._client, deed), MaxResults=_PAGE, **request, **more)
            yield answers.read(schema, answer)
            token = answer.get("NextToken") or None
            if token is None:
                return
        raise ProviderError("unavailable", f"EC2 does not end its list of {deed}")

    def _spot_prices(self) -> Mapping[tuple[str, str], float]:
        """Spot prices by instance type and zone, dollars per hour."""
        at, known = self._prices
        if not self._spot or (known and time.monotonic() - at < _PRICES_HOLD):
            return known
        pages = self._pages(
            "describe_spot_price_history", answers.SpotPrices, StartTime=datetime.now(UTC),
            InstanceTypes=sorted(set(self._spot.values())), ProductDescriptions=["Linux/UNIX"],
        )  # fmt: skip
        told = (one for page in pages for one in page.spot_price_history if one.is_linux)
        newest = sorted(told, key=lambda one: one.timestamp)
        found = {(one.instance_type, one.availability_zone): one.spot_price for one in newest}
        self._prices = (time.monotonic(), found)
        return found

    def _machine(self, one: answers.Ec2Instance) -> Machine:
        price = None
        if one.is_spot:
            price = self._prices[1].get((one.instance_type, one.placement.availability_zone))
        return Machine(
            id=one.instance_id,
            lease=one.tag(_LEASE),
            pool=one.tag(_POOL),
            state="booting" if one.state.name == "pending" else "running",
            opened_at=one.launch_time.timestamp(),
            price_per_hour=price,
            address=one.private_ip_address or "",
        )


def regions() -> Sequence[str]:
    """The regions that boto3 knows."""
    session = boto3.session.Session()
    partitions = session.get_available_partitions()
    return [name for one in partitions for name in session.get_available_regions("ec2", one)]


def _pool(vm: Vm) -> str:
    return vm.terms.pool if vm.terms is not None else ""


def _is_spot(vm: Vm) -> bool:
    return vm.terms is not None and vm.terms.spot is not None


def _client(session: Any, options: Ec2Provider, service: str, attempts: int) -> Any:
    config = ClientConfig(
        connect_timeout=_CONNECT,
        read_timeout=_READ,
        max_pool_connections=_CONNECTIONS,
        retries={"mode": "standard", "total_max_attempts": attempts},
    )
    try:
        return session.client(
            service, region_name=options.region, endpoint_url=options.endpoint_url, config=config
        )
    except (BotoCoreError, ValueError) as error:
        raise ConfigError(f"provider: {error}") from error


def _call(deed: Any, **request: Any) -> dict[str, Any]:
    try:
        answer: dict[str, Any] = deed(**request)
    except (BotoCoreError, ClientError) as error:
        raise refusal(error) from error
    except _UNREADABLE as error:
        why = visible(" ".join(str(error).split()))[:_LONGEST]
        raise ProviderError("unavailable", f"EC2's answer cannot be read: {why}") from error
    return answer
