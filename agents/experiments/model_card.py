"""The part of a trained policy's card that holds it against others. The rest is the training run's."""

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from agents.experiments.comparison import SimulatedRun
from agents.experiments.reports import table
from conf.util.counted import counted

_HEADING = "## Compared with other policies"


def write_comparison(card: Path, target: Path, runs: Sequence[SimulatedRun], cluster: str) -> None:
    """Write the card with tables of these runs, one for each workload, in place of an earlier comparison.

    `target` is the file to write: the card itself, or another file; its folder is created. OSError when the
    card cannot be read, or the target cannot be written.
    """
    before = card.read_text(encoding="utf-8").partition(_HEADING)[0].rstrip()
    seeds = sorted({run.seed for run in runs})
    parts = [
        before,
        _HEADING,
        f"On {counted(len(seeds), 'generated workload')} (seeds {seeds[0]} to {seeds[-1]}) "
        f"that neither training nor "
        f"the choice of the best iteration has seen; cluster {cluster}. Mean ± standard deviation. "
        f"Decisions were timed on a machine that may have done other work.",
    ]
    for workload, of in groupby(runs, key=lambda run: run.workload):
        parts += [f"### {Path(workload).stem.capitalize()}", table(list(of)).rstrip()]
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
