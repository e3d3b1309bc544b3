"""The command `spark-conf`: the settings by which any Spark gets its executors from a daemon."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from conf.util.whole_file import write_whole
from daemon.cli.shared.errors import CommandError
from daemon.cli.shared.fetching import Fetched, fetches
from daemon.cli.shared.options import TokenFile

if TYPE_CHECKING:
    from stoker import Stoker


@fetches()
def spark_conf(
    client: "Stoker",
    version: Annotated[
        str | None,
        typer.Option(
            "--version",
            metavar="VERSION",
            help="Spark version, such as 4.3; else the default.",
        ),
    ] = None,
    jar: Annotated[
        Path | None,
        typer.Option(
            "--jar",
            metavar="FILE",
            help=(
                "Download Stoker's jar to this file and refer to it there, for users with jars of their own."
            ),
        ),
    ] = None,
    token_file: TokenFile = None,
) -> Fetched:
    """Print settings for spark-submit --properties-file, pyspark, spark-shell, notebooks, ...

    The output is a properties file: `stoker spark-conf > stoker.conf`. It contains a new secret each time,
    which protects a driver until the driver has a secret of its own.

    Example: stoker spark-conf
    """
    from stoker import flows
    from stoker.notebook import driver_settings

    served = client.sparks()
    found = _of(served, version)
    place = {"spark.jars": client.settings.url + found["jar"]}
    content = client.run(flows.download(found["jar"]))  # which is made now, if it never was
    if jar is not None:
        _write(jar, content)
        place = {"spark.driver.extraClassPath": str(jar.absolute())}
    settings = driver_settings(client.settings, served, place, token_file)
    width = max(map(len, settings))
    return Fetched(settings, "\n".join(f"{name:<{width}}  {value}" for name, value in settings.items()))


def _of(served: Mapping[str, Any], version: str | None) -> Mapping[str, Any]:
    """The Spark that suits this version, or the default one."""
    sparks: list[Mapping[str, Any]] = served["sparks"]
    if version is None:
        version = served["default"]
    line = version.split(".")[:2]
    for one in sparks:
        if version in (one["name"], one["version"]) or one["version"].split(".")[:2] == line:
            return one
    names = ", ".join(one["name"] for one in sparks) or "none"
    raise CommandError(f"--version: Spark {version} is not available; available are {names}")


def _write(path: Path, content: bytes) -> None:
    """All of it or nothing."""
    try:
        write_whole(path, content, 0o644)
    except OSError as error:
        raise CommandError(f"--jar {path}: cannot be written: {error.strerror}") from None
