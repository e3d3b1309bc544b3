"""A policy that learns in a minute, in NumPy alone: REINFORCE (Williams 1992) on the Gymnasium environment.

    python examples/learn.py                  # three seeds, 60 updates each
    python examples/learn.py --updates 20 --seeds 1

The policy scores every VM by the same linear function of what is seen of it, and draws one by the softmax of
the scores; it learns to make twenty jobs cheap. It is small enough to be read, and no more than an example:
what is good is trained by `stoker train`.
"""

import argparse
from time import perf_counter
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

import environment.training.gym  # noqa: F401  it registers the environment
from environment.kernel.rule_options import ObservationOptions, RewardOptions
from profiles.workloads.generators import source_of
from profiles.workloads.workload import Workload

Floats = NDArray[np.float64]

#: Numbers that the rich observation has of each VM; see `environment.kernel.observation`.
VM_FEATURES = 11
JOBS, GROUP, EPISODES, RATE = 20, 8, 32, 0.1
#: Workloads are told apart by their seeds: what is evaluated was never trained on.
FIRST_EVALUATED, FIRST_TRAINED = 0, 2**32
BURSTS = source_of("burst")


def workload(seed: int) -> Workload:
    """The first twenty jobs of a burst; the same for eight seeds, so that what was done can be compared."""
    return Workload(BURSTS(seed // GROUP).jobs[:JOBS])


def environments(count: int) -> Any:
    """So many episodes side by side, in which only money counts."""
    return gymnasium.make_vec(
        "stoker/Cluster-v0",
        count,
        vectorization_mode="vector_entry_point",
        workload=workload,
        cluster="paper",
        observation=ObservationOptions("rich"),
        rewards=RewardOptions(beta=1.0),
    )


def features(seen: Any, mask: Any) -> Floats:
    """What the score is linear in, [B, N + 1, 12]: 1 for waiting, and the numbers of each VM."""
    count, actions = mask.shape
    found = np.zeros((count, actions, 1 + VM_FEATURES))
    found[:, 0, 0] = 1.0
    found[:, 1:, 1:] = seen[:, : (actions - 1) * VM_FEATURES].reshape(count, actions - 1, VM_FEATURES)
    return found


def chances(weights: Floats, found: Floats, mask: Any) -> Floats:
    """How likely each action is, [B, N + 1]; 0 where it is not allowed."""
    scores = np.where(mask, found @ weights, -np.inf)
    likely = np.exp(scores - scores.max(1, keepdims=True))
    return likely / likely.sum(1, keepdims=True)


def play(
    envs: Any, weights: Floats, chance: np.random.Generator, first: int
) -> tuple[Floats, Floats, Floats]:
    """One episode in each row, of the workloads from the seed `first` on, with actions drawn by chance.

    Returns what each earned and cost, [B], and the gradient of the log of its chances, [B, 12].
    """
    seen, info = envs.reset(options={"workload_seed": first})
    rows = np.arange(envs.num_envs)
    earned, cost, gradient = np.zeros(len(rows)), np.zeros(len(rows)), np.zeros((len(rows), len(weights)))
    going = np.ones(len(rows), np.bool_)
    while going.any():
        found, mask = features(seen, info["action_mask"]), info["action_mask"]
        likely = chances(weights, found, mask)
        actions = (likely.cumsum(1) > chance.random((len(rows), 1))).argmax(1)
        taken = found[rows, actions] - np.einsum("ba,baf->bf", likely, found)
        gradient[going] += taken[going]
        seen, rewards, over, _, info = envs.step(actions)
        earned[going] += rewards[going]
        if over.any():
            cost[going & over] = info["cost"][going & over]
        going &= ~over
    return earned, cost, gradient


def evaluated(weights: Floats, count: int = 64) -> tuple[float, float]:
    """What the policy earns and costs on workloads that were not trained on; means."""
    envs = environments(count)
    earned, cost, _ = play(envs, weights, np.random.default_rng(0), FIRST_EVALUATED)
    envs.close()
    return float(earned.mean()), float(cost.mean())


def learn(seed: int, updates: int) -> Floats:
    """The weights after so many updates; at first all actions are as likely."""
    envs, chance = environments(EPISODES), np.random.default_rng(seed)
    weights = np.zeros(1 + VM_FEATURES)
    mean, square = np.zeros_like(weights), np.zeros_like(weights)
    for number in range(1, updates + 1):
        first = FIRST_TRAINED + (seed * updates + number) * EPISODES
        earned, _, gradient = play(envs, weights, chance, first)
        # How much better it was than the other episodes of the same workload.
        grouped = earned.reshape(-1, GROUP)
        advantage = (grouped - grouped.mean(1, keepdims=True)).ravel()
        step = (advantage[:, None] * gradient).mean(0) / max(float(advantage.std()), 1e-8)
        # Adam (Kingma 2015), uphill.
        mean, square = 0.9 * mean + 0.1 * step, 0.99 * square + 0.01 * step**2
        weights += RATE * (mean / (1 - 0.9**number)) / (np.sqrt(square / (1 - 0.99**number)) + 1e-8)
    envs.close()
    return weights


def main() -> None:
    """Learn with each seed, and show what came of it."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--updates", type=int, default=60)
    arguments.add_argument("--seeds", type=int, default=3)
    given = arguments.parse_args()
    print("seed  return before  after   cost before    after  seconds")
    for seed in range(given.seeds):
        began = perf_counter()
        before, after = evaluated(learn(seed, 0)), evaluated(learn(seed, given.updates))
        print(
            f"{seed:4}  {before[0]:13.0f}  {after[0]:5.0f}   {before[1]:10.3f} $  {after[1]:5.3f} $"
            f"  {perf_counter() - began:7.1f}"
        )


if __name__ == "__main__":
    main()
