"""A policy that fails again and again is told once in events, and so is its end."""

from daemon.policy.policy_watch import PolicyWatch


def test_a_policy_that_fails_is_told_once_until_it_decides_again() -> None:
    """With the trouble in words."""
    troubles = [""]
    watch = PolicyWatch(lambda: troubles[-1])
    assert not [*watch.tell(1.0)]
    troubles.append("mine failed 3 times and placed no job since, ff decides instead: KeyError: 'a'")
    assert watch.changed
    (fails,) = watch.tell(2.0)
    assert (fails.at, fails.kind, fails.text) == (2.0, "policy fails", troubles[-1])
    troubles.append("mine failed 4 times and placed no job since, ff decides instead: KeyError: 'a'")
    assert not [*watch.tell(3.0)]
    troubles.append("")
    (recovered,) = watch.tell(4.0)
    assert recovered.kind == "policy recovered"
    assert not [*watch.tell(5.0)]
