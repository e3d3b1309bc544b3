"""VMs that come and go: terms of a VM, open VMs, and the idle time after which a VM is closed.

A pool is a number of VMs of one kind that could be opened. Each of them is a VM of the cluster that is
closed until something is placed there; then it boots, and the job starts when all its VMs are up. A cloud
charges the time from opened to closed, in its units. `conf` defines pools in a cluster file; `kernel.leases`
has the same rules, compiled.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from environment.spot_forecast import Forecast

if TYPE_CHECKING:
    from environment.types import FloatArray, IntArray

#: Part of a unit that is not charged as one whole unit more: the rounding error.
_DUST = 1e-9
#: Least saved share of the bill for a share of disruption: 1 / k of Karpenter's `Balanced`, whose k is 2.
_WORTH = 0.5
#: Number of boots that the idle policy `forecast` looks ahead. Chosen: of 0.5, 1, 1.5 and 2, with 1.5 both
#: the bill and completion are less than those of `break_even` and time-outs.
_BOOTS_AHEAD = 1.5


@dataclass(frozen=True, slots=True)
class SpotTerms:
    """Terms under which its cloud may take a VM away, with a notice of `notice` seconds (0: none)."""

    #: How often that is to be expected of one that is open.
    interruptions_per_hour: float
    notice: float = 120.0


@dataclass(frozen=True, slots=True)
class Terms:
    """On which terms a VM of a pool is had. Seconds.

    It takes `boot` to be up once it is opened, and is charged for `minimum` at least and in whole units of
    `granularity` (0: by the moment). An `always` one is open from the beginning, and never closed. With
    `spot` its cloud may take it away. Only jobs that ask for one of the resources
    `reserved_for` use it.
    """

    pool: str
    boot: float = 0.0
    minimum: float = 0.0
    granularity: float = 0.0
    always: bool = False
    spot: SpotTerms | None = None
    reserved_for: tuple[str, ...] = ()

    def charged(self, seconds: float) -> float:
        """Seconds that are charged for a VM that was open for so long."""
        if seconds < 0.0:
            return 0.0
        if self.granularity > 0.0:
            seconds = math.ceil(seconds / self.granularity - _DUST) * self.granularity
        return max(seconds, self.minimum)


@dataclass(frozen=True, slots=True)
class IdleTimeout:
    """Idle policy: how long a pool VM stays open when it is idle, from its last executor's end on.

    `none`: not at all. `timeout`: for `seconds`. `break_even`: for the time whose cost equals the useless
    part of opening it again, its boot, and as long as it is charged for anyway; so that the cost of idling
    and opening is at most twice the optimum for known next uses (the ski rental's bound). `forecast`: so
    long only if as many of its pool as are idle are expected to be needed before that (see `forecast`), and
    as long as it is charged for anyway. `planned`: until the policy's plan needs it, as far as the plan
    reaches, and as long as it is charged for anyway.
    """

    name: Literal["none", "timeout", "break_even", "forecast", "planned"] = "break_even"
    seconds: float = 600.0

    def __post_init__(self) -> None:
        if not 0 <= self.seconds < math.inf:
            raise ValueError(f"seconds: should be 0 or more, found {self.seconds}")

    @classmethod
    def read(cls, text: str) -> "IdleTimeout":
        """Parse an idle policy such as `none`, `break_even` or `timeout:90`; ValueError names the error."""
        right = "none, break_even, forecast, planned, timeout or timeout:SECONDS"
        wrong = ValueError(f"keep: should be {right}, found {text!r}")
        name, colon, seconds = text.partition(":")
        match name:
            case "none" | "break_even" | "forecast" | "planned" if not colon:
                return cls(name)
            case "timeout":
                try:
                    return cls(name, float(seconds)) if colon else cls(name)
                except ValueError:
                    raise wrong from None
        raise wrong

    def __str__(self) -> str:
        return f"timeout:{self.seconds:g}" if self.name == "timeout" else self.name

    @property
    def as_charged(self) -> bool:
        """Whether a VM is kept besides for as long as it is charged for anyway."""
        return self.name in ("break_even", "forecast", "planned")

    def seconds_for(self, terms: Terms | None, *, needed: bool = False) -> float:
        """Idle seconds before a VM on these terms closes; infinity if it is of no pool, or always there.

        `needed` says that the forecast is that it will be (see `foresees`).
        """
        if terms is None or terms.always:
            return math.inf
        match self.name:
            case "timeout":
                return self.seconds
            case "break_even":
                return terms.boot
            case "forecast":
                return terms.boot if needed else 0.0
            case "none" | "planned":
                return 0.0

    def foresees(self, forecast: Forecast, terms: Terms | None, at: float, idle: int) -> bool:
        """Whether a VM is needed soon that is the so manieth idle one of its pool, counted from 1."""
        if self.name != "forecast" or terms is None:
            return False
        return idle <= forecast.within(terms.pool, at, _BOOTS_AHEAD * terms.boot)

    def closes_at(
        self, terms: Terms | None, opened_at: float, idle_at: float, *, needed: bool = False
    ) -> float:
        """Closing time of a VM that was opened and has been idle since these times, seconds; inf: never."""
        closes = idle_at + self.seconds_for(terms, needed=needed)
        if terms is None or not self.as_charged or math.isinf(closes):
            return closes
        return max(closes, opened_at + terms.charged(closes - opened_at))


BREAK_EVEN = IdleTimeout()


@dataclass(frozen=True, slots=True)
class Consolidation:
    """Rule by which executors are moved so that VMs of pools close.

    Karpenter's, in simulations only: `underutilized`: whenever VMs could close, or be replaced by one VM of a
    lower price. `balanced`: only where the saved share of the bill is at least half the share of executors
    that are disturbed. A VM closes only if no executor came or left for `after` seconds
    (`consolidateAfter`). With `spot_to_spot` spot VMs are also replaced by spot VMs. Its defaults are
    `underutilized`, 0 and no `spot_to_spot`.

    Others: `believed`, like `underutilized`, but only where that saves more until the executors' believed
    ends than a new VM's boot and repeated work cost. `fitting`, the rule of a daemon: like `believed`, but no
    VM is opened, VMs that are always there take executors too, only jobs that are restartable are moved,
    `per_hour` executors within an hour at most (None: any number), and the move counts that saves most: the
    time for which a VM is drained, and for which others are used longer, costs.
    ValueError for impossible numbers.
    """

    name: Literal["none", "underutilized", "balanced", "believed", "fitting"] = "none"
    after: float = 0.0
    spot_to_spot: bool = False
    per_hour: int | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.after < math.inf:
            raise ValueError(f"after: should be 0 or more, found {self.after}")
        if self.per_hour is not None and self.per_hour < 1:
            raise ValueError(f"per_hour: should be 1 or more, found {self.per_hour}")

    @classmethod
    def read(cls, text: str) -> "Consolidation":
        """Parse a rule such as `balanced:after=300:spot_to_spot`; ValueError names the error."""
        right = (
            "none, fitting, underutilized, balanced or believed, fitting with :per_hour=NUMBER, the others "
            "with :after=SECONDS and :spot_to_spot"
        )
        wrong = ValueError(f"consolidate: should be {right}, found {text!r}")
        name, *options = text.split(":")
        spot_to_spot = options[-1:] == ["spot_to_spot"]
        options = options[: len(options) - spot_to_spot]
        if "" in options:
            raise wrong
        key, _, value = options.pop(0).partition("=") if options else ("", "", "")
        try:
            match name, key:
                case "fitting", "" | "per_hour" if not (options or spot_to_spot):
                    return cls(name, per_hour=int(value) if key else None)
                case "none" | "underutilized" | "balanced" | "believed", "" | "after" if not options:
                    return cls(name, float(value) if key else 0.0, spot_to_spot)
        except ValueError:
            raise wrong from None
        raise wrong

    def __str__(self) -> str:
        after = f":after={self.after:g}" if self.after else ""
        per_hour = f":per_hour={self.per_hour}" if self.per_hour else ""
        return self.name + after + per_hour + (":spot_to_spot" if self.spot_to_spot else "")

    def __bool__(self) -> bool:
        return self.name != "none"

    @property
    def by_belief(self) -> bool:
        """Whether a move is to save more until the believed ends of jobs than it costs."""
        return self.name in ("believed", "fitting")

    def pays(self, saved: float, disturbed: float) -> bool:
        """Whether that share of the price of all VMs is worth that share of all disruption."""
        return saved > 0.0 and (self.name != "balanced" or saved >= _WORTH * disturbed)


NO_MOVES = Consolidation()


@dataclass(frozen=True, eq=False, slots=True)
class Openings:
    """Open VMs, and the time at which each is ready for executors placed there now; read-only arrays.

    `open` [N] is true for booting VMs as well. `ready_at` [N], seconds: not later than now for a VM that is
    up.
    """

    open: NDArray[np.bool_]
    ready_at: "FloatArray"

    def __post_init__(self) -> None:
        self.open.flags.writeable = False
        self.ready_at.flags.writeable = False

    def boots(self, at: float) -> bool:
        """Whether a VM is open and not up yet."""
        return bool((self.open & (self.ready_at > at)).any())

    def with_placement(self, vms: "IntArray") -> "Openings":
        """Openings after something was placed on the VMs with these indices."""
        if self.open[vms].all():
            return self
        is_open = self.open.copy()
        is_open[vms] = True
        return replace(self, open=is_open)

    def of_vms(self, vms: "IntArray") -> "Openings":
        """Openings of the VMs with these indices alone."""
        return Openings(self.open[vms], self.ready_at[vms])

    def starts(self, at: float, placement: Sequence[int]) -> float:
        """Start of a job that is placed at that time: all its VMs are up then."""
        return max(at, float(self.ready_at[list(placement)].max(initial=at)))
