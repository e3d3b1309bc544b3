"""One request to a webhook: signature, sending within its time, and outcome.

`webhook_sender.py` decides when to send and to retry.
"""

import asyncio
import hashlib
import hmac
import os
import ssl
from contextlib import suppress
from dataclasses import dataclass

import httpx

from conf.loader import ConfigError, secret_in
from conf.schema import Webhook
from daemon.core.status import DeliveryOutcome

#: Characters: a shorter secret could be guessed from a request and its signature.
_SHORTEST_SECRET = 16
_LONGEST_WHY = 200


@dataclass(frozen=True, slots=True)
class PostOutcome:
    """Outcome of a request, and the reason for a failure; empty for a success.

    A `final` outcome will not change if the request is sent again; `pause` is the seconds that the receiver
    asks to wait. `status` is that of its answer; 0 where there is none.
    """

    came: DeliveryOutcome
    why: str = ""
    final: bool = False
    pause: float = 0.0
    status: int = 0


def signature(secret: str, timestamp: int, body: bytes) -> str:
    """The HMAC-SHA256, in hex, of the timestamp (seconds since the epoch), a dot, and the body."""
    return hmac.new(secret.encode(), f"{timestamp}.".encode() + body, hashlib.sha256).hexdigest()


def secret_of(name: str, webhook: Webhook) -> str:
    """The key that signs a webhook's requests; ConfigError when it is missing or too short."""
    if webhook.secret_file is not None:
        key = f"webhooks.{name}.secret_file"
        secret = secret_in(webhook.secret_file, key)
    else:
        key = f"webhooks.{name}.secret_env"
        secret = os.environ.get(webhook.secret_env or "", "").strip()
        if not secret:
            raise ConfigError(f"{key}: there is no variable {webhook.secret_env}, or it is empty")
    if len(secret) < _SHORTEST_SECRET:
        raise ConfigError(f"{key}: the secret should have at least {_SHORTEST_SECRET} characters")
    return secret


def trusted(ca: str | None, key: str) -> ssl.SSLContext:
    """Which certificates are believed; ConfigError when the file of that key of the config has none."""
    try:
        return ssl.create_default_context(cafile=ca)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise ConfigError(f"{key}: {ca}: {why}") from None


class Post:
    """Sends requests to one webhook; for one event loop."""

    def __init__(self, webhook: Webhook, secret: str, trust: ssl.SSLContext) -> None:
        self._webhook = webhook
        self._secret = secret
        # Nothing in the environment or in an answer changes the address.
        self._client = httpx.AsyncClient(verify=trust, trust_env=False, follow_redirects=False, timeout=None)  # noqa: S113  # all of it has one

    async def send(self, event_id: str, body: bytes, timestamp: int) -> PostOutcome:
        """Send a body, signed at that time. Of the answer only the status is read."""
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "stoker",
            "Stoker-Event": event_id,
            "Stoker-Timestamp": str(timestamp),
            "Stoker-Signature": f"sha256={signature(self._secret, timestamp, body)}",
        }
        try:
            async with asyncio.timeout(self._webhook.timeout):
                request = self._client.build_request("POST", self._webhook.url, content=body, headers=headers)
                answer = await self._client.send(request, stream=True)
        except TimeoutError:
            return PostOutcome("timeout", f"no answer within {self._webhook.timeout:g} s")
        except Exception as error:  # after any error, such as no thread for a name lookup, it is tried again
            return PostOutcome("unreachable", (str(error) or type(error).__name__)[:_LONGEST_WHY])
        with suppress(Exception):  # the answer is complete
            await answer.aclose()
        if answer.is_success:
            return PostOutcome("delivered")
        where = ": redirects are not followed" if answer.is_redirect else ""
        return PostOutcome("refused", f"answered {answer.status_code}{where}", status=answer.status_code)

    async def close(self) -> None:
        """Let go of connections."""
        await self._client.aclose()
