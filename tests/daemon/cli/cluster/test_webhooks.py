"""The commands under `webhook`, against the real API and a real receiver."""

import json
import re
from collections.abc import Iterator

import pytest

from conf.schema import Webhook
from daemon.notifications.notification_service import NotificationService
from tests.daemon.cli.conftest import Daemon
from tests.daemon.notifications.receiver import Receiver, receiving, status, until

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def receiver(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    """The receiver of the daemon's webhook `chat`; it refuses the first request and accepts the others."""
    monkeypatch.setenv("HOOK_SECRET", "a secret of twenty-four.")
    with receiving([status(403)]) as receiver:
        webhooks = {"chat": Webhook(url=receiver.url, secret_env="HOOK_SECRET")}
        daemon.cast.webhooks = office = NotificationService(webhooks, daemon.cast.store)
        office.start()
        until(lambda: bool(office.status()))
        yield receiver
        office.stop()


def test_webhooks_are_listed_and_tested(daemon: Daemon, receiver: Receiver, capsys: Capture) -> None:
    """Exit code 1 where one did not take it; nothing of a secret is shown."""
    assert daemon.run("webhook", "test", "chat") == 1
    assert "chat did not accept test-" in (said := capsys.readouterr().out)
    assert said.endswith(": answered 403\n")
    assert daemon.run("webhook", "list") == 0
    assert re.search(r"chat .* fails +0 +1 .*answered 403", capsys.readouterr().out)
    assert daemon.run("webhook", "test", "chat") == 0
    assert receiver.take(2) == ["a test of webhook chat"] * 2
    assert "chat accepted test-" in capsys.readouterr().out
    assert daemon.run("webhook", "list", "-o", "json") == 0
    text = capsys.readouterr().out
    (found,) = json.loads(text)["webhooks"]
    assert (found["name"], found["state"], found["failure"]) == ("chat", "delivers", "")
    assert (found["came"]["delivered"], found["came"]["refused"]) == (1, 1)
    assert "s3cret-path" not in text
    assert daemon.run("webhook", "list", "-o", "name") == 0
    assert capsys.readouterr().out == "chat\n"
    assert daemon.run("webhook", "test", "other") == 2
    assert "there is no webhook other; there are chat" in capsys.readouterr().err


def test_there_are_none(daemon: Daemon, capsys: Capture) -> None:
    """Which is said."""
    assert daemon.run("webhook", "list") == 0
    assert capsys.readouterr().out == "No webhooks: the config names none (webhooks).\n"
