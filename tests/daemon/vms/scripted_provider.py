"""A cloud with scripted answers: late, twice, with errors, or never. It forgets nothing."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeVar

from framework.providers.interface import Machine, Notice, ProviderError, Refusal, VmRequest

#: What becomes of a call: it is carried out and answered; fails before or after it was carried out; is
#: carried out and answered when `let_go` is called; never is; is carried out twice, whatever is there.
Fate = Literal["ok", "fails", "fails after", "late", "never", "twice", "capacity", "quota", "invalid"]
Result = TypeVar("Result")
Script = Callable[[str, str], Fate]


@dataclass
class ScriptedProvider:
    """See `framework.providers.interface.Provider`. `script` is asked with call and lease (or machine)."""

    script: Script = lambda call, of: "ok"
    machines: dict[str, Machine] = field(default_factory=dict)
    #: Every call, with the lease or machine that it was about.
    calls: list[tuple[str, str]] = field(default_factory=list)
    told: list[Notice] = field(default_factory=list)
    #: What VMs cost by pool.
    priced: dict[str, float] = field(default_factory=dict)
    #: Is called when a call was carried out, before it is answered.
    done: Callable[[str], None] = lambda call: None
    #: How many VMs were ever opened under each lease.
    opened: Counter[str] = field(default_factory=Counter)
    now: Callable[[], float] = time.time
    _number: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _gate: threading.Event = field(default_factory=threading.Event)

    def let_go(self) -> None:
        """Answer all calls that wait, and those to come."""
        self._gate.set()

    def open(self, wanted: VmRequest) -> Machine:
        """Open a VM, or more, or none."""
        return self._call("open", wanted.lease, lambda fate: self._open(wanted, anew=fate == "twice"))

    def close(self, machine_id: str) -> float | None:
        """Close a VM, or not."""
        closed = self._call("close", machine_id, lambda _: self.machines.pop(machine_id, None))
        return None if closed is None else closed.charged

    def list(self) -> Sequence[Machine]:
        """All that are open."""
        return self._call("list", "", lambda _: tuple(self.machines.values()))

    def prices(self) -> dict[str, float]:
        """Those that are there."""
        return dict(self.priced)

    def notices(self) -> Sequence[Notice]:
        """Those that are there."""
        return self._call("notices", "", lambda _: tuple(self.told))

    def account(self) -> str:
        """None."""
        return ""

    def of(self, lease: str) -> Sequence[Machine]:
        """The VMs that are open under a lease."""
        return [machine for machine in self.machines.values() if machine.lease == lease]

    def run(self) -> None:
        """Have all that boot run."""
        self.machines |= {i: replace(machine, state="running") for i, machine in self.machines.items()}

    def _open(self, wanted: VmRequest, *, anew: bool) -> Machine:
        there = self.of(wanted.lease)
        if there and not anew:
            return there[0]
        if self.opened[wanted.lease] and not anew:
            raise ProviderError("invalid", "it was closed")
        self._number += 1
        self.opened[wanted.lease] += 1
        pool = wanted.vm.terms.pool if wanted.vm.terms else ""
        made = Machine(f"m-{self._number}", wanted.lease, pool, "booting", self.now())
        self.machines[made.id] = made
        return there[0] if there else made

    def _call(self, call: str, of: str, act: Callable[[Fate], Result]) -> Result:
        with self._lock:
            self.calls.append((call, of))
            fate = self.script(call, of)
        if fate == "fails":
            raise ProviderError("unavailable", "it is away")
        if fate in ("capacity", "quota", "invalid"):
            kind: Refusal = fate
            raise ProviderError(kind, f"no: {fate}")
        found = self.carry_out(fate, act)
        self.done(call)
        if fate == "fails after":
            raise ProviderError("unavailable", "the connection broke")
        return found

    def carry_out(self, fate: Fate, act: Callable[[Fate], Result]) -> Result:
        """Perform the request now, later or twice."""
        if fate in ("late", "never"):
            self._gate.wait(600.0)
        if fate == "never":
            raise ProviderError("unavailable", "the connection broke")
        with self._lock:
            found = act(fate)
            if fate == "twice":
                act(fate)
        return found
