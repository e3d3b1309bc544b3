"""A SparkSession with executors from a daemon: the driver is this process, for notebooks and shells.

pyspark is the user's own. Secrets reach it in a file that is gone when the JVM has read it, since pyspark
would put them on the JVM's command line.
"""

from __future__ import annotations

import math
import os
import re
import secrets
import shlex
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union
from urllib.parse import urlsplit

from stoker import flows
from stoker.client import Stoker
from stoker.errors import NotFoundError, StokerError
from stoker.settings import TOKEN_FILE
from stoker.spark_arguments import default_properties

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from stoker.settings import Settings

#: A fixed number of executors, or (least, most) of which Spark takes as many as it has tasks for.
Executors = Union[int, tuple[int, int]]
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_MIB = {"": 1, "k": 1 / 1024, "m": 1, "g": 1024, "t": 1 << 20}
#: Spark's own rule for what a process takes beside its heap, MiB.
_OVERHEAD, _SMALLEST_OVERHEAD = 0.10, 384
_SUBMIT_ARGUMENTS = "PYSPARK_SUBMIT_ARGS"


def session(
    executors: Executors = 2,
    *,
    cpus: int = 1,
    memory: int | str = "2g",
    name: str | None = None,
    type: str | None = None,  # noqa: A002 - as in a job file
    queue: str | None = None,
    owner: str | None = None,
    conf: Mapping[str, str] | None = None,
    url: str | None = None,
    token_file: str | os.PathLike[str] | None = None,
    ca: str | os.PathLike[str] | None = None,
) -> SparkSession:
    """A SparkSession of the pyspark that is installed here; `stop()` releases its executors.

    `executors` is a number, or the least and the most for dynamic allocation. `cpus` and `memory` (MiB, or
    896m, 2g) are the resources that each takes from its VM, as in a job file. `conf` has Spark's own
    properties, and precedes all that is set here but the master. The daemon is at `url` or STOKER_URL.

    StokerError when pyspark is missing or of a version that is not served, or a session is there already.
    """
    try:
        import pyspark
        from pyspark import SparkContext
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise StokerError(
            f"a session takes a Spark of your own ({error}): pip install pyspark, of a version that the "
            "daemon serves (`stoker spark list`)"
        ) from None
    if SparkContext._active_spark_context is not None:
        raise StokerError("a SparkContext is there already; stop() it first")
    with Stoker(url, token_file, ca) as client:
        served = _served(client)
        wanted = {
            **_size(executors, cpus, memory),
            **flows.given(
                **{
                    "spark.app.name": name,
                    "spark.stoker.type": type,
                    "spark.stoker.queue": queue,
                    "spark.stoker.owner": owner,
                }
            ),
            **(conf or {}),
        }
        token = token_file or os.environ.get(TOKEN_FILE)
        properties = {**wanted, **_connection(client.settings, served, pyspark.__version__, token)}
    jars = [text for text in (wanted.get("spark.jars"), properties.get("spark.jars")) if text]
    properties["spark.jars"] = ",".join(dict.fromkeys(jars))
    builder = SparkSession.builder
    if SparkContext._gateway is not None:  # a JVM runs, from an earlier session: it is told by Python
        for key, value in properties.items():
            builder = builder.config(key, value)
        return builder.getOrCreate()
    with _by_file({**default_properties(os.environ), **properties}):
        return builder.getOrCreate()


def _served(client: Stoker) -> Mapping[str, Any]:
    try:
        found: Mapping[str, Any] = client.run(flows.ask("GET", "/v1/spark"))
    except NotFoundError:
        raise StokerError(f"the daemon at {client.settings.url} serves no drivers of others") from None
    return found


def _connection(
    settings: Settings, served: Mapping[str, Any], version: str, token_file: str | os.PathLike[str] | None
) -> dict[str, str]:
    """Properties that connect a driver of this version to the daemon, and that authenticate its traffic."""
    line = version.split(".")[:2]
    sparks = [one for one in served["sparks"] if str(one["version"]).split(".")[:2] == line]
    if not sparks:
        names = ", ".join(str(one["name"]) for one in served["sparks"]) or "none"
        raise StokerError(
            f"pyspark {version} is installed here, which the daemon does not serve; served are {names}"
        )
    return driver_settings(settings, served, {"spark.jars": settings.url + sparks[0]["jar"]}, token_file)


def driver_settings(
    settings: Settings,
    served: Mapping[str, Any],
    jar: Mapping[str, str],
    token_file: str | os.PathLike[str] | None,
) -> dict[str, str]:
    """Properties for a driver: the daemon, `jar`, which connects to it, and a new secret for its traffic."""
    address = urlsplit(settings.url)
    scheme = "spark+stokers" if address.scheme == "https" else "spark+stoker"
    host = f"[{address.hostname}]" if ":" in (address.hostname or "") else address.hostname
    port = address.port or {"http": 80, "https": 443}[address.scheme]
    found = {
        "spark.master": f"{scheme}://{host}:{port}",
        **jar,
        "spark.authenticate": "true",
        "spark.authenticate.secret": secrets.token_urlsafe(32),
        "spark.network.crypto.enabled": "true",
        "spark.network.crypto.cipher": "AES/GCM/NoPadding",
    }
    if address.hostname in _LOOPBACK:
        found["spark.driver.host"] = str(served["driver_host"])
    if token_file is not None:
        found["spark.stoker.token.file"] = str(Path(token_file).expanduser().absolute())
    if settings.ca is not None:
        found["spark.stoker.ca"] = str(Path(settings.ca).expanduser().absolute())
    return found


def _size(executors: Executors, cpus: int, memory: int | str) -> dict[str, str]:
    mib = _mib(memory)
    overhead = max(math.ceil(mib * _OVERHEAD), _SMALLEST_OVERHEAD)
    if mib <= overhead:
        raise StokerError(f"memory: {memory} leaves nothing beside Spark's overhead of {overhead} MiB")
    found = {
        "spark.executor.cores": str(cpus),
        "spark.executor.memory": f"{mib - overhead}m",
        "spark.executor.memoryOverhead": f"{overhead}m",
    }
    wanted: Any = (executors,) if isinstance(executors, int) else executors
    numbers = isinstance(wanted, (tuple, list)) and all(isinstance(one, int) for one in wanted)
    if (
        not numbers
        or len(wanted) != (1 if isinstance(executors, int) else 2)
        or not 0 <= wanted[0] <= wanted[-1] >= 1
    ):
        raise StokerError(
            "executors: should be a number of at least 1, or the least and the most of them, as in (1, 8), "
            f"found {executors!r}"
        )
    if isinstance(executors, int):
        return {**found, "spark.executor.instances": str(executors)}
    least, most = executors
    return {
        **found,
        "spark.dynamicAllocation.enabled": "true",
        "spark.dynamicAllocation.shuffleTracking.enabled": "true",
        "spark.dynamicAllocation.minExecutors": str(least),
        "spark.dynamicAllocation.maxExecutors": str(most),
    }


def _mib(memory: int | str) -> int:
    found = re.fullmatch(r"([0-9]{1,9})([kmgt]?)", str(memory).strip().lower())
    if found is None or not int(found[1]):
        raise StokerError(f"memory: should be MiB, or an amount such as 896m or 2g, found {memory!r}")
    return math.floor(int(found[1]) * _MIB[found[2]])


@contextmanager
def _by_file(properties: Mapping[str, str]) -> Iterator[None]:
    """Let the JVM that is started meanwhile read the properties from a file of ours alone."""
    before = os.environ.get(_SUBMIT_ARGUMENTS)
    given = shlex.split(before or "pyspark-shell")
    if any(word.partition("=")[0] == "--properties-file" for word in given):
        raise StokerError(f"{_SUBMIT_ARGUMENTS} names a --properties-file; give what is in it as conf=")
    handle, name = tempfile.mkstemp(prefix="stoker-", suffix=".properties")  # for its owner alone
    try:
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.writelines(f"{_escaped(key)}={_escaped(value)}\n" for key, value in properties.items())
        os.environ[_SUBMIT_ARGUMENTS] = shlex.join(["--properties-file", name, *given])
        yield
    finally:
        if before is None:
            os.environ.pop(_SUBMIT_ARGUMENTS, None)
        else:
            os.environ[_SUBMIT_ARGUMENTS] = before
        Path(name).unlink()


def _escaped(text: str) -> str:
    """The text as Java's properties spell it."""
    plain = re.sub(r"([\\\s=:#!])", r"\\\1", text).replace("\\\n", "\\n").replace("\\\r", "\\r")
    return "".join(
        each if each.isascii() else f"\\u{unit:04x}"
        for each in plain
        for unit in ([0] if each.isascii() else _utf16(each))
    )


def _utf16(character: str) -> list[int]:
    data = character.encode("utf-16-be", "surrogatepass")
    return [int.from_bytes(data[at : at + 2], "big") for at in range(0, len(data), 2)]
