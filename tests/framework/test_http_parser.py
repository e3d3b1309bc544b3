"""The parser that pymesos gets: every way a response can be cut, framed and ended."""

import importlib
import itertools
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.http_parser import HttpParser, install

STREAM = (
    b"HTTP/1.1 200 OK\r\nDate: Fri, 20 Nov 2026 23:37:21 GMT\r\nTransfer-Encoding: chunked\r\n"
    b"Mesos-Stream-Id: 439eb7ff\r\nContent-Type: application/json\r\n\r\n"
    b'17\r\n20\n{"type":"HEARTBEAT"}\r\n17\r\n20\n{"type":"HEARTBEAT"}\r\n0\r\n\r\n'
)
RECORD = b'20\n{"type":"HEARTBEAT"}'


def parse(data: bytes) -> HttpParser:
    """A parser that has read `data` in one piece."""
    parser = HttpParser()
    assert parser.execute(data, len(data)) == len(data)
    return parser


def test_install_makes_pymesos_importable() -> None:
    """After install() pymesos' own import finds this parser."""
    install()
    assert importlib.import_module("http_parser.http").HttpParser is HttpParser
    assert sys.modules["http_parser"].http is sys.modules["http_parser.http"]
    assert importlib.import_module("pymesos").MesosSchedulerDriver


def test_stream_is_read_whole() -> None:
    """Status, headers and the records of a chunked stream are told."""
    parser = parse(STREAM)
    assert parser.get_status_code() == 200
    assert parser.get_headers()["Mesos-Stream-Id"] == "439eb7ff"
    assert parser.is_headers_complete()
    assert parser.is_chunked()
    assert parser.is_partial_body()
    assert parser.recv_body() == 2 * RECORD
    assert parser.is_message_complete()
    assert parser.get_errno() == 0


def test_body_is_handed_out_once() -> None:
    """recv_body forgets the returned bytes."""
    parser = parse(STREAM)
    parser.recv_body()
    assert not parser.is_partial_body()
    assert parser.recv_body() == b""


@given(st.lists(st.integers(0, len(STREAM)), max_size=20))
def test_any_cut_gives_the_same_body(cuts: list[int]) -> None:
    """However TCP cuts the stream, the body is the same."""
    parser, body = HttpParser(), b""
    edges = [0, *sorted(cuts), len(STREAM)]
    for start, end in itertools.pairwise(edges):
        parser.execute(STREAM[start:end], end - start)
        if parser.is_partial_body():
            body += parser.recv_body()
    assert body == 2 * RECORD
    assert parser.is_message_complete()


def test_nothing_is_known_before_the_headers_end() -> None:
    """A response cut inside its headers has neither status nor body yet."""
    parser = parse(STREAM[:60])
    assert not parser.is_headers_complete()
    assert parser.get_status_code() == 0
    assert not parser.is_partial_body()


def test_only_the_given_length_is_read() -> None:
    """Bytes beyond `length` in the buffer are not parsed."""
    parser = HttpParser()
    assert parser.execute(STREAM, 60) == 60
    assert not parser.is_headers_complete()


@pytest.mark.parametrize("status", ["202 Accepted", "204 No Content", "503 Service Unavailable"])
def test_empty_body_ends_the_message(status: str) -> None:
    """A response without body is complete, with or without `Connection: close`."""
    parser = parse(f"HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n".encode())
    assert parser.is_message_complete()
    assert not parser.is_partial_body()
    assert parser.recv_body() == b""
    assert not parser.is_chunked()


def test_body_of_told_length() -> None:
    """A refusal's text is complete when its length is reached."""
    parser = parse(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 5\r\n\r\nwro")
    assert not parser.is_message_complete()
    parser.execute(b"ng", 2)
    assert parser.is_message_complete()
    assert parser.recv_body() == b"wrong"


def test_body_of_untold_length_ends_with_the_connection() -> None:
    """Without length and chunks the end of the connection is the end of the body."""
    parser = parse(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello")
    assert not parser.is_message_complete()
    assert parser.execute(b"", 0) == 0
    assert parser.is_message_complete()
    assert parser.recv_body() == b"hello"


def test_end_of_connection_does_not_complete_a_cut_stream() -> None:
    """A chunked body that was cut stays incomplete."""
    parser = parse(STREAM[:-10])
    parser.execute(b"", 0)
    assert not parser.is_message_complete()


def test_informational_response_is_passed_over() -> None:
    """A 100 before the real answer is not taken for it."""
    parser = parse(b"HTTP/1.1 100 Continue\r\nX-Early: 1\r\n\r\n")
    assert not parser.is_headers_complete()
    assert not parser.is_message_complete()
    parser.execute(STREAM, len(STREAM))
    assert parser.get_status_code() == 200
    assert "X-Early" not in parser.get_headers()


def test_repeated_headers_are_joined() -> None:
    """Two headers of one name are one, with a comma between the values."""
    parser = parse(b"HTTP/1.1 200 OK\r\nA: 1\r\nA: 2\r\nContent-Length: 0\r\n\r\n")
    assert parser.get_headers() == {"A": "1, 2", "Content-Length": "0"}


def test_garbage_is_reported() -> None:
    """Bytes that are no HTTP give a count of 0 and an error number, and no exception."""
    parser = HttpParser()
    assert parser.execute(b"not http at all\r\n", 17) != 17
    assert parser.get_errno() != 0


def test_parser_has_no_public_errno() -> None:
    """Only without one does pymesos tell its two kinds of parser apart."""
    assert not hasattr(HttpParser(), "errno")
