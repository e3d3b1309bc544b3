"""`python -m stoker spark-submit`: Spark's own command in cluster mode, with no Spark and no Java.

It takes spark-submit's flags and arguments, sends local files to the daemon, and then the request of
spark-submit: a CreateSubmissionRequest. Like it, it exits with 1 for any error, and prints all on stderr.
"""

from __future__ import annotations

import glob
import json
import re
import sys
import time
import zipfile
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit

import httpx

from stoker import flows
from stoker.client import Stoker
from stoker.errors import StokerError, UnreachableError
from stoker.flows import Flow, Pause, Request
from stoker.settings import CA, TOKEN_FILE, URL, Settings, settings
from stoker.spark_arguments import PROPERTY_OF, TOKEN, TOKEN_PATH, Arguments, ArgumentsError, read_arguments

#: Schemes of masters, and the daemon's.
_MASTERS = {
    "mesos": "http", "spark": "http", "spark+stoker": "http", "spark+stokers": "https",
    "http": "http", "https": "https",
}  # fmt: skip
_LISTS = ("spark.jars", "spark.submit.pyFiles", "spark.files", "spark.archives")
#: Whoever sets one of these wants to wait until the application has ended.
_WAITING = (
    "spark.stoker.submission.waitCompletion",
    "spark.standalone.submit.waitAppCompletion",
    "spark.yarn.submit.waitAppCompletion",
    "spark.kubernetes.submission.waitAppCompletion",
)
#: About the submission alone, and not for the daemon.
_OF_THE_CLIENT = (*_WAITING, TOKEN, TOKEN_PATH)
_OVER = ("FINISHED", "FAILED", "KILLED", "ERROR")
_NOT_SENT = ("SPARK_ENV_LOADED", "SPARK_HOME", "SPARK_CONF_DIR")
_SECRET = re.compile(r"(?i)secret|password|token|access[.]?key")
_POLL_SECONDS = 1.0
#: Seconds in which a daemon says at least something.
_PATIENCE = 30.0
_BUSY = 503
_USAGE = """\
Usage: python -m stoker spark-submit [options] <app jar | python file> [app arguments]
       python -m stoker spark-submit --status ID | --kill ID [options]
As spark-submit with --deploy-mode cluster. --master: mesos://, spark:// or spark+stoker://HOST:PORT, or
the daemon's http(s):// URL; else STOKER_URL. The API's token: spark.stoker.token or spark.stoker.token.file
in a file for --properties-file, or the file that STOKER_TOKEN_FILE names. It stays until the application
has ended with --conf spark.stoker.submission.waitCompletion=true.
Options:"""


def spark_submit(command: Sequence[str], environ: Mapping[str, str]) -> int:
    """Do as spark-submit does; its exit code: 0, or 1 and a line on stderr that says why."""
    try:
        given = read_arguments(command, environ)
        if "--help" in given.switches:
            flags = [*PROPERTY_OF, "--class", "--conf, -c", "--properties-file", "--load-spark-defaults"]
            flags += ["--supervise", "--status", "--kill", "--verbose, -v", "--version", "--help, -h"]
            _say(_USAGE + "".join(f"\n  {flag}" for flag in flags))
            return 0
        if "--version" in given.switches:
            _say("stoker-client, which speaks Spark's REST submission protocol v1; no Spark is needed here")
            return 0
        for note in given.notes:
            _say(f"Warning: {note}")
        return _follow(given, environ)
    except (ArgumentsError, StokerError) as error:
        _say(f"Error: {error}")
        return 1


def _follow(given: Arguments, environ: Mapping[str, str]) -> int:
    tries = [_settings(url, given.properties, environ) for url in _daemons(given.properties, environ)]
    if given.status:
        answer = _first_of(tries, lambda: _speak("GET", _path("status", given.status)))
        return _tell_state(answer)
    if given.kill:
        answer = _first_of(tries, lambda: _speak("POST", _path("kill", given.kill)))
        _say(f"{answer.get('message') or 'Killed.'}")
        return 0 if answer.get("success") else 1
    _check(given)
    with _client(tries) as client:
        request = client.run(_request(given, environ))
        if "--verbose" in given.switches:
            _say(json.dumps({**request, "sparkProperties": _shown(request["sparkProperties"])}, indent=2))
        created = client.run(_speak("POST", "/v1/submissions/create", json=request))
        submission = str(created.get("submissionId", ""))
        _say(f"Submission successfully created as {submission}.")
        _say(f"Server responded with CreateSubmissionResponse:\n{json.dumps(created, indent=2)}")
        if not any(given.properties.get(name, "").strip().lower() == "true" for name in _WAITING):
            return 0
        return client.run(_wait(submission))


def _check(given: Arguments) -> None:
    if not given.resource:
        raise ArgumentsError("missing application resource: give a .py or a .jar (--help says more)")
    mode = given.properties.get("spark.submit.deployMode", "cluster")
    if mode == "client":
        raise ArgumentsError(
            "--deploy-mode client runs the driver here, which takes a Spark: use its own spark-submit with "
            "--master spark+stoker://HOST:PORT, or --deploy-mode cluster"
        )
    if mode != "cluster":
        raise ArgumentsError(f"--deploy-mode: should be cluster, found {mode!r}")


def _request(given: Arguments, environ: Mapping[str, str]) -> Flow[dict[str, Any]]:
    """Submission as spark-submit sends it, once the local files are at the daemon."""
    python = given.resource.endswith(".py")
    main_class = given.main_class or ("" if python else _manifest_class(given.resource))
    properties = {name: value for name, value in given.properties.items() if name not in _OF_THE_CLIENT}
    properties.setdefault("spark.app.name", main_class or Path(urlsplit(given.resource).path).name)
    properties["spark.submit.deployMode"] = "cluster"
    for name in _LISTS:
        if name in properties:
            properties[name] = yield from _placed_list(properties[name])
    variables = {
        name: value for name, value in environ.items()
        if name.startswith(("SPARK_", "MESOS_")) and name not in _NOT_SENT
    }  # fmt: skip
    if user := flows.login_name():
        variables.setdefault("SPARK_USER", user)
    return {
        "action": "CreateSubmissionRequest",
        "appResource": (yield from _placed(given.resource)),
        "mainClass": main_class,
        "appArgs": given.arguments,
        "sparkProperties": properties,
        "environmentVariables": variables,
        "clientSparkVersion": _own_version(environ) or (yield from _their_version()),
    }


def _placed_list(text: str) -> Flow[str]:
    found = []
    for item in (each.strip() for each in text.split(",")):
        for one in _globbed(item) if item else ():
            found.append((yield from _placed(one, named=True)))
    return ",".join(found)


def _placed(text: str, *, named: bool = False) -> Flow[str]:
    """A file of this machine as it was uploaded; others as the URIs that spark-submit makes of them."""
    place, mark, name = text.partition("#") if named else (text, "", "")
    parts = urlsplit(place)
    if parts.scheme and parts.scheme != "file":
        return text
    path = Path(unquote(parts.path) if parts.scheme else place).expanduser().absolute()
    if path.is_file():
        return (yield from flows.upload_file(path)) + mark + name
    if not Path(place).is_absolute() and not parts.scheme:
        raise StokerError(f"{place}: no such file here")
    # It may be on the daemon's host.
    return text if parts.scheme else f"file:{quote(str(path))}{mark}{name}"


def _globbed(item: str) -> list[str]:
    if urlsplit(item).scheme or not glob.has_magic(item) or Path(item.partition("#")[0]).exists():
        return [item]
    found = sorted(glob.glob(item))  # noqa: PTH207  # Path's own starts from a folder
    if not found:
        raise StokerError(f"{item}: no file here has such a name")
    return found


def _manifest_class(resource: str) -> str:
    """The main class that a jar of this machine names itself; StokerError when nothing does."""
    parts = urlsplit(resource)
    if parts.scheme in ("", "file"):
        try:
            with zipfile.ZipFile(unquote(parts.path) if parts.scheme else resource) as jar:
                text = jar.read("META-INF/MANIFEST.MF").decode("utf-8", "replace")
            whole = re.sub(r"\r?\n ", "", text)
            if found := re.search(r"^Main-Class:\s*(\S+)", whole, re.MULTILINE):
                return found[1]
        except FileNotFoundError:
            raise StokerError(f"{resource}: no such file here, and no --class says its main class") from None
        except (OSError, KeyError, zipfile.BadZipFile):
            pass
    raise StokerError(f"no main class is set for {resource}: give --class, as its manifest names none")


def _own_version(environ: Mapping[str, str]) -> str:
    """The version of the Spark that is here, as the one that users expect; empty where there is none."""
    if home := environ.get("SPARK_HOME"):
        for jar in Path(home, "jars").glob("spark-core_*.jar"):
            if found := re.fullmatch(r"spark-core_[^-]+-(.+)\.jar", jar.name):
                return found[1]
    try:
        return metadata.version("pyspark")
    except metadata.PackageNotFoundError:
        return ""


def _their_version() -> Flow[str]:
    """The version of the daemon's default Spark, which every answer names."""
    response = yield from _asked("GET", "/v1/submissions/status/none")
    return str((flows.json_object(response) or flows.Answer()).get("serverSparkVersion") or "")


def _wait(submission: str) -> Flow[int]:
    seen, last = "", time.monotonic()
    while True:
        try:
            answer = yield from _speak("GET", _path("status", submission))
            state, last = str(answer.get("driverState")), time.monotonic()
            if state != seen:
                seen = state
                _say(f"State of driver {submission} is now {state}.")
            if state in _OVER:
                if answer.get("message"):
                    _say(str(answer["message"]))
                return 0 if state == "FINISHED" else 1
        except UnreachableError:  # a daemon that is started again
            if time.monotonic() - last > flows.AWAY_SECONDS:
                raise
        yield Pause(_POLL_SECONDS)


def _tell_state(answer: Mapping[str, Any]) -> int:
    _say(f"State of driver {answer.get('submissionId')} is now {answer.get('driverState')}.")
    where = (answer.get("workerId"), answer.get("workerHostPort"))
    if all(where):
        _say(f"Driver running on VM {where[0]} at {where[1]}.")
    if answer.get("message"):
        _say(str(answer["message"]))
    return 0 if answer.get("success") else 1


def _speak(method: str, path: str, **options: Any) -> Flow[dict[str, Any]]:
    """Ask in Spark's protocol; StokerError with the server's words for an ErrorResponse."""
    response = yield from _asked(method, path, **options)
    message = flows.json_object(response) or flows.Answer()
    if response.is_success and message.get("action"):
        return message
    words = message.get("message") or message.get("detail")
    if response.status_code == _BUSY:
        raise UnreachableError(str(words or f"{response.url.host} is not ready"))
    host = f"{response.url.host}:{response.url.port}"
    said = words or f"{host} answers with HTTP {response.status_code}: is it a Stoker daemon?"
    raise StokerError(str(said))


def _asked(method: str, path: str, **options: Any) -> Flow[Any]:
    try:
        return (yield Request(method, path, options))
    except httpx.TransportError as error:
        url = flows.asked(error)
        raise UnreachableError(f"no daemon answers at {url}: {str(error) or 'not in time'}") from None


def _path(what: str, submission: str) -> str:
    return f"/v1/submissions/{what}/{flows.part(submission)}"


def _daemons(properties: Mapping[str, str], environ: Mapping[str, str]) -> list[str]:
    """The URLs that a master stands for: one, or several of which one leads."""
    master = properties.get("spark.master") or environ.get(URL)
    if not master:
        raise ArgumentsError("give --master mesos://HOST:PORT, or the daemon's URL in STOKER_URL")
    scheme, _, rest = master.partition("://")
    if scheme not in _MASTERS or not rest or rest.startswith("zk:"):
        raise ArgumentsError(
            f"--master {master}: should be mesos://, spark://, spark+stoker:// or http(s):// and the "
            "HOST:PORT of a Stoker daemon"
        )
    hosts = [host.rstrip("/") for host in rest.split(",")]
    for host in hosts:
        if scheme not in ("http", "https") and not re.search(r":[0-9]+$", host):
            raise ArgumentsError(f"--master {master}: {host} has no port, as in {host}:8642")
    return [f"{_MASTERS[scheme]}://{host}" for host in hosts]


def _settings(url: str, properties: Mapping[str, str], environ: Mapping[str, str]) -> Settings:
    token = properties.get(TOKEN)
    file = properties.get(TOKEN_PATH)
    return settings(
        url,
        file or environ.get(TOKEN_FILE),
        environ.get(CA),
        token=None if file else token,
        timeout=_PATIENCE,
    )


def _client(tries: Sequence[Settings]) -> Stoker:
    """A client of the daemon that is ready; where there is but one, it is that one."""
    error: StokerError | None = None
    for each in tries:
        client = Stoker(each.url, None, each.ca, token=each.token, timeout=each.timeout)
        if len(tries) == 1:
            return client
        try:
            if client.health()["ready"]:
                return client
            error = UnreachableError(f"{each.url} waits for another daemon, or is not ready")
        except StokerError as found:
            error = found
        client.close()
    raise error or StokerError("no daemon is named")


def _first_of(tries: Sequence[Settings], flow: Callable[[], Flow[dict[str, Any]]]) -> dict[str, Any]:
    for number, each in enumerate(tries, 1):
        with Stoker(each.url, None, each.ca, token=each.token, timeout=each.timeout) as client:
            try:
                return client.run(flow())
            except UnreachableError:
                if number == len(tries):
                    raise
    raise StokerError("no daemon is named")


def _shown(properties: Mapping[str, str]) -> dict[str, str]:
    return {name: "***" if _SECRET.search(name) else value for name, value in properties.items()}


def _say(text: str) -> None:
    from stoker.characters import visible

    print(visible(text), file=sys.stderr, flush=True)
