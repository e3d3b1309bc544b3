"""Schema of a training file, as frozen types. `agents.drl.training` uses it."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field, model_validator

from conf.defaults import UNKNOWN_DURATION
from conf.schema import Name, Strict

Count = Annotated[int, Field(ge=1, le=10_000_000)]
Part = Annotated[float, Field(ge=0, le=1)]
#: Networks compute in float32: with factors and divisors beyond these, rewards leave its range.
Positive = Annotated[float, Field(ge=1e-12, le=1e12)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Considered = Annotated[int, Field(ge=1, le=1024)]
Overtaken = Annotated[int, Field(ge=1, le=10_000)]
#: Seeds from 2**32 on are for training alone, see `environment.training.episodes`.
Seed = Annotated[int, Field(ge=0, lt=2**32)]
#: Seeds of which figures are reported, those of cards and those of reports (`agents/experiments/seeds.yaml`);
#: nothing may be chosen by them.
REPORTED = (range(100, 120), range(40_000, 100_000))


class Schedule(Strict):
    """A number that goes in a straight line from `first` to `last` over all iterations."""

    first: NotNegative
    last: NotNegative

    def at(self, share: float) -> float:
        """Its value when that share of the iterations is over."""
        return self.first + (self.last - self.first) * share


class NetworkSpec(Strict):
    """`shared`: one network scores each VM, of any number. `flat`: Islam 2022's, for one number of VMs."""

    kind: Literal["shared", "flat"] = "shared"
    hidden: Annotated[int, Field(ge=1, le=4096)] = 32


class ObservationSpec(Strict):
    """The agent's observation: see `environment.kernel.observation`."""

    name: Literal["paper", "rich", "natural"] = "rich"
    types: tuple[Name, ...] = Field(("wordcount", "pagerank", "sort"), strict=False)
    #: How many of the jobs behind the first of the queue are seen.
    upcoming: Annotated[int, Field(ge=0, le=100)] = 3
    unknown_seconds: Positive = UNKNOWN_DURATION


class ObjectiveSpec(Strict):
    """Objective to minimise: beta parts cost; `completion` divides the rest between the two kinds of time."""

    beta: Part = 0.5
    #: How much of the time is completion (from submission on); the rest is duration (from the start on).
    completion: Part = 0.5
    #: A small price on completion beside that, so that waiting without end does not pay.
    waiting: Annotated[float, Field(ge=0, le=1e12)] = 0.05
    #: What a job costs and takes, in dollars and seconds, when it is placed neither well nor badly: these are
    #: one unit each.
    dollars: Positive = 0.0615
    seconds: Positive = 295.0


class DrawnSpec(Strict):
    """Randomised worlds, so that a policy generalises: clusters, workloads, loads and beliefs are drawn.

    Times and prices are drawn on one scale: the natural observation makes all others look the same.
    """

    #: How many VMs a cluster has: one of these, and how often.
    vms: Annotated[
        Mapping[Annotated[int, Field(ge=1, le=1024, strict=False)], Positive], Field(min_length=1)
    ] = Field({3: 0.5, 5: 1.0, 8: 1.0, 12: 2.0, 18: 1.0, 27: 1.0, 40: 0.5, 64: 0.2}, strict=False)
    #: How much cost counts is drawn evenly between these; the rest is completion.
    betas: tuple[Part, Part] = Field((0.0, 1.0), strict=False)
    #: How many of the clusters are pools of VMs that boot.
    pools: Part = 0.15
    #: How many jobs a workload has, from and to.
    jobs: tuple[Count, Count] = Field((30, 110), strict=False)

    @model_validator(mode="after")
    def _in_order(self) -> "DrawnSpec":
        for name, (low, high) in (("betas", self.betas), ("jobs", self.jobs)):
            if low > high:
                raise ValueError(
                    f"{name}: the first should be at most the second, found {low:g} and {high:g}"
                )
        return self


class EvaluationSpec(Strict):
    """Schedule of the agent's evaluations, and the seeds of each workload that they use."""

    every: Count = 50
    first_seed: Seed = 200
    seeds: Annotated[int, Field(ge=1, le=1000)] = 20
    #: How many jobs of the queue the agent looks at then, and when it decides later, and how often the oldest
    #: may be overtaken; null: as in training.
    considered: Considered | None = None
    overtaken_at_most: Overtaken | None = None

    @model_validator(mode="after")
    def _apart(self) -> "EvaluationSpec":
        used = range(self.first_seed, self.first_seed + self.seeds)
        for reported in REPORTED:
            if used[0] < reported.stop and reported.start <= used[-1]:
                raise ValueError(
                    f"seeds {used[0]} to {used[-1]} should not overlap with {reported.start} to "
                    f"{reported.stop - 1}, which are used for reported results"
                )
        return self


class ImitationSpec(Strict):
    """A warm start: the network first learns to decide as a teacher does."""

    #: A policy and its options, `lookahead:beta=1.0`.
    teacher: str = "lookahead"
    #: On how many workloads of each kind the teacher is watched.
    episodes: Count = 64
    #: The chance that waiting is given in each example of a placement, whatever the teacher thinks of it; its
    #: waits are left out then, and when to wait is learned from rewards alone. Null: as the teacher does.
    waiting: Part | None = None
    #: Passes over what it did.
    epochs: Count = 40
    batch: Count = 512
    learning_rate: Schedule = Schedule(first=2e-3, last=1e-4)


class ReinforceSpec(Strict):
    """REINFORCE (Williams 1992)."""

    #: How many workloads there are in an iteration, and how many episodes of each (or trials at a moment).
    workloads: Count = 6
    rollouts: Count = 6
    #: `trials`: an episode of each workload is played on several times from the same moments, and what came
    #: of that is compared. `group`: returns are compared with those of the other episodes of the same
    #: workload, from the same job on. `none`: they are normalised over all steps, as TF-Agents does.
    baseline: Literal["trials", "group", "none"] = "group"
    #: At which share of the moments there are trials, and how many jobs they go on for.
    share: Part = 0.3
    horizon: Count = 10
    entropy: Schedule = Schedule(first=0.01, last=0.0)

    @model_validator(mode="after")
    def _others(self) -> "ReinforceSpec":
        if self.baseline != "none" and self.rollouts < 2:
            raise ValueError("rollouts: should be 2 or more: each is compared with the others")
        return self


class DqnSpec(Strict):
    """Deep Q-learning (Mnih 2015); `double` as van Hasselt 2016."""

    double: bool = False
    batch: Count = 64
    buffer: Count = 10_000
    #: How many episodes are played side by side; that many iterations follow each other then, too.
    episodes: Annotated[int, Field(ge=1, le=1000)] = 10
    #: Steps that are collected for each training iteration.
    collected: Count = 10
    #: Steps that are collected before the first.
    begin: Count = 1_000
    epsilon: Schedule = Schedule(first=0.1, last=0.01)
    #: Rewards of how many steps are summed up before the network's estimate takes over.
    steps: Annotated[int, Field(ge=1, le=1000)] = 1
    #: How many iterations pass between copies of the network into the target network.
    target_every: Count = 200

    @model_validator(mode="after")
    def _a_probability(self) -> "DqnSpec":
        if max(self.epsilon.first, self.epsilon.last) > 1:
            raise ValueError("epsilon: is a probability and should be at most 1")
        return self


class TrainingSpec(Strict):
    """A training file."""

    algorithm: Literal["dqn", "reinforce"]
    seed: Seed = 0
    cluster: str = "paper"
    #: Workloads by name or path, and how often each is drawn.
    workloads: Annotated[Mapping[str, Positive], Field(min_length=1)] = {"burst": 1.0}
    #: Worlds that are drawn instead, with beliefs of their own; rewards are in units of what
    #: first fit comes to in each of them.
    drawn: DrawnSpec | None = None
    #: What agent and teacher may expect of jobs' durations: the truth, or it with an error; a number is the
    #: standard deviation of its logarithm.
    belief: Literal["exact", "spread", "constant"] | Annotated[float, Field(ge=0, le=2)] = "exact"
    network: NetworkSpec = NetworkSpec()
    #: A trained policy, by name or folder, whose weights are the first; null: they are drawn by the seed.
    start: str | None = None
    observation: ObservationSpec = ObservationSpec()
    #: Whether the agent is kept from actions against the rules; if not, it learns them from the -200.
    mask: bool = True
    #: `dense`: what each job adds to the objective, when it is placed. `paper`: Islam 2022, Table 3.
    rewards: Literal["dense", "paper"] = "dense"
    #: Discount; of dense rewards from job to job, of the paper's from step to step.
    discount: Part = 0.95
    objective: ObjectiveSpec = ObjectiveSpec()
    #: How often in a row the agent may wait in training though the job fits; null: without bound.
    wait_limit: Annotated[int, Field(ge=0)] | None = 20
    #: How many jobs of the queue the agent looks at, the oldest of them; it places the best of those that
    #: fit, or lets time pass. 1: first come, first served.
    considered: Considered = 1
    #: How often the oldest job of the queue may be overtaken by others.
    overtaken_at_most: Overtaken = 32
    iterations: Count
    learning_rate: Schedule = Schedule(first=1e-3, last=5e-5)
    #: Gradients are made no longer than this; null: they are left as they are.
    gradient_norm: Positive | None = 1.0
    #: The weights that are evaluated and kept are a moving average of those that learn, of which this share
    #: stays in each iteration (Polyak 1992); 0: they are the last ones.
    averaging: Annotated[float, Field(ge=0, lt=1)] = 0.0
    evaluation: EvaluationSpec = EvaluationSpec()
    imitation: ImitationSpec | None = None
    reinforce: ReinforceSpec | None = None
    dqn: DqnSpec | None = None
    threads: Annotated[int, Field(ge=1, le=64)] = 2

    @model_validator(mode="after")
    def _fits_together(self) -> "TrainingSpec":
        if max(self.considered, self.as_deployed().considered) > 1 and self.rewards == "paper":
            raise ValueError("considered: should be 1 with the paper's rewards")
        other = "reinforce" if self.algorithm == "dqn" else "dqn"
        if getattr(self, other) is not None:
            raise ValueError(f"{other}: for the other algorithm; this one is {self.algorithm}")
        if self.rewards == "dense" and not self.mask:
            raise ValueError("mask: should be true with dense rewards, which have no violations")
        if self.rewards == "paper" and self.imitation is not None:
            raise ValueError("imitation: should be left out with the paper's rewards")
        if self.drawn is not None and not (self.rewards == "dense" and self.observation.name == "natural"):
            raise ValueError("drawn: needs dense rewards and the natural observation")
        if self.drawn is not None and self.network.kind != "shared":
            raise ValueError("drawn: needs a shared network: clusters differ in size")
        compared = self.algorithm == "reinforce" and (self.reinforce or ReinforceSpec()).baseline != "none"
        if self.rewards == "paper" and compared:
            raise ValueError("reinforce.baseline: should be none with the paper's rewards")
        if self.observation.name == "paper" and self.observation.types:
            raise ValueError("observation.types: should be [] with the paper's observation")
        if self.observation.name == "natural" and self.observation.types:
            raise ValueError("observation.types: should be [] with the natural observation")
        return self

    def as_deployed(self) -> "TrainingSpec":
        """Copy that considers as many jobs as when the agent is evaluated and decides later."""
        shown = {
            "considered": self.evaluation.considered or self.considered,
            "overtaken_at_most": self.evaluation.overtaken_at_most or self.overtaken_at_most,
        }
        return self.model_copy(update=shown)
