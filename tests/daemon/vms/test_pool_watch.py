"""Pools of which VMs fail again and again are told once, and so is their end."""

from daemon.vms.pool_watch import MOST_REFUSALS, PoolWatch
from environment.model.messages.snapshot import PoolSetback

BROKEN = PoolSetback("general", 2, 10.0, 70.0, "general-1 did not boot within 360 s", trial=True)


def test_a_pool_on_trial_is_told_once_until_a_vm_has_joined() -> None:
    """Also by the next daemon, which does not tell it again."""
    watch = PoolWatch()
    (held,) = watch.tell(10.0, {"general": BROKEN})
    assert (held.kind, held.text) == (
        "openings held",
        "2 openings of pool general in a row came to nothing (general-1 did not boot within 360 s); one VM "
        "at a time is tried, after pauses of up to an hour",
    )
    assert watch.trouble == held.text
    assert not [*watch.tell(80.0, {"general": BROKEN._replace(times=3)})]
    assert watch.trouble.startswith("3 openings")
    after = PoolWatch()
    after.take_up([BROKEN])
    assert after.trouble == held.text
    (resumed,) = after.tell(90.0, {"general": BROKEN._replace(trial=False)})
    assert (resumed.kind, after.trouble) == ("openings resumed", "")


def test_a_pool_that_is_refused_again_and_again_is_told() -> None:
    """A few refusals are not, as a cloud may lack VMs for a moment."""
    watch = PoolWatch()
    refused = BROKEN._replace(trial=False, times=MOST_REFUSALS - 1, message="none are left")
    assert not [*watch.tell(10.0, {"general": refused})]
    assert watch.trouble == ""
    (held,) = watch.tell(20.0, {"general": refused._replace(times=MOST_REFUSALS)})
    assert held.text == "5 openings of pool general in a row came to nothing (none are left)"
    assert not [*watch.tell(30.0, {"general": refused._replace(times=MOST_REFUSALS + 1)})]
    (resumed,) = watch.tell(40.0, {"general": None})
    assert resumed.kind == "openings resumed"
