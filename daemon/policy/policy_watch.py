"""Events of a policy that fails again and again: one when that begins, and one when it decides again."""

from collections.abc import Callable, Iterator

from daemon.store.rows.event_recorder import HistoryEvent


class PolicyWatch:
    """For the scheduling loop. `trouble` tells the acting policy's failure in words, or nothing."""

    def __init__(self, trouble: Callable[[], str]) -> None:
        self._trouble = trouble
        self._fails = False

    @property
    def changed(self) -> bool:
        """Whether `tell` has something to report."""
        return bool(self._trouble()) != self._fails

    def tell(self, at: float) -> Iterator[HistoryEvent]:
        """The change since the last call, if any."""
        trouble = self._trouble()
        if bool(trouble) != self._fails:
            self._fails = bool(trouble)
            if trouble:
                yield HistoryEvent(at, None, "policy fails", trouble)
            else:
                yield HistoryEvent(at, None, "policy recovered", "it has placed a job, or another one acts")
