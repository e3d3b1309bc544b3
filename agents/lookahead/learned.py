"""A trained network as lookahead's base policy: candidates as it plays them. The other bases: `rollout.py`.

Importing this module imports the networks' code, so only a base that needs it does.
"""

from typing import NamedTuple

import numpy as np

from agents.drl.kernel.deciding import Desk, Draft, decide, make_desk, make_draft
from agents.drl.model import Model
from agents.drl.network import Network, network_of
from agents.lookahead.plans import FREE, Aim, Search, noise_of
from agents.lookahead.proposals import propose
from agents.lookahead.rollout import begin, gene_of_head, go_on, keep
from environment.compiled import njit
from environment.kernel.observation import scene_of
from environment.kernel.state import Batch, Layout


class Placer(NamedTuple):
    """A network, what it sees, and arrays to work in."""

    network: Network
    layout: Layout
    desk: Desk
    draft: Draft


class LearnedBase:
    """Searches with a model as the base policy; arrays are kept from search to search."""

    def __init__(self, model: Model) -> None:
        self._network, self._layout = network_of(model.weights), model.spec.options.layout
        self._placer: Placer | None = None

    def search(self, batch: Batch, aim: Aim, found: Search, first: int, last: int) -> None:
        """As `rollout.search`."""
        vms, executors = len(found.room), len(found.placement)
        placer = self._placer
        if placer is None or len(placer.desk.scores) != vms + 1 or len(placer.draft.placed) < executors:
            desk = make_desk(self._network, self._layout, vms)
            draft = make_draft(vms, np.zeros(0, np.int32), executors)
            placer = self._placer = Placer(self._network, self._layout, desk, draft)
        _search(batch, aim, found, placer, first, last)


@njit()
def _search(batch: Batch, aim: Aim, found: Search, placer: Placer, first: int, last: int) -> None:
    for c in range(first, last):
        if begin(batch, aim, found, c):
            _play(batch, aim, found, placer, c)
            keep(batch, aim, found, c)


@njit()
def _play(batch: Batch, aim: Aim, found: Search, placer: Placer, c: int) -> None:
    """As `rollout.play`, but the network places the jobs that are not varied.

    It knows nothing of what jobs take beside cpus and memory: where any takes that, it places none.
    """
    while batch.state.head[1] < batch.jobs.jobs[1]:
        gene = gene_of_head(batch, found)
        form, noise = gene & 3, noise_of(gene)
        if form == FREE and noise == 0.0 and len(found.most) == 0:
            placed = _ask(batch, found, placer)
        else:
            placed = propose(batch, aim, found, form, noise, gene)
        go_on(batch, found, c, placed)


@njit()
def _ask(batch: Batch, found: Search, placer: Placer) -> bool:
    """Place the head of row 1 in `found.placement` as the network would if it may not wait."""
    state, jobs, head, draft = batch.state, batch.jobs, batch.state.head[1], placer.draft
    count = decide(scene_of(batch, 1), placer.layout, placer.network, placer.desk, draft, False)
    for i in range(count):
        vm = draft.placed[i]
        found.placement[i] = vm
        # The scene's arrays are the row's, and whoever places the job takes its resources from them.
        state.free_milli_cpus[1, vm] += jobs.milli_cpus[1, head]
        state.free_memory_mib[1, vm] += jobs.memory_mib[1, head]
        state.held[1, vm] -= 1
    return count > 0
