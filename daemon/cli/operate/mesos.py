"""Command `mesos`: runs the embedded Mesos in the foreground."""

import contextlib
import shlex
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

import typer

from conf.util.counted import counted
from daemon.cli.shared.errors import CommandError

if TYPE_CHECKING:
    from framework.embedded import AgentSpec
    from framework.embedded.isolation import Cell, IsolationOptions


def mesos(
    cluster: Annotated[
        str, typer.Option("--cluster", metavar="FILE", help="Cluster file with the VMs.")
    ] = "clusters/paper.yaml",
    host: Annotated[str, typer.Option("--host", help="Address of this machine to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Port; 0: any free one.")] = 5050,
    work_dir: Annotated[
        Path, typer.Option("--work-dir", metavar="DIR", help="Folder for the sandboxes of the agents' tasks.")
    ] = Path("~/.local/state/stoker/mesos/work"),
    ready_file: Annotated[
        Path | None,
        typer.Option(
            "--ready-file", metavar="FILE", help="Write host:port to this file once the master answers."
        ),
    ] = None,
    credentials: Annotated[
        Path | None,
        typer.Option(
            "--credentials",
            metavar="FILE",
            help="Clients that may connect, in mesos-master's format: JSON, or lines PRINCIPAL SECRET.",
        ),
    ] = None,
    secret_file: Annotated[
        Path | None,
        typer.Option(
            "--secret-file",
            metavar="FILE",
            help=(
                "Without --credentials: file with the secret of the principal stoker, created if missing; "
                "by default WORK_DIR.secret."
            ),
        ),
    ] = None,
    faults: Annotated[
        bool, typer.Option("--faults", help="For tests: misbehave on request, by POST /stoker/faults.")
    ] = False,
    isolation: Annotated[
        Literal["none", "vm"],
        typer.Option(
            "--isolation", help="vm: VMs with limits on cores, memory and network; needs root and iproute2."
        ),
    ] = "none",
    scale: Annotated[
        float | None,
        typer.Option(
            "--isolation-scale",
            metavar="CORES",
            min=0.0001,
            max=1.0,
            help="Cores of this machine for each cpu of a VM; else: its cores / all cpus of the VMs.",
        ),
    ] = None,
    bandwidth: Annotated[
        float | None,
        typer.Option(
            "--isolation-bandwidth",
            metavar="MBIT",
            min=0.1,
            help="Bandwidth of a VM's network card, Mbit/s each way; else: 40 times the scale.",
        ),
    ] = None,
    delay: Annotated[
        float,
        typer.Option(
            "--isolation-delay",
            metavar="MS",
            min=0.0,
            help="Delay of a packet that leaves a VM, in milliseconds.",
        ),
    ] = 0.0,
    started_by: Annotated[int | None, typer.Option("--started-by", hidden=True)] = None,
    listener: Annotated[int | None, typer.Option("--listener", hidden=True)] = None,
    root: Annotated[bool, typer.Option("--root/--no-root", hidden=True)] = True,
) -> None:
    """Run a small Mesos here, with an agent for every VM of a cluster file.

    A daemon with `provider: {name: embedded}` starts and stops the agents of pools.

    For laptops, demos and tests: the agents run tasks as local processes; with --isolation vm these have the
    cores, the memory and the network of a VM, where this machine can do that. Every client that connects to
    it may run programs as you, so it asks for a principal and its secret.

    Example: stoker mesos --cluster paper
    """
    from framework.embedded import MasterOptions, serve
    from framework.embedded.isolation import IsolationOptions
    from framework.host.listening_socket import inherited
    from framework.host.process_tree import end_with_parent

    if started_by is not None:
        end_with_parent(started_by, signal.SIGTERM)
    options = IsolationOptions(scale, bandwidth, delay) if isolation == "vm" else None
    work_dir = work_dir.expanduser()
    secret = (secret_file or work_dir.with_name(f"{work_dir.name}.secret")).expanduser().absolute()
    how = _how_to_ask(secret) if credentials is None else _HOW_TO_AUTHENTICATE
    try:
        agents, access = _agents(cluster), _access(credentials, secret)
        own = None if listener is None else inherited(listener)
        with _isolated(agents, options, work_dir) as vms:
            code = serve(
                vms.agents,
                host=host,
                port=port,
                listener=own,
                work_dir=work_dir,
                credentials=access,
                on_ready=lambda address: _announce(address, vms, how, ready_file),
                cells=vms.cells,
                may_fail=faults,
                options=MasterOptions(root=root),
            )
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        raise CommandError(where + (error.strerror or str(error))) from None
    if code:
        raise CommandError(f"the embedded Mesos ended with {code}, and all of its tasks with it")


class _Vms(NamedTuple):
    """Agents, cells of their VMs (None: not isolated), and this machine's address as they see it.

    `told` says whether isolation is on; empty where nobody asked for it.
    """

    agents: "Sequence[AgentSpec]"
    cells: "Mapping[str, Cell] | None"
    tasks_see: str
    told: str


@contextlib.contextmanager
def _isolated(
    agents: "Sequence[AgentSpec]", options: "IsolationOptions | None", work_dir: Path
) -> Iterator[_Vms]:
    """The agents' VMs, isolated where that is asked for and possible."""
    from daemon.substrate.embedded_mesos import HOST
    from framework.embedded.isolation import Isolation, IsolationError, remove_leftovers

    vms = _Vms(agents, None, HOST, "")
    with contextlib.ExitStack() as stack:
        remove_leftovers()
        if options is not None:
            try:
                isolation = stack.enter_context(Isolation(agents, options, str(work_dir)))
                vms = _Vms(isolation.agents, isolation.cells, isolation.host, f"on: {isolation.summary()}")
            except IsolationError as error:
                vms = vms._replace(told=f"off: {error}")
            print(f"isolation of VMs is {vms.told}", file=sys.stderr, flush=True)
        yield vms


def _announce(address: str, vms: _Vms, how_to_ask: str, ready_file: Path | None) -> None:
    """Tell people, and in a file programs, that the master answers at this address."""
    from conf.util.whole_file import write_whole
    from daemon.substrate.embedded_mesos import ready_text

    always = sum(not agent.pool for agent in vms.agents)
    pools = f" and {counted(len(vms.agents) - always, 'VM')} in pools" if always < len(vms.agents) else ""
    print(f"Mesos master on {address} with {counted(always, 'agent')}{pools}; Ctrl-C ends it")
    print(how_to_ask.replace("ADDRESS", address), flush=True)
    if ready_file is not None:
        write_whole(ready_file, ready_text(address, vms.tasks_see, vms.told), 0o644)


_HOW_TO_AUTHENTICATE = "Frameworks authenticate by the file that --credentials names"


def _access(credentials: Path | None, secret: Path) -> Mapping[str, str]:
    from framework.embedded.credentials import PRINCIPAL, own_secret, read_credentials

    if credentials is not None:
        return read_credentials(credentials)
    return {PRINCIPAL: own_secret(secret)}


def _how_to_ask(secret: Path) -> str:
    """How a daemon and curl get in; its user is no argument, which all users of this machine could read."""
    from framework.embedded.credentials import PRINCIPAL

    file = shlex.quote(str(secret))
    return (
        f"Principal {PRINCIPAL}, its secret is in {secret}; to connect another daemon or curl:\n"
        f"  stoker up --set mesos.master=ADDRESS --set mesos.principal={PRINCIPAL} "
        f"--set mesos.secret_file={file}\n"
        f'  curl -K <(printf \'user = "{PRINCIPAL}:%s"\' "$(cat {file})") http://ADDRESS/state'
    )


def _agents(cluster: str) -> "list[AgentSpec]":
    from conf.loader import find, load
    from conf.schema import Cluster
    from daemon.substrate.embedded_mesos import agent_specs

    return agent_specs(load(find(cluster), Cluster))
