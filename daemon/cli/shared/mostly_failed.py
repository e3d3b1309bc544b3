"""Policies that failed in most of their decisions: the message and exit code of each comparison then."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from daemon.cli.shared.options import notice

#: A policy that fails in a larger share of its decisions was not compared: its numbers are the fallback's.
MOST_FAILED = 0.5


def exit_code(
    shares: Iterable[tuple[str, float]],
    whose: str = "not its own",
    first: Mapping[str, str] = MappingProxyType({}),
) -> int:
    """1 after a line on stderr for each policy that mostly failed, 0 for none.

    `shares` are those that the fallback took, by policy; of several of one policy the largest counts. `first`
    are the policies' first errors, where they are known.
    """
    largest: dict[str, float] = {}
    for policy, share in shares:
        largest[policy] = max(share, largest.get(policy, 0.0))
    failed = {policy: share for policy, share in largest.items() if share > MOST_FAILED}
    for policy, share in failed.items():
        why = f". The first time: {first[policy]}" if policy in first else ""
        notice(f"{policy} failed in {share:.0%} of its decisions or placements: its numbers are {whose}{why}")
    return 1 if failed else 0
