"""The network between VMs: a bridge, a namespace with a card for each VM, limits on each card's traffic.

iproute2's `ip` and `tc` do all of it. Names carry the run's id, which identifies everything of a run.
"""

import contextlib
import json
import random
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from ipaddress import IPv4Network, ip_network
from pathlib import Path

NAMESPACES = Path("/run/netns")  # where iproute2 keeps them
MOST_VMS = 1000  # a Linux bridge has 1024 ports

_NETWORKS = IPv4Network("10.64.0.0/10")  # chosen: private, seldom used
_PREFIX = 21  # 2046 addresses: enough for MOST_VMS
_FIRST_VM = 10
_QUEUE_MS = 50  # chosen: a card buffers as much before it drops, like a small switch
_BURST_MS = 10  # chosen: long enough for the kernel's clock at every rate
_SMALLEST_BURST = 32_768


class NetworkError(OSError):
    """The network cannot be made; the text is the reason."""


class VmNetwork:
    """The bridge and namespaces of one run; VMs are numbered from 0."""

    def __init__(self, run: str, vms: int, name: str) -> None:
        if vms > MOST_VMS:
            raise NetworkError(f"a bridge carries {MOST_VMS} VMs at most, this cluster has {vms}")
        subnet = _free_network(name)
        #: This machine's address on the bridge.
        self.host = str(subnet[1])
        #: The VMs' addresses on the bridge.
        self.addresses = [str(subnet[_FIRST_VM + i]) for i in range(vms)]
        self.namespaces = [NAMESPACES / _namespace(run, i) for i in range(vms)]
        self._run = run

    def make(self, bandwidth_mbit: float | None, delay_ms: float) -> None:
        """Make bridge, namespaces and cards; NetworkError when the kernel refuses, with its words.

        `bandwidth_mbit` is that of each VM's card, in each direction; None is no limit. `delay_ms` is how
        long a packet waits when it leaves a VM.
        """
        bridge, lines = _bridge(self._run), []
        lines += [f"link add {bridge} type bridge", f"addr add {self.host}/{_PREFIX} dev {bridge}"]
        lines += [f"link set {bridge} up"]
        for i, namespace in enumerate(self.namespaces):
            card = _card(self._run, i)
            lines += [f"netns add {namespace.name}"]
            lines += [f"link add {card} type veth peer name eth0 netns {namespace.name}"]
            lines += [f"link set {card} master {bridge} up"]
        _batch("ip", lines)
        for namespace, address in zip(self.namespaces, self.addresses, strict=True):
            own = [f"addr add {address}/{_PREFIX} dev eth0", "link set eth0 up", "link set lo up"]
            _batch("ip", own, namespace.name)
        self._limit(bandwidth_mbit, delay_ms)

    def _limit(self, bandwidth_mbit: float | None, delay_ms: float) -> None:
        """Limit outgoing traffic of a VM at its own end of the card, incoming traffic at the other end."""
        limit = [] if bandwidth_mbit is None else [_token_bucket(bandwidth_mbit)]
        delay = [] if not delay_ms else [f"netem delay {delay_ms:g}ms limit 100000"]
        inward = [
            f"qdisc add dev {_card(self._run, i)} root {limit[0]}"
            for i in range(len(self.addresses))
            if limit
        ]
        if inward:
            _batch("tc", inward)
        outward = [f"qdisc add dev eth0 {place} {kind}" for place, kind in _stacked(delay + limit)]
        for namespace in self.namespaces if outward else ():
            _batch("tc", outward, namespace.name)


def remove_network(run: str) -> None:
    """Remove all that carries this run's id, as far as it is there; idempotent."""
    if shutil.which("ip") is None:
        return
    for namespace in sorted(NAMESPACES.glob(f"{_namespace(run, '')}*")) if NAMESPACES.is_dir() else ():
        _ignore_failure(f"netns del {namespace.name}")
    links = [link["ifname"] for link in _list("link")]
    for name in sorted((name for name in links if name.startswith(_bridge(run))), key=len, reverse=True):
        _ignore_failure(f"link del {name}")


def missing_tools() -> list[str]:
    """The programs that are needed and not installed."""
    return [name for name in ("ip", "tc") if shutil.which(name) is None]


def has_delay() -> bool:
    """Whether the kernel can hold packets back (netem), by trying it in a namespace of its own."""
    trial = "tc qdisc add dev lo root netem delay 1ms"
    return (
        subprocess.run(["unshare", "--net", *trial.split()], capture_output=True, check=False).returncode == 0
    )


def _namespace(run: str, number: int | str) -> str:
    return f"stoker-{run}-{number}"


def _bridge(run: str) -> str:
    return f"stk{run}"


def _card(run: str, number: int) -> str:
    """The host's end of a VM's card; a name may have 15 characters."""
    return f"{_bridge(run)}v{number}"


def _token_bucket(mbit: float) -> str:
    burst = max(round(mbit * 1e6 / 8 * _BURST_MS / 1000), _SMALLEST_BURST)
    return f"tbf rate {round(mbit * 1000)}kbit burst {burst} latency {_QUEUE_MS}ms"


def _stacked(kinds: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield where each queue goes: the first at the root, the others below the one before."""
    for number, kind in enumerate(kinds, 1):
        yield f"{'root' if number == 1 else f'parent {number - 1}:1'} handle {number}:", kind


def _free_network(name: str) -> IPv4Network:
    """A network that no route of this machine leads to; the same for the same name, when it is free again."""
    taken = [
        ip_network(r["dst"], strict=False)
        for r in _list("route", "show", "table", "all")
        if r["dst"][0].isdigit()
    ]
    candidates = list(_NETWORKS.subnets(new_prefix=_PREFIX))
    order = random.Random(name)  # noqa: S311  (spread, not secret)
    for subnet in order.sample(candidates, len(candidates)):
        if not any(subnet.overlaps(other) for other in taken if isinstance(other, IPv4Network)):
            return subnet
    raise NetworkError(f"no free network of /{_PREFIX} in {_NETWORKS}")


def _list(*what: str) -> list[dict[str, str]]:
    done = subprocess.run(["ip", "-4", "-j", *what], capture_output=True, text=True, check=False)
    if done.returncode:
        raise NetworkError(f"ip {' '.join(what)}: {done.stderr.strip()}")
    return json.loads(done.stdout or "[]") if what else []


def _batch(program: str, lines: Sequence[str], namespace: str | None = None) -> None:
    inside = ["-n", namespace] if namespace else []
    command = [program, *inside, "-b", "-"]
    done = subprocess.run(command, input="\n".join(lines), capture_output=True, text=True, check=False)
    if done.returncode:
        told = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        number = next((int(line.rsplit(":", 1)[1]) for line in told if line.startswith("Command failed")), 1)
        raise NetworkError(f"`{program} {lines[number - 1]}`: {told[0] if told else 'failed'}")


def _ignore_failure(line: str) -> None:
    with contextlib.suppress(NetworkError):
        _batch("ip", [line])
