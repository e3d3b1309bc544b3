"""Rounds of requests against one daemon, each from a number, and their outcomes."""

import contextlib
import random
import warnings
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import seed as seeded
from hypothesis.errors import Unsatisfiable
from schemathesis.core.result import Ok

from tests.daemon.fleet import Daemon
from tests.fuzz.raw import APP, mutated, statuses

#: The daemon's resident memory may not grow beyond this, MiB.
MOST_MEMORY = 300
_AT_ONCE = 8


class Soak:
    """Sends requests, counts answers, and records failures.

    A round is made of its number and the seed alone, so that it can be repeated; the daemon's answers also
    depend on earlier requests.
    """

    def __init__(self, daemon: Daemon, seed: int) -> None:
        self.answers: Counter[str] = Counter()
        self.failures: list[str] = []
        self._daemon = daemon
        self._seed = seed
        self._memory = 0

    def round(self, number: int, described: int, raw: int) -> None:
        """Send so many requests of each operation and kind, and so many mutated; then look at the daemon."""
        for method, path, answer in self._described(number, described):
            self._judge(number, f"{method} {path}", answer.status_code, answer.text)
        for request, (found, text) in self._raw(number, raw):
            self.answers.update(["raw: no answer"] if not found else [])
            for status in found:
                self._judge(number, f"raw {request!r}", status, text.decode(errors="replace"), "raw")
        self._look(number)

    def report(self) -> str:
        """Counts of answers, and failures."""
        total = sum(self.answers.values())
        lines = [f"{total} answers, memory at most {self._memory} MiB, {len(self.failures)} failures"]
        lines += [f"  {count:8} x {what}" for what, count in sorted(self.answers.items())]
        return "\n".join([*lines, *self.failures[:20]])

    def _described(self, number: int, count: int) -> Iterator[tuple[str, str, httpx.Response]]:
        """Requests made from the API's own description, right ones and wrong ones."""
        found: list[tuple[str, str, httpx.Response]] = []
        # The daemon closes idle connections: at times just when the next request is on its way.
        limits = httpx.Limits(max_keepalive_connections=0)
        client = httpx.Client(base_url=self._daemon.url, timeout=30.0, limits=limits)
        with client, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            description = schemathesis.openapi.from_dict(client.get("/openapi.json").json())
            description.config.update(base_url=self._daemon.url)
            for each in description.get_all_operations():
                assert isinstance(each, Ok), each
                operation = each.ok()
                for mode in (schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE):

                    @settings(
                        max_examples=count,
                        deadline=None,
                        suppress_health_check=list(HealthCheck),
                        database=None,
                    )
                    @seeded(self._seed * 1_000_003 + number)
                    @given(case=operation.as_strategy(mode))
                    def ask(case: schemathesis.Case[Any]) -> None:
                        # Half of what concerns a job concerns one that there is.
                        if "job_id" in case.path_parameters and len(found) % 2:
                            case.path_parameters["job_id"] = f"job-{1 + len(found) % 50}"
                        if isinstance(case.body, dict) and "app" in case.body and len(found) % 4:
                            case.body["app"] = APP
                        # What a client that keeps to the protocol does not send; the raw requests do.
                        with contextlib.suppress(httpx.InvalidURL, httpx.LocalProtocolError, UnicodeError):
                            sent = case.as_transport_kwargs()
                            sent.pop("cookies", None)
                            answer = _send(client, sent)
                            found.append((case.method, case.path, answer))

                    with contextlib.suppress(Unsatisfiable):
                        ask()
        yield from found

    def _raw(self, number: int, count: int) -> Iterator[tuple[bytes, tuple[list[int], bytes]]]:
        chance = random.Random(f"{self._seed} {number}")  # noqa: S311  (no secret)
        requests = [mutated(chance) for _ in range(count)]
        parts = urlsplit(self._daemon.url)
        address = (str(parts.hostname), int(parts.port or 0))
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            yield from zip(requests, pool.map(lambda one: statuses(address, one), requests), strict=True)

    def _judge(self, number: int, what: str, status: int, text: str, kind: str = "described") -> None:
        self.answers[f"{kind}: {status}"] += 1
        documented = status == 503 and ('"title"' in text or '"ready"' in text)
        if status >= 500 and not documented:
            self.failures.append(f"round {number}: {what[:2000]}: {status}: {text[:500]}")

    def _look(self, number: int) -> None:
        """The daemon answers, has not grown, and made no mistake that it logged."""
        alive = self._daemon.get("/healthz")
        if alive is None or alive.status_code != 200 or self._daemon.ended:
            self.failures.append(f"round {number}: the daemon does not answer\n{self._daemon.log()[-3000:]}")
            return
        memory = _resident(self._daemon.pid)
        self._memory = max(self._memory, memory)
        if memory > MOST_MEMORY:
            self.failures.append(f"round {number}: the daemon takes {memory} MiB")
        if (log := self._daemon.log()).count("Traceback") > 0:
            self.failures.append(f"round {number}: {log[log.index('Traceback') - 300 :][:3000]}")


def _send(client: httpx.Client, request: dict[str, object]) -> httpx.Response:
    return client.request(**request)  # type: ignore[arg-type]  # as schemathesis makes them


def _resident(pid: int) -> int:
    """MiB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) // 1024
