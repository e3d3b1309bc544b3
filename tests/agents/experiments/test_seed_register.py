"""The register of seeds covers training files, cards and documents, and keeps the blocks of reports free."""

import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from agents.experiments.decisions.runs import draws, few_tasks
from agents.experiments.decisions.shifted_cases import cases
from agents.experiments.elastic.runs import scenes, with_every_keeper, with_moves
from agents.experiments.seed_register import (
    REHEARSAL,
    UsedSeedError,
    refuse_used,
    register,
    seeds_of,
)
from agents.experiments.seeded_workload import Draw, SeededWorkload, draws_of, made_by
from agents.experiments.sharing.runs import scenes as sharing_scenes
from conf.loader import find, load
from conf.schema.training import REPORTED, TrainingSpec
from conf.schema.workload import Poisson, WorkloadSpec
from daemon.cli import main
from environment.training.episodes import FIRST_TRAINING_SEED

REPOSITORY = Path(__file__).parents[3]
TRAINING = (
    *sorted((REPOSITORY / "conf/train").glob("*.yaml")),
    *sorted((REPOSITORY / "agents/drl/models").glob("*/config.yaml")),
)
#: Where seeds are named: cards, and pages with results; reliability.md's seeds are of faults.
PAGES = (
    *sorted((REPOSITORY / "agents/drl/models").glob("*/card.md")),
    *sorted((REPOSITORY / "docs/results").glob("*.md")),
    *(
        REPOSITORY / "docs" / f"{name}.md"
        for name in ("policies", "workloads", "tutorial", "training", "elastic")
    ),
    *sorted((REPOSITORY / "agents/experiments").rglob("report*.py")),
)
BURST = WorkloadSpec(jobs=100, arrivals=Poisson(kind="poisson", jobs_per_hour=600))


def _of_training(path: Path) -> Iterator[Draw]:
    """Draws by which a training run chooses its iteration."""
    values = yaml.safe_load(path.read_text(encoding="utf-8"))
    spec = load(path, TrainingSpec)
    first = spec.evaluation.first_seed
    for seed in range(first, first + spec.evaluation.seeds):
        if values.get("drawn") is not None:
            yield made_by("draw_world", seed)
        else:
            for name in spec.workloads:
                yield from draws_of(load(find(f"workloads/{name}.yaml"), WorkloadSpec), seed)


@pytest.mark.parametrize("path", TRAINING, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_seeds_that_choose_an_iteration_are_registered(path: Path) -> None:
    """Of each workload of a training file, by content."""
    for draw in _of_training(path):
        assert {use.purpose for use in register().uses(draw)} & {"selection"}, f"{draw.name}, {draw.number}"


def test_training_itself_is_registered() -> None:
    """Training draws seeds from its own space."""
    for seed in (FIRST_TRAINING_SEED, 2**62 - 1):
        for draw in (*draws_of(BURST, seed), made_by("draw_world", seed)):
            assert [use.purpose for use in register().uses(draw)] == ["training"]


def _named(text: str) -> Iterator[int]:
    """Seeds that a text names: spans in words, and options of commands."""
    for first, last in re.findall(r"seeds? (\d+)(?: to (\d+))?", text):
        yield from (int(first), int(last or first))
    for first, count in re.findall(r"--seed (\d+)(?: --seeds (\d+))?", text):
        yield from (int(first), int(first) + int(count or 1) - 1)
    if re.search(r"stoker (?:simulate|workload|evaluate)[^\n`]*--seeds \d+", text):
        yield 0


def test_seeds_that_pages_name_are_registered() -> None:
    """Of cards and documents: each is used, or of a block."""
    used = [span for use in register().used for span in use.numbers]
    spans = [*used, *register().blocks.values()]
    found = {
        (str(path.relative_to(REPOSITORY)), seed)
        for path in PAGES
        for seed in _named(path.read_text(encoding="utf-8"))
    }
    assert len(found) > 20
    assert {each for each in found if not any(first <= each[1] <= last for first, last in spans)} == set()


def test_blocks_are_disjoint_and_free() -> None:
    """No seed is of two blocks, or of a block and used, whatever its source; training refuses all of them."""
    blocks = sorted(register().blocks.values())
    assert all(before[1] < after[0] for before, after in itertools.pairwise(blocks))
    (seeds_of_results,) = [span for span in REPORTED if blocks[0][0] in span]
    for first, last in blocks:
        assert first in seeds_of_results
        assert last in seeds_of_results
        for use in register().used:
            if use.sources != ("alibaba",):
                assert all(last < of or until < first for of, until in use.numbers), use.what


def test_what_reports_draw_is_free() -> None:
    """All workloads of all cases and scenes with the seeds of their blocks, the places in traces included."""
    for report, workloads in {
        "decisions": [each.workload for each in cases()],
        "elastic": [scene.workload for scene in (*scenes(), *with_every_keeper())],
        "moves": [scene.workload for scene in with_moves()],
        "sharing": [scene.workload for scene in sharing_scenes()],
        REHEARSAL: [each.workload for each in cases()],
    }.items():
        seeds = seeds_of(report, 20)
        assert seeds.own
        assert ("nothing was tuned" in str(seeds)) == (report != REHEARSAL)
        refuse_used(draw for workload in workloads for seed in seeds for draw in workload.draws(seed))
    refuse_used(draws((), few_tasks(seeds_of("decisions", 12))))


def test_the_same_jobs_are_the_same_draw() -> None:
    """Whatever arrivals, number of jobs, changed durations or file; another mix is another draw."""
    busy = load(find("workloads/busy.yaml"), WorkloadSpec)
    other = SeededWorkload(BURST, change=lambda workload, _: workload.first(3))
    assert {draws_of(busy, 7)[0].source, *(draw.source for draw in other.draws(7, 50))} == {
        draws_of(BURST, 7)[0].source
    }
    teams = load(find("workloads/teams.yaml"), WorkloadSpec)
    assert draws_of(teams, 7)[0].source != draws_of(BURST, 7)[0].source
    tasks = draws_of(load(find("workloads/alibaba.yaml"), WorkloadSpec), 7)
    assert [draw.number for draw in tasks] == list(range(1000, 1200))


def test_a_used_seed_is_refused() -> None:
    """The error names the seed and its use."""
    with pytest.raises(UsedSeedError, match=r"position 306 of this mix of jobs: .*tuning \(constants of gr"):
        refuse_used(draws_of(BURST, 306))
    refuse_used(draws_of(BURST, 700_000))


@pytest.mark.parametrize(
    ("command", "seed"),
    [
        ("reproduce baselines", 200),
        ("reproduce belief", 119),
        ("reproduce islam2022", 0),
        ("reproduce elastic", 200),
        ("reproduce decisions", 301),
        ("reproduce sharing", 300),
        ("reproduce estimates", 501),
        ("oga reproduce", 1),
    ],
)
def test_no_result_is_published_on_a_used_seed(
    command: str, seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything is run: one line, exit code 2, no file."""
    assert main([*command.split(), "--seed", str(seed), "--seeds", "2", "--out", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert "not for results, it was used for" in error
    assert error.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_seeds_of_another_block_are_named() -> None:
    """The header has the option that repeats them, and no claim."""
    others = seeds_of("elastic", 12, 700_000)
    assert others.option == " --seed 700000"
    assert "not of the block" in str(others)
    assert seeds_of("elastic", 12).option == ""
