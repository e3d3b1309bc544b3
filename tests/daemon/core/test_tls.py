"""HTTPS: real certificates, a real server, and the command line's client."""

import shutil
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from stoker import Stoker, StokerError

from conf.loader import ConfigError
from conf.schema import Config, Http, Tls
from daemon.cli.shared.options import connect
from daemon.core.tls import Certificate
from daemon.http.app import create_app
from daemon.http.app_options import AppOptions
from daemon.http.server.listen_address import url_of
from daemon.http.server.uvicorn_server import make_server
from daemon.store.job_store import Store
from tests.daemon.http.server.test_uvicorn_server import rest, status, talk
from tests.daemon.small_scheduler import SmallScheduler

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificates")


def certify(folder: Path, name: str = "127.0.0.1") -> Tls:
    """Make a certificate that signs itself."""
    cert, key = folder / "cert.pem", folder / "key.pem"
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
    ]
    command += ["-days", "1", "-subj", f"/CN={name}", "-addext", f"subjectAltName=IP:127.0.0.1,DNS:{name}"]
    subprocess.run([*command, "-keyout", key, "-out", cert], check=True, capture_output=True)
    return Tls(cert=str(cert), key=str(key))


@pytest.fixture
def tls(tmp_path: Path) -> Tls:
    """A certificate."""
    return certify(tmp_path)


@contextmanager
def served(scheduler: SmallScheduler, certificate: Certificate, limits: Http) -> Iterator[tuple[str, int]]:
    """The API over HTTPS; its address."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = listener.getsockname()
        app = create_app(scheduler, scheduler.store, AppOptions(token="t0ken", version="1"))
        server = make_server(app, listener, limits, certificate.context, certificate.refresh)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield address
        finally:
            server.should_exit = True
            thread.join()


@pytest.fixture
def scheduler(tmp_path: Path) -> Iterator[SmallScheduler]:
    """A scheduler."""
    store = Store(f"sqlite:///{tmp_path / 'stoker.db'}")
    yield SmallScheduler(store)
    store.close()


@pytest.fixture
def token(tmp_path: Path) -> Path:
    """The token's file."""
    path = tmp_path / "token"
    path.touch(0o600)
    path.write_text("t0ken")
    return path


def test_the_client_asks_over_https(
    scheduler: SmallScheduler, tls: Tls, token: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With --ca the client trusts the certificate; without it, the error names the remedy.

    Plain HTTP gets no answer.
    """
    with served(scheduler, Certificate(tls), Http()) as (host, port):
        url = f"https://{host}:{port}"
        with Stoker(url, token, Path(tls.cert)) as client:
            assert client.policy()["name"] == "ff"
        with Stoker(url, token) as client, pytest.raises(StokerError, match="--ca FILE names another"):
            client.policy()
        assert talk((host, port), b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n") == b""
        with Stoker(url, token, Path(tls.cert)) as client:
            assert client.policy()["name"] == "ff"
    assert capsys.readouterr().err == ""


def test_who_does_not_agree_on_tls_is_left(scheduler: SmallScheduler, tls: Tls) -> None:
    """Connections that never say hello give way, and end."""
    with served(scheduler, Certificate(tls), Http(connections=3, header_timeout=1.0)) as address:
        silent = [socket.create_connection(address, 30) for _ in range(10)]
        response = httpx.get(
            f"https://127.0.0.1:{address[1]}/healthz", verify=ssl.create_default_context(cafile=tls.cert)
        )
        assert response.status_code == 200
        for connection in silent:
            with connection:
                assert rest(connection) == b""


def test_limits_hold_under_tls(scheduler: SmallScheduler, tls: Tls) -> None:
    """A header without end is refused there too."""
    with served(scheduler, Certificate(tls), Http()) as address:
        context = ssl.create_default_context(cafile=tls.cert)
        with context.wrap_socket(socket.create_connection(address, 30), server_hostname="127.0.0.1") as sock:
            sock.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 100_000)
            assert status(sock.recv(65536)) == 431


def test_a_new_certificate_is_taken_without_a_restart(
    scheduler: SmallScheduler, tls: Tls, tmp_path: Path
) -> None:
    """As soon as its files are there and good; bad ones change nothing."""
    certificate = Certificate(tls)
    before = certificate.context()
    Path(tls.cert).write_text("nonsense")
    certificate.refresh()
    assert certificate.context() is before
    certify(tmp_path, "new.example")
    with served(scheduler, certificate, Http()) as address:
        deadline = time.monotonic() + 300
        while certificate.context() is before and time.monotonic() < deadline:
            time.sleep(0.05)
        found = ssl.get_server_certificate(address)
    assert found.strip() == Path(tls.cert).read_text().strip()


def test_what_is_no_certificate_is_said(tmp_path: Path, tls: Tls) -> None:
    """Missing files, and files that are something else."""
    with pytest.raises(ConfigError, match=r"tls.key: .*/none: cannot be read: No such file"):
        Certificate(Tls(cert=tls.cert, key=str(tmp_path / "none")))
    with pytest.raises(ConfigError, match="no certificate and its key without a password"):
        Certificate(Tls(cert=str(tls.key), key=tls.cert))


def test_leaders_are_named_with_their_scheme(tls: Tls) -> None:
    """A leader's URL has its scheme, so that redirected clients use it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert url_of(Config(tls=tls), listener) == f"https://127.0.0.1:{port}"
        assert url_of(Config(), listener) == f"http://127.0.0.1:{port}"


def test_the_token_is_not_sent_on_in_the_clear(monkeypatch: pytest.MonkeyPatch, token: Path) -> None:
    """From https to http no client follows."""
    with Stoker("https://127.0.0.1:1", token) as client:
        asked = []

        @contextmanager
        def answer(method: str, path: str, **_: object) -> Iterator[httpx.Response]:
            asked.append(path)
            request = httpx.Request(method, f"https://127.0.0.1:1{path}")
            yield httpx.Response(307, headers={"Location": "http://127.0.0.1:2/v1/policy"}, request=request)

        monkeypatch.setattr(client._http, "stream", answer)
        with pytest.raises(StokerError, match="not https: not followed"):
            client.policy()
    assert asked == ["/v1/policy"]


@pytest.mark.parametrize(
    ("url", "warns"),
    [("http://192.0.2.1:8642", True), ("http://127.0.0.1:1", False), ("https://192.0.2.1:1", False)],
)
def test_a_token_in_the_clear_is_warned_of(
    url: str, warns: bool, token: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On networks, not on loopback."""
    with connect(url, token, None):
        assert ("can be read on the network" in capsys.readouterr().err) is warns
    with connect(url, None, None):
        assert capsys.readouterr().err == ""
