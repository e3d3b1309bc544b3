"""The provider of EC2's VMs, over HTTP: with moto's server, and with one that returns set answers."""

import base64
import contextlib
import functools
import http.client
import http.server
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import boto3
import pytest

from conf.loader import ConfigError
from conf.schema import Ec2Provider
from environment.pools import SpotTerms, Terms
from environment.resources import Resources
from environment.types import Vm
from framework.providers.agent_join import Door
from framework.providers.factory import make_provider
from framework.providers.interface import ProviderError, VmRequest
from tests.daemon.ports import free_port

IMAGE, OTHER_IMAGE = "ami-11111111", "ami-22222222"
KEYS = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_EC2_METADATA_DISABLED": "true"}
VM = Vm("general-3", "general-3", "m5.xlarge", Resources.of(4, 15_000), 0.24, terms=Terms("general", 60.0))
CHEAP = replace(
    VM, id="cheap-1", name="cheap-1", terms=Terms("cheap", spot=SpotTerms(interruptions_per_hour=0.2))
)
WANTED = VmRequest("general-3.17", VM)
DOOR = Door("10.0.0.1:5050", "https://stoker.example:8642/", lambda lease: f"key-of-{lease}")
USER_DATA = "#!/bin/sh\nagent --master={{master}} --attributes={{ attributes }} {{notice_url}} {{key}}\n"


@pytest.fixture(scope="module")
def moto() -> Iterator[str]:
    """The URL of moto's server, a process of its own."""
    url = f"http://127.0.0.1:{(port := free_port())}"
    command = [sys.executable, "-m", "moto.server", "--host", "127.0.0.1", "--port", str(port)]
    process = subprocess.Popen(
        command,
        env={**os.environ, **KEYS, "MOTO_EC2_LOAD_DEFAULT_AMIS": "false"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    with process:
        try:
            _until_it_answers(port)
            yield url
        finally:
            process.send_signal(signal.SIGKILL)


def _until_it_answers(port: int) -> None:
    until = time.monotonic() + 600
    while True:
        try:
            with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=300)) as connection:
                connection.request("GET", "/moto-api/")
                connection.getresponse()
                return
        except ConnectionRefusedError:
            if time.monotonic() > until:
                raise
            time.sleep(0.05)


@pytest.fixture(scope="module", autouse=True)
def _credentials() -> Iterator[None]:
    """Set credentials of no account, and remove those of the user that runs the tests."""
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name.startswith("AWS_"):
                patch.delenv(name)
        for name, value in KEYS.items():
            patch.setenv(name, value)
        yield


@functools.cache
def client(url: str) -> Any:
    """EC2 as somebody else sees it."""
    return boto3.session.Session("key", "secret").client("ec2", region_name="eu-west-1", endpoint_url=url)


Made = Callable[..., Any]


@pytest.fixture
def made(tmp_path: Path, moto: str, request: pytest.FixtureRequest) -> Made:
    """A provider for the cluster of this test."""
    (tmp_path / "data.sh").write_text(USER_DATA)
    cluster = request.node.name.partition("[")[0]

    def make(**options: Any) -> Any:
        given = {"name": "ec2", "cluster": cluster, "region": "eu-west-1", "image": IMAGE}
        given |= {"endpoint_url": moto, "user_data": "data.sh", **options}
        return make_provider(Ec2Provider.model_validate(given), [VM, CHEAP], DOOR, tmp_path)

    return make


def described(url: str, instance_id: str) -> dict[str, Any]:
    """An instance as EC2 tells of it."""
    found: dict[str, Any] = client(url).describe_instances(InstanceIds=[instance_id])["Reservations"][0]
    (one,) = found["Instances"]
    return dict(one)


def refused(deed: Callable[[], object]) -> tuple[str, str]:
    """The refusal's kind and message."""
    with pytest.raises(ProviderError) as error:
        deed()
    return error.value.kind, str(error.value)


def test_a_vm_is_opened_listed_and_closed(made: Made, moto: str) -> None:
    """The VM has its tags and boot commands, and no part that others can reach."""
    provider = made()
    began = time.time()
    opened = provider.open(WANTED)
    assert (opened.lease, opened.pool, opened.price_per_hour) == ("general-3.17", "general", None)
    assert abs(opened.opened_at - began) < 60
    (listed,) = provider.list()
    assert (listed.id, listed.lease, listed.state) == (opened.id, "general-3.17", "running")
    assert listed.address == opened.address != ""
    told = described(moto, opened.id)
    assert {tag["Key"]: tag["Value"] for tag in told["Tags"]} == {
        "stoker-cluster": "test_a_vm_is_opened_listed_and_closed", "stoker-pool": "general",
        "stoker-lease": "general-3.17", "Name": "general-3.17",
    }  # fmt: skip
    assert told["InstanceType"] == "m5.xlarge"
    assert told["MetadataOptions"]["HttpTokens"] == "required"
    assert "InstanceLifecycle" not in told
    data = client(moto).describe_instance_attribute(InstanceId=opened.id, Attribute="userData")
    assert base64.b64decode(data["UserData"]["Value"]).decode() == (
        "#!/bin/sh\nagent --master=10.0.0.1:5050 "
        "--attributes='vm:m5.xlarge;price:0.24;lease:general-3.17' "
        "https://stoker.example:8642/v1/vms/general-3.17/notice key-of-general-3.17\n"
    )
    provider.close(opened.id)
    provider.close(opened.id)
    provider.close("i-0123456789abcdef0")
    assert provider.list() == ()


def test_what_was_opened_is_found_again_by_its_tags(made: Made) -> None:
    """By a daemon that crashed before it knew, though the cloud knows no tokens; others' VMs are not seen."""
    opened = made().open(WANTED)
    other = made(cluster="another").open(WANTED)
    assert other.id != opened.id
    after = made()
    assert [one.id for one in after.list()] == [opened.id]
    assert after.open(WANTED).id == opened.id
    assert after.open(replace(WANTED, lease="general-3.18")).id not in (opened.id, other.id)
    after.close(opened.id)
    assert [one.lease for one in after.list()] == ["general-3.18"]


def test_spot(made: Made, moto: str) -> None:
    """It is requested once, ends when it is taken away, and costs its zone's price."""
    provider = made()
    opened = provider.open(VmRequest("cheap-1.1", CHEAP))
    assert described(moto, opened.id)["InstanceLifecycle"] == "spot"
    prices = provider.prices()
    assert prices.keys() == {"cheap"}
    (listed,) = provider.list()
    assert listed.price_per_hour == pytest.approx(prices["cheap"])
    assert 0 < listed.price_per_hour < 0.24
    assert provider.notices() == ()


def test_a_long_list_has_pages(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them are read, and not without end."""
    monkeypatch.setattr("framework.providers.ec2._PAGE", 5)
    provider = made()
    for number in range(7):
        provider.open(replace(WANTED, lease=f"general-3.{number}"))
    assert sorted(int(one.lease.rpartition(".")[2]) for one in provider.list()) == list(range(7))
    monkeypatch.setattr("framework.providers.ec2._MOST_PAGES", 1)
    assert refused(provider.list) == ("unavailable", "EC2 does not end its list of describe_instances")


def test_a_pool_that_says_more_than_its_type_has(made: Made) -> None:
    """Its agent would offer resources that do not exist; nothing is opened."""
    provider = made()
    large = replace(WANTED, vm=replace(VM, resources=Resources.of(8, 16_384)))
    assert refused(lambda: provider.open(large)) == (
        "invalid",
        "an instance of m5.xlarge has 4 cpus and 16384 MiB, but its pool says 8 cpus and 16384 MiB",
    )
    assert provider.list() == ()


def test_what_ec2_refuses(made: Made) -> None:
    """Says why, in its own words."""
    kind, says = refused(lambda: made().open(replace(WANTED, vm=replace(VM, type="m9.none"))))
    assert (kind, "m9.none" in says, "InvalidInstanceType" in says) == ("invalid", True, True)
    kind, says = refused(lambda: made(subnets=["subnet-none"]).open(WANTED))
    assert (kind, "subnet-none" in says) == ("invalid", True)


def test_no_credentials(made: Made, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It may be mended while the daemon runs."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    kind, says = refused(made().list)
    assert (kind, says.startswith("no credentials for EC2: boto3 finds them in")) == ("unavailable", True)


def test_nobody_answers(made: Made) -> None:
    """Whether something is open then nobody knows."""
    kind, says = refused(made(endpoint_url=f"http://127.0.0.1:{free_port()}").list)
    assert (kind, says.startswith("EC2 does not answer: Could not connect")) == ("unavailable", True)


def test_a_vm_boots_what_its_pool_says(made: Made, moto: str) -> None:
    """In a subnet that is always the same for a lease, with an image of its pool, or a launch template's."""
    cloud = client(moto)
    subnets = [one["SubnetId"] for one in cloud.describe_subnets()["Subnets"][:2]]
    provider = made(images={"general": OTHER_IMAGE}, subnets=subnets)
    found = [described(moto, provider.open(replace(WANTED, lease=f"general-3.{n}")).id) for n in range(5)]
    assert {one["ImageId"] for one in found} == {OTHER_IMAGE}
    assert {one["SubnetId"] for one in found} == set(subnets)
    cloud.create_launch_template(
        LaunchTemplateName="ours", LaunchTemplateData={"ImageId": OTHER_IMAGE, "KeyName": "ours"}
    )
    templated = made(image=None, launch_template="ours", cluster="templated").open(WANTED)
    assert described(moto, templated.id)["ImageId"] == OTHER_IMAGE


# ---- a server that answers what it is told ---------------------------------------------------------


class Told(http.server.BaseHTTPRequestHandler):
    """Answers each action with its entry in `answers`."""

    protocol_version = "HTTP/1.1"
    answers: ClassVar[dict[str, tuple[int, str]]] = {}
    asked: ClassVar[list[str]] = []

    def do_POST(self) -> None:
        """Answer one request of the query API."""
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        action = body.partition("Action=")[2].partition("&")[0]
        self.asked.append(body)
        status, text = self.answers.get(action, (200, ""))
        data = f"<{action}Response>{text}</{action}Response>".encode() if status == 200 else text.encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A provider that asks it."""
    folder = tmp_path_factory.mktemp("told")
    (folder / "data.sh").write_text(USER_DATA)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Told)
    given = {"name": "ec2", "cluster": "told", "region": "eu-west-1", "image": IMAGE, "user_data": "data.sh"}
    given["endpoint_url"] = f"http://127.0.0.1:{server.server_address[1]}"
    provider = make_provider(Ec2Provider.model_validate(given), [VM, CHEAP], DOOR, folder)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield provider
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def told(asking: Any) -> Any:
    """That provider, in a cloud where nothing is."""
    Told.answers, Told.asked = {"DescribeInstanceTypes": (200, SIZE)}, []
    return asking


SIZE = (
    "<instanceTypeSet><item><instanceType>m5.xlarge</instanceType><vCpuInfo><defaultVCpus>4</defaultVCpus>"
    "</vCpuInfo><memoryInfo><sizeInMiB>16384</sizeInMiB></memoryInfo></item></instanceTypeSet>"
)


def instance(
    state: str = "running", number: str = "i-1", launched: str = "2026-01-01T00:00:00Z", cluster: str = "told"
) -> str:
    """An instance as the query API tells it."""
    return (
        f"<instancesSet><item><instanceId>{number}</instanceId><instanceType>m5.xlarge</instanceType>"
        f"<launchTime>{launched}</launchTime><instanceState><code>1</code><name>{state}</name></instanceState>"
        f"<tagSet><item><key>stoker-cluster</key><value>{cluster}</value></item>"
        "<item><key>stoker-lease</key><value>general-3.17</value></item></tagSet></item></instancesSet>"
    )


def reservations(inner: str) -> str:
    """A page of them."""
    return f"<reservationSet><item>{inner}</item></reservationSet>"


@pytest.mark.parametrize(
    ("code", "status", "kind"),
    [
        ("InsufficientInstanceCapacity", 500, "capacity"),
        ("SpotMaxPriceTooLow", 400, "capacity"),
        ("VcpuLimitExceeded", 400, "quota"),
        ("MaxSpotInstanceCountExceeded", 400, "quota"),
        ("InvalidAMIID.NotFound", 400, "invalid"),
        ("IdempotentParameterMismatch", 400, "unavailable"),
        ("RequestLimitExceeded", 503, "unavailable"),
        ("InternalError", 500, "unavailable"),
        ("SomethingElse", 500, "unavailable"),
        ("UnauthorizedOperation", 403, "unavailable"),
    ],
)
def test_kinds_of_errors(told: Any, code: str, status: int, kind: str) -> None:
    """Only an error proving that nothing was opened is a refusal; the client does not ask a second time."""
    error = f"<Error><Code>{code}</Code><Message>why&#133;so</Message></Error>"
    Told.answers["RunInstances"] = (status, f"<Response><Errors>{error}</Errors></Response>")
    found, says = refused(lambda: told.open(WANTED))
    assert (found, code in says, says.isprintable()) == (kind, True, True)
    assert sum("Action=RunInstances" in body for body in Told.asked) == 1


def test_an_opening_has_a_token_of_its_lease(told: Any) -> None:
    """The same whenever it is asked for again, another one for another lease, of 64 characters at most."""
    Told.answers["RunInstances"] = (200, instance("pending"))
    for lease in ("general-3.17", "general-3.17", "general-3.18"):
        assert told.open(replace(WANTED, lease=lease)).state == "booting"
    tokens = [
        body.partition("ClientToken=")[2].partition("&")[0] for body in Told.asked if "ClientToken=" in body
    ]
    assert len(tokens) == 3
    assert tokens[0] == tokens[1] != tokens[2]
    assert len(tokens[0]) == 64


def test_a_lease_whose_vm_is_closed(told: Any) -> None:
    """AWS answers with that VM as long as it knows the token: it is none that is open."""
    Told.answers["RunInstances"] = (200, instance("terminated"))
    assert refused(lambda: told.open(WANTED)) == (
        "invalid", "i-1, which was opened under the lease general-3.17, is closed"
    )  # fmt: skip


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (instance(number="i 1"), "EC2's answer: Reservations.0.Instances.0.InstanceId: "),
        (instance(number="i-" + "1" * 100), "EC2's answer: Reservations.0.Instances.0.InstanceId: "),
        (
            instance().replace("launchTime", "startTime"),
            "EC2's answer: Reservations.0.Instances.0.LaunchTime: ",
        ),
        (instance(launched="soon"), "EC2's answer cannot be read: "),
        ("<instancesSet>", "EC2's answer cannot be read: "),
    ],
)
def test_an_answer_that_is_none(told: Any, answer: str, says: str) -> None:
    """The error names its fault."""
    Told.answers["DescribeInstances"] = (200, reservations(answer))
    kind, found = refused(told.list)
    assert (kind, found.startswith(says)) == ("unavailable", True), found


def test_notices(told: Any) -> None:
    """Notices concern our marked spot VMs, and our VMs with a host about to be stopped."""
    Told.answers["DescribeInstances"] = (200, reservations(instance(number="i-1")))
    Told.answers["DescribeSpotInstanceRequests"] = (200, "".join((
        "<spotInstanceRequestSet>",
        *(f"<item><instanceId>{number}</instanceId><status><code>marked-for-termination</code>"
          "<updateTime>2026-01-01T00:00:00Z</updateTime><message>sold</message></status></item>"
          for number in ("i-1", "i-of-others")),
        "</spotInstanceRequestSet>",
    )))  # fmt: skip
    (notice,) = told.notices()
    assert (notice.lease, notice.at, notice.why) == ("general-3.17", 1767225600.0 + 120, "sold")
    del Told.answers["DescribeSpotInstanceRequests"]
    assert told.notices() == ()
    event = (
        "<instanceStatusSet><item><instanceId>i-1</instanceId><eventsSet><item>"
        "<code>instance-retirement</code>"
        "<description>{}old host</description><notBefore>2026-01-02T00:00:00Z</notBefore>"
        "</item></eventsSet></item></instanceStatusSet>"
    )
    Told.answers["DescribeInstanceStatus"] = (200, event.format(""))
    assert [(one.lease, one.why) for one in told.notices()] == [("general-3.17", "old host")]
    Told.answers["DescribeInstanceStatus"] = (200, event.format("[Completed] "))
    assert told.notices() == ()


def test_a_cloud_that_knows_no_filters(told: Any) -> None:
    """Others' VMs are not taken for ours, as those could be closed, nor ended ones for running ones."""
    others = (instance(number="i-2", cluster="other"), instance("terminated", "i-3"), instance(number="i-1"))
    Told.answers["DescribeInstances"] = (200, "".join(
        f"<reservationSet>{''.join(f'<item>{one}</item>' for one in others)}</reservationSet>"
    ))  # fmt: skip
    assert [one.id for one in told.list()] == ["i-1"]
    assert told.open(WANTED).id == "i-1"
    Told.answers["RunInstances"] = (200, instance("pending", "i-4"))
    assert told.open(replace(WANTED, lease="general-3.*")).id == "i-4"
    Told.answers["DescribeSpotInstanceRequests"] = (200, (
        "<spotInstanceRequestSet><item><status><code>capacity-not-available</code><updateTime>"
        "2026-01-01T00:00:00Z</updateTime></status></item><item><instanceId>i-1</instanceId><status>"
        "<code>fulfilled</code><updateTime>2026-01-01T00:00:00Z</updateTime></status></item>"
        "</spotInstanceRequestSet>"
    ))  # fmt: skip
    Told.answers["DescribeInstanceStatus"] = (200, (
        "<instanceStatusSet><item><instanceId>i-1</instanceId><eventsSet><item><code>system-reboot</code>"
        "<notBefore>2026-01-02T00:00:00Z</notBefore></item></eventsSet></item></instanceStatusSet>"
    ))  # fmt: skip
    assert told.notices() == ()


# ---- what is wrong before anything is asked --------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("agent\n", ":1: should begin with #! and the program that runs it, such as #!/bin/sh"),
        ("#!/bin/sh\nagent {{mastr}}",
         ":2: {{mastr}}: known names are attributes, cluster, key, lease, master, notice_url, pool, "
         "resources"),
        ("#!/bin/sh\n" + "x" * 20_000, ": cannot be read: too long: more than 16384 bytes"),
    ],
)  # fmt: skip
def test_a_template_that_is_none(made: Made, tmp_path: Path, text: str, says: str) -> None:
    """A daemon does not start with it."""
    (tmp_path / "other.sh").write_text(text)
    with pytest.raises(ConfigError) as error:
        made(user_data="other.sh")
    assert str(error.value) == f"{tmp_path / 'other.sh'}{says}"


def test_a_region_that_is_none(made: Made) -> None:
    """No client is made of it."""
    with pytest.raises(ConfigError, match="provider: "):
        made(region="nowhere..1", endpoint_url=None)


def test_boto3_is_missing(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    """Users of EC2 are told the package to install; all others notice nothing."""
    monkeypatch.setitem(sys.modules, "boto3", None)
    monkeypatch.delitem(sys.modules, "framework.providers.ec2", raising=False)
    with pytest.raises(ConfigError, match="ec2 needs boto3, which is not installed"):
        made()
