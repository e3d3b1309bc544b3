"""A job that needs several agents at once starts once its room is free, however Mesos offers them."""

from functools import partial
from pathlib import Path
from random import Random

import pytest

from conf.schema import Config, JobSpec
from daemon.scheduler.build import service_of
from daemon.scheduler.foundation import TermInputs
from daemon.store.job_store import Store
from environment.types import Job
from framework.embedded import AgentSpec
from framework.mesos.master_link import MasterLink
from framework.mesos.session import SessionOptions
from tests.benchmarks.daemon_of_commands import CommandLauncher
from tests.builders import make_job
from tests.daemon.scheduler.test_service import known, running
from tests.framework.embedded.running import Subscription, framework_info, task
from tests.framework.embedded.running import running as running_mesos
from tests.waiting import until

AGENTS = [
    AgentSpec("agent-4", "m1.large", 4, 16384, 0.24, "127.0.0.1", (31000, 31099)),
    AgentSpec("agent-8", "m1.large", 8, 16384, 0.24, "127.0.0.1", (31100, 31199)),
    AgentSpec("agent-2", "m1.large", 2, 16384, 0.24, "127.0.0.1", (31200, 31299)),
]
AGENTS_BY_NAME = [agent.name for agent in AGENTS]
#: Seconds: none of them is offered a second time while a test runs, unless somebody asks for it.
NEVER = 10_000.0


def wide(job_id: str) -> Job:
    """Ten executors of one cpu: no agent has so many, and neither have the two smaller ones."""
    return make_job(job_id, executors=10)


@pytest.mark.parametrize("seed", range(3))
def test_a_wide_job_starts_whenever_each_agent_is_offered(
    store: Store, tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another framework's task on the largest agent ends; from then on each agent has a phase of its own.

    The daemon does not ask for offers as it does when it heard nothing for long: only an offer makes it ask.
    """
    monkeypatch.setattr("environment.model.messages.options.ASK_AGAIN", NEVER)
    random = Random(seed)  # noqa: S311 - no secret hangs on it
    config = Config(data_dir=str(tmp_path))
    launcher = CommandLauncher(config, tmp_path, "127.0.0.1")
    with (
        running_mesos(tmp_path / "mesos", AGENTS) as mesos,
        Subscription(mesos, framework_info("other")) as other,
    ):
        four, large, two = sorted(other.offers(), key=lambda offer: AGENTS_BY_NAME.index(offer["hostname"]))
        other.call("SUPPRESS")
        other.call("DECLINE", {"offer_ids": [four["id"], two["id"]]})
        other.launch(large, task("others", "sleep 600", cpus=8.0, mem=64))
        other.update("others", "TASK_RUNNING")
        store.jobs.new.add_one(JobSpec(app="/apps/a.py"), wide, None, 100.0)
        connect = partial(MasterLink, SessionOptions(master=mesos.address, user="root"))
        with running(service_of(TermInputs(config, store, launcher, connect, data_dir=tmp_path))):
            until(lambda: "of 10 executors" in known(store, "job-1").reason, "it waits")
            mesos.fault("offer_at", agent="agent-8", phase=NEVER, period=NEVER)
            other.call("KILL", {"task_id": {"value": "others"}})
            other.update("others", "TASK_KILLED")
            for agent in AGENTS:
                mesos.fault("offer_at", agent=agent.name, phase=random.uniform(0, 2), period=NEVER)
            reasons = set()

            def placed() -> bool:
                job = known(store, "job-1")
                if job.state == "queued":
                    reasons.add(job.reason)
                return job.state != "queued"

            until(placed, lambda: f"{reasons}, {mesos.get('/stoker/faults')}")
            # As it was before, perhaps that it is to be decided on, and nothing that alternates.
            assert len(reasons) <= 2, reasons
