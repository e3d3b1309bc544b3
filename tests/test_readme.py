"""The commands that README.md shows, one after the other: each works, and none writes over what is published.

Those that need a daemon or minutes of Spark are run by tests of their own, which are named here.
"""

import hashlib
import re
import shlex
import shutil
from pathlib import Path

import pytest

from agents.experiments.fidelity import Fidelity
from daemon.cli import main, validation
from environment.simulation.fitted import write_model
from profiles.runs import write_runs
from tests.agents.test_fidelity import MODEL, fidelity
from tests.profiles.measured import make_run

REPOSITORY = Path(__file__).parents[1]
#: What is published, or read by who comes along with the project.
PUBLISHED = ("agents/drl/models", "conf", "docs", "profiles", "README.md")
#: Where these are run: by command, the test.
ELSEWHERE = {
    "up": "tests/daemon/test_end_to_end.py",
    "submit": "tests/daemon/test_end_to_end.py",
    "profile run": "tests/daemon/cli/test_profile.py",
}
#: What makes the others short.
SHORTER = {
    "simulate": ["--seeds", "1", "--jobs", "3"],
    "train": ["--set", "iterations=1", "--set", "imitation=null", "--set", "evaluation.seeds=1"],
    "evaluate": ["--seeds", "1", "--policy", "rr", "--workload", "burst"],
}

__all__ = ["fidelity"]
#: What TensorFlow and TF-Agents say when they are imported, compile and save.
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::SyntaxWarning"),
    pytest.mark.filterwarnings("ignore:Encoding a StructuredValue"),
]


def shown() -> list[list[str]]:
    """The commands `stoker ...` of README's blocks, without what is said of them."""
    blocks = re.findall(r"```console\n(.*?)```", (REPOSITORY / "README.md").read_text(), re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    found = [shlex.split(line[2:], comments=True) for line in lines if line.startswith("$ ")]
    return [words[1:] for words in found if words[0] == ".venv/bin/stoker"]


def published() -> dict[str, str]:
    """What every published file holds."""
    paths = [path for name in PUBLISHED for path in [REPOSITORY / name, *(REPOSITORY / name).rglob("*")]]
    files = [path for path in paths if path.is_file() and "__pycache__" not in path.parts]
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.mark.slow
def test_commands_work_and_write_over_nothing_that_is_published(
    fidelity: Fidelity, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """From the checkout's folder, as a reader would run them."""
    before, checkout = published(), tmp_path / "checkout"
    for name in ("conf", "docs"):
        shutil.copytree(REPOSITORY / name, checkout / name)
    copied = {path: path.read_bytes() for path in checkout.rglob("*") if path.is_file()}
    monkeypatch.chdir(checkout)
    # What `profile run` leaves, and what comes of real Spark, which takes minutes.
    runs = [make_run(name=f"sort-{n}", type=kind, copy=n) for n in range(3) for kind in ("sort", "wordcount")]
    write_runs(Path("stoker-profiles/plan"), runs, {"machine": {}})
    write_model(Path("stoker-profiles/plan"), MODEL)
    monkeypatch.setattr(validation, "compared", lambda *_: fidelity)
    tried = set()
    for words in shown():
        name = next(
            name
            for name in (" ".join(words[:2]), words[0])
            if name in ELSEWHERE | SHORTER or name[0:7] == "profile"
        )
        if name not in ELSEWHERE:
            assert main([*words, *SHORTER.get(name, ())]) == 0, (words, capsys.readouterr().err)
            tried.add(name)
    assert tried == {"simulate", "train", "evaluate", "profile show", "profile fit", "profile validate"}
    assert published() == before
    assert {path: path.read_bytes() for path in copied} == copied
    new = {path.relative_to(checkout).parts[0] for path in checkout.rglob("*") if path.is_file()}
    assert new == {"conf", "docs", "policies", "stoker-profiles", "stoker-results"}
    ignored = (REPOSITORY / ".gitignore").read_text().splitlines()
    assert {f"/{name}/" for name in new - {"conf", "docs"}} <= set(ignored)


def test_no_report_goes_to_what_is_published_unless_told_so() -> None:
    """Not by any option of any command, when it is left out."""
    import typer

    from daemon.cli import app

    def defaults(command: object, path: str) -> dict[str, str]:
        inner = getattr(command, "commands", None)
        if inner:
            return {k: v for name, sub in inner.items() for k, v in defaults(sub, f"{path} {name}").items()}
        options = {option.name: str(option.default) for option in command.params}  # type: ignore[attr-defined]
        return {f"{path} {name}": value for name, value in options.items()}

    found = defaults(typer.main.get_command(app), "stoker")
    assert found["stoker profile validate out"] == "stoker-results/fidelity.md"
    assert not [name for name, value in found.items() if value.startswith("docs")]


#: In which pages name files.
FOLDERS = "agents|conf|daemon|deploy|docs|environment|framework|profiles|tests"
PAGES = [*sorted(REPOSITORY.glob("*.md")), *sorted((REPOSITORY / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_pages_name_is_there(page: Path) -> None:
    """Commands, metrics of the daemon, files of the tree, tests."""
    import typer

    from daemon.cli import app

    text, known = page.read_text(encoding="utf-8"), typer.main.get_command(app)
    for words in re.findall(r"(?:^ {4}|`)(?:\.venv/bin/)?stoker ([a-z][a-z0-9 -]*)", text, re.MULTILINE):
        command: object = known
        for word in words.split():
            inner = getattr(command, "commands", None)
            if not inner:
                break
            assert word in inner, f"stoker {words}"
            command = inner[word]
    metrics = "".join(path.read_text() for path in (REPOSITORY / "daemon").glob("**/*metrics.py"))
    for name in re.findall(r"`(stoker_[a-z_]+)", text):
        assert f'"{name.removesuffix("_total")}"' in metrics, name
    for name in re.findall(rf"`((?:{FOLDERS})/[\w./-]+\.\w+)`", text):
        assert (REPOSITORY / name).exists(), name


@pytest.mark.parametrize("page", [*PAGES], ids=lambda page: page.name)
def test_tests_that_pages_name_are_there(page: Path) -> None:
    """`test_module::test_name`, and `::test_name` for another one of the module before."""
    functions: dict[str, str] = {}
    for path in (REPOSITORY / "tests").rglob("test_*.py"):
        functions[path.stem] = functions.get(path.stem, "") + path.read_text()
    module = ""
    for name, function in re.findall(
        r"`(?:[a-z/_0-9]*/)?(test_\w+)?(?:\.py)?(?:::(test_\w+))?`", page.read_text()
    ):
        module = name or module
        if module:
            assert module in functions, module
        if function:
            assert f"def {function}(" in functions[module], f"{module}::{function}"
