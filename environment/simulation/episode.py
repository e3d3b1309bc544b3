"""The kernel's arrays for one simulation: its jobs and VMs as they are, and as policies believe them."""

from collections.abc import Sequence

from environment.kernel import resized_jobs
from environment.kernel.arrays import episode_of, plain
from environment.kernel.rule_options import DurationOptions, RewardOptions, rules
from environment.kernel.state import Batch, make_batch
from environment.resources import NOTHING
from environment.simulation.auto_jobs import AutoJobs
from environment.simulation.cluster import SimulatedCluster
from environment.simulation.durations.fitted_model import Pace
from environment.simulation.options import SimulationOptions, believed
from environment.simulation.results.billing import Meter
from environment.types import Job, Vm

#: Where lost executors are until they are placed again: it has nothing, and costs nothing.
_NOWHERE = Vm("", "", "", NOTHING, 0.0)


class SimulatedEpisode:
    """The arrays of one episode, the cluster and the costs that are read from them, and the beliefs."""

    def __init__(
        self,
        jobs: Sequence[Job],
        vms: tuple[Vm, ...],
        options: SimulationOptions,
        pace: Pace | None = None,
        *,
        told: Sequence[Job] | None = None,
        auto: AutoJobs | None = None,
    ) -> None:
        """`jobs` in order of arrival; the options define the beliefs about them, unless `told` does.

        `auto` chooses the sizes of those that leave them open when they arrive.
        """
        self.vms, self.options, self.auto = vms, options, auto
        #: The jobs by id, with their true properties.
        self.truth = {job.id: job for job in jobs}
        #: The jobs in order of arrival, with the believed properties.
        self.believed = believed(jobs, options, pace) if told is None else tuple(told)
        believed_vms = vms
        spot = any(vm.spot for vm in vms)
        if spot:
            self.believed, believed_vms = options.spot_belief.of(self.believed, vms, options.seed)
        #: Whether jobs may preempt executors of others.
        self.gives_way = options.sharing is not None and bool(options.sharing.preemption.by)
        dynamic = any(job.dynamic is not None for job in jobs)
        #: Whether executors may leave their VMs before their job ends.
        self.tracks = spot or bool(options.losses or options.consolidation) or self.gives_way or dynamic
        rows = (*vms, _NOWHERE) if self.tracks else vms
        # With a pace, only the pace knows a job's duration, and the kernel learns it when the job is placed.
        self.pace = pace
        widest = [auto.reserved(job) for job in jobs] if auto else jobs
        durations = DurationOptions(model="fixed") if pace else options.durations
        self.batch: Batch = make_batch(
            [episode_of(widest, rows, keeping=options.keeping, seed=options.seed)],
            rules(RewardOptions(), durations),
        )
        self.spared = resized_jobs.nothing_spared(self.batch)
        #: The cost of all that.
        self.meter = Meter(self.batch, vms, options.prices, options.commitments)
        self.cluster = SimulatedCluster(self.batch, believed_vms, jobs, self.meter, options)

    @property
    def now(self) -> float:
        """Seconds since the workload began."""
        return float(self.batch.state.clock[0])

    @property
    def head(self) -> int:
        """The number of the first job that was never placed."""
        return int(self.batch.state.head[0])

    @property
    def plain(self) -> bool:
        """Whether the kernel models all of it, but for jobs that grow, or are held back.

        VMs that are always there, of which jobs ask for cpus and memory; gangs, first come, first served,
        held up only by those before them, and by a limit on the JVMs of one machine; all of one user.
        """
        options = self.options
        special = self.tracks or self.cluster.elastic or self.cluster.special or options.sharing is not None
        # The kernel has one preference of each job, the true one.
        asked = self.auto or self.pace is not None or options.scores or bool(options.shown)
        asked = asked or bool(self.meter.covered) or len({job.owner for job in self.believed}) > 1
        return not (special or asked) and plain(self.believed)
