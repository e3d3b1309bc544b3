"""Requests as bytes, made wrong: from good ones, by a seeded hand."""

import contextlib
import json
import random
import socket
from collections.abc import Callable

#: Seconds for an answer; a request whose end does not come may wait for longer, and gets none here.
_PATIENCE = 3.0
_MOST = 1 << 22


def _request(method: str, path: str, body: object = None, *headers: str) -> bytes:
    content = b"" if body is None else json.dumps(body).encode()
    told = ["Host: localhost", "Connection: close", *headers]
    if body is not None:
        told += ["Content-Type: application/json", f"Content-Length: {len(content)}"]
    return "\r\n".join([f"{method} {path} HTTP/1.1", *told, "", ""]).encode() + content


#: Nobody looks at it before the driver does, so that a job with it is accepted.
APP = "https://example.invalid/app.py"
_JOB = {
    "app": APP, "name": "fuzz", "executors": 2, "cpus": 0.5, "memory": "1g",
    "args": ["--password", "x"],
    "conf": {"spark.a": "b"}, "env": {"A": "b"}, "max_runtime": 60.0,
}  # fmt: skip
GOOD = (
    _request("GET", "/healthz"),
    _request("GET", "/readyz"),
    _request("GET", "/metrics"),
    _request("GET", "/v1/jobs?limit=5&state=queued&before=job-7"),
    _request("GET", "/v1/jobs/job-1"),
    _request("GET", "/v1/jobs/job-1/explain"),
    _request("GET", "/v1/jobs/job-1/logs?offset=0&limit=100&stream=stderr&executor=0"),
    _request("GET", "/v1/jobs/job-1/ui/jobs/?a=b"),
    _request("POST", "/v1/jobs", _JOB, "Idempotency-Key: fuzz-1"),
    _request("POST", "/v1/jobs/job-1/kill"),
    _request("DELETE", "/v1/jobs/job-2"),
    _request("PUT", "/v1/policy", {"name": "ilp", "beta": 0.5}),
    _request("PUT", "/v1/policy/shadow", {"name": "random", "seed": 3}),
    _request("DELETE", "/v1/policy/shadow"),
    _request("GET", "/v1/policy/comparison?limit=3"),
    _request("GET", "/openapi.json"),
    b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n5\r\n{\"app\r\n8\r\n\":\"a.py\"\r\n1\r\n}\r\n0\r\n\r\n",
)  # fmt: skip
#: What parsers stumble over.
_PIECES = (
    b"\0", b"\r", b"\n", b"\r\n", b"\r\n\r\n", b"\xff\xfe", b"\x80", b"%00", b"%2e%2e/", b"/../", b"//", b"?",
    b"#", b"HTTP/0.9", b"HTTP/9.9", b"Host: a\r\n", b"Content-Length: 99999999999999999999\r\n",
    b"Content-Length: -1\r\n",
    b"Transfer-Encoding: chunked\r\n", b"Expect: 100-continue\r\n",
    b"Upgrade: websocket\r\nConnection: upgrade\r\n",
    b"Origin: http://evil.example\r\n", b"Authorization: Bearer x\r\n", b"9" * 400, b"a" * 5000, b"[" * 3000,
    b'{"a":', b"NaN", b"1e309", b"-0", b"true", b"null", b'"\\ud800"', b"\\u0000", b'"\\u202e"', b"os:abort",
    b"9223372036854775808", b"18446744073709551616", b"1e308", b"job-0", b"job-99999999999999999999",
    b"\xe2\x80\xae",
)  # fmt: skip


def mutated(chance: random.Random) -> bytes:
    """A request, most often with a few mistakes."""
    data = bytearray(chance.choice(GOOD))
    for _ in range(chance.choice((0, 1, 1, 2, 3, 8))):
        chance.choice(_MUTATIONS)(data, chance)
    return bytes(data)


def _flip(data: bytearray, chance: random.Random) -> None:
    if data:
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)


def _insert(data: bytearray, chance: random.Random) -> None:
    at = chance.randint(0, len(data))
    data[at:at] = chance.choice(_PIECES)


def _cut(data: bytearray, chance: random.Random) -> None:
    begin = chance.randint(0, len(data))
    del data[begin : begin + chance.randint(1, 40)]


def _truncate(data: bytearray, chance: random.Random) -> None:
    del data[chance.randint(0, len(data)) :]


def _repeat(data: bytearray, chance: random.Random) -> None:
    begin = chance.randint(0, len(data))
    part = data[begin : begin + chance.randint(1, 60)]
    data[begin:begin] = part * chance.choice((1, 2, 50))


def _splice(data: bytearray, chance: random.Random) -> None:
    other = chance.choice(GOOD)
    data[chance.randint(0, len(data)) :] = other[chance.randint(0, len(other)) :]


_MUTATIONS: tuple[Callable[[bytearray, random.Random], None], ...] = (
    _flip, _flip, _insert, _insert, _insert, _cut, _truncate, _repeat, _splice,
)  # fmt: skip


def statuses(address: tuple[str, int], request: bytes) -> tuple[list[int], bytes]:
    """The statuses of all answers to the bytes sent on one connection, and all bytes received."""
    answer = bytearray()
    with contextlib.suppress(OSError), socket.create_connection(address, _PATIENCE) as connection:
        with contextlib.suppress(OSError):
            connection.sendall(request)
        while len(answer) < _MOST and (part := connection.recv(65536)):
            answer += part
    found = []
    for line in bytes(answer).split(b"\r\n"):
        # A second answer follows the body of the first without a newline between.
        at = line.rfind(b"HTTP/1.1 ")
        if at >= 0 and line[at + 9 : at + 12].isdigit():
            found.append(int(line[at + 9 : at + 12]))
    return found, bytes(answer)
