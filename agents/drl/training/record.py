"""What there is to tell of a training run after each of its iterations. How it is drawn is in `board`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TrainingRecord:
    """How a run stands when it has learned from an iteration, or was evaluated.

    Attributes:
        iteration: how many iterations are done, of so many `iterations`.
        seconds: how long the run has taken, with what it took before it was resumed.
        steps: decisions that were learned from, in all; `steps_per_second` in the last iteration,
            evaluations apart; 0 where the record is of one.
        training: what the learner tells of its last iteration, by name: `return` (of an episode, on average;
            REINFORCE) or `reward` (of a step; DQN), `loss`, `steps`, and how much it explores: `entropy` (of
            the chances of actions, nats; REINFORCE) or `epsilon` (the chance that an action is drawn; DQN).
            Empty before the first.
        evaluation: by workload what an evaluation came to, see `Evaluation.of`; the last one's.
        loss: minus the return per job in it; smaller is better.
        evaluated: whether the evaluation was made at this iteration: nothing else in the record is new.
        best_loss: the smallest `loss` so far, of the iteration `best_iteration`.
    """

    iteration: int
    iterations: int
    seconds: float
    steps: int
    steps_per_second: float
    training: Mapping[str, float]
    evaluation: Mapping[str, Mapping[str, float]]
    loss: float
    evaluated: bool
    best_loss: float
    best_iteration: int

    @property
    def exploration(self) -> float | None:
        """How much is explored, in the learner's own measure; None before the first iteration."""
        return self.training.get("entropy", self.training.get("epsilon"))


#: Called with each record, by the thread that trains: what it does, training waits for.
Listener = Callable[[TrainingRecord], None]
