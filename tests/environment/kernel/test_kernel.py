"""The compiled rules: worked by hand, and held step by step against plain Python."""

import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from environment.kernel.batch_step import Stepper
from environment.kernel.observation import observation_length, observe, write_mask
from environment.kernel.rewards import cost
from environment.kernel.rule_options import DurationOptions, RewardOptions
from environment.kernel.rules import bring_forward, reset, step_episode
from environment.kernel.state import Batch, Layout
from tests.environment.episodes import Case, batch_of, cases
from tests.environment.simulation.reference import Reference

#: Islam 2022, Fig. 2: two VMs, two jobs that arrive together; prices and durations are not given there.
FIGURE_2 = Case(
    machines=((4000, 8 * 1024, 0.24), (8000, 16 * 1024, 0.48)),
    jobs=((0.0, 4000, 8 * 1024, 2, "", 60.0), (0.0, 6000, 10 * 1024, 1, "", 30.0)),
)


def begin(case: Case) -> Batch:
    """One episode, reset."""
    batch = batch_of([case])
    reset(batch, 0)
    return batch


def run(case: Case, actions: list[int]) -> tuple[Batch, list[float]]:
    """The batch after the actions, and their rewards."""
    batch = begin(case)
    return batch, [step_episode(batch, 0, action) for action in actions]


def seen(batch: Batch, row: int = 0) -> list[float]:
    """The observation of the paper, in as many digits as float32 holds."""
    out = np.zeros(observation_length(batch.machines.milli_cpus.shape[1], Layout()), np.float32)
    observe(batch, row, Layout(), out)
    return [float(f"{number:.7g}") for number in out]


def mask(batch: Batch, *, whole: bool = False) -> list[bool]:
    """The legal actions."""
    out = np.zeros(batch.machines.milli_cpus.shape[1] + 1, np.bool_)
    write_mask(batch, 0, whole, out)
    legal: list[bool] = out.tolist()
    return legal


def test_figure_2a_a_full_vm_ends_the_episode() -> None:
    """The first executor fits VM 1 (+1); the second does not (-200), and nothing more happens."""
    batch, rewards = run(FIGURE_2, [1, 1])
    assert rewards == [1, -200]
    assert seen(batch) == [0, 0, 0.24, 8, 16, 0.48, 1, 4, 8, 1]
    assert mask(batch) == [False, False, False]
    assert step_episode(batch, 0, 2) == 0


def test_figure_2b_waiting_lets_the_second_job_in() -> None:
    """Both executors are placed (+1 each), job 2 fits nowhere: wait (-1), then place it."""
    batch = begin(FIGURE_2)
    assert seen(batch) == [4, 8, 0.24, 8, 16, 0.48, 1, 4, 8, 2]
    assert step_episode(batch, 0, 1) == 1
    assert seen(batch) == [0, 0, 0.24, 8, 16, 0.48, 1, 4, 8, 1]
    assert step_episode(batch, 0, 2) == 1
    assert seen(batch) == [0, 0, 0.24, 4, 8, 0.48, 2, 6, 10, 1]
    assert mask(batch) == [True, False, False]
    assert step_episode(batch, 0, 0) == -1
    assert seen(batch) == [4, 8, 0.24, 8, 16, 0.48, 2, 6, 10, 1]
    # Eq. 4: VM 1 for 60 s and VM 2 for 90 s; eq. 7: 90 s of both. Durations have one value: time earns all.
    dollars, most = (60 * 0.24 + 90 * 0.48) / 3600, 90 * 0.72 / 3600
    assert step_episode(batch, 0, 2) == pytest.approx(10_000 * (0.5 * (1 - dollars / most) + 0.5))
    assert cost(batch, 0) == pytest.approx(dollars)
    assert batch.state.clock[0] == 90
    assert seen(batch) == [4, 8, 0.24, 8, 16, 0.48, 0, 0, 0, 0]


@pytest.mark.parametrize(
    ("actions", "why"),
    [
        ([0], "nothing runs"),
        ([1, 0], "the head is half placed"),
        ([1, 2, 2], "the resources are not there"),
        ([3], "there is no such VM"),
        ([-1], "there is no such action"),
    ],
)
def test_violations(actions: list[int], why: str) -> None:
    """Table 3, rows 1 and 4: each ends the episode with -200 and changes nothing else."""
    batch = begin(FIGURE_2)
    for action in actions[:-1]:
        step_episode(batch, 0, action)
    before = seen(batch)
    assert step_episode(batch, 0, actions[-1]) == -200, why
    assert seen(batch) == before


def test_every_constant_is_an_option() -> None:
    """The rewards are those of the options, and beta weighs cost against time."""
    options = RewardOptions(placed=2, waited=-3, violation=-5, fixed=100, beta=1)
    _, rewards = run(replace(FIGURE_2, rewards=options), [1, 2, 0, 2])
    assert rewards[:3] == [2, 2, -3]
    assert rewards[3] == pytest.approx(100 * (1 - (60 * 0.24 + 90 * 0.48) / (90 * 0.72)))
    assert run(replace(FIGURE_2, rewards=options), [0])[1] == [-5]


ONE_JOB = Case(machines=((4000, 4096, 0.24),) * 2, jobs=((0.0, 1000, 512, 2, "spread", 100.0),))


@pytest.mark.parametrize(
    ("prefers", "executors", "actions", "seconds"),
    [
        ("spread", 2, [1, 2], 100.0),
        ("spread", 2, [2, 2], 130.0),
        ("consolidate", 2, [2, 2], 100.0),
        ("consolidate", 2, [1, 2], 130.0),
        ("spread", 3, [1, 2, 1], 130.0),
        ("consolidate", 3, [1, 1, 2], 130.0),
        ("spread", 1, [1], 100.0),
        ("consolidate", 1, [2], 100.0),
        ("", 2, [1, 2], 100.0),
        ("", 2, [1, 1], 100.0),
    ],
)
def test_a_bad_placement_takes_longer(
    prefers: str, executors: int, actions: list[int], seconds: float
) -> None:
    """Rule 5: 30 % longer unless spread types are all apart and network-bound ones all together."""
    case = replace(ONE_JOB, jobs=((0.0, 1000, 512, executors, prefers, 100.0),))
    assert run(case, actions)[0].state.end[0, 0] == pytest.approx(seconds)
    fixed = replace(case, durations=DurationOptions(model="fixed"))
    assert run(fixed, actions)[0].state.end[0, 0] == 100


@pytest.mark.parametrize(("actions", "reward"), [([1, 2], 10_000), ([1, 1], 0)])
def test_time_alone_is_scored_between_its_bounds(actions: list[int], reward: float) -> None:
    """At beta 0 the good placement earns all of R_fixed, and the worst nothing (eq. 12 to 14)."""
    case = replace(ONE_JOB, rewards=RewardOptions(beta=0))
    assert run(case, actions)[1][-1] == pytest.approx(reward)


def test_the_clock_moves_to_the_next_arrival() -> None:
    """Rule 2: with all placed, the next job is shown at its arrival; jobs due to end before it end."""
    jobs = ((5.0, 1000, 512, 1, "", 10.0), (5.0, 1000, 512, 1, "", 100.0), (50.0, 1000, 512, 1, "", 10.0))
    batch, _ = run(replace(ONE_JOB, jobs=jobs), [1, 2])
    assert batch.state.clock[0] == 50
    assert batch.state.running[0] == 1
    assert seen(batch)[:6] == [4, 4, 0.24, 3, 3.5, 0.24]


def test_jobs_that_end_together_end_at_once() -> None:
    """One wait ends both; there is nothing left to wait for then."""
    jobs = ((0.0, 1000, 512, 1, "", 10.0),) * 3
    batch, rewards = run(replace(ONE_JOB, jobs=jobs), [1, 2, 0, 0])
    assert rewards[2:] == [-1, -200]
    assert batch.state.running[0] == 0


def test_a_vm_is_paid_once_for_all_that_runs_on_it() -> None:
    """Eq. 4: from its first executor to its last, idle time in between not counted."""
    jobs = ((0.0, 1000, 512, 1, "", 10.0), (0.0, 1000, 512, 1, "", 30.0), (100.0, 1000, 512, 1, "", 5.0))
    batch, _ = run(replace(ONE_JOB, jobs=jobs), [1, 1, 1])
    assert batch.state.used[0].tolist() == [35, 0]
    assert cost(batch, 0) == pytest.approx(35 * 0.24 / 3600)


def test_allowing_whole_jobs_only() -> None:
    """Three cores are free and four asked for: an executor may be placed, but it would be a dead end."""
    jobs = ((0.0, 1000, 512, 5, "", 10.0), (0.0, 1000, 512, 4, "", 10.0))
    batch, _ = run(replace(ONE_JOB, jobs=jobs), [1, 1, 1, 1, 2])
    assert mask(batch) == [True, False, True]
    assert mask(batch, whole=True) == [True, False, False]


def compare(batch: Batch, row: int, reference: Reference) -> None:
    """All that can be seen of an episode is the same in both worlds, and nothing is over capacity."""
    state, vms = batch.state, range(len(reference.machines))
    assert state.clock[row] == reference.clock
    assert state.head[row] == reference.head
    assert (state.over[row] != 0) == reference.over
    assert state.waits[row] == reference.waits
    heap = state.heap[row, : state.running[row]].tolist()
    assert sorted(heap) == sorted(reference.running)
    assert [state.free_milli_cpus[row, vm] for vm in vms] == [reference.free_milli_cpus(vm) for vm in vms]
    assert [state.free_memory_mib[row, vm] for vm in vms] == [reference.free_memory_mib(vm) for vm in vms]
    assert min(reference.free_milli_cpus(vm) for vm in vms) >= 0
    assert min(reference.free_memory_mib(vm) for vm in vms) >= 0
    assert [state.held[row, vm] for vm in vms] == [len(machine.executors) for machine in reference.machines]
    assert cost(batch, row) == pytest.approx(reference.cost(), abs=1e-12)
    for vm, machine in enumerate(reference.machines):
        ends = [reference.end_of(j) for j in machine.executors if j in reference.running]
        assert state.busy_until[row, vm] == max(ends, default=state.busy_until[row, vm])
        assert ends or state.busy_until[row, vm] <= reference.clock
    for number, job in enumerate(reference.jobs):
        first = batch.jobs.first[row, number]
        assert state.placement[row, first : first + len(job.placement)].tolist() == job.placement
        if job.start is not None:
            assert (state.start[row, number], state.end[row, number]) == (job.start, job.end)


def choose(chance: random.Random, legal: list[bool]) -> int:
    """Mostly a legal action, now and then any."""
    allowed = [action for action, is_legal in enumerate(legal) if is_legal]
    if allowed and chance.random() < 0.97:
        return chance.choice(allowed)
    return chance.randrange(-1, len(legal) + 1)


def overtake(chance: random.Random, batch: Batch, reference: Reference) -> None:
    """Now and then a job that has arrived is brought forward in both worlds, if none is half placed."""
    if reference.over or reference.jobs[reference.head].placement or chance.random() < 0.7:
        return
    behind = range(reference.head, len(reference.jobs))
    arrived = [number for number in behind if reference.jobs[number].arrival <= reference.clock]
    number = chance.choice(arrived)
    reference.bring_forward(number)
    bring_forward(batch, 0, number)


CONSTANTS = st.sampled_from(
    [
        (RewardOptions(), DurationOptions()),
        (RewardOptions(beta=0.0), DurationOptions(penalty=2.0)),
        (RewardOptions(beta=1.0), DurationOptions(model="fixed")),
    ]
)


@given(case=CONSTANTS.flatmap(lambda both: cases(*both)), seed=st.integers(0, 2**32))
@settings(max_examples=150, deadline=None)
def test_kernel_and_plain_python_agree_step_by_step(case: Case, seed: int) -> None:
    """Rewards, masks, observations and state agree for any action, legal or not, and any overtaking."""
    batch, reference, chance = begin(case), case.reference(), random.Random(seed)  # noqa: S311  no secrets
    compare(batch, 0, reference)
    while not reference.over:
        overtake(chance, batch, reference)
        legal = reference.legal()
        assert mask(batch) == legal
        whole = legal[1:] if reference.room() >= batch.state.left[0] else [False] * len(legal[1:])
        assert mask(batch, whole=True) == [legal[0], *whole]
        clock, action = reference.clock, choose(chance, legal)
        reward = reference.step(action)
        assert step_episode(batch, 0, action) == pytest.approx(reward, rel=1e-9, abs=1e-6)
        compare(batch, 0, reference)
        assert seen(batch) == pytest.approx(reference.observation(), rel=1e-6)
        assert batch.state.clock[0] >= clock
        if reward != case.rewards.violation:
            assert legal[action]


@given(data=st.data(), seed=st.integers(0, 2**32), threads=st.sampled_from([1, 2, 3]))
@settings(max_examples=25, deadline=None)
def test_episodes_of_a_batch_know_nothing_of_each_other(data: st.DataObject, seed: int, threads: int) -> None:
    """A batch behaves as its episodes do alone, in any number of threads.

    No episode fails that keeps to the mask for whole jobs, and those that are over can begin anew.
    """
    drawn = data.draw(st.lists(cases(), min_size=1, max_size=5))
    references = [case.reference() for case in drawn]
    chance = random.Random(seed)  # noqa: S311  no secrets
    with Stepper(batch_of(drawn), threads=threads, whole=True) as stepper:
        again = 2
        while again:
            allowed = [np.flatnonzero(row).tolist() for row in stepper.masks]
            actions = [chance.choice(row) if row else 0 for row in allowed]
            stepper.step(np.array(actions, np.int64))
            for row, reference in enumerate(references):
                reward = reference.step(actions[row])
                assert stepper.rewards[row] == pytest.approx(reward, rel=1e-9, abs=1e-6)
                assert reward != -200
                compare(stepper.batch, row, reference)
            if all(stepper.done):
                again -= 1
                stepper.reset(stepper.done)
                references = [case.reference() for case in drawn]
        assert not stepper.done.any()


@pytest.mark.parametrize(
    ("options", "values", "complaint"),
    [
        (RewardOptions, {"beta": 1.5}, "beta: should be between 0 and 1, found 1.5"),
        (RewardOptions, {"placed": float("nan")}, "placed: should be a finite number, found nan"),
        (DurationOptions, {"penalty": 0.9}, "penalty: should be 1 or more, found 0.9"),
        (DurationOptions, {"model": "magic"}, "model: should be paper or fixed, found 'magic'"),
    ],
)
def test_bad_constants_are_told(options: type, values: dict[str, object], complaint: str) -> None:
    """The error names the option, the valid values and the value found."""
    with pytest.raises(ValueError, match=complaint):
        options(**values)
