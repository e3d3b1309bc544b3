"""The experiments of Islam 2022, 7: trained policies and baselines on its cluster, and on larger ones.

`report.py` reports the runs, `plots.py` draws them.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from agents.drl.model_folder import shipped
from agents.experiments.comparison import Contender, SimulatedRun
from agents.experiments.runner import RunCall, Runner
from agents.experiments.seed_register import SeedRange, refuse_used
from agents.experiments.seeded_workload import draws_of
from agents.registry import create
from conf.loader import ConfigError, find, load
from conf.schema import Cluster
from conf.schema.workload import Poisson, WorkloadSpec
from environment.clusters.cluster_files import vms_of
from environment.simulation.durations.beliefs import EXACT, Belief
from environment.simulation.options import SimulationOptions
from environment.simulation.simulator import simulate
from environment.types import Vm
from profiles.workloads.generators import generate

#: All of the paper's (Table 5).
BETAS = (0.0, 0.25, 0.5, 0.75, 1.0)
#: The paper's (7.1), and best fit, which decides where a trained policy waits too long.
BASELINES = (
    *(Contender(name) for name in ("rr", "rrc", "ff")),
    *(Contender("ilp", {"beta": beta}) for beta in BETAS),
    Contender("aep"),
    Contender("best_fit"),
)
LOOKAHEADS = (
    *(Contender("lookahead", {"beta": beta}) for beta in BETAS),
    Contender("lookahead", {"base": "reinforce", "beta": 1.0}),
)
PATTERNS = ("normal", "burst")


@dataclass(frozen=True, slots=True)
class PaperSetting:
    """Setting of a comparison: a pattern of arrivals, the paper's or one `times` as heavy, and VMs."""

    pattern: str
    times: int
    vms: tuple[Vm, ...]
    #: Another number of jobs than the pattern's, before it is multiplied.
    jobs: int | None = None

    @property
    def name(self) -> str:
        """Name in tables."""
        return self.pattern if self.times == 1 else f"{self.pattern} x {self.times}, {len(self.vms)} VMs"


def scenes(jobs: int | None = None) -> tuple[PaperSetting, ...]:
    """Both patterns on the paper's cluster."""
    vms = _paper_times(1)
    return tuple(PaperSetting(pattern, 1, vms, jobs) for pattern in PATTERNS)


def scaled_scenes(jobs: int | None = None) -> tuple[PaperSetting, ...]:
    """Both patterns, four times on four times the paper's cluster, and eight times on a hundred VMs."""
    hundred = vms_of(load(find("clusters/hundred.yaml"), Cluster))
    sizes = ((4, _paper_times(4)), (8, hundred))
    return tuple(PaperSetting(pattern, times, vms, jobs) for pattern in PATTERNS for times, vms in sizes)


def learned() -> tuple[Contender, ...]:
    """The models that ship with Stoker, each at the beta that it is for, or at all that it serves."""
    found = {
        (spec.algorithm, beta)
        for spec in shipped().values()
        for beta in (BETAS if spec.betas else (spec.meant_for,))
        if spec.serves(beta)
    }
    return tuple(Contender(algorithm, {"beta": beta}) for algorithm, beta in sorted(found))


@dataclass(frozen=True, slots=True)
class PaperRuns:
    """Every contender in every scene on every seed. Everything is known, as in the paper, under `EXACT`."""

    places: Sequence[PaperSetting]
    contenders: tuple[Contender, ...]
    seeds: SeedRange
    belief: Belief = EXACT


def play(groups: Sequence[PaperRuns], runner: Runner) -> list[list[SimulatedRun]]:
    """The runs of each group. Decision times are those of a busy machine."""
    tasks = [(group, [(scene, seed) for scene in group.places for seed in group.seeds]) for group in groups]
    refuse_used(draw for _, of in tasks for scene, seed in of for draw in draws_of(_spec_of(scene), seed))
    calls = [
        [
            RunCall(
                play_one,
                (scene, seed, group.contenders, group.belief),
                f"{scene.name}, belief {group.belief}, seed {seed}",
                len(group.contenders) * scene.times**2,
            )
            for scene, seed in of
        ]
        for group, of in tasks
    ]
    found = iter(runner.run([call for of in calls for call in of]))
    return [[run for _ in of for run in next(found)] for of in calls]


def play_one(
    scene: PaperSetting, seed: int, contenders: Sequence[Contender], belief: Belief = EXACT
) -> list[SimulatedRun]:
    """Every policy in one scene on one seed."""
    workload = generate(_spec_of(scene), seed)
    options = SimulationOptions(belief=belief, seed=seed)
    made = (create(contender.name, contender.options) for contender in contenders)
    results = (simulate(policy, workload, scene.vms, options=options) for policy in made)
    return [
        SimulatedRun(contender.label, scene.name, seed, result)
        for contender, result in zip(contenders, results, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class LearningCurve:
    """Learning curve of a training run: the mean return of its evaluations."""

    algorithm: str
    #: The workload's name, or of a file, the file's.
    pattern: str
    #: The network and its observation.
    setup: str
    #: How many were asked for.
    planned: int
    iterations: tuple[int, ...]
    returns: tuple[float, ...]
    seconds: float

    @property
    def turned(self) -> int | None:
        """The first iteration at which the return was positive."""
        pairs = zip(self.iterations, self.returns, strict=True)
        return next((iteration for iteration, gained in pairs if gained > 0), None)


def read_curves(folder: Path) -> list[LearningCurve]:
    """The curves of the run in a folder that `stoker train` wrote, finished or not, one for each workload.

    ConfigError when it holds none.
    """
    try:
        config = yaml.safe_load((folder / "config.yaml").read_text(encoding="utf-8"))
        lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise ConfigError(f"--curves: {error.filename}: {error.strerror or error}") from error
    try:
        history: list[Mapping[str, float]] = [json.loads(line) for line in lines]
        return [_curve(config, history, workload) for workload in config["workloads"]]
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise ConfigError(f"--curves {folder}: not written by `stoker train`: {error!r}") from error


def _curve(config: Mapping[str, Any], history: Sequence[Mapping[str, float]], workload: str) -> LearningCurve:
    iterations = tuple(int(entry["iteration"]) for entry in history)
    returns = tuple(_return(entry, workload) for entry in history)
    seconds = float(history[-1]["seconds"])
    planned, algorithm = int(config["iterations"]), str(config["algorithm"])
    pattern = Path(workload).name  # a workload that is a file is told by its name
    return LearningCurve(algorithm, pattern, _setup(config), planned, iterations, returns, seconds)


#: The set-up that the paper describes.
PAPER_SETUP = "flat network, paper observation"


def _setup(config: Mapping[str, Any]) -> str:
    """Set-up in words, `PAPER_SETUP` for the paper's."""
    said = f"{config['network']['kind']} network, {config['observation']['name']} observation"
    entropy = ((config.get("reinforce") or {}).get("entropy") or {}).get("first", 0.0)
    return f"{said}, entropy" if entropy > 0 else said


def _return(entry: Mapping[str, object], workload: str) -> float:
    of: Mapping[str, Mapping[str, float]] = entry["evaluation"]  # type: ignore[assignment]
    return float(of[workload]["return"])


def _paper_times(times: int) -> tuple[Vm, ...]:
    paper = load(find("clusters/paper.yaml"), Cluster)
    groups = [group.model_copy(update={"count": group.count * times}) for group in paper.vms]
    return vms_of(paper.model_copy(update={"vms": groups}))


def _spec_of(scene: PaperSetting) -> WorkloadSpec:
    spec = load(find(f"workloads/{scene.pattern}.yaml"), WorkloadSpec)
    update: dict[str, object] = {"jobs": (scene.jobs or spec.jobs) * scene.times}
    if isinstance(spec.arrivals, Poisson):
        rate = spec.arrivals.jobs_per_hour * scene.times
        update["arrivals"] = spec.arrivals.model_copy(update={"jobs_per_hour": rate})
    return spec.model_copy(update=update)
