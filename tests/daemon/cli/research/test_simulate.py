"""`stoker simulate` and `stoker reproduce`, as a user runs them."""

import csv
import io
import json
import re
import shutil
import subprocess
from itertools import combinations
from pathlib import Path

import pytest

from agents.drl.model_folder import SHIPPED
from agents.experiments.comparison import compare, contender
from agents.experiments.timeline import bars_of
from daemon.cli import main


def test_policies_are_compared_in_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    """A row for each policy, in the order asked for, with spreads when there are several seeds."""
    assert (
        main(["simulate", "--policy", "rr,ff", "--policy", "random:seed=1", "--jobs", "5", "--seeds", "2"])
        == 0
    )
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[2:5]] == ["rr", "ff", "random:seed=1"]
    assert "±" in lines[2]


def test_a_policy_that_fails_is_not_taken_for_a_good_one(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its numbers are the fallback's: a column says so, stderr names file and line, the exit code is 1."""
    own = tmp_path / "broken_policies.py"
    own.write_text(
        "from environment.types import Place\n"
        "from agents.registry import create\n"
        "first, asked = create('ff'), []\n"
        "def always(view, queue):\n"
        "    return {}['price']\n"
        "def once(view, queue):\n"
        "    asked.append(view)\n"
        "    return first.decide(view, queue) if len(asked) % 3 else {}['price']\n"
    )
    monkeypatch.chdir(tmp_path)
    command = ["simulate", "--workload", "burst", "--jobs", "8", "--policy"]
    assert main([*command, "ff,broken_policies:always,broken_policies:once"]) == 1
    printed = capsys.readouterr()
    head, _, *rows = printed.out.splitlines()
    column = re.split(r"\s{2,}", head).index("fallback")
    shares = [float(re.split(r"\s{2,}", row)[column].removesuffix(" %")) for row in rows[:3]]
    assert (shares[0], shares[1], 0 < shares[2] < 50) == (0.0, 100.0, True)
    (told,) = (line for line in printed.err.splitlines() if "placements: its numbers are" in line)
    assert told.startswith("stoker: broken_policies:always failed in 100% of its decisions")
    assert "its numbers are those of ff" in told
    assert told.endswith(f"KeyError: 'price' ({own}, line 5, in always)")
    assert main([*command, "ff,broken_policies:once", "-o", "json"]) == 0
    ff, once = json.loads(capsys.readouterr().out)
    assert ff["fallback_share"] == 0
    assert once["fallback_share"] == pytest.approx(once["violations"] / len(once["decisions"]))
    assert once["violations"] > 0


@pytest.mark.parametrize(
    ("code", "place"),
    [
        ("def __init__(self): raise Own('mine')", "cannot be made: Own: mine ("),
        ("def observe(self, ended): raise Own('mine')", "does not learn from job-"),
        ("cut_short = property(lambda self: sys.exit(5))", "the policy failed: SystemExit: 5"),
        ("bounds_waits = property(lambda self: 1 / 0)", "the policy failed: ZeroDivisionError"),
    ],
)
def test_no_exception_of_a_policy_ends_as_a_traceback(
    code: str,
    place: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Not even one that is no Exception: the error is a line, with the place in the policy's code."""
    name = f"own_{abs(hash(code))}"
    (tmp_path / f"{name}.py").write_text(
        "import sys\n"
        "from agents.registry import create\n"
        "class Own(BaseException): pass\n"
        "class Policy:\n"
        "    decide = create('ff').decide\n"
        f"    {code}\n"
    )
    monkeypatch.chdir(tmp_path)
    assert main(["simulate", "--workload", "burst", "--jobs", "5", "--policy", f"{name}:Policy"]) == 2
    assert place in capsys.readouterr().err


def test_who_fails_whenever_it_places_has_the_fallbacks_numbers(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However often it waits in between; and one that cannot learn is not compared."""
    (tmp_path / "placing_policies.py").write_text(
        "from dataclasses import replace\n"
        "from environment.types import Place\n"
        "from agents.registry import create\n"
        "first = create('ff')\n"
        "def floats(view, queue):\n"
        "    made = first.decide(view, queue)\n"
        "    return replace(made, placement=(0.5,)) if isinstance(made, Place) else made\n"
        "class Learns(type(first)):\n"
        "    def observe(self, ended):\n"
        "        raise ValueError('too much')\n"
    )
    monkeypatch.chdir(tmp_path)
    command = ["simulate", "--workload", "burst", "--policy"]
    assert main([*command, "placing_policies:floats,ff", "-o", "json"]) == 1
    printed = capsys.readouterr()
    assert "failed in 100% of its decisions or placements: its numbers are those of ff" in printed.err
    assert [run["fallback_share"] for run in json.loads(printed.out)] == [1.0, 0.0]
    assert main([*command, "placing_policies:Learns,ff", "--jobs", "8"]) == 2
    assert "it does not learn from job-" in capsys.readouterr().err


OWN = """submitted_at,type,cpus,memory_mib,executors,duration,name
0,etl,2,2048,2,120,a
10,sort,1,2048,4,120,b
30,etl,2,2048,2,100,c
31,wordcount,2,2048,8,100,d
"""


def test_seeds_by_which_nothing_is_drawn_are_told(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A file is the same for every seed: no spread is shown unless the workload is varied."""
    own = tmp_path / "own.csv"
    own.write_text(OWN)
    command = ["simulate", "--workload", str(own), "--seeds", "3", "--policy", "ff,rr"]
    assert main(command) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "±" not in told
    assert "All 3 seeds are the same run with ff, rr: nothing of the workload is drawn" in told
    assert (
        "No profile of type etl (2 of 4 jobs): they take the same time wherever a policy places them" in told
    )
    assert main([*command, "-o", "json"]) == 0
    printed = capsys.readouterr()
    assert "All 3 seeds are the same run" in printed.err
    assert len({run["cost"] for run in json.loads(printed.out) if run["policy"] == "ff"}) == 1
    assert main([*command, "--vary", "durations,arrivals"]) == 0
    told = capsys.readouterr().out
    assert "±" in told
    assert "the same run" not in told
    assert main([*command, "--vary", "sizes"]) == 2
    assert (
        "--vary: should be durations, arrivals or both by a comma, found 'sizes'" in capsys.readouterr().err
    )
    assert main(["simulate", "--jobs", "5", "--seeds", "2", "--policy", "ff"]) == 0
    told = capsys.readouterr().out
    assert "±" in told
    assert "No profile" not in told


def test_what_is_left_out_of_a_workload_is_told(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """In a line each: below the table, on stderr beside JSON, and by `stoker workload`."""
    trace, spec = tmp_path / "fb.tsv", tmp_path / "mine.yaml"
    trace.write_text("job0\t1\t1\t2267942\t0\t1937944\tinputPath1\t\t\n")
    spec.write_text(f"jobs: 1\narrivals: {{kind: facebook, window: normal, path: {trace}}}\n")
    told = f"{trace}: 1 path of inputs and outputs"
    assert main(["simulate", "--workload", str(spec), "--policy", "ff"]) == 0
    assert f"Left out of the workload: {told}." in capsys.readouterr().out
    assert main(["simulate", "--workload", str(spec), "--policy", "ff", "-o", "json"]) == 0
    printed = capsys.readouterr()
    assert f"Left out of the workload: {told}." in printed.err
    assert json.loads(printed.out)[0]["left_out"] == [told]
    assert main(["workload", str(spec)]) == 0
    assert f"stoker: left out of the workload: {told}\n" in capsys.readouterr().err
    assert main(["bound", str(spec), "--seeds", "2", "--tries", "50"]) == 0
    assert capsys.readouterr().err.count(f"stoker: left out of the workload: {told}\n") == 1


def test_every_number_is_in_the_json(capsys: pytest.CaptureFixture[str]) -> None:
    """-o json has a record for each run, with jobs, costs and decisions."""
    assert main(["simulate", "--policy", "ff", "--workload", "normal", "--jobs", "4", "-o", "json"]) == 0
    (run,) = json.loads(capsys.readouterr().out)
    assert (run["policy"], run["workload"], run["seed"], len(run["jobs"])) == ("ff", "normal", 0, 4)
    assert sum(job["cost"] for job in run["jobs"]) == pytest.approx(run["cost"])


def test_policies_are_held_against_the_limit(capsys: pytest.CaptureFixture[str]) -> None:
    """Of few jobs in any case, of more with --bound, and said where none is known; ogasched shrinks jobs."""
    few = ["simulate", "--policy", "ff,ogasched", "--jobs", "5", "--seeds", "2", "--belief", "exact"]
    assert main(few) == 0
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert any(line.startswith("Limit: ") for line in lines)
    assert any(re.match(r"Above it: ff \d+\.\d %, ogasched ", line) for line in lines)
    assert "ogasched gave jobs less than they ask for: no limit holds for that." in lines
    assert main([*few, "-o", "json"]) == 0
    run = json.loads(capsys.readouterr().out)[0]
    assert run["limit"]["lower_bound"] <= run["limit"]["best"]["cost"] <= run["cost"]
    assert main(["simulate", "--policy", "ff", "--cluster", "elastic", "--jobs", "3", "--bound"]) == 0
    assert "No limit: the cluster has pools" in capsys.readouterr().out


def test_the_bound_of_a_workload(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The bound has a row for each seed, or JSON; a workload without one is one line and exit code 2."""
    assert main(["bound", "burst", "--jobs", "3", "--seeds", "2", "--tries", "50"]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    assert [line.split()[0] for line in printed.out.splitlines()[2:4]] == ["0", "1"]
    assert main(["bound", "burst", "--jobs", "3", "--tries", "50", "--beta", "0.5", "-o", "json"]) == 0
    (limit,) = json.loads(capsys.readouterr().out)
    assert limit["packing_bound"] <= limit["lower_bound"] <= limit["best"]["cost"] + 1e-9
    assert [job["job"] for job in limit["schedule"]] == ["job-1", "job-2", "job-3"]
    assert main(["workload", "burst", "--jobs", "3", "--out", str(tmp_path / "own.csv")]) == 0
    assert main(["bound", str(tmp_path / "own.csv"), "--seeds", "2", "--tries", "50"]) == 0
    same = "stoker: all seeds are the same workload: nothing of it is drawn\n"
    assert capsys.readouterr().err == same
    assert main(["bound", "burst", "--cluster", "elastic", "--jobs", "3"]) == 2
    assert "pools" in capsys.readouterr().err


@pytest.mark.parametrize("belief", [None, "exact", "0.2", "constant"])
def test_tables_and_json_say_what_is_believed(belief: str | None, capsys: pytest.CaptureFixture[str]) -> None:
    """Tables and JSON name belief and truth of durations; a measured spread is the default belief."""
    command = ["simulate", "--policy", "ff", "--jobs", "3", *(["--belief", belief] if belief else [])]
    assert main(command) == 0
    told = f"Durations: truth profile; belief {belief or 'spread'}."
    assert capsys.readouterr().out.splitlines()[-1].strip() == told
    assert main([*command, "-o", "json"]) == 0
    (run,) = json.loads(capsys.readouterr().out)
    assert (run["truth"], run["belief"]) == ("profile", belief or "spread")


def test_vms_that_come_and_go_have_a_bill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The commands of docs/elastic.md on fewer jobs of a workload that needs no trace."""
    root = Path(__file__).parents[4]
    page = (root / "docs" / "elastic.md").read_text().replace("\\\n", "")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "conf").symlink_to(root / "conf")
    for written in re.findall(r"\$ ((?:sed|echo) .* > \S+\.(?:yaml|json))", page):
        subprocess.run(written, shell=True, check=True)  # noqa: S602 (as the page has it)
    commands = re.findall(r"\$ \.venv/bin/stoker (simulate .*)", page)
    assert len(commands) == 5
    for command in commands:
        words = command.replace("facebook-day", "burst").split()
        assert main([*words, "--jobs", "4"]) == 0
        told = capsys.readouterr().out
        if "--cluster elastic" in command:
            assert told.split()[:4] == ["policy", "knows", "bill", "$"]
    assert main([*words, "--jobs", "4", "-o", "json"]) == 0
    for run in json.loads(capsys.readouterr().out):
        parts = {name: dollars for name, dollars in run["bill_for"].items() if name != "openings"}
        assert sum(parts.values()) == pytest.approx(run["bill"])
        assert run["bill"] >= run["cost"] - 1e-9


@pytest.mark.parametrize("command", ["simulate", "evaluate", "reproduce baselines", "train --config x.yaml"])
def test_other_beliefs_are_told(command: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """An unknown belief is refused in one line with the right forms."""
    config = tmp_path / "x.yaml"
    config.write_text("algorithm: dqn\niterations: 1\n")
    words = [str(config) if word == "x.yaml" else word for word in command.split()]
    assert main([*words, "--belief", "much"]) == 2
    complaint = capsys.readouterr().err
    assert complaint.count("\n") == 1
    assert "--belief: should be exact, spread, constant or a number such as 0.2, found 'much'" in complaint


def test_a_picture_is_drawn(tmp_path: Path) -> None:
    """--plot writes a PNG file."""
    picture = tmp_path / "plot.png"
    assert main(["simulate", "--policy", "ff", "--jobs", "3", "--plot", str(picture)]) == 0
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("kind", ["png", "svg"])
def test_a_timeline_is_drawn(tmp_path: Path, kind: str) -> None:
    """--plot-timeline writes a picture with a panel for each policy."""
    picture = tmp_path / f"timeline.{kind}"
    command = ["simulate", "--policy", "ff,greedy", "--jobs", "3", "--plot-timeline", str(picture)]
    assert main(command) == 0
    assert picture.read_bytes()[:5] == {"png": b"\x89PNG\r", "svg": b"<?xml"}[kind]


def test_bars_of_a_timeline_do_not_overlap() -> None:
    """On each VM all executors are shown, none over another, within the row."""
    [run] = compare([contender("greedy")], ["burst"], seeds=[3], jobs=60)
    bars = [bars_of(run, vm) for vm in range(len(run.result.vms))]
    assert sum(map(len, bars)) == len(run.result.held.job)
    assert all(0 <= bar.low < bar.high <= 1 + 1e-9 for of_vm in bars for bar in of_vm)
    for of_vm in bars:
        for one, other in combinations(of_vm, 2):
            apart = one.end <= other.start or one.high <= other.low + 1e-9 or other.high <= one.low + 1e-9
            assert apart, (one, other)


def test_rows_for_spreadsheets(capsys: pytest.CaptureFixture[str]) -> None:
    """-o csv has a row for each run, job, decision or executor; sums of jobs are those of their run."""
    rows = {}
    for kind in ("runs", "jobs", "decisions", "executors"):
        command = ["simulate", "--policy", "ff,greedy", "--jobs", "5", "--seeds", "2", "-o", "csv"]
        assert main([*command, "--rows", kind]) == 0
        rows[kind] = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert (len(rows["runs"]), len(rows["jobs"])) == (4, 20)
    for run in rows["runs"]:
        key = {name: run[name] for name in ("policy", "workload", "seed")}
        of = {kind: [row for row in found if key.items() <= row.items()] for kind, found in rows.items()}
        assert sum(float(job["cost"]) for job in of["jobs"]) == pytest.approx(float(run["cost"]))
        assert len(of["executors"]) == sum(int(job["executors"]) for job in of["jobs"])
        placed = {row["job"]: row["vms"] for row in of["decisions"] if row["decision"] == "place"}
        assert placed == {job["job"]: job["vms"] for job in of["jobs"]}
        waits = sum(row["decision"] == "wait" for row in of["decisions"])
        assert waits == int(run["waits"])


def test_curves_may_be_those_that_were_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Measured curves decide shrinking.

    Jobs that take twice as long on half are not worth shrinking; jobs that lose nothing are.
    """

    def cost(law: str) -> float:
        types = "\n".join(
            f"  {kind}: {{bound_by: cpu, prefers: spread, work: 100, startup: 0, {law}}}"
            for kind in ("wordcount", "pagerank", "sort")
        )
        path = tmp_path / f"{law[-1]}.yaml"
        path.write_text(f"types:\n{types}\n")
        words = ["--workload", "burst", "--jobs", "40", "--sizes", "floor=0.5", "--profiles", str(path)]
        assert main(["simulate", "--policy", "greedy", *words, "-o", "json"]) == 0
        return float(json.loads(capsys.readouterr().out)[0]["cost"])

    assert cost("serial: 1") < 0.8 * cost("serial: 0")


def test_jobs_that_fit_nowhere_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A job that fits no VM is refused with its name, and the others run."""
    workload = tmp_path / "jobs.csv"
    header = "submitted_at,type,cpus,memory_mib,executors,duration,name"
    workload.write_text(f"{header}\n0,sort,2,1024,1,10,small\n1,sort,99,1024,1,10,giant\n")
    assert main(["simulate", "--policy", "ff", "--workload", str(workload)]) == 0
    assert "giant" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--policy", "zork"], "zork"),
        (["--policy", "ff", "--workload", "zork"], "zork"),
        (["--policy", "ff", "--cluster", "zork"], "zork"),
        (["--policy", "ff", "--jobs", "2", "--plot", "/nowhere/x.png"], "--plot"),
        (["--policy", "ff:x=1"], "unknown option; known options: overtake"),
        (["--policy", "ff", "--keep", "long"], "--keep: should be none, break_even, forecast, planned"),
    ],
)
def test_bad_input_is_one_line(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Bad input is one line on stderr and exit code 2."""
    assert main(["simulate", *arguments]) == 2
    error = capsys.readouterr().err
    assert complaint in error
    assert len(error.splitlines()) == 1


def test_the_report_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`reproduce baselines` writes tables, plots and findings; here with quick policies alone."""
    from agents.experiments import reports
    from agents.experiments.comparison import Contender

    monkeypatch.setattr("os.cpu_count", lambda: 1)  # to start a process takes longer than these jobs
    monkeypatch.setattr(reports, "PARTNERS", ())
    monkeypatch.setattr(reports, "BASELINES", (Contender("rr"), Contender("ff")))
    quick = tuple(who for who in reports.OVERTAKING if who.name == "ff" or who.label == "aep:overtake=best")
    monkeypatch.setattr(reports, "OVERTAKING", quick)
    monkeypatch.setattr(reports, "OURS", (Contender("greedy", {"beta": 0.5}),))
    assert main(["reproduce", "baselines", "--out", str(tmp_path / "results"), "--seeds", "2"]) == 0
    text = (tmp_path / "results" / "baselines.md").read_text()
    assert "| `ff` |" in text
    against = [
        line.split(" | ")[:2] for line in text.splitlines() if line.count(" ± ") == line.count("%") > 1
    ]
    ours = [line for line in against if line[0] == "| `greedy:beta=0.5`"]
    assert [line for line in against if line not in ours] == [
        [f"| `ff:overtake={way}`", "`ff`"] for way in ("first_fit", "easy", "best")
    ]
    assert len(ours) == 2
    assert all("overtake=" in partner for _, partner in ours)
    assert text.count("Durations: truth profile; belief spread.") == 5
    assert "* Least mean cost: `" in text
    assert "not judged: 2 of 12 pairs" in text
    assert {path.name for path in (tmp_path / "results").glob("*.png")} == {
        "baselines-normal.png",
        "baselines-burst.png",
    }


@pytest.mark.parametrize(("seeds", "star"), [("12", True), ("3", False)])
def test_policies_are_compared_on_the_same_seeds(
    seeds: str, star: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """Beside the cheapest, with a standard error; a star takes twelve seeds."""
    command = ["simulate", "--workload", "burst", "--jobs", "30", "--policy", "rr,ff", "--seeds", seeds]
    assert main(command) == 0
    lines = capsys.readouterr().out.splitlines()
    at = next(number for number, line in enumerate(lines) if "beside ff" in line)
    row = next(line for line in lines[at:] if line.split()[0] == "rr")
    assert row.count(" ± ") == 2
    assert ("%*" in row) == star
    assert "standard error of differences on the same seed" in "".join(lines)
    assert main([*command[:-2], "--seeds", "1"]) == 0
    assert "beside ff" not in capsys.readouterr().out


def test_a_workload_is_written_and_read_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`workload --out` writes a file, in either format, that `simulate` reads as the same workload."""
    costs = []
    for path in (tmp_path / "jobs.csv", tmp_path / "jobs.parquet"):
        assert main(["workload", "burst", "--seed", "3", "--jobs", "6", "--out", str(path)]) == 0
        assert "6 jobs" in capsys.readouterr().out
        assert main(["simulate", "--policy", "ff", "--workload", str(path), "-o", "json"]) == 0
        costs.append(json.loads(capsys.readouterr().out)[0]["cost"])
    assert main(["simulate", "--policy", "ff", "--seed", "3", "--jobs", "6", "-o", "json"]) == 0
    assert costs == [json.loads(capsys.readouterr().out)[0]["cost"]] * 2


def test_a_workload_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """A row for each job; a file that cannot be written is one line."""
    assert main(["workload", "normal", "--jobs", "3"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 5
    assert main(["workload", "normal", "--out", "/nowhere/jobs.csv"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.slow
def test_a_comparison_is_written_into_the_card(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`evaluate --card` preserves the training text and replaces the earlier comparison."""
    folder = tmp_path / "trained"
    shutil.copytree(SHIPPED / "reinforce-worlds", folder)
    (folder / "card.md").write_text("# A policy\n\nLearned.\n", encoding="utf-8")
    command = ["evaluate", str(folder), "--policy", "rr", "--workload", "burst", "--seeds", "1", "--card"]
    for seed in ("100", "101"):
        assert main([*command, "--seed", seed]) == 0
    card = (folder / "card.md").read_text(encoding="utf-8")
    assert card.startswith("# A policy\n\nLearned.\n\n## Compared")
    assert card.count("## Compared") == card.count("| `rr` |") == card.count("| `reinforce:model=") == 1
    assert "seeds 101 to 101" in card
    head, _, row = (
        line.split("|") for line in card.splitlines() if line.startswith(("| policy", "|--", "| `rr`"))
    )
    assert row[[cell.strip() for cell in head].index("fallback")] == " 0 % "
    (folder / "card.md").unlink()
    capsys.readouterr()
    assert main([*command, "--seed", "100"]) == 2
    assert "card.md: No such file" in capsys.readouterr().err


def test_a_card_that_ships_stays_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The comparison of a model given by its name goes into a copy, which is named."""
    monkeypatch.chdir(tmp_path)
    shipped = SHIPPED / "reinforce-worlds" / "card.md"
    before = shipped.read_text(encoding="utf-8")
    assert main(["evaluate", "reinforce-worlds", "--policy", "rr", "--seeds", "1", "--card"]) == 0
    assert "stoker-results/reinforce-worlds.md" in capsys.readouterr().err
    assert shipped.read_text(encoding="utf-8") == before
    copy = (tmp_path / "stoker-results" / "reinforce-worlds.md").read_text(encoding="utf-8")
    assert copy.startswith(before.partition("## Compared")[0].rstrip())
    assert "seeds 100 to 100" in copy


@pytest.mark.parametrize(
    "command",
    [
        ("reproduce", "baselines"),
        ("reproduce", "belief"),
        ("reproduce", "islam2022"),
        ("oga", "reproduce"),
    ],
)
def test_a_report_that_cannot_be_written_is_one_line(
    command: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything is simulated."""
    assert main([*command, "--out", "/dev/null/results", "--seeds", "2"]) == 2
    error = capsys.readouterr().err
    assert "/dev/null/results" in error
    assert len(error.splitlines()) == 1


def test_a_narrow_terminal_gets_whole_numbers(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A narrow terminal drops columns and names them, and a pipe has all.

    The output explains the bound and good placements.
    """
    command = ["simulate", "--workload", "burst", "--jobs", "5", "--policy", "ff"]
    monkeypatch.setenv("COLUMNS", "80")
    assert main(command) == 0
    narrow = capsys.readouterr().out
    assert "decision µs" not in narrow.splitlines()[0]
    assert "Left out, as there is no room for it: 95 % s, longest wait s" in narrow
    assert "of the 5 jobs are placed as their type prefers" in narrow
    assert "no schedule costs less" in narrow.replace("\n", " ")
    monkeypatch.delenv("COLUMNS")
    assert main(command) == 0
    piped = capsys.readouterr().out
    assert piped.splitlines()[0].endswith("decision µs")
    assert "Left out" not in piped


def test_sizes_are_left_to_stoker_and_learned_from_runs_that_are_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The first job has the default size, or with `--runs` one by the model."""
    jobs, runs = tmp_path / "jobs.csv", tmp_path / "runs.csv"
    columns = "submitted_at,type,cpus,memory_mib,executors,duration,auto"
    jobs.write_text(f"{columns}\n0,etl,2,4096,4,600,executors=auto:2-16;cpus=auto\n")
    runs.write_text("type,executors,cpus,memory_gib,seconds\netl,2,2,4,1200\netl,8,2,4,300\n")
    assert main(["workload", str(jobs)]) == 0
    assert "executors auto:2-16, cpus auto" in capsys.readouterr().out
    sizes = []
    for more in ([], ["--runs", str(runs)]):
        assert (
            main(
                ["simulate", "--workload", str(jobs), "--policy", "ff", "-o", "csv", "--rows", "jobs", *more]
            )
            == 0
        )
        (row,) = csv.DictReader(io.StringIO(capsys.readouterr().out))
        sizes.append((row["executors"], row["cpus"]))
    assert sizes[0] == ("2", "2.0") != sizes[1]
    assert main(["simulate", "--workload", str(jobs), "--policy", "ff,rr", "--bound"]) == 0
    assert "No limit: sizes that are left to Stoker (auto) depend on the policy" in capsys.readouterr().out
    assert main(["bound", str(jobs)]) == 2
