"""Record of a training run after each of its iterations. `board` draws it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TrainingRecord:
    """State of a run after it learned from an iteration, or was evaluated.

    Attributes:
        iteration: number of finished iterations, out of `iterations`.
        seconds: time that the run has taken, including the time before it was resumed.
        steps: decisions that were learned from, in all; `steps_per_second` in the last iteration,
            evaluations apart; 0 in the record of an evaluation.
        training: the learner's metrics of its last iteration, by name: `return` (of an episode, on average;
            REINFORCE) or `reward` (of a step; DQN), `loss`, `steps`, and the amount of exploration: `entropy`
            (of the probabilities of actions, nats; REINFORCE) or `epsilon` (the probability that an action is
            random; DQN). Empty before the first iteration.
        evaluation: results of the last evaluation by workload, see `Evaluation.of`.
        loss: minus the return per job in that evaluation; smaller is better.
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
        """Amount of exploration, in the learner's own measure; None before the first iteration."""
        return self.training.get("entropy", self.training.get("epsilon"))


#: Called with each record, by the thread that trains: training waits until it returns.
Listener = Callable[[TrainingRecord], None]
