"""The command `mesos`: the embedded Mesos, in the foreground. `daemon.embedded` starts it for the daemon."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from daemon.cli.errors import CommandError

if TYPE_CHECKING:
    from framework.embedded import AgentSpec


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
) -> None:
    """Run a small Mesos on this machine: a master, and an agent for every VM of a cluster file.

    For laptops, demos and tests: the agents run tasks as local processes, without isolation.
    """
    from daemon.embedded import write_whole
    from framework.embedded import serve

    agents = _agents(cluster)

    def ready(address: str) -> None:
        print(f"Mesos master on {address} with {len(agents)} agents; Ctrl-C ends it", flush=True)
        if ready_file is not None:
            write_whole(ready_file, address)

    try:
        serve(agents, host=host, port=port, work_dir=work_dir.expanduser(), on_ready=ready)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        raise CommandError(where + (error.strerror or str(error))) from None


def _agents(cluster: str) -> "list[AgentSpec]":
    from conf.loader import ConfigError, find, load
    from conf.schema import Cluster
    from daemon.embedded import agent_specs

    try:
        return agent_specs(load(find(cluster), Cluster))
    except ConfigError as error:
        raise CommandError(str(error)) from None
