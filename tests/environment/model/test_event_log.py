"""The log of events and commands: written, read, and replayed."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from environment.model.cluster_model import ClusterModel, ModelOptions
from environment.model.event_log import decode, encode, replay
from environment.model.messages import commands as cmd
from environment.model.messages import events as ev
from environment.model.messages.records import JobRecord
from environment.pools import Consolidation, IdleTimeout
from environment.resources import Resources
from tests.builders import make_job, make_vm, make_vms
from tests.environment.model.walks.random_walks import Chaos
from tests.environment.two_worlds.world import World

# Amounts are dictionaries, whoever makes them; no resource is called as memory was at first.
NAMES = st.text().filter(lambda name: name != "memory_mib")
st.register_type_strategy(Mapping, st.dictionaries(NAMES, st.floats()))
AMOUNTS = st.dictionaries(NAMES, st.integers(1, 10**15)).map(Resources)
st.register_type_strategy(Resources, AMOUNTS)
st.register_type_strategy(
    IdleTimeout, st.builds(IdleTimeout, st.sampled_from(["none", "timeout", "forecast"]), st.floats(0, 1e9))
)
st.register_type_strategy(
    Consolidation,
    st.builds(
        Consolidation,
        st.sampled_from(["none", "fitting"]),
        st.floats(0, 1e9),
        st.booleans(),
        st.none() | st.integers(1, 1000),
    ),
)

KINDS: list[type[ev.Event | cmd.Command]] = [
    kind
    for kind in vars(ev).values()
    if isinstance(kind, type)
    and issubclass(kind, ev.Event | cmd.Command)
    and kind not in (ev.Event, cmd.Command)
]


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=8)
@given(st.data())
def test_every_entry_comes_back_as_it_was(kind: type[ev.Event | cmd.Command], data: st.DataObject) -> None:
    """Encoded on one line and decoded, it is equal and of the same type."""
    entry = data.draw(st.from_type(kind))
    st_nan = "NaN" in (line := encode(entry))
    assert "\n" not in line
    back = decode(line)
    assert type(back) is type(entry)
    assert back == entry or st_nan


@pytest.mark.parametrize("count", [0, 1, 3, 4, 7])
def test_long_lists_are_written_in_slices(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """Which is the same line."""
    event = ev.ExecutorsReleased(1.0, "job-1", tuple(range(count)))
    whole = encode(event)
    monkeypatch.setattr("environment.model.event_log._SLICE", 3)
    assert encode(event) == whole
    assert decode(whole) == event


def test_logs_of_the_first_stoker_replay() -> None:
    """Where cpus, memory and others stood apart: to the same commands, and to the same state at the end."""
    state, *lines = Path(__file__).with_name("first_log.jsonl").read_text().splitlines()
    model, launches, sizes = ClusterModel(), [], []
    for event, commands in replay(lines):
        assert model.handle(event) == commands
        ids = [task_id for c in commands if isinstance(c, cmd.Launch) for task_id in c.task_ids]
        launches += [task.resources for task in map(model.task, ids) if task]
        if isinstance(event, ev.Decided):
            sizes += [size for placement in event.placements for size in placement.sizes]
    assert (launches[-1], sizes) == (Resources.of(0.5, 1024, {"gpus": 1}), [Resources.of(1.5, 1024)])
    recorded = decode(state)
    assert isinstance(recorded, ev.Restored)
    assert _as_at_first(model.snapshot()) == replace(recorded, jobs=_without_reasons(recorded))


def _as_at_first(state: ev.Restored) -> ev.Restored:
    """A state without the fields that the first Stoker version did not record."""
    tasks = tuple(replace(task, share=1.0) for task in state.tasks)
    assert state.moment is not None
    book = replace(state.moment.book, counted=False, wanted_since=0.0, offered_at=())
    moment = replace(state.moment, book=book, supply=replace(state.moment.supply, keep_from=0.0))
    return replace(state, jobs=_without_reasons(state), tasks=tasks, accounts=(), moment=moment)


def _without_reasons(state: ev.Restored) -> tuple[JobRecord, ...]:
    """Jobs without the reasons, which are worded in other ways since."""
    return tuple(replace(job, reason="") for job in state.jobs)


def test_vms_that_were_lost_in_an_earlier_log_are_known_to_be_paid_for() -> None:
    """Once only those were remembered, by the name `lost`."""
    state = ClusterModel().snapshot()
    assert state.moment is not None
    fleet = replace(state.moment.fleet, paid=(("i-1", 5.0),))
    state = replace(state, moment=replace(state.moment, fleet=fleet))
    now, then = '"paid":[["i-1",5.0]]', '"lost":[["i-1",5.0]]'
    line = encode(state)
    assert now in line
    assert decode(line.replace(now, then)) == decode(line) == state


@pytest.mark.parametrize("line", ['{"type":"Nothing"}', '{"at":1}', "[]", "7", "{", '{"type":"Tick"}'])
def test_lines_that_are_no_entries_are_refused(line: str) -> None:
    """Any such line raises ValueError."""
    with pytest.raises(ValueError, match=r".+"):
        decode(line)


def test_a_recorded_day_replays_to_the_same_commands() -> None:
    """The same events through a fresh model give the commands that were recorded, event by event."""
    vms = (make_vm("vm-1", 4, 8192), make_vm("vm-2", 8, 4096))
    for seed in range(5):
        chaos = Chaos(vms, seed, "rr")
        chaos.reconnect()
        for _ in range(200):
            chaos.step()
        lines = []
        for event, commands in chaos.log:
            lines += [encode(event), *map(encode, commands)]
        model, count = ClusterModel(), 0
        for event, commands in replay(lines):
            assert model.handle(event) == commands
            count += 1
        assert count == len(chaos.log)


def test_ticks_without_commands_need_no_record() -> None:
    """A log that leaves out the ticks that led to nothing replays the same."""
    chaos = Chaos((make_vm("vm-1", 4, 8192), make_vm("vm-2", 8, 4096)), 3, "ff")
    chaos.reconnect()
    for _ in range(300):
        chaos.step()
    model, left_out = ClusterModel(), 0
    for event, commands in chaos.log:
        if isinstance(event, ev.Tick) and not commands:
            left_out += 1
        else:
            assert model.handle(event) == commands
    assert left_out


@pytest.mark.parametrize("seed", range(4))
def test_a_log_may_begin_anywhere(seed: int) -> None:
    """From a snapshot on, taken at any moment, an empty model goes on as the first one did."""
    chaos = Chaos((make_vm("vm-1", 4, 8192), make_vm("vm-2", 8, 4096)), seed, "ff")
    chaos.reconnect()
    models: list[ClusterModel] = []
    seen = 0
    for step in range(300):
        chaos.step()
        for event, commands in chaos.log[seen:]:
            assert [model.handle(event) for model in models] == [commands] * len(models)
        seen = len(chaos.log)
        if step % 20 == 0:
            models.append(ClusterModel())
            assert models[-1].handle(decode(encode(chaos.model.snapshot()))) == []  # type: ignore[arg-type]  # an event
    assert len(models) == 15


def test_a_log_that_spans_a_restart_replays() -> None:
    """The log contains the state that a daemon starts from: there the model begins anew."""
    world = World(make_vms(2), ModelOptions(host="here", launch_timeout=7.0))
    world.run(make_job("a", 2))
    world.submit(make_job("b", 20))
    kept = world.kept()
    world.model = ClusterModel(world.model.options)
    world.restore(kept)
    world.subscribe()
    world.offer()
    world.decide()
    world.tell("running", "a.0", "a.1")
    world.driver_ends("a")
    world.wait(8.0)
    lines = world.lines()
    model = ClusterModel(world.model.options)
    assert [model.handle(event) == commands for event, commands in replay(lines)] == [True] * len(world.log)
    begin = next(i for i, (event, _) in enumerate(world.log) if isinstance(event, ev.Restored))
    alone = world.lines(begin)
    model = ClusterModel()
    assert all(model.handle(event) == commands for event, commands in replay(alone))
    assert model.options == world.model.options
