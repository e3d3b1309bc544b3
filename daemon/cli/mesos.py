"""The command `mesos`: the embedded Mesos, in the foreground. `daemon.embedded` starts it for the daemon."""

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from daemon.cli.errors import CommandError

if TYPE_CHECKING:
    from framework.embedded import AgentSpec
    from framework.embedded.isolation import IsolationOptions


def mesos(
    cluster: Annotated[
        str, typer.Option("--cluster", metavar="FILE", help="Cluster file: the VMs that there are.")
    ] = "clusters/paper.yaml",
    host: Annotated[str, typer.Option("--host", help="Address of this machine to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Port; 0: any free one.")] = 5050,
    work_dir: Annotated[
        Path, typer.Option("--work-dir", metavar="DIR", help="Where the agents keep their tasks' sandboxes.")
    ] = Path("~/.local/state/stoker/mesos/work"),
    ready_file: Annotated[
        Path | None,
        typer.Option("--ready-file", metavar="FILE", help="Write host:port here once it answers."),
    ] = None,
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
            help="Of a VM's network card, Mbit/s each way; else: 40 times the scale.",
        ),
    ] = None,
    delay: Annotated[
        float,
        typer.Option(
            "--isolation-delay",
            metavar="MS",
            min=0.0,
            help="Milliseconds that a packet waits when it leaves a VM.",
        ),
    ] = 0.0,
) -> None:
    """Run a small Mesos on this machine: a master, and an agent for every VM of a cluster file.

    For laptops, demos and tests: the agents run tasks as local processes; with --isolation vm these have the
    cores, the memory and the network of a VM, where this machine can do that.
    """
    from framework.embedded.isolation import IsolationOptions

    options = IsolationOptions(scale, bandwidth, delay) if isolation == "vm" else None
    try:
        _serve(_agents(cluster), host, port, work_dir.expanduser(), ready_file, options)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        raise CommandError(where + (error.strerror or str(error))) from None


def _serve(
    agents: "list[AgentSpec]",
    host: str,
    port: int,
    work_dir: Path,
    ready_file: Path | None,
    options: "IsolationOptions | None",
) -> None:
    from daemon.embedded import HOST, ready_text, write_whole
    from framework.embedded import serve
    from framework.embedded.isolation import Isolation, IsolationError, remove_leftovers

    tasks_see, told = HOST, ""
    with contextlib.ExitStack() as stack:
        remove_leftovers()
        cells = None
        if options is not None:
            try:
                isolation = stack.enter_context(Isolation(agents, options, str(work_dir)))
                agents, cells, tasks_see = isolation.agents, isolation.cells, isolation.host
                told = f"on: {isolation.summary()}"
            except IsolationError as error:
                told = f"off: {error}"
            print(f"isolation of VMs is {told}", file=sys.stderr, flush=True)

        def ready(address: str) -> None:
            print(f"Mesos master on {address} with {len(agents)} agents; Ctrl-C ends it", flush=True)
            if ready_file is not None:
                write_whole(ready_file, ready_text(address, tasks_see, told))

        serve(agents, host=host, port=port, work_dir=work_dir, on_ready=ready, cells=cells)


def _agents(cluster: str) -> "list[AgentSpec]":
    from conf.loader import ConfigError, find, load
    from conf.schema import Cluster
    from daemon.embedded import agent_specs

    try:
        return agent_specs(load(find(cluster), Cluster))
    except ConfigError as error:
        raise CommandError(str(error)) from None
