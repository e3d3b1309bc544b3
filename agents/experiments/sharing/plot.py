"""Pictures of the shares that queues or users held over the time of a run, beside their fair shares."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from conf.util.counted import counted
from environment.simulation.results.fairness import SharesOverTime

#: Number of users with a line of their own; of more, those that held most, and the others together.
_MOST = 9
_SECONDS_PER_MINUTE = 60.0


def draw_shares(runs: Mapping[str, SharesOverTime], path: Path) -> None:
    """A panel for each run by its title: shares on top of each other, and lines where fair parts end.

    The kind of file is that of the path (.png, .svg). OSError or ValueError when it cannot be written.
    """
    from matplotlib.figure import Figure  # a second to import, and only pictures need it

    figure = Figure(figsize=(9, 1.0 + 2.4 * len(runs)), layout="constrained")
    panels = figure.subplots(len(runs), 1, squeeze=False, sharex=True)[:, 0]
    for axes, (title, shares) in zip(panels, runs.items(), strict=True):
        names, held, fair = _few(shares)
        minutes = shares.at / _SECONDS_PER_MINUTE
        colors = [f"C{number}" for number in range(len(names))]
        axes.stackplot(minutes, 100 * held.T, labels=names, colors=colors, step="post", alpha=0.75)
        for edge in 100 * np.cumsum(fair, axis=1).T:
            axes.step(minutes, edge, where="post", color="k", linewidth=0.7)
        axes.set(title=title, ylabel="share (%)", ylim=(0, None))
        axes.margins(x=0)
    panels[-1].set(xlabel="minutes; black: where fair parts end")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right upper", fontsize="small")
    figure.savefig(path, dpi=100)


def _few(
    shares: SharesOverTime,
) -> tuple[list[str], "np.typing.NDArray[np.float64]", "np.typing.NDArray[np.float64]"]:
    """Names, shares and fair parts of not too many of them, [P, G]."""
    if len(shares.names) <= _MOST + 1:
        return list(shares.names), shares.held, shares.fair
    order = np.argsort(-shares.held.sum(axis=0), kind="stable")
    first, rest = np.sort(order[:_MOST]), order[_MOST:]
    held, fair = (
        np.column_stack((of[:, first], of[:, rest].sum(axis=1))) for of in (shares.held, shares.fair)
    )
    return [*(shares.names[number] for number in first), f"{counted(len(rest), 'other')}"], held, fair
