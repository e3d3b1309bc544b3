"""The commands of README and of pages for users, one after the other: each works, and harms no page.

Those that need minutes of Spark, a cloud or root are run by tests of their own, which are named here.
"""

import hashlib
import re
import shlex
import shutil
import sys
import threading
import time
from pathlib import Path

import pytest
import yaml
from pydantic import BaseModel

from agents import registry
from agents.experiments.fidelity import Fidelity
from conf.loader import build
from conf.schema import Availability, Billing, Cluster, Config, JobSpec, Pool, Spot, VmGroup
from conf.schema.users import UsersFile
from conf.schema.workload import WorkloadSpec
from daemon.cli import main
from daemon.cli.profile import validate_simulator
from environment.simulation.durations.fitted_model import write_model
from profiles.runs import write_runs
from tests.agents.experiments.test_fidelity import MODEL, fidelity
from tests.daemon.cli.conftest import Cast, Daemon, cast, daemon
from tests.docs.pages import PAGES, REPOSITORY, commands, files, is_collected, programs
from tests.profiles.measured import make_run

__all__ = ["cast", "daemon", "fidelity"]
#: What is published, or read by who comes along with the project.
PUBLISHED = ("agents/drl/models", "conf", "docs", "profiles", "README.md")
#: The pages whose commands are run here, in a checkout, beside a daemon whose jobs finish at once.
HERE = ("README.md", "tutorial.md", "policies.md", "clusters.md", "workloads.md", "training.md")
#: Commands of other pages that are run here, too: by page, what they begin with.
ASKED = {"elastic.md": ("stoker bill",), "sharing.md": ("stoker queue",)}
#: Where those of other pages are run: by page and what they begin with, the test that reads them there.
PAGES_ELSEWHERE: dict[str, dict[str, str]] = {
    "elastic.md": {
        "stoker simulate": (
            "tests/daemon/cli/research/test_simulate.py::test_vms_that_come_and_go_have_a_bill"
        ),
        **dict.fromkeys(
            ("sed", "echo"),
            "tests/daemon/cli/research/test_simulate.py::test_vms_that_come_and_go_have_a_bill",
        ),
        "stoker reproduce elastic": (
            "tests/agents/experiments/elastic/test_report.py::test_a_scene_is_played_by_all_its_setups_alike"
        ),
        **dict.fromkeys(
            ("stoker config", "stoker up", "stoker submit", "stoker cluster", "stoker job"),
            "tests/daemon/end_to_end/test_elastic.py::test_the_commands_for_operators",
        ),
    },
    "shapes.md": {
        "stoker shapes": (
            "tests/daemon/cli/shapes/test_shape_table.py::test_the_shapes_of_a_table_with_the_choice_marked"
        ),
        "stoker reproduce shapes": (
            "tests/agents/experiments/shapes/test_report.py::test_the_command_writes_the_report"
        ),
    },
    "sharing.md": {
        "stoker user": "tests/daemon/auth/test_page.py::test_its_commands",
        **dict.fromkeys(
            (
                "stoker simulate",
                "stoker up",
                "export",
                "umask",
                "stoker submit",
                "stoker job",
                "stoker kill",
            ),
            "tests/daemon/queues/test_three_teams.py::test_its_commands_print_what_is_shown",
        ),
    },
    "substrates.md": {
        "python -m tests.daemon": (
            "tests/daemon/substrate/test_without_mesos.py"
            "::test_a_job_runs_without_mesos_while_the_daemon_is_killed"
        ),
    },
    "submit.md": {
        "python -m stoker": "tests/client/test_submit_page.py::test_commands",
        "stoker spark-conf": "tests/doors/test_client_mode.py::test_the_settings_are_as_documented",
        "stoker prune": (
            "tests/daemon/cli/operate/test_maintenance.py::test_pruning_says_what_would_go_and_then_does_it"
        ),
        "spark-submit": "tests/doors/test_spark_submit.py::test_python_with_all_that_it_brings",
        "pyspark": "tests/doors/test_client_mode.py::test_a_shell_outlives_executors_and_the_daemon",
        **dict.fromkeys(
            ("spark-shell", "spark-sql"),
            "tests/doors/test_client_mode.py::test_lines_for_a_shell_run_on_executors",
        ),
        **dict.fromkeys(("stoker submit", "stoker jobs"), "tests/client/test_submit_page.py::test_commands"),
        **dict.fromkeys(
            ("stoker job ", "stoker logs"),
            "tests/doors/test_what_a_job_brings.py::test_what_a_failed_driver_on_the_cluster_printed_outlives_its_vm",
        ),
        **dict.fromkeys(
            ("stoker ui", "stoker history"),
            "tests/doors/test_history.py::test_the_history_server_shows_what_is_over",
        ),
    },
}
#: Where these are run: by what they begin with, the test, or what every run of the tests does first.
ELSEWHERE = {
    "make install": "Makefile",
    "make test": "Makefile",
    "make demo": "tests/daemon/cli/operate/test_demo.py::test_its_page_stays_where_commands_ask",
    "stoker demo": "tests/daemon/cli/operate/test_demo.py::test_its_page_stays_where_commands_ask",
    "stoker up": (
        "tests/daemon/end_to_end/test_end_to_end.py::test_an_executor_killed_in_the_middle_is_placed_again"
    ),
    "stoker profile run": "tests/daemon/cli/profile/test_profile.py::test_a_plan_is_measured_and_taken_up",
    "stoker policy promote": (
        "tests/daemon/cli/cluster/test_promotion.py::test_a_promotion_is_asked_for_and_shown"
    ),
    "stoker profile compare": (
        "tests/daemon/cli/profile/test_compare_on_spark.py::test_every_policy_has_its_turn_and_what_is_done_is_kept"
    ),
}
#: What a file of a page is, by its name.
KINDS: dict[str, type[BaseModel]] = {
    "stoker.yaml": Config,
    "cluster.yaml": Cluster,
    "pools.yaml": Cluster,
    "job.yaml": JobSpec,
    "evening.yaml": WorkloadSpec,
    "sized.yaml": WorkloadSpec,
    "teams.yaml": WorkloadSpec,
    "week.yaml": WorkloadSpec,
    "users.yaml": UsersFile,
}
#: What makes the others short.
SHORTER = {
    "simulate": ["--seeds", "1", "--jobs", "3"],
    "train": [
        *("--set", "iterations=1", "--set", "imitation=null", "--set", "evaluation.seeds=1"),
        *("--set", "reinforce.workloads=1", "--set", "reinforce.rollouts=2"),
    ],
    "evaluate": ["--seeds", "1", "--policy", "rr", "--workload", "burst"],
}
#: What TensorFlow and TF-Agents say when they are imported, compile and save.
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::SyntaxWarning"),
    pytest.mark.filterwarnings("ignore:Encoding a StructuredValue"),
]


def published() -> dict[str, str]:
    """Contents of every published file."""
    paths = [path for name in PUBLISHED for path in [REPOSITORY / name, *(REPOSITORY / name).rglob("*")]]
    found = [path for path in paths if path.is_file() and "__pycache__" not in path.parts]
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in found}


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout's folder, in which commands are run as a reader would run them."""
    folder = tmp_path / "checkout"
    for name in ("conf", "docs"):
        shutil.copytree(REPOSITORY / name, folder / name)
    (folder / "profiles").symlink_to(REPOSITORY / "profiles")
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(registry, "_FOLDERS", [])
    # What `profile run` leaves, and what comes of real Spark, which takes minutes.
    runs = [make_run(name=f"sort-{n}", type=kind, copy=n) for n in range(3) for kind in ("sort", "wordcount")]
    write_runs(Path("stoker-profiles/plan"), runs, {"machine": {}})
    write_model(Path("stoker-profiles/plan"), MODEL)
    return folder


@pytest.fixture
def at_once(daemon: Daemon) -> Cast:
    """Jobs print something and finish."""

    def go(job_id: str) -> None:
        time.sleep(0.05)
        daemon.cast.place(job_id)
        daemon.cast.put(job_id, "finished", finished_at=time.time())

    daemon.cast.fate = lambda job_id: threading.Thread(target=go, args=(job_id,)).start()
    daemon.cast.logs["driver stdout"] = "counted\n"
    return daemon.cast


@pytest.mark.slow
def test_commands_work_and_write_over_nothing_that_is_published(
    checkout: Path,
    at_once: Cast,
    fidelity: Fidelity,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Page by page, from the checkout's folder."""
    before = published()
    shipped = [*(checkout / "conf").rglob("*"), *(checkout / "docs").rglob("*")]
    copied = {path: path.read_bytes() for path in shipped if path.is_file()}
    monkeypatch.setattr(validate_simulator, "compared", lambda *_: fidelity)
    tried, shown = set(), set()
    for page in (path for path in PAGES if path.name in HERE and path != REPOSITORY / "docs/README.md"):
        for name, text in (files(page) | others(page)).items():
            Path(name).write_text(text)
            shown.add(name)
        for line in commands(page):
            words = shlex.split(line.removeprefix(".venv/bin/"), comments=True)
            if " ".join(words).startswith(tuple(ELSEWHERE)):
                continue
            assert words[0] == "stoker", line
            more = SHORTER.get(words[1], ())
            if words[1:3] == ["config", "check"]:
                more = [
                    "--set",
                    f"data_dir={tmp_path}",
                    "--set",
                    "listen=127.0.0.1:0",
                    "--set",
                    "mesos.port=0",
                ]
            assert main([*words[1:], *more]) == 0, (page.name, line, capsys.readouterr())
            tried.add(words[1])
    assert tried >= {"submit", "jobs", "job", "logs", "bill", "policy", "simulate", "workload", "train"}
    assert tried >= {"evaluate", "profile", "config"}
    assert published() == before
    assert {path: path.read_bytes() for path in copied} == copied
    new = {path.relative_to(checkout).parts[0] for path in checkout.rglob("*") if path.is_file()}
    new -= {*shown, "conf", "docs", "__pycache__"}
    assert new == {"policies", "stoker-profiles", "stoker-results"}
    ignored = (REPOSITORY / ".gitignore").read_text().splitlines()
    assert {f"/{name}/" for name in new} <= set(ignored)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_that_pages_show_are_some(page: Path) -> None:
    """Of the kind that their names say."""
    for name, text in files(page).items():
        found = yaml.safe_load(text)
        if name in KINDS and isinstance(found, dict):
            build(KINDS[name], found, f"{page.name}: {name}")


def test_the_page_on_clusters_shows_every_key() -> None:
    """Of VMs, pools, how they are charged, and spot VMs."""
    page = (REPOSITORY / "docs/clusters.md").read_text(encoding="utf-8")
    blocks = "".join(re.findall(r"```yaml\n(.*?)```", page, re.DOTALL))
    for model in (VmGroup, Pool, Billing, Spot, Availability):
        for key in model.model_fields:
            assert re.search(rf"\b{key}:", blocks), f"{model.__name__}.{key}"


def others(page: Path) -> dict[str, str]:
    """The program and the table that a page shows."""
    found, text = programs(page), page.read_text(encoding="utf-8")
    if table := re.search(r"```csv\n(.*?)```", text, re.DOTALL):
        found["jobs.csv"] = table[1]
    return found


def test_commands_that_ask_a_daemon(daemon: Daemon, capsys: pytest.CaptureFixture[str]) -> None:
    """Those of other pages, in order."""
    for page in PAGES:
        asked = [line for line in commands(page) if line.startswith(ASKED.get(page.name, ("none",)))]
        assert bool(asked) == (page.name in ASKED), page.name
        for line in asked:
            words = shlex.split(line, comments=True)
            assert daemon.run(*words[1:]) == 0, (line, capsys.readouterr())


def test_commands_of_all_pages_are_run() -> None:
    """Here, or in the tests that are named."""
    named = {path for paths in PAGES_ELSEWHERE.values() for path in paths.values()} | set(ELSEWHERE.values())
    assert [test for test in named if test != "Makefile" and not is_collected(test)] == []
    for page in PAGES:
        known = (*ASKED.get(page.name, ()), *PAGES_ELSEWHERE.get(page.name, ()))
        for line in () if page.name in HERE else commands(page):
            assert line.removeprefix(".venv/bin/").startswith(known or ("none",)), f"{page.name}: {line}"
