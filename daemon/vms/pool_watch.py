"""Pools of which VMs fail again and again: told once in events, and in /readyz while they do."""

from collections.abc import Iterable, Iterator, Mapping

from conf.util.counted import counted
from daemon.store.rows.event_recorder import HistoryEvent
from environment.model.messages.snapshot import PoolSetback

#: Refusals in a row after which a pool is reported: a cloud may lack VMs of a kind for a minute or two.
MOST_REFUSALS = 5


class PoolWatch:
    """For the scheduling loop; `trouble` is for any thread."""

    def __init__(self) -> None:
        self._bad: dict[str, str] = {}

    def take_up(self, setbacks: Iterable[PoolSetback]) -> None:
        """The pools of an earlier daemon, which has reported them."""
        self._bad = {each.pool: _told(each) for each in setbacks if _is_bad(each)}

    def tell(self, at: float, setbacks: Mapping[str, PoolSetback | None]) -> Iterator[HistoryEvent]:
        """Events of changed pools; None stands for a pool of which VMs are opened again."""
        for pool, setback in setbacks.items():
            known = pool in self._bad
            if setback is not None and _is_bad(setback):
                self._bad = {**self._bad, pool: _told(setback)}
                if not known:
                    yield HistoryEvent(at, None, "openings held", self._bad[pool])
            elif known:
                self._bad = {name: told for name, told in self._bad.items() if name != pool}
                yield HistoryEvent(at, None, "openings resumed", f"a VM of pool {pool} has joined")

    @property
    def trouble(self) -> str:
        """In words; empty without any."""
        return "; ".join(self._bad.values())


def _is_bad(setback: PoolSetback) -> bool:
    return setback.trial or setback.times >= MOST_REFUSALS


def _told(setback: PoolSetback) -> str:
    why = f"{counted(setback.times, 'opening')} of pool {setback.pool} in a row came to nothing"
    how = "; one VM at a time is tried, after pauses of up to an hour" if setback.trial else ""
    return f"{why} ({setback.message}){how}"
