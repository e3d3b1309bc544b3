"""Whether a policy of a name decides at all: one that cannot is found before it is let loose on jobs."""

from collections.abc import Mapping

from agents.registry import PolicyError, create, is_ours
from environment.decisions.trial import trial
from environment.policy import Policy


def tried(name: str, options: Mapping[str, object], seconds: float) -> None:
    """Make the policy and run one decision on a made-up cluster within a time limit.

    PolicyError for the reason of a failure. Policies that come with Stoker are not tried.
    """
    if is_ours(name):
        return
    refused: list[PolicyError] = []

    def make() -> Policy:
        try:
            return create(name, options)
        except PolicyError as error:
            refused.append(error)
            raise

    fault = trial(make, seconds)
    if refused:
        raise refused[0]
    if fault:
        raise PolicyError(f"policy {name}: on a made-up cluster, {fault}")
