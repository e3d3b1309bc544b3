"""An OpenTelemetry collector: its address, its credentials, and one request to it with the outcome.

`otlp.py` makes the body; `trace_sender.py` retries.
"""

import asyncio
import json
import os
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from urllib.parse import unquote, urlsplit, urlunsplit

import httpx
import structlog

from conf.loader import ConfigError, secret_in
from conf.schema import Telemetry
from conf.schema.fields import web_address
from daemon.notifications.otlp import Value
from daemon.notifications.signed_post import PostOutcome, trusted

log = structlog.get_logger("telemetry")

VERSION = version("stoker")
#: Where collectors take traces, below their endpoint.
_PATH = "/v1/traces"
#: Statuses after which the protocol sends again; any other refusal is for good.
_AGAIN = frozenset({429, 502, 503, 504})
#: Bytes of an answer that are read, characters of it that are reported, seconds that it may ask for.
_LONGEST_ANSWER, _LONGEST_WHY, _LONGEST_PAUSE = 1 << 16, 200, 300.0
_TOKEN, _TEXT = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"), re.compile(r"[\x20-\x7e]*")


@dataclass(frozen=True, slots=True)
class Target:
    """A collector as config and environment define it, with the resource attributes of traces."""

    url: str = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    resource: Mapping[str, Value]
    trust: ssl.SSLContext
    timeout: float

    @property
    def place(self) -> str:
        """The collector's scheme and host, without parts that may be secret."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}"


def target_of(telemetry: Telemetry, environ: Mapping[str, str] = os.environ) -> Target:
    """The collector from the config, completed from the variables of OpenTelemetry; ConfigError."""
    return Target(
        _url(telemetry, environ),
        _headers(telemetry, environ),
        _resource(telemetry, environ),
        trusted(telemetry.ca, "telemetry.ca"),
        telemetry.timeout,
    )


def _url(telemetry: Telemetry, environ: Mapping[str, str]) -> str:
    if telemetry.endpoint is not None:
        parts = urlsplit(telemetry.endpoint)
        path = parts.path.rstrip("/")
        return urlunsplit(parts._replace(path=path if path.endswith(_PATH) else path + _PATH))
    for name, path in (("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", ""), ("OTEL_EXPORTER_OTLP_ENDPOINT", _PATH)):
        if found := environ.get(name, "").strip():
            try:
                return web_address(found.rstrip("/") + path if path else found)
            except ValueError as error:
                raise ConfigError(f"telemetry.endpoint: {name} {error}") from None
    raise ConfigError(
        "telemetry.endpoint: missing: set it, for example to http://localhost:4318, or set "
        "OTEL_EXPORTER_OTLP_ENDPOINT"
    )


def _headers(telemetry: Telemetry, environ: Mapping[str, str]) -> dict[str, str]:
    """The file's lines; or the variable's, between commas, with percent-encoded values."""
    if telemetry.headers_file is not None:
        where, mark = "telemetry.headers_file", ":"
        lines = secret_in(telemetry.headers_file, where).splitlines()
    else:
        names = ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS")
        where, mark = next((name for name in names if environ.get(name)), names[-1]), "="
        lines = [unquote(part) for part in environ.get(where, "").split(",")]
    headers = {}
    for number, line in enumerate(lines, 1):
        name, found, value = (part.strip() for part in line.partition(mark))
        if not (name or found):
            continue
        if not (found and _TOKEN.fullmatch(name) and _TEXT.fullmatch(value)):  # nothing of it: it is a secret
            raise ConfigError(f"{where}: the header number {number} is none, such as Name{mark} value")
        headers[name] = value
    return headers


def _resource(telemetry: Telemetry, environ: Mapping[str, str]) -> dict[str, Value]:
    pairs = (part.partition("=") for part in environ.get("OTEL_RESOURCE_ATTRIBUTES", "").split(","))
    of_environ = {
        name.strip(): unquote(value.strip()) for name, found, value in pairs if found and name.strip()
    }
    name = (
        telemetry.service_name
        or environ.get("OTEL_SERVICE_NAME")
        or of_environ.get("service.name")
        or "stoker"
    )
    return {**of_environ, "service.name": name, "service.version": VERSION}


class OtelCollector:
    """Sends requests to a collector; for one event loop."""

    def __init__(self, target: Target) -> None:
        self._target = target
        #: Number of spans that it rejected of accepted traces.
        self.rejected = 0
        # Only `target_of` reads the environment for the address, and nothing in an answer changes it.
        trust = target.trust
        self._client = httpx.AsyncClient(verify=trust, trust_env=False, follow_redirects=False, timeout=None)  # noqa: S113  # all of it has one

    async def send(self, body: bytes) -> PostOutcome:
        """Send a body of JSON; return the outcome."""
        headers = {
            **self._target.headers,
            "Content-Type": "application/json",
            "User-Agent": f"stoker/{VERSION}",
            "Accept-Encoding": "identity",
        }
        try:
            async with asyncio.timeout(self._target.timeout):
                request = self._client.build_request("POST", self._target.url, content=body, headers=headers)
                answer = await self._client.send(request, stream=True)
                try:
                    said = await _read(answer)
                finally:
                    await answer.aclose()
        except TimeoutError:
            return PostOutcome("timeout", f"no answer within {self._target.timeout:g} s")
        except Exception as error:  # after any error, such as no thread for a name lookup, it is tried again
            return PostOutcome("unreachable", (str(error) or type(error).__name__)[:_LONGEST_WHY])
        if answer.is_success:
            self._look_at(said)
            return PostOutcome("delivered")
        why = f"answered {answer.status_code}" + (f": {text}" if (text := _message(said)) else "")
        final = answer.status_code >= 400 and answer.status_code not in _AGAIN
        return PostOutcome(
            "refused", why[:_LONGEST_WHY], final, _pause(answer.headers.get("retry-after", ""))
        )

    def _look_at(self, said: bytes) -> None:
        """It has taken the request; perhaps not all of it, or it has something to say."""
        found = _object(_object(said).get("partialSuccess"))
        rejected, text = str(found.get("rejectedSpans", 0)), str(found.get("errorMessage", ""))[:_LONGEST_WHY]
        number = int(rejected) if re.fullmatch(r"[0-9]{1,9}", rejected) else 0
        self.rejected += number
        if number or text:
            log.warning("the collector rejected spans, or sent a warning", rejected_spans=number, said=text)

    async def close(self) -> None:
        """Let go of connections."""
        await self._client.aclose()


async def _read(answer: httpx.Response) -> bytes:
    """The beginning of an answer, as sent: few packed bytes may stand for more than the memory has."""
    said = b""
    async for part in answer.aiter_raw():
        said += part
        if len(said) >= _LONGEST_ANSWER:
            break
    return said[:_LONGEST_ANSWER]


def _object(said: object) -> dict[str, object]:
    """Fields of a JSON object; empty for any other value."""
    if isinstance(said, bytes):
        try:
            said = json.loads(said)
        except (ValueError, RecursionError):
            return {}
    return said if isinstance(said, dict) else {}


def _message(said: bytes) -> str:
    found = _object(said).get("message")
    return found if isinstance(found, str) else ""


def _pause(text: str) -> float:
    """The seconds that it asks for; a date is not looked at, and the usual pause holds."""
    return min(float(text), _LONGEST_PAUSE) if text.isascii() and text.isdecimal() else 0.0
