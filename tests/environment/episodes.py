"""Small clusters and workloads for kernel tests: by hand, and drawn; and the kernel on one episode."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from environment.kernel.rule_options import DurationOptions, RewardOptions, rules
from environment.kernel.state import (
    ANYWHERE,
    CONSOLIDATE,
    LEASE_COLUMNS,
    SPREAD,
    Batch,
    Episode,
    JobArrays,
    MachineArrays,
    make_batch,
)
from tests.environment.simulation.reference import Machine, Reference, Work

PAPER = (RewardOptions(), DurationOptions())
PREFERS = {"": ANYWHERE, "spread": SPREAD, "consolidate": CONSOLIDATE}


@dataclass(frozen=True)
class Case:
    """A cluster, a workload and the constants; from it both worlds are made."""

    machines: tuple[tuple[int, int, float], ...]  # milli-cpus, MiB, dollars per hour
    jobs: tuple[tuple[float, int, int, int, str, float], ...]  # the fields of Work up to the placement
    rewards: RewardOptions = PAPER[0]
    durations: DurationOptions = PAPER[1]

    def reference(self) -> Reference:
        """The case in plain Python."""
        machines = [Machine(*machine) for machine in self.machines]
        return Reference(machines, [Work(*job) for job in self.jobs], self.rewards, self.durations)

    def episode(self) -> Episode:
        """The case as arrays."""
        cpus, memory, prices = zip(*self.machines, strict=True)
        arrival, job_cpus, job_memory, executors, prefers, duration = zip(*self.jobs, strict=True)
        whole = [np.array(values, np.int64) for values in (cpus, memory, job_cpus, job_memory, executors)]
        jobs = JobArrays(
            jobs=np.array(len(arrival)),
            believed=np.array(0),
            unit_dollars=np.array(1.0),
            unit_seconds=np.array(1.0),
            arrival=np.array(arrival, np.float64),
            duration=np.array(duration, np.float64),
            expected=np.array(duration, np.float64),
            spread=np.zeros(len(arrival)),
            milli_cpus=whole[2],
            memory_mib=whole[3],
            executors=whole[4],
            prefers=np.array([PREFERS[p] for p in prefers], np.int64),
            type=np.zeros(len(arrival), np.int64),
            first=np.cumsum(whole[4]) - whole[4],
        )
        machines = MachineArrays(
            whole[0], whole[1], np.array(prices, np.float64), np.zeros((0, LEASE_COLUMNS))
        )
        return Episode(machines, jobs)


def batch_of(cases: Sequence[Case]) -> Batch:
    """Cases with the same constants, side by side."""
    return make_batch([case.episode() for case in cases], rules(cases[0].rewards, cases[0].durations))


@st.composite
def cases(draw: st.DrawFn, rewards: RewardOptions = PAPER[0], durations: DurationOptions = PAPER[1]) -> Case:
    """A few VMs and jobs; every job fits the empty cluster. Times are round, so that many coincide."""
    machines = draw(
        st.lists(
            st.tuples(
                st.sampled_from([1000, 2500, 4000, 8000]),
                st.integers(1, 8).map(lambda gib: gib * 1024),
                st.sampled_from([0.0, 0.24, 0.48, 0.72]),
            ),
            min_size=1,
            max_size=5,
        )
    )
    jobs, arrival = [], 0.0
    for _ in range(draw(st.integers(1, 7))):
        arrival += draw(st.sampled_from([0.0, 0.0, 5.0, 10.0, 12.5]))
        cpus = draw(st.sampled_from([100, 300, 1000, 1500, 2500]))
        memory = draw(st.sampled_from([1, 512, 1000, 1024, 3072]))
        room = sum(min(machine[0] // cpus, machine[1] // memory) for machine in machines)
        if room:
            executors = draw(st.integers(1, min(room, 6)))
            duration = draw(st.sampled_from([5.0, 10.0, 10.0, 33.3]))
            jobs.append((arrival, cpus, memory, executors, draw(st.sampled_from([*PREFERS])), duration))
    if not jobs:
        jobs.append((0.0, 100, 1, 1, "", 5.0))
    return Case(tuple(machines), tuple(jobs), rewards, durations)
