"""Policies that ours are compared with, at the options that do best for each: the one table of all reports.

A claim is held against the cheapest of all of them, case by case.
"""

from collections.abc import Mapping

from agents.experiments.comparison import Contender
from agents.experiments.paired import Statistic

_EVERY_WAY = ("easy", "best", "shortest")

#: First come, first served.
FIRST_COME = (
    *(Contender(name) for name in ("ff", "best_fit", "aep")),
    *(Contender("ilp", {"beta": beta}) for beta in (0.5, 1.0)),
)
#: With jobs that may overtake, in the same window and under the same bound as ours.
WITH_OVERTAKING = (
    *(Contender(name, {"overtake": way}) for name in ("ff", "aep", "ilp") for way in _EVERY_WAY),
    *(Contender(name, {"overtake": way}) for name in ("best_fit", "tetris") for way in ("best", "shortest")),
    Contender("ilp", {"beta": 1.0, "overtake": "best"}),
)
PARTNERS = (*FIRST_COME, *WITH_OVERTAKING)


def cheapest(costs: Mapping[str, Statistic]) -> str:
    """Label of the partner with the least mean cost among those that ran; ValueError when none did."""
    return min(
        (contender.label for contender in PARTNERS if contender.label in costs),
        key=lambda label: costs[label].mean,
    )
