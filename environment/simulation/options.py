"""Options of a simulation beside policy, workload and cluster; of the outside only files are read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from environment.clusters.commitments import Commitment
from environment.clusters.price_history import PriceHistory
from environment.clusters.spot_availability import SpotTrace
from environment.decisions.sizing import Sizes
from environment.kernel.rule_options import DurationOptions
from environment.pools import BREAK_EVEN, NO_MOVES, Consolidation, IdleTimeout
from environment.queues.types import Sharing
from environment.simulation.durations.beliefs import Belief
from environment.simulation.durations.fitted_model import FittedDurations, Pace
from environment.simulation.durations.spot_beliefs import SpotBelief
from environment.simulation.faults.losses import Loss
from environment.types import EXECUTOR_IDLE, Dynamic, Job, Preference
from profiles.job_profile import JobProfile, load_profiles
from profiles.shapes.runs import ShapeRun
from profiles.workloads.varied import Varied

#: A run that takes more events than these, and so many for each job, does not end in minutes. Chosen: where
#: nothing is taken away a job has three or four, on the spot VMs of docs/elastic.md about as many.
EVENTS = 200_000
EVENTS_PER_JOB = 1_000


@dataclass(frozen=True, slots=True)
class SimulationOptions:
    """Options of a run beside policy, workload and cluster."""

    durations: DurationOptions = field(default_factory=DurationOptions)
    #: Durations as they were measured, instead of `durations`.
    fitted: FittedDurations | None = None
    #: By job type: which placement it prefers. Types that are not there prefer none.
    profiles: Mapping[str, JobProfile] = field(default_factory=load_profiles)
    #: By job type: which placement policies are shown that it prefers, where that is not the truth.
    shown: Mapping[str, Preference | None] = field(default_factory=dict)
    #: Beliefs of policies about all that, and the seed of their errors.
    belief: Belief = field(default_factory=Belief)
    seed: int = 0
    #: Beliefs about spot VMs.
    spot_belief: SpotBelief = field(default_factory=SpotBelief)
    #: Whether beliefs about running jobs are those of a daemon, by the rule of placement: no daemon knows a
    #: fitted model's effects of placement and neighbours.
    as_daemon: bool = False
    #: How long idle VMs of pools are kept.
    keeping: IdleTimeout = BREAK_EVEN
    #: When running executors are moved so that VMs of pools close.
    consolidation: Consolidation = NO_MOVES
    #: Prices of VMs of spot pools over time, by pool; others have the cluster's.
    prices: Mapping[str, PriceHistory] = field(default_factory=dict)
    #: Number of VMs of spot pools over time, by pool; others are always there, and interrupted at a rate.
    availability: Mapping[str, SpotTrace] = field(default_factory=dict)
    #: Limits of what open VMs cost per hour, dollars by pool; an empty name means all VMs.
    per_hour: Mapping[str, float] = field(default_factory=dict)
    #: Limits of what VMs cost on a day and in a month, likewise.
    per_day: Mapping[str, float] = field(default_factory=dict)
    per_month: Mapping[str, float] = field(default_factory=dict)
    #: What is paid anyway, on all days of a run.
    commitments: tuple[Commitment, ...] = ()
    #: Losses on the way; none by default.
    losses: tuple[Loss, ...] = ()
    #: How sizes are chosen that jobs leave open, and whether others may be smaller too.
    sizes: Sizes = field(default_factory=Sizes)
    #: Runs that are known from the start, the oldest first, for jobs that leave their sizes to Stoker.
    runs: tuple[ShapeRun, ...] = ()
    #: Whether executors join running jobs that began with fewer, while no job waits.
    grows: bool = True
    #: All jobs have dynamic allocation, with at least so many executors; None: those that say so.
    dynamic: int | None = None
    #: Seconds after which drivers of jobs with dynamic allocation release idle executors.
    executor_idle: float = EXECUTOR_IDLE
    #: Queues, and the order in which their jobs are placed; None: first come, first served over all queues.
    sharing: Sharing | None = None
    #: How many executors and drivers run at once, as all of them share one machine; None: any number.
    jvms: int | None = None
    #: Properties drawn by seed for workloads that are fixed, such as files; none by default.
    vary: tuple[Varied, ...] = ()
    #: How many events, decisions among them, a run takes at most; None: `EVENTS` and so many for each job.
    most_events: int | None = None
    #: Keep the policies' scores of every VM with every decision; large for large clusters.
    scores: bool = False

    def events(self, jobs: int) -> int:
        """Maximum number of events in a run of so many jobs."""
        return EVENTS + EVENTS_PER_JOB * jobs if self.most_events is None else self.most_events

    def allocated(self, job: Job) -> Job:
        """The job with dynamic allocation, where all have it and it has none."""
        if self.dynamic is None or job.dynamic is not None:
            return job
        least = min(self.dynamic, job.executors)
        return replace(job, dynamic=Dynamic(least, least), min_executors=None, min_cpus=None)

    def drawn(self, seed: int) -> "SimulationOptions":
        """Copy of the options with this seed for everything drawn."""
        fitted = self.fitted and replace(self.fitted, seed=seed)
        return replace(self, fitted=fitted, seed=seed)

    @property
    def truth(self) -> str:
        """Source of jobs' real durations: profile, fitted or drawn."""
        if self.fitted is None:
            return "drawn" if "durations" in self.vary else "profile"
        return "drawn" if self.fitted.draw == "sample" else "fitted"


def believed(jobs: Sequence[Job], options: SimulationOptions, pace: Pace | None = None) -> tuple[Job, ...]:
    """The jobs, of known true durations, with the beliefs shown to policies in their place."""
    known = {*options.profiles, *(options.fitted.model.types if options.fitted else ())}
    mean = pace.mean if pace is not None and options.truth == "drawn" else None
    jobs = options.belief.of(jobs, options.seed, mean=mean, known=known)
    shown = options.shown
    return tuple(replace(job, prefers=shown[job.type]) if job.type in shown else job for job in jobs)
