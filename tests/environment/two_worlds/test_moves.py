"""The same VMs are emptied, for the same others, in a simulation and in the daemon's model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pytest

from agents.registry import create
from conf.defaults import DRAIN_SECONDS
from environment.decisions.moves import PAUSE
from environment.kernel.arrays import jobs_of
from environment.kernel.rule_options import DurationOptions
from environment.model.cluster_model import ClusterModel
from environment.model.messages import commands as cmd
from environment.model.messages import events as ev
from environment.model.messages.options import ModelOptions
from environment.model.vm_moves import VmMoves
from environment.pools import Consolidation, IdleTimeout
from environment.simulation.faults.consolidation import SimulatedConsolidation
from environment.simulation.options import SimulationOptions, believed
from environment.simulation.simulator import simulate
from tests.environment.two_worlds.perfect_cloud import PerfectCloud
from tests.environment.two_worlds.test_pools import CLUSTERS, Recorder
from tests.environment.two_worlds.test_two_worlds import workload

#: What happens at one instant after all else: executors leave, or a pause is over.
_LEAVES = 12
NONE, FITTING = IdleTimeout("none"), Consolidation("fitting")
#: Elsewhere policies see a difference: in a simulation executors that are drained are gone, and only their
#: resources are not free yet.
CASES = (
    *((policy, "mixed") for policy in ("ff", "aep", "greedy", "karpenter")),
    ("ff", "slow"),
    ("karpenter", "slow"),
)


class Move(NamedTuple):
    """When, the VMs that are emptied, and where executors of each job go, all by name."""

    at: float
    closes: tuple[str, ...]
    to: Mapping[str, Sequence[str]]


@dataclass
class MovingCloud(PerfectCloud):
    """Searches after all that happens, unless it moved just before; executors leave when they are drained."""

    moves: list[Move] = field(default_factory=list)

    def _let_decide(self, kinds: set[int]) -> None:
        super()._let_decide(kinds)
        if _LEAVES in kinds:  # a VM may have closed, after a decision that might have used it
            self._decide()
        if self.moves and self._now < self.moves[-1].at + PAUSE:
            return
        before = len(self.moves)
        self._send(ev.MovesSought(self._now))
        if len(self.moves) > before:
            self._push(self._now + PAUSE, _LEAVES, None)
        self._offer()

    def _happen(self, kind: int, what: Any) -> None:
        if kind != _LEAVES:
            super()._happen(kind, what)
        elif what is not None and (task := self.model.task(what)) is not None and not task.ended:
            self._send(ev.TaskChanged(self._now, what, "finished", task.vm_id))

    def _obey(self, command: cmd.Command) -> None:
        super()._obey(command)
        if isinstance(command, cmd.Decommission):
            for task in self.model.tasks(command.job_id):
                if task.number in command.numbers and not task.ended:
                    self._push(self._now + DRAIN_SECONDS, _LEAVES, task.task_id)


@pytest.mark.parametrize(("policy", "cluster"), CASES)
def test_the_same_vms_are_emptied_in_both_worlds(
    policy: str, cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the same times, for executors of the same jobs on the same VMs; and jobs are placed the same."""
    jobs, vms = workload("normal", 40), CLUSTERS[cluster]
    moves, shift, begin = list[Move](), SimulatedConsolidation._shift, VmMoves._begin

    def simulated(
        self: SimulatedConsolidation, to: Mapping[int, Mapping[int, int]], closes: Sequence[int] = ()
    ) -> None:
        of = {
            self._running[number].job.id: [self._vms[vm].name for vm in on.values()]
            for number, on in to.items()
        }
        moves.append(Move(self._now, tuple(self._vms[vm].name for vm in closes), of))
        shift(self, to, closes)

    monkeypatch.setattr(SimulatedConsolidation, "_shift", simulated)
    here = Recorder(create(policy))
    options = SimulationOptions(
        DurationOptions(partial="proportional"), keeping=NONE, seed=2, consolidation=FITTING
    )
    ends = {job.name: job.ended_at for job in simulate(here, jobs, vms, options=options).jobs}

    def begun(self: VmMoves, found: Any, view: Any) -> None:
        of = {job: [view.vms[vm].name for vm in on.values()] for job, on in found.to.items()}
        cloud.moves.append(Move(view.at, tuple(lease.vm.name for lease in found.closes), of))
        begin(self, found, view)

    monkeypatch.setattr(VmMoves, "_begin", begun)
    places, fixed = [vm for vm in vms if vm.terms is not None], [vm for vm in vms if vm.terms is None]
    model = ClusterModel(ModelOptions(places=tuple(places), keeping=NONE, moves=FITTING))
    there = Recorder(create(policy))
    cloud = MovingCloud(there, fixed, lambda job_id, *_: ends[job_id], model, keeping=NONE)
    cloud.run(believed(jobs_of(jobs, options.profiles), options))
    assert len(moves) >= 5
    assert cloud.moves == moves
    assert here.placed == there.placed
