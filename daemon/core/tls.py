"""The certificate of the HTTP API: read at start, and again whenever its files change."""

import ssl
from pathlib import Path

import structlog

from conf.loader import ConfigError
from conf.schema import Tls

log = structlog.get_logger("api")


class Certificate:
    """TLS certificate of the daemon's connections. `context` and `refresh` are for one thread."""

    def __init__(self, tls: Tls) -> None:
        """Read the certificate; ConfigError names the faulty file and its fault."""
        self._cert = Path(tls.cert).expanduser()
        self._key = self._cert if tls.key is None else Path(tls.key).expanduser()
        self._read_at = self._changed_at()
        try:
            self._context = self._read()
        except OSError as error:  # ssl.SSLError is one
            raise ConfigError(self._why(error)) from error

    def context(self) -> ssl.SSLContext:
        """TLS context for the next connection."""
        return self._context

    def refresh(self) -> None:
        """Read the files again if they have changed; a certificate that is no good replaces none."""
        changed = self._changed_at()
        if changed == self._read_at:
            return
        self._read_at = changed
        try:
            self._context = self._read()
        except OSError as error:
            log.error("the new certificate cannot be used, the one before stays", error=self._why(error))
        else:
            log.info("the certificate was read again", cert=str(self._cert))

    def _read(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        # Without a password given, OpenSSL would ask for one on the terminal.
        context.load_cert_chain(self._cert, self._key, password=lambda: b"")
        return context

    def _changed_at(self) -> tuple[tuple[int, int] | None, ...]:
        return tuple(_stamp(path) for path in (self._cert, self._key))

    def _why(self, error: OSError) -> str:
        for name, path in (("tls.cert", self._cert), ("tls.key", self._key)):
            try:
                path.read_bytes()
            except OSError as missing:
                return f"{name}: {path}: cannot be read: {missing.strerror}"
        reason = getattr(error, "reason", "") or str(error)
        files = f"{self._cert}, {self._key}"
        return f"tls: {files}: no certificate and its key without a password, in PEM ({reason})"


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino
