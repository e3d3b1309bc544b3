"""The commands `spark ...`: which Sparks are served, and to fetch another one or remove it."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from daemon.cli.shared.daemon_config import ConfigFile, Settings, read_config
from daemon.cli.shared.options import Output, print_json

if TYPE_CHECKING:
    from framework.spark import SparkHomes

spark = typer.Typer(
    help="List, download or remove Spark versions.",
    rich_markup_mode=None,
    no_args_is_help=True,
)

_Name = Annotated[str, typer.Argument(metavar="VERSION", help="Spark version, such as 3.5.")]


@spark.command("list")
def list_sparks(config: ConfigFile = None, settings: Settings = None, output: Output = "table") -> None:
    """List the available Spark versions, and those that can be downloaded.

    Example: stoker spark list
    """
    from framework.spark.install.fetch import fetchable

    homes = _homes(config, settings)
    served = [_about(homes, name) for name in homes.names()]
    others = [name for name in fetchable() if name not in homes.names()]
    if output == "json":
        print_json(
            {"default": homes.default, "folder": str(homes.folder), "sparks": served, "fetchable": others}
        )
        return
    from daemon.cli.shared import render

    ill = any(each["problem"] for each in served)
    columns = ("name", "version", "from", "home", "Java", *(("missing",) if ill else ()))
    rows = [
        (
            f"{each['name']} (default)" if each["default"] else each["name"],
            each["version"],
            "fetched" if each["fetched"] else "config",
            each["home"] or render.NONE,
            each["java_home"] or render.NONE,
            *((each["problem"] or "",) if ill else ()),
        )
        for each in served
    ]
    if rows:
        render.show(render.table(columns, rows))
    else:
        print("No Spark version is available.")
    for name in others:
        print(f"`stoker spark add {name}` fetches {name}.")


@spark.command()
def add(
    version: _Name,
    connect: Annotated[
        bool,
        typer.Option("--connect", help=("Also download the Python packages of a Spark Connect client.")),
    ] = False,
    config: ConfigFile = None,
    settings: Settings = None,
    output: Output = "table",
) -> None:
    """Download a Spark version and its Java from pip's package index; about 500 MB (Connect: 100).

    Daemons offer it from then on. Its classes are stored in Java's memory format, so that JVMs start faster.
    The command does nothing when everything is installed.

    Example: stoker spark add 3.5
    """
    from framework.spark.install.fetch import fetch, fetch_connect

    homes = _homes(config, settings)

    def tell(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    new = fetch(version, homes.folder, tell)
    if connect:
        new = fetch_connect(version, homes.folder, tell) or new
    about = _about(homes, version)
    if output == "json":
        print_json({**about, "new": new})
        return
    print(f"Spark {version} is in {homes.folder / version}" + ("." if new else ", and was already."))
    if connect:
        print(f"PYTHONPATH={about['connect']} makes a Python like this one a client of Spark Connect.")


@spark.command()
def remove(
    version: _Name, config: ConfigFile = None, settings: Settings = None, output: Output = "table"
) -> None:
    """Remove a downloaded Spark version; jobs that use it could not continue.

    Example: stoker spark remove 3.5
    """
    from framework.spark.install.fetch import remove as removed

    homes = _homes(config, settings)
    removed(version, homes.folder)
    if output == "json":
        print_json({"name": version, "folder": str(homes.folder)})
    else:
        print(f"Spark {version} is removed from {homes.folder}.")


def _homes(config: Path | None, settings: list[str] | None) -> "SparkHomes":
    import os

    from framework.spark import SparkHomes

    return SparkHomes(read_config(config, settings)[0].spark, os.environ)


def _about(homes: "SparkHomes", name: str) -> dict[str, Any]:
    """One Spark as it is on this host; where it is on the agents, if it is not here."""
    from framework.spark import connect_path

    about: dict[str, Any] = {
        "name": name,
        "default": name == homes.default,
        "fetched": name in homes.fetched(),
        "problem": None,
    }
    try:
        found = homes.here(name)
    except ValueError as error:
        about["problem"] = str(error)
        try:
            found = homes.there(name)
        except ValueError:
            nothing = dict.fromkeys(("home", "java_home", "python", "connect"))
            return {**about, "version": name, **nothing}
    return {
        **about,
        "version": found.version,
        "home": found.home,
        "java_home": found.java_home,
        "python": found.python,
        "connect": ":".join(connect_path(Path(found.home))) or None,
    }
