"""The active and the shadow policy: switched live, stored over restarts, independent of each other."""

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from conf.schema import Config, JobSpec, PolicyChoice
from daemon.core.errors import RejectedError
from daemon.core.shadow_comparison import report
from daemon.core.status import PolicyStatus, ShadowStatus
from daemon.policy.active_policies import PolicySwitch
from daemon.policy.shadow_policy import _BACKLOG
from daemon.store.job_store import Store
from environment.types import Decision, Place, PlacementRequest, Wait
from environment.view import ClusterView
from tests.builders import line_of, make_job, make_view, make_vms
from tests.waiting import until

VIEW = make_view(make_vms(3, cpus=4))
CONFIG = Config(shadow=PolicyChoice(name="rr"))
Requests = Sequence[PlacementRequest]

#: Stuck policies wait for this, so that no thread outlives its test.
release = threading.Event()


def stuck(view: ClusterView, queue: Requests) -> Decision:
    """Does not return before the test is over."""
    release.wait()
    return Wait("too late")


def loops(view: ClusterView, queue: Requests) -> Decision:
    """Neither returns nor waits."""
    while not release.is_set():
        pass
    return Wait("too late")


def raises(view: ClusterView, queue: Requests) -> Decision:
    """Wants the process to end."""
    raise SystemExit(1)


def packs(view: ClusterView, queue: Requests) -> Decision:
    """Puts all on the second VM."""
    return Place(queue[0].job.id, (1,) * queue[0].count)


def backwards(view: ClusterView, queue: Requests) -> Decision:
    """Puts the last of the queue on the first VM."""
    return Place(queue[-1].job.id, (0,) * queue[-1].count)


class Asks:
    """Does not say whether it chooses sizes before the test is over."""

    decide = staticmethod(packs)

    @property
    def chooses_sizes(self) -> bool:
        """Too late."""
        release.wait()
        return False


class Refuses(Asks):
    """Wants the process to end when it is asked for sizes."""

    @property
    def chooses_sizes(self) -> bool:
        """Never."""
        raise SystemExit(1)


def requests(*executors: int) -> list[PlacementRequest]:
    """Jobs job-1, job-2, ... with so many executors of one cpu."""
    jobs = [make_job(f"job-{i}", count) for i, count in enumerate(executors, 1)]
    return [PlacementRequest(job, job.executors) for job in jobs]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A store that knows three jobs."""
    store = Store(f"sqlite:///{tmp_path / 'stoker.db'}")
    for _ in range(3):
        store.jobs.new.add_one(JobSpec(app="a.py"), lambda job_id: make_job(job_id), None, 1.0)
    yield store
    store.close()


@pytest.fixture
def panel(store: Store) -> Iterator[Callable[[Config], PolicySwitch]]:
    """Make panels with threads that end with the test, before the store is closed."""
    made: list[PolicySwitch] = []
    release.clear()
    before = set(threading.enumerate())

    def make(config: Config) -> PolicySwitch:
        made.append(PolicySwitch(config, store))
        return made[-1]

    yield make
    release.set()
    for each in made:
        each.close()
    until(lambda: not set(threading.enumerate()) - before)


def shadow_of(status: PolicyStatus) -> ShadowStatus:
    """The shadow, which must be there."""
    assert status.shadow is not None
    return status.shadow


def test_the_shadow_is_compared_and_never_acts(panel: Callable[[Config], PolicySwitch], store: Store) -> None:
    """First fit's placements are executed; round robin's differences are in the store."""
    room = panel(CONFIG)
    event, explanations = room.acting().decide(VIEW, requests(1, 2, 1))
    assert [p.vm_ids for p in event.placements] == [("id-vm-1",), ("id-vm-1", "id-vm-1"), ("id-vm-1",)]
    assert {why.policy for why in explanations} == {"ff"}
    until(lambda: shadow_of(room.status()).compared == 3)
    assert shadow_of(room.status()) == ShadowStatus("rr", {}, 3, 1, 0, 0, "", 3)
    until(lambda: len(store.comparisons.kept()) == 3)
    made = report(store.comparisons.kept(), 10)
    assert [(t.acting, t.shadow, t.compared, t.different) for t in made.totals] == [("ff", "rr", 3, 1)]
    (second,) = (each.comparison for each in made.differences)
    assert (second.job_id, second.acting.vms, second.shadow.vms) == (
        "job-2",
        {"vm-1": 2},
        {"vm-2": 1, "vm-3": 1},
    )
    assert (second.acting.price_per_hour, second.shadow.price_per_hour) == pytest.approx((0.0, 0.48))


def test_a_shadow_holds_up_nobody_who_sets_it(panel: Callable[[Config], PolicySwitch]) -> None:
    """Its own code runs in its own thread alone, also where it is asked about itself."""
    began = time.monotonic()
    panel(Config(shadow=PolicyChoice(name=f"{__name__}:Asks")))
    room = panel(Config(shadow=PolicyChoice(name=f"{__name__}:Refuses")))
    assert time.monotonic() - began < 60
    until(lambda: shadow_of(room.status()).last_fault.startswith("the policy failed: SystemExit: 1 ("))


def test_a_shadow_that_would_take_another_job_differs(
    panel: Callable[[Config], PolicySwitch], store: Store
) -> None:
    """The comparison is about the job that was placed, which the shadow would have let wait."""
    config = Config(policy=PolicyChoice(name=f"{__name__}:backwards"), shadow=PolicyChoice(name="ff"))
    panel(config).acting().decide(VIEW, requests(1, 1))
    until(lambda: len(store.comparisons.kept()) == 2)
    first, second = sorted((found for found, _ in store.comparisons.kept()), key=lambda found: found.job_id)
    assert (first.job_id, first.differs) == ("job-1", False)
    assert (second.job_id, second.acting.vms, second.shadow.vms) == ("job-2", {"vm-1": 1}, None)
    assert second.shadow.reason == "job-1 comes before it"


def test_the_same_wait_is_compared_once(panel: Callable[[Config], PolicySwitch], store: Store) -> None:
    """A job that has to wait is decided about again and again, which is no news."""
    room = panel(Config(shadow=PolicyChoice(name=f"{__name__}:packs")))
    for _ in range(5):
        room.acting().decide(VIEW, requests(13))
    room.acting().decide(VIEW, requests(1))
    until(lambda: len(store.comparisons.kept()) + shadow_of(room.status()).faults == 6)
    assert shadow_of(room.status()).faults == 5, "packs cannot do it either"
    room.set_shadow("rr", {})
    for _ in range(5):
        room.acting().decide(VIEW, requests(13))
    room.set_shadow(None, {})
    room.acting().decide(VIEW, requests(1))
    until(lambda: len(store.comparisons.kept()) == 2)


@pytest.mark.parametrize("name", ["stuck", "raises"])
def test_a_shadow_that_misbehaves_is_its_own_trouble(
    panel: Callable[[Config], PolicySwitch], name: str
) -> None:
    """The active policy decides as usual; the shadow's faults and missed decisions are counted apart."""
    room = panel(Config(shadow=PolicyChoice(name=f"{__name__}:{name}")))
    for _ in range(_BACKLOG + 2):
        event, _ = room.acting().decide(VIEW, requests(1))
        assert len(event.placements) == 1
    status = room.status()
    assert (status.faults, status.placed, status.busy) == (0, _BACKLOG + 2, 0.0)
    if name == "stuck":
        assert shadow_of(status).missed >= 1
    else:
        until(lambda: shadow_of(room.status()).faults >= _BACKLOG)
        assert shadow_of(room.status()).last_fault.startswith("the policy failed: SystemExit: 1 (")


def test_a_shadow_that_loops_ends_when_it_is_switched_off(panel: Callable[[Config], PolicySwitch]) -> None:
    """Its thread burns a core no longer, without that the policy returns."""
    name = f"{__name__}:loops"
    room = panel(Config(shadow=PolicyChoice(name=name), decision_timeout=0.1))
    (thread,) = (each for each in threading.enumerate() if each.name == f"shadow {name}")
    room.acting().decide(VIEW, requests(1))
    until(lambda: shadow_of(room.status()).asked == 1)
    time.sleep(0.2)
    room.set_shadow(None, {})
    room.acting()
    until(lambda: not thread.is_alive())


def test_choices_hold_over_restarts_until_the_config_says_otherwise(
    panel: Callable[[Config], PolicySwitch],
) -> None:
    """A live choice and its options survive restarts; a changed config takes precedence."""
    room = panel(CONFIG)
    room.set_policy("random", {"seed": 7})
    room.set_shadow("ilp", {"beta": 0.75})
    status = panel(CONFIG).status()
    assert (status.name, status.options) == ("random", {"seed": 7})
    assert (shadow_of(status).name, shadow_of(status).options) == ("ilp", {"beta": 0.75})
    room.set_shadow(None, {})
    assert panel(CONFIG).status().shadow is None, "to have none is a choice too"
    status = panel(Config(policy=PolicyChoice(name="rrc"), shadow=PolicyChoice(name="ff"))).status()
    assert (status.name, shadow_of(status).name) == ("rrc", "ff")


@pytest.mark.parametrize(("name", "options"), [("nosuch", {}), ("ff", {"beta": 1}), ("", {})])
def test_what_is_no_policy_changes_nothing(
    panel: Callable[[Config], PolicySwitch], name: str, options: dict[str, int]
) -> None:
    """An invalid policy changes neither the active policy nor the shadow."""
    room = panel(CONFIG)
    for switch in (room.set_policy, room.set_shadow):
        with pytest.raises(RejectedError) as error:
            switch(name, options)
        assert error.value.status == 422
    assert (room.status().name, shadow_of(room.status()).name) == ("ff", "rr")


@pytest.mark.parametrize("name", ["raises", "stuck"])
def test_one_that_decides_nothing_is_not_switched_to(
    panel: Callable[[Config], PolicySwitch], name: str
) -> None:
    """One decision on a made-up cluster finds it out, and the answer names file and line."""
    broken = f"{__name__}:{name}"
    room = panel(CONFIG.model_copy(update={"policies_allowed": (broken,), "decision_timeout": 0.5}))
    why = {
        "raises": f"SystemExit: 1 ({__file__}, line {line_of(raises)}, in raises)",
        "stuck": "did not decide within 0.5 s",
    }
    for switch in (room.set_policy, room.set_shadow):
        with pytest.raises(RejectedError) as error:
            switch(broken, {})
        assert error.value.status == 422
        assert why[name] in error.value.detail
    assert (room.status().name, shadow_of(room.status()).name) == ("ff", "rr")
    release.set()


@pytest.mark.parametrize(
    "name", ["os:abort", "posix:abort", f"{__name__}:packs", "environment.policy:Policy"]
)
def test_policies_of_others_are_not_chosen_over_the_api(
    panel: Callable[[Config], PolicySwitch], name: str
) -> None:
    """Importing a policy runs its code, so the API accepts only those that the config allows.

    The answer and the config list them.
    """
    allowed = f"{__name__}:backwards"
    room = panel(CONFIG.model_copy(update={"policies_allowed": (allowed,)}))
    for switch in (room.set_policy, room.set_shadow):
        with pytest.raises(RejectedError) as error:
            switch(name, {})
        assert error.value.status == 403
        assert f"allowed are {allowed} (policies_allowed" in error.value.detail
    assert (room.status().name, shadow_of(room.status()).name) == ("ff", "rr")
    assert room.set_policy(allowed, {}).name == allowed
    assert room.set_policy("agents.baselines.even:Even", {"vms": 2}).name == "agents.baselines.even:Even"


@pytest.mark.parametrize("fallback", [f"{__name__}:packs", "posix:getpid"])
def test_options_name_no_policies_of_others(panel: Callable[[Config], PolicySwitch], fallback: str) -> None:
    """A policy of ours that takes another as an option takes none that was not let in by itself."""
    room = panel(CONFIG)
    for switch in (room.set_policy, room.set_shadow):
        with pytest.raises(RejectedError, match="fallback: should be a policy that comes with Stoker"):
            switch("reinforce", {"fallback": fallback})


def test_a_policy_that_is_no_longer_allowed_is_not_taken_up(panel: Callable[[Config], PolicySwitch]) -> None:
    """One that was chosen before the config forbade it, or by an older daemon, ends no newer one."""
    allowed = CONFIG.model_copy(update={"policies_allowed": (f"{__name__}:packs",)})
    room = panel(allowed)
    room.set_policy(f"{__name__}:packs", {})
    room.set_shadow(f"{__name__}:packs", {})
    assert panel(allowed).status().name == f"{__name__}:packs"
    status = panel(CONFIG).status()
    assert (status.name, shadow_of(status).name) == ("ff", "rr")


def test_policies_are_switched_under_load(panel: Callable[[Config], PolicySwitch]) -> None:
    """While rounds are decided, switching from other threads costs no decision and no time-out."""
    room = panel(CONFIG)
    done = threading.Event()

    def switch() -> None:
        for name in ("rr", "ff", "rrc") * 5:
            room.set_policy(name, {})
            room.set_shadow(name, {})
        done.set()

    thread = threading.Thread(target=switch)
    thread.start()
    rounds = 0
    while not done.is_set() or rounds < 20:
        event, explanations = room.acting().decide(VIEW, requests(1, 1))
        assert len(event.placements) == 2
        assert not any(why.faults for why in explanations)
        rounds += 1
    thread.join()
    assert json.dumps(dict(room.status().options)) == "{}"
