"""Key that a driver's web pages require: the job's own, known to its executors and the daemon.

Spark has no filter that asks for a secret, so drivers bring one of ours, `KeyFilter`. It stands before
Spark's UI, and before the page of the standalone master inside the driver, which is on a port of its own
choice. A client certificate would do for the first alone, and executors, which learn their application's id
there, would need a client for TLS on every agent.

The key also allows requests that make the driver release executors of its own job, see `KeyFilter.java`.
"""

import hmac
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

#: The folder for the class, below the driver's own.
_CLASS_PATH = "stoker-ui"


@dataclass(frozen=True, slots=True)
class DriverUi:
    """Address of a driver's UI, and the key that it requires."""

    host: str
    port: int
    key: str = field(repr=False)
    """To be sent as `Authorization: Bearer KEY`."""

    @property
    def site(self) -> str:
        """The beginning of its URLs, without a slash at the end."""
        return f"http://[{self.host}]:{self.port}" if ":" in self.host else f"http://{self.host}:{self.port}"


def ui_key(secret: str) -> str:
    """The key to the UI of the job with this secret; it reveals nothing about the secret itself."""
    return hmac.digest(secret.encode(), b"the driver's UI", "sha256").hex()


def job_tag(secret: str) -> str:
    """Tag that distinguishes the application of the job with this secret from those of others."""
    return hmac.digest(secret.encode(), b"the application's id", "sha256").hex()[:8]


def ui_properties(secret: str, class_path: str) -> dict[str, str]:
    """Settings of a driver with a UI that requires its key; `class_path` is the application's, or empty.

    Spark shows the key nowhere: its name has a `secret` in it.
    """
    return {
        "spark.ui.filters": "stoker.KeyFilter",
        "spark.stoker.KeyFilter.param.secret": ui_key(secret),
        "spark.driver.extraClassPath": f"{_CLASS_PATH}:{class_path}" if class_path else _CLASS_PATH,
    }


def servlets_of(line: tuple[int, int]) -> str:
    """Below which name the interfaces of servlets are in a Spark of this major and minor version."""
    return "jakarta" if line >= (4, 0) else "javax"


def ui_filter(line: tuple[int, int]) -> str:
    """The filter's class as a format for bash's `printf`, to be written below the class path."""
    return _filter(servlets_of(line))


@cache
def _filter(servlets: str) -> str:
    path = Path(__file__).with_name(f"KeyFilter-{servlets}.class")
    return "".join(f"\\x{byte:02x}" for byte in path.read_bytes())
