"""Calls to the VM provider: on threads of their own, retried until they succeed, and counted.

`environment.model.vms.fleet` decides openings and closings and interprets answers; a lease is on disk before
its VM is requested. A call that does not return is given up, and its late answer is passed on all the same.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import structlog

from conf.util.backoff import Backoff
from daemon.core.cluster_status import ProviderStatus
from daemon.core.job_workers import JobWorkers
from daemon.vms.termination_notices import Notices
from environment.model.messages import events as ev
from environment.model.messages.lease import Lease
from environment.number_format import times
from framework.providers.interface import Machine, Notice, Provider, ProviderError, Refusal, VmRequest

log = structlog.get_logger("machines")

Call = Literal["open", "close", "list", "notices", "prices"]

#: Calls at once by kind, so that none keeps others waiting. Chosen: clouds take a few seconds for a call.
AT_ONCE: Mapping[Call, int] = {"open": 16, "close": 16, "list": 1, "notices": 1, "prices": 1}
#: How many calls of a kind that never returned keep any other of it from being made.
MOST_HANGING = 16
#: Seconds before a call is made again that came to nothing; doubled each time.
BACKOFF = Backoff(first=1.0, longest=60.0)
#: An opening that comes to nothing so often, or for so many seconds, is given up, unless its VM is listed.
MOST_TRIES, LONGEST_TRIAL = 3, 60.0
#: Seconds between two lists, and between two questions for notices while VMs are open.
LIST_PERIOD, NOTICE_PERIOD = 30.0, 5.0
#: Seconds between two questions for prices. Chosen: clouds change them some times a day.
PRICES_PERIOD = 300.0
#: Seconds after an opening in which it is seen that none was opened twice, before both have booted.
SOON = 2.0
#: A list without news is reported again after so many seconds; at once for so long after a VM was opened or
#: closed, as it means something only from some time on.
TELL_AGAIN, UNSETTLED = 300.0, 180.0
#: Seconds for a call. Providers have limits of their own, that are shorter.
PATIENCE = 120.0

#: The provider's calls, in words.
_DEEDS: Mapping[Call, str] = {
    "open": "open VMs",
    "close": "close VMs",
    "list": "list its VMs",
    "notices": "report notices",
    "prices": "report prices",
}
#: Errors of a provider after which it need not be asked again to open a VM.
_SAID_NO: Mapping[str, Refusal] = {"capacity": "capacity", "quota": "quota", "invalid": "invalid"}


@dataclass(slots=True, eq=False)
class _Errand:
    """Provider call to repeat until it succeeds: open (`wanted`) or close a VM, or a query."""

    call: Call
    key: str
    lease_id: str = ""
    wanted: VmRequest | None = None
    asked_at: float = 0.0
    machine_id: str = ""
    tries: int = 0
    #: How often in a row it was not tried, as too many of its kind have not returned.
    held: int = 0
    #: Why it came to nothing the last time, and whether an opening is not tried again.
    why: str = ""
    last: bool = False
    #: When it is tried next (monotonic); None while a thread is at it.
    due: float | None = 0.0
    since: float = field(default_factory=lambda: time.monotonic())


class VmProvisioner:
    """Makes the provider open and close VMs; all but `status` is for one thread, and returns at once."""

    def __init__(
        self,
        provider: Provider,
        put: Callable[[ev.Event], None],
        may_act: Callable[[], bool],
        now: Callable[[], float],
        patience: float = PATIENCE,
    ) -> None:
        """`put` accepts resulting events; `may_act` is called before each provider call."""
        self._provider = provider
        self._put = put
        self._may_act = may_act
        self._now = now
        self._patience = patience
        self._crew = JobWorkers(sum(AT_ONCE.values()), patience)
        self._lock = threading.Lock()
        #: By lease id, or by the machine's where there is no lease.
        self._errands: dict[str, _Errand] = {}
        #: The errands that threads are at, with their kinds, but for those that were given up.
        self._flights: dict[object, _Errand] = {}
        #: Calls that have not returned.
        self._flying: Counter[Call] = Counter()
        self._list = _Errand("list", " list")
        self._notices = _Errand("notices", " notices")
        self._prices = _Errand("prices", " prices")
        #: The last report; nothing, to begin with.
        self._priced: tuple[tuple[str, float], ...] = ()
        self._listed: tuple[ev.Listed, ...] | None = None
        #: The last list, if it was not reported, and when it was asked for.
        self._untold: tuple[float, tuple[ev.Listed, ...]] | None = None
        self._told_at = self._changed_at = time.monotonic()
        self._notified = Notices()
        self._calls: Counter[tuple[str, str]] = Counter()
        #: Errors, by call.
        self._troubles: dict[str, str] = {}

    def open(self, lease: Lease) -> None:
        """Request the opening of a lease's VM."""
        self._take_on(_Errand("open", lease.id, lease.id, VmRequest(lease.id, lease.vm), lease.asked_at))

    def close(self, lease_id: str, machine_id: str) -> None:
        """Request the closing of a VM; one with an unknown name at the provider is found by its lease."""
        self._take_on(_Errand("close", lease_id or machine_id, lease_id, machine_id=machine_id))

    def look(self) -> None:
        """List the VMs soon: some may be gone."""
        self._look_within(0.0)

    def tend(self) -> None:
        """Start due calls, and give up those that take too long."""
        overdue = set(self._crew.overdue())
        now = time.monotonic()
        with self._lock:
            known = (*self._errands.values(), self._list, self._notices, self._prices)
            late = [errand for errand in known if errand.due is None and errand.key in overdue]
            for flight in [flight for flight, errand in self._flights.items() if errand.key in overdue]:
                del self._flights[flight]
        for errand in late:
            self._failed(errand, "timeout", f"no answer within {self._patience:g} s")
        for errand in known:
            if errand.due is not None and errand.due <= now:
                self._begin(errand)

    def stop(self) -> None:
        """Start nothing more; running calls are left to themselves."""
        self._crew.close(0.0)

    @property
    def status(self) -> ProviderStatus:
        """Status of the provider; for any thread."""
        with self._lock:
            troubles = list(self._troubles.values())
            more = f", and {len(troubles) - 1} more" if len(troubles) > 1 else ""
            trouble = f"{troubles[0]}{more}" if troubles else ""
            for call in filter(self._hangs, AT_ONCE):
                why = f"no call to {_DEEDS[call]} is made while {self._flying[call]} such calls do not return"
                trouble = f"{why}; {trouble}"
            return ProviderStatus(dict(self._calls), trouble)

    def _look_within(self, seconds: float) -> None:
        if self._list.due is not None:
            self._list.due = min(self._list.due, time.monotonic() + seconds)

    # ---- errands ---------------------------------------------------------------------------------

    def _take_on(self, errand: _Errand) -> None:
        """Replace the pending call for the same key with this one."""
        with self._lock:
            self._errands[errand.key] = errand
            self._troubles.pop(errand.key, None)
            self._changed_at = time.monotonic()
        self._begin(errand)

    def _begin(self, errand: _Errand) -> None:
        """Start the call on a thread; later, where the maximum of its kind is running."""
        with self._lock:
            if sum(other.call == errand.call for other in self._flights.values()) >= AT_ONCE[errand.call]:
                return
            flight = object()
            self._flights[flight], errand.due = errand, None
        self._crew.hand(errand.key, lambda: self._fly(errand, flight))

    def _fly(self, errand: _Errand, flight: object) -> None:
        """In a thread of the crew."""
        try:
            self._attempt(errand)
        finally:
            with self._lock:
                self._flights.pop(flight, None)

    def _attempt(self, errand: _Errand) -> None:
        """Make the call if this daemon may act, and handle its errors."""
        if not self._may_act():
            errand.due = time.monotonic() + BACKOFF.first
            return
        calls = {
            "open": self._open,
            "close": self._close,
            "list": self._ask,
            "notices": self._ask_notices,
            "prices": self._ask_prices,
        }
        if not self._takes_off(errand):
            return
        try:
            calls[errand.call](errand)
        except ProviderError as error:
            self._failed(errand, error.kind, str(error))
        except Exception as error:  # a provider's own code is foreign
            if not errand.tries:
                log.exception("provider failed", call=errand.call)
            self._failed(errand, "unavailable", f"{type(error).__name__}: {error}")
        finally:
            with self._lock:
                self._flying[errand.call] -= 1

    def _takes_off(self, errand: _Errand) -> bool:
        """Note that a call is being made, if it still is to be, and may be."""
        with self._lock:
            if not self._stands(errand):
                return False
            if self._hangs(errand.call):
                errand.held += 1
                errand.due = time.monotonic() + BACKOFF.after(errand.held)
                return False
            self._flying[errand.call] += 1
            errand.held = 0
            return True

    def _hangs(self, call: Call) -> bool:
        """Whether so many calls of a kind have not returned that no other is made."""
        return self._flying[call] >= AT_ONCE[call] + MOST_HANGING

    def _stands(self, errand: _Errand) -> bool:
        """Whether it is still to be done."""
        return errand.key.startswith(" ") or self._errands.get(errand.key) is errand

    def _done(self, errand: _Errand, period: float | None = None) -> None:
        """Record a successful call; repeat it after `period` seconds, if given."""
        with self._lock:
            self._calls[errand.call, "ok"] += 1
            self._troubles.pop(errand.key, None)
            self._changed_at = time.monotonic() if period is None else self._changed_at
            if self._errands.get(errand.key) is errand:
                del self._errands[errand.key]
        errand.tries = 0
        errand.due = None if period is None else time.monotonic() + period

    def _failed(self, errand: _Errand, outcome: str, why: str) -> None:
        """Record a failed call: retry later, or stop where the provider has refused."""
        with self._lock:
            self._calls[errand.call, outcome] += 1
            if not self._stands(errand):
                return
            errand.tries += 1
            what = f"{errand.call} {errand.lease_id or errand.machine_id}".strip()
            self._troubles[errand.key] = f"{what} failed {times(errand.tries)}: {why}"
        pause = BACKOFF.after(errand.tries)
        told = {"call": errand.call, "lease": errand.lease_id, "why": why, "times": errand.tries}
        log.warning("the provider's call failed", outcome=outcome, pause=pause, **told)
        if errand.call == "open" and errand.last:
            self._refuse(errand, "unavailable", errand.why, certain=False)
            return
        if errand.call == "open" and outcome in _SAID_NO:
            self._refuse(errand, _SAID_NO[outcome], why, certain=errand.tries == 1)
            return
        errand.why, lasted = why, time.monotonic() - errand.since
        errand.last = errand.tries >= MOST_TRIES or lasted >= LONGEST_TRIAL
        errand.due = time.monotonic() + pause

    def _refuse(self, errand: _Errand, kind: Refusal, why: str, *, certain: bool = True) -> None:
        """Report that a lease's VM is not opened; not `certain` after a try with an unknown outcome."""
        with self._lock:
            self._errands.pop(errand.key, None)
            self._troubles.pop(errand.key, None)
        self._put(ev.LeaseRefused(self._now(), errand.lease_id, kind, why, certain))

    # ---- calls -----------------------------------------------------------------------------------

    def _open(self, errand: _Errand) -> None:
        """Open a VM; where that came to nothing again and again, see whether it was opened all the same."""
        if errand.last or errand.wanted is None:
            found = self._under(errand.lease_id)
            if not found:
                self._refuse(errand, "unavailable", errand.why)
                return
            machine = found[0]
        else:
            machine = self._provider.open(errand.wanted)
        now = self._now()
        told = now if machine.opened_at is None else machine.opened_at
        opened_at = max(errand.asked_at, min(told, now))  # its clock may be wrong by days
        self._done(errand)
        self._look_within(SOON)
        self._put(ev.LeaseOpened(now, errand.lease_id, machine.id, opened_at, machine.price_per_hour))

    def _close(self, errand: _Errand) -> None:
        under = () if errand.machine_id else self._under(errand.lease_id)
        machine_ids = [errand.machine_id] if errand.machine_id else [machine.id for machine in under]
        told = [self._provider.close(machine_id) for machine_id in machine_ids]
        charged = [dollars for dollars in told if dollars is not None]
        self._done(errand)
        self._put(ev.LeaseClosed(self._now(), errand.lease_id, sum(charged) if charged else None))

    def _under(self, lease_id: str) -> list[Machine]:
        return [machine for machine in self._provider.list() if machine.lease == lease_id]

    def _ask(self, errand: _Errand) -> None:
        asked_at, began = self._now(), time.monotonic()
        found = tuple(_listed(machine) for machine in self._provider.list())
        now = time.monotonic()
        with self._lock:
            same = tuple(machine._replace(charged=None) for machine in found)  # which grows all the time
            before, untold = {machine.machine_id for machine in self._listed or ()}, self._untold
            gone = before - {machine.machine_id for machine in found}
            self._changed_at = max(self._changed_at, began) if gone else self._changed_at
            unsettled = now - self._changed_at < UNSETTLED or now - self._told_at > TELL_AGAIN
            news, self._listed = same != self._listed or unsettled, same
            for machine in found:
                news = self._came(machine) or news
            self._notified.listed(found, began)
            self._told_at, self._untold = (now, None) if news else (self._told_at, (asked_at, same))
        self._done(errand, SOON if self._changed_at > began else LIST_PERIOD)
        if gone and untold:  # they were there until then: one list without them may be wrong
            self._put(ev.MachinesListed(self._now(), *untold))
        if news:
            self._put(ev.MachinesListed(self._now(), asked_at, found))

    def _came(self, machine: ev.Listed) -> bool:
        """Whether the VM completes an opening that was not answered yet; then removes that call."""
        errand = self._errands.get(machine.lease_id)
        if errand is None or errand.call != "open" or machine.state == "closing":
            return False
        del self._errands[errand.key]
        self._troubles.pop(errand.key, None)
        return True

    def _ask_notices(self, errand: _Errand) -> None:
        found, clock = self._told(), time.monotonic()
        with self._lock:
            news = self._notified.compare(found, self._now(), clock)
            unsure = self._notified.unsure(clock)
        for notice in news:
            self._put(notice)
        if unsure:
            self._look_within(0.0)
        self._done(errand, NOTICE_PERIOD)

    def _ask_prices(self, errand: _Errand) -> None:
        priced = tuple(sorted(self._provider.prices().items()))
        if priced != self._priced:
            self._priced = priced
            self._put(ev.PoolPrices(self._now(), priced))
        self._done(errand, PRICES_PERIOD)

    def _told(self) -> Sequence[Notice]:
        """Fetch notices; skips the provider while no VM is known to be open."""
        with self._lock:
            any_open = self._listed is None or self._listed or self._errands
        return self._provider.notices() if any_open else ()


def _listed(machine: Machine) -> ev.Listed:
    return ev.Listed(
        machine.lease,
        machine.id,
        machine.state,
        machine.opened_at,
        machine.price_per_hour,
        machine.charged,
    )
