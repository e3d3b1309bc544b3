"""The rules once more in plain Python, as slow and as clear as can be, to hold the compiled kernel against.

It shares no code with the kernel. Cpus are whole thousandths, and VMs are numbered from 0.
"""

from dataclasses import dataclass, field

from environment.kernel.rule_options import DurationOptions, RewardOptions


@dataclass
class Machine:
    """A VM: its capacity, and the executors that run on it."""

    milli_cpus: int
    memory_mib: int
    price_per_hour: float
    executors: list[int] = field(default_factory=list)  # job numbers
    taken_at: float = 0.0
    seconds: float = 0.0


@dataclass
class Work:
    """A job, its placement, and when it started and ends."""

    arrival: float
    milli_cpus: int
    memory_mib: int
    executors: int
    prefers: str  # spread, consolidate, or nothing
    duration: float
    placement: list[int] = field(default_factory=list)
    sizes: list[tuple[int, int]] = field(default_factory=list)  # milli-cpus and MiB of each executor there
    start: float | None = None
    end: float | None = None


class Reference:
    """One episode."""

    def __init__(
        self, machines: list[Machine], jobs: list[Work], rewards: RewardOptions, durations: DurationOptions
    ) -> None:
        self.machines, self.jobs = machines, jobs
        self.rewards, self.durations = rewards, durations
        self.clock = jobs[0].arrival
        self.head = 0
        self.running: list[int] = []
        self.waits = 0
        self.over = False

    def free_milli_cpus(self, vm: int) -> int:
        """Thousandths of cpus that no executor has taken."""
        return self.machines[vm].milli_cpus - sum(milli_cpus for milli_cpus, _ in self.taken(vm))

    def free_memory_mib(self, vm: int) -> int:
        """MiB that no executor has taken."""
        return self.machines[vm].memory_mib - sum(memory_mib for _, memory_mib in self.taken(vm))

    def taken(self, vm: int) -> list[tuple[int, int]]:
        """Cpu thousandths and MiB taken by each executor on the VM."""
        held = [self.jobs[number] for number in set(self.machines[vm].executors)]
        return [size for job in held for at, size in zip(job.placement, job.sizes, strict=True) if at == vm]

    def fits(self, vm: int) -> bool:
        """Whether the VM has the resources that an executor of the head needs."""
        job = self.jobs[self.head]
        return self.free_milli_cpus(vm) >= job.milli_cpus and self.free_memory_mib(vm) >= job.memory_mib

    def legal(self) -> list[bool]:
        """Which actions are no violation."""
        if self.over:
            return [False] * (len(self.machines) + 1)
        may_wait = bool(self.running) and not self.jobs[self.head].placement
        return [may_wait, *(self.fits(vm) for vm in range(len(self.machines)))]

    def room(self) -> int:
        """How many executors of the head could be placed now."""
        job = self.jobs[self.head]
        return sum(
            min(self.free_milli_cpus(vm) // job.milli_cpus, self.free_memory_mib(vm) // job.memory_mib)
            for vm in range(len(self.machines))
        )

    def observation(self) -> list[float]:
        """Islam 2022, 4."""
        seen = []
        for vm in range(len(self.machines)):
            price = self.machines[vm].price_per_hour
            seen += [self.free_milli_cpus(vm) / 1000, self.free_memory_mib(vm) / 1024, price]
        if self.head == len(self.jobs):
            return [*seen, 0, 0, 0, 0]
        job = self.jobs[self.head]
        left = job.executors - len(job.placement)
        return [*seen, self.head + 1, job.milli_cpus / 1000, job.memory_mib / 1024, left]

    def step(self, action: int) -> float:
        """Take an action; return its reward."""
        if self.over:
            return 0.0
        if not 0 <= action <= len(self.machines) or not self.legal()[action]:
            self.over = True
            return self.rewards.violation
        if action == 0:
            self.waits += 1
            self.pass_time(min(self.end_of(j) for j in self.running))
            return self.rewards.waited
        return self.put(action - 1)

    def bring_forward(self, number: int) -> None:
        """A job that is not placed overtakes all others that are not."""
        self.jobs.insert(self.head, self.jobs.pop(number))

    def grant(self, executors: int, duration: float) -> None:
        """The head is given so many executors only, and takes so long on them."""
        job = self.jobs[self.head]
        job.executors, job.duration = executors, duration

    def put(self, vm: int, size: tuple[int, int] | None = None) -> float:
        """Put an executor of the head on the VM, of its own size or of another."""
        job, machine = self.jobs[self.head], self.machines[vm]
        if not machine.executors:
            machine.taken_at = self.clock
        machine.executors.append(self.head)
        job.placement.append(vm)
        job.sizes.append(size or (job.milli_cpus, job.memory_mib))
        if len(job.placement) < job.executors:
            return self.rewards.placed
        job.start = self.clock
        job.end = self.clock + self.seconds_for(job)
        self.running.append(self.head)
        self.head += 1
        if self.head < len(self.jobs):
            self.pass_time(max(self.clock, self.jobs[self.head].arrival))
            return self.rewards.placed
        self.pass_time(max(self.end_of(j) for j in self.running))
        self.over = True
        return self.episode_reward()

    def good(self, job: Work) -> bool:
        """Whether the placement is as the job prefers; one executor is both spread and consolidated."""
        vms = len(set(job.placement))
        if job.prefers == "spread":
            return vms == job.executors
        return vms == 1 if job.prefers == "consolidate" else True

    def seconds_for(self, job: Work) -> float:
        """Its duration where it was placed."""
        if self.durations.model == "fixed" or self.good(job):
            return job.duration
        return job.duration * self.durations.penalty

    def pass_time(self, until: float, slack: float = 0.0) -> None:
        """Let the clock go to `until`; jobs end on the way, also those that would within so many seconds."""
        for number in sorted(self.running, key=lambda j: (self.end_of(j), j)):
            end = self.end_of(number)
            if end <= until + slack:
                self.running.remove(number)
                for vm in self.jobs[number].placement:
                    machine = self.machines[vm]
                    machine.executors.remove(number)
                    if not machine.executors:
                        machine.seconds += end - machine.taken_at
        self.clock = until

    def end_of(self, number: int) -> float:
        """When a job that started ends."""
        end = self.jobs[number].end
        assert end is not None
        return end

    def cost(self) -> float:
        """Eq. 4, up to the clock."""
        dollars = 0.0
        for machine in self.machines:
            held = machine.seconds + (self.clock - machine.taken_at if machine.executors else 0.0)
            dollars += machine.price_per_hour * held / 3600
        return dollars

    def episode_reward(self) -> float:
        """Eq. 7 to 14."""
        longest = []
        for job in self.jobs:
            can_be_bad = job.executors > 1 and job.prefers and self.durations.model == "paper"
            longest.append(job.duration * (self.durations.penalty if can_be_bad else 1))
        cost_max = sum(longest) * sum(machine.price_per_hour for machine in self.machines) / 3600
        cost_normalized = self.cost() / cost_max if cost_max else 0
        count = len(self.jobs)
        average = sum((job.end or 0) - (job.start or 0) for job in self.jobs) / count
        shortest_average = sum(job.duration for job in self.jobs) / count
        longest_average = sum(longest) / count
        time_normalized = 0.0
        if longest_average > shortest_average:
            time_normalized = (average - shortest_average) / (longest_average - shortest_average)
        beta = self.rewards.beta
        score = beta * (1 - cost_normalized) + (1 - beta) * (1 - time_normalized)
        return self.rewards.fixed * score
