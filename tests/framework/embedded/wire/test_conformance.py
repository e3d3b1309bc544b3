"""The embedded Mesos answers as a real Mesos 1.12 did: the recorded sessions, replayed.

Every scenario that makes sense for one embedded master is here; `LEFT_OUT` names the others with the reason.
"""

import json
import tarfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.framework.embedded.running import Mesos, running, small_cluster
from tests.framework.embedded.wire.replaying import GRACE, Replay
from tests.waiting import until

TRANSCRIPTS = Path(__file__).resolve().parents[5] / "shared" / "mesos-wire"

LEFT_OUT = {
    "06d-master-restart-replicated-log": "the embedded master keeps no registry on disk",
    "07b-no-leader": "the embedded master always leads",
    "07c-call-of-type-unknown": "a bug of the real master, which aborts; the embedded one goes on",
    "08c-reserve-drain-gone": "reservations, draining, maintenance; the rest is in test_operator_api",
    "08d-operator-subscribe": "the operator's event stream is not part of the embedded master",
    "10-two-masters-zookeeper": "several masters",
    "10b-zookeeper-znodes": "several masters",
    "11c-reserve-launch": "reservations and operation feedback",
}

Note = Callable[[Replay, str], None]


@dataclass(frozen=True)
class Scenario:
    """How one recording is replayed."""

    name: str
    scale: float = 0.1
    options: dict[str, object] = field(default_factory=dict)
    on_note: Note = lambda _replay, _note: None
    skip: Callable[[dict[str, Any]], bool] = lambda _step: False
    loose_offers: bool = False
    """Whether amounts of later offers depend on how long real executors take to start or to end."""
    agents: int = 3
    credentials: dict[str, str] | None = None
    deviations: dict[str, str] = field(default_factory=dict)
    """Differences that are meant: a piece of their text, and the reason."""


def agent_signals(replay: Replay, note: str) -> None:
    """Do to the agents the same as the recording's signals."""
    faults = (
        ("SIGKILL mesos-executor", "kill_executor", {"task_id": "sl-ckpt-plain"}),
        ("agent 1 SIGKILL and start at once", "kill_agent", {"agent": "host1.example"}),
        ("agent 1 SIGKILL and start at once", "start_agent", {"agent": "host1.example"}),
        ("SIGKILL agent 1", "kill_agent", {"agent": "host1.example"}),
        ("SIGKILL of agent 1", "kill_agent", {"agent": "host1.example"}),
        ("agent 1 started again", "start_agent", {"agent": "host1.example"}),
        ("SIGUSR1 agent 1", "shutdown_agent", {"agent": "host1.example"}),
        ("SIGUSR1 to agent 2", "shutdown_agent", {"agent": "host2.example"}),
        ("SIGTERM to agent 3", "kill_agent", {"agent": "host3.example"}),
        ("SIGSTOP agent 1", "stop_agent", {"agent": "host1.example"}),
        ("SIGCONT agent 1", "continue_agent", {"agent": "host1.example"}),
        ("SIGKILL master", "restart_master", {"away_seconds": 0.2, "agents_after_seconds": 0.3}),
    )
    for start, fault, fields in faults:
        if note.startswith(start):
            replay.settle()
            replay.mesos.fault(fault, **fields)
    if note.startswith("master is back"):
        until(lambda: answers(replay.mesos), "the master is back")


def answers(mesos: Mesos) -> bool:
    """Whether the master takes connections."""
    try:
        return mesos.request("GET", "/health")[0] == 200
    except ConnectionRefusedError:
        return False


def client_drops(replay: Replay, note: str) -> None:
    """Drop the connection that the recorded client dropped."""
    if note.startswith("client drops connection"):
        replay.settle()
        replay.drop(note.split()[-1])


PINGS: dict[str, object] = {"agent_ping_timeout": 0.1, "max_agent_ping_timeouts": 3}
NO_CLOCK: dict[str, object] = {"allocation_interval": 1000.0}
"""The allocator runs only when something happens: in the recording, SUPPRESS came before its next run."""


def chance_offers(step: dict[str, Any]) -> bool:
    """Whether a step is one of the two offers that the recorded allocator's clock happened to make."""
    offers = step.get("event", {}).get("offers", {}).get("offers", [])
    return bool(offers) and offers[0]["id"]["value"].endswith(("-O6", "-O13"))


def agent_port(step: dict[str, Any]) -> bool:
    """Whether a step belongs to the call that was sent to an agent's port."""
    return bool(step.get("t", 0.0) >= 16.571) and "conn" not in step


SCENARIOS = [
    Scenario("01-subscribe", scale=0.02),
    Scenario("01c-subscribe-legacy-role"),
    Scenario("02-launch-finish"),
    Scenario("02b-launch-unacknowledged", scale=0.05),
    Scenario("03a-two-tasks-one-offer", loose_offers=True),
    Scenario(
        "03b-kill",
        loose_offers=True,
        deviations={
            "'Command terminated with signal Killed' instead of": "a task that ignores SIGTERM gets its "
            "grace, while the real agent's launcher, which does not ignore it, dies in the task's stead"
        },
    ),
    Scenario("03c-task-error"),
    Scenario("03d-invalid-offers"),
    Scenario("03d2-invalid-offers-partition-aware"),
    Scenario("03e-env-uris-ports", loose_offers=True),
    Scenario(
        "03f-launch-group",
        loose_offers=True,
        deviations={
            "instead of \"'ExecutorInfo.framework_id' must be set\"": "the recording shows the first call as "
            "it was changed for the second; the complaint itself is tested in test_tasks"
        },
    ),
    Scenario("03g-custom-executor"),
    Scenario("03h-checks-and-deadlines", loose_offers=True),
    Scenario("04a-decline-suppress-revive"),
    Scenario("04a2-suppressed-roles"),
    Scenario("04c-rescind-agent-gone", on_note=agent_signals),
    Scenario("04d-role-mix"),
    Scenario("05a-agent-sigkill", options=PINGS | NO_CLOCK, on_note=agent_signals),
    Scenario("05b-agent-shutdown", options=PINGS | NO_CLOCK, on_note=agent_signals),
    Scenario(
        "05c-agent-stopped-process", options=PINGS | NO_CLOCK, on_note=agent_signals, skip=chance_offers
    ),
    Scenario("05d-executor-killed", options=PINGS, on_note=agent_signals),
    Scenario("05e-offer-timeout", options={"offer_timeout": 0.3}),
    Scenario("06a-failover", on_note=client_drops),
    Scenario("06c-master-restart", options=PINGS, on_note=agent_signals),
    Scenario(
        "07-bad-calls",
        loose_offers=True,
        skip=agent_port,
        deviations={"raw answer": "the embedded master speaks JSON only, and answers 406 to x-protobuf"},
    ),
    Scenario("09-authentication", agents=1, credentials={"pr": "secret1", "colon": "a:b"}),
    Scenario("11a-aggregated-offers"),
    Scenario("11b-containers-and-user", loose_offers=True),
]


@pytest.fixture(scope="module")
def transcripts() -> Path:
    """The folder of recordings."""
    if not TRANSCRIPTS.is_dir():
        pytest.skip(f"the recorded sessions are not here: {TRANSCRIPTS}")
    return TRANSCRIPTS


def options(scenario: Scenario) -> dict[str, Any]:
    """Mesos' own timings, scaled."""
    scale = scenario.scale
    return {
        "allocation_interval": 0.4 * scale,
        "heartbeat_interval": 15 * scale,
        "agent_ping_timeout": 15 * scale,
        "default_refuse": 5 * scale,
        "kill_grace": 3 * GRACE,
        "executor_shutdown_grace": 5 * scale,
        "update_retry": 10 * scale,
        "launch_delay": 0.2 * scale,
        **scenario.options,
    }


def uri_files(folder: Path) -> Path:
    """Make the files that recorded tasks fetch."""
    folder.mkdir()
    (folder / "data.txt").write_text("some data\n")
    (folder / "run.sh").write_text("#!/bin/sh\necho run\n")
    with tarfile.open(folder / "pack.tar.gz", "w:gz") as archive:
        archive.add(folder / "data.txt", "packed.txt")
    return folder


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_scenario(scenario: Scenario, transcripts: Path, tmp_path: Path) -> None:
    """Statuses, event types, fields, reasons and messages are those of the real master."""
    steps = json.loads((transcripts / f"{scenario.name}.json").read_text())
    steps = [step for step in steps if not scenario.skip(step)]
    files = uri_files(tmp_path / "uri")
    agents = small_cluster()[: scenario.agents]
    with running(tmp_path / "work", agents, credentials=scenario.credentials, **options(scenario)) as mesos:
        replay = Replay(
            mesos,
            steps,
            scale=scenario.scale,
            on_note=scenario.on_note,
            rewrite=lambda text: text.replace("/srv/uri", str(files)),
            loose_offers=scenario.loose_offers,
        )
        replay.run()
    meant = {text: [p for p in replay.problems if text in p] for text in scenario.deviations}
    assert all(meant.values()), "a deviation is listed that is none"
    problems = [p for p in replay.problems if not any(text in p for text in scenario.deviations)]
    assert not problems, "\n".join(problems)


def test_every_recording_is_replayed_or_left_out_with_a_reason(transcripts: Path) -> None:
    """No recording is forgotten."""
    elsewhere = {"01b-subscribe-raw-bytes", "11d-connections-raw"}  # in test_wire
    elsewhere |= {"08a-operator-api", "08b-legacy-endpoints"}  # in test_operator_api
    covered = {scenario.name for scenario in SCENARIOS} | LEFT_OUT.keys() | elsewhere
    assert {path.stem for path in transcripts.glob("*.json")} == covered
