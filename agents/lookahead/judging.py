"""A trained network as lookahead's base policy: it judges plans by their first step.

A plan is valued by the known jobs. Training showed the network the jobs that may arrive after them: when
waiting for a better moment pays, which VM will be wanted, which job fits the remaining room. So a plan that
begins as the network would counts as cheaper. Importing this module imports the networks' code, so only a
base that needs it does.
"""

from collections.abc import Sequence

import numpy as np

from agents.drl.adviser import Adviser
from agents.drl.model_folder import TrainedModel
from agents.lookahead.plans import NOBODY
from environment.kernel.state import SmallIntArray
from environment.types import FloatArray, IntArray, PlacementRequest
from environment.view import ClusterView

#: For each unit (nat) of the log odds of its first step against a wait, a plan counts as cheaper by this part
#: of a job's share in its value. Chosen among 0.01, 0.02 and 0.04.
_WEIGHT = 0.02
#: No more log odds than these count, one way or the other: beyond them a network says no more than yes or no.
_MOST = 4.0


class Judge:
    """Weighs plans with a network's opinion of their first steps."""

    def __init__(self, model: TrainedModel, beta: float = 0.5) -> None:
        """The model is one of REINFORCE: its scores are log probabilities. It is shown beta if it sees it."""
        self._adviser = Adviser(model, beta if model.spec.serves(beta) else None)

    def weigh(
        self,
        values: FloatArray,
        firsts: IntArray,
        placements: SmallIntArray,
        view: ClusterView,
        queue: Sequence[PlacementRequest],
    ) -> FloatArray:
        """Adjust the values [C] of plans by the network's scores of their first steps; less is better.

        `firsts` [C] and `placements` [C, E] are those of `plans.Search`. An infinite value stays infinite.
        """
        possible = np.flatnonzero(np.isfinite(values))
        if len(possible) < 2:
            return values
        scores = {
            int(job): self._scores(view, queue, int(job)) for job in set(firsts[possible].tolist()) - {NOBODY}
        }
        unit, weighed = _WEIGHT * values[possible].min() / len(queue), values.copy()
        for plan in possible:
            found = scores.get(int(firsts[plan]))
            if found is not None:
                vms = placements[plan, : queue[firsts[plan]].count]
                odds = float(found[1 + vms].mean() - found[0])
                weighed[plan] -= unit * min(max(odds, -_MOST), _MOST)
        return weighed

    def _scores(self, view: ClusterView, queue: Sequence[PlacementRequest], job: int) -> FloatArray | None:
        """Log odds of waiting and of each VM, [N + 1], but for a constant; None where there is no room."""
        scored = self._adviser.score(view, queue, job)
        return None if scored is None else scored.actions.astype(np.float64)
