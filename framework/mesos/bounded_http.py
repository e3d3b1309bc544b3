"""HTTP answers of masters and agents, bounded in time and size for any sender, however slow."""

import base64
import contextlib
import json
import os
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

from conf.util.foreign_json import foreign_json

#: Bytes at once.
_PART = 1 << 16


class RefusedAnswerError(OSError):
    """The other side answers, but not the request; `status` is the HTTP status."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status = status


@dataclass(frozen=True, slots=True)
class Credentials:
    """Credentials for requests to a master or an agent; anonymous without a principal."""

    principal: str | None = None
    secret: str | None = field(default=None, repr=False)

    @property
    def headers(self) -> dict[str, str]:
        """HTTP headers that carry the credentials."""
        if not self.principal:
            return {}
        text = base64.b64encode(f"{self.principal}:{self.secret or ''}".encode()).decode()
        return {"Authorization": f"Basic {text}"}


NOBODY = Credentials()


def read_json(url: str, credentials: Credentials, *, seconds: float, most: int, post: Any = None) -> Any:
    """The JSON at a URL of at most `most` bytes, all of it within `seconds`; redirects are not followed.

    With `post` it is the answer to a POST of that as JSON. Raises RefusedAnswerError for an answer other than
    200, OSError when it cannot be had, ValueError when it is no JSON, or has no end.
    """
    with _answer(url, credentials, "application/json", seconds, post) as answer:
        data = answer.read(most + 1)
    host = urlsplit(url).netloc
    if len(data) > most:
        raise ValueError(f"{host} answers with more than {most >> 20} MiB")
    try:
        return foreign_json(data)
    except RecursionError as error:
        raise ValueError(f"{host} answers with JSON that is nested too deeply") from error


def read_into(to: int, url: str, credentials: Credentials, *, seconds: float, most: int) -> int:
    """Write the first `most` bytes at a URL to a descriptor; return their number.

    Raises as `read_json` does, but for ValueError.
    """
    left = most
    with _answer(url, credentials, "*/*", seconds) as answer:
        while left and (part := answer.read(min(_PART, left))):
            rest = memoryview(part)
            while rest:
                rest = rest[os.write(to, rest) :]
            left -= len(part)
    return most - left


@contextlib.contextmanager
def _answer(
    url: str, credentials: Credentials, kind: str, seconds: float, post: Any = None
) -> Iterator[HTTPResponse]:
    parts = urlsplit(url)
    made = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    connection = made(parts.netloc, timeout=seconds)
    late = threading.Event()
    end: threading.Timer | None = None
    try:
        connection.connect()
        # A time-out holds for each step only: a server that drips would be read for ever.
        end = threading.Timer(seconds, _cut, (connection.sock, late))
        end.daemon = True
        end.start()
        target = parts.path + (f"?{parts.query}" if parts.query else "")
        headers = {"Accept": kind, **credentials.headers}
        if post is None:
            connection.request("GET", target, headers=headers)
        else:
            headers["Content-Type"] = "application/json"
            connection.request("POST", target, json.dumps(post), headers)
        with connection.getresponse() as answer:
            if answer.status != 200:
                raise RefusedAnswerError(
                    f"{parts.netloc} answers {answer.status} {answer.reason}", answer.status
                )
            yield answer
        if late.is_set():
            raise TimeoutError
    except (OSError, HTTPException) as error:
        if late.is_set():
            # The bytes received are only a part, and whether its end reads as an end or as a reset is chance.
            raise TimeoutError(f"{parts.netloc} has not answered in full within {seconds:g} s") from error
        if isinstance(error, OSError):
            raise
        raise OSError(
            f"{parts.netloc} sends an answer that is not valid HTTP: {type(error).__name__}"
        ) from error
    finally:
        if end is not None:
            end.cancel()
        connection.close()


def _cut(connection: socket.socket, late: threading.Event) -> None:
    late.set()
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
