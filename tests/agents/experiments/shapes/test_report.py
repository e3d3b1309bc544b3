"""The report on shapes from two runs, and the tables that it reads."""

from pathlib import Path

import pytest

from agents.experiments.shapes.comparison import costs_of, from_two_runs, simple_rules
from agents.experiments.shapes.tables import read_c3o, read_dataproc
from daemon.cli import main
from profiles.shapes.law import Law
from profiles.shapes.runs import JobShape, ShapeError

_LAWS = {
    "grep": Law(0.001, 0.002, 0.02, 0.1, 0.02, 3.0),
    "kmeans": Law(0.001, 0.002, 3.0, 1.0, 0.02, 3.0),
    "sort": Law(0.002, 0.004, 1.0, 0.8, 0.1, 3.0),
}
_DATAPROC = "algorithm,dataset_size_bytes,cpu_cores_per_node,memory_gb_per_node,scaleout,runtime"
_C3O = "instance_count\tmachine_type\tslots\tmemory\tdata_size_MB\titerations\tgross_runtime"


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    """Both tables, made by laws."""
    lines = [_DATAPROC]
    for name, law in _LAWS.items():
        for gib in (100, 200):
            for cores, memory, nodes in ((8, 8, 8), (8, 64, 8), (4, 16, 16), (8, 64, 2)):
                seconds = 50 * float(law.seconds(JobShape("", nodes, cores, memory, 1.0), gib))
                lines.append(f"{name},{gib * 2**30},{cores},{memory},{nodes},{seconds:.2f}")
    (tmp_path / "dataproc-180.csv").write_text("\n".join(lines) + "\n")
    rows = [_C3O]
    for megabytes in (1000, 2000):
        for nodes in (2, 4, 8):
            rows += [
                f"{nodes}\tm4.2xlarge\t16\t64000\t{megabytes}\t5\t{megabytes / nodes + more}"
                for more in (0, 2, 99)
            ]
    (tmp_path / "c3o-grep.tsv").write_text("\n".join(rows) + "\n")
    return tmp_path


def test_the_command_writes_the_report(tables: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Outside tables first, rules without a model beside it."""
    assert main(["reproduce", "shapes", "--data", str(tables), "--out", str(tables / "out")]) == 0
    assert capsys.readouterr().out.strip() == str(tables / "out/shapes.md")
    text = (tables / "out/shapes.md").read_text()
    assert text.index("## dataproc-180") < text.index("## C3O") < text.index("## Limits")
    assert "| random | 6 |" in text
    assert "| model, any two runs | 6 |" in text
    assert "| aim | | 1.050 | 1.20 |" in text


def test_a_choice_is_unchanged_by_the_jobs_own_runs(tables: Path) -> None:
    """Never seen: with its times ten times as long on one shape, the same shape is chosen."""
    table = read_dataproc(tables / "dataproc-180.csv")
    before = from_two_runs(table)
    assert len(before) == 6 * 6
    own = table[0].job
    path = tables / "dataproc-180.csv"
    head, first, *rest = path.read_text().splitlines()
    path.write_text("\n".join([head, first.rpartition(",")[0] + ",99999", *rest]))
    after = from_two_runs(read_dataproc(path))
    assert [each.chosen for each in before if each.job == own] == [
        each.chosen for each in after if each.job == own
    ]


def test_rules_without_a_model(tables: Path) -> None:
    """Cost beside the cheapest, the type left out of the best fixed one."""
    table = read_dataproc(tables / "dataproc-180.csv")
    rules = simple_rules(table)
    jobs = {run.job for run in table}
    assert all(costs.keys() == jobs and min(costs.values()) >= 1 for costs in rules.values())
    job = table[0].job
    costs = costs_of([run for run in table if run.job == job])
    assert rules["random"][job] == pytest.approx(sum(costs.values()) / 4)
    assert min(costs.values()) == 1


def test_repetitions_are_one_run_of_their_median(tables: Path) -> None:
    """In GiB, with the VM's price and memory."""
    runs = read_c3o(tables / "c3o-grep.tsv")
    assert [run.seconds for run in runs[:3]] == [502, 252, 127]
    assert runs[0].input_gib == pytest.approx(0.931, abs=0.001)
    assert (runs[0].shape.memory_gib, runs[0].shape.dollars_per_hour) == (32.0, 0.8)


@pytest.mark.parametrize(
    ("file", "old", "new", "told"),
    [
        ("dataproc-180.csv", ",runtime", ",seconds", "dataproc-180.csv: has no column runtime; should have"),
        ("dataproc-180.csv", "grep,107374182400,8,8,8,", "grep,107374182400,8,8,8,-", "line 2: .*above 0"),
        ("dataproc-180.csv", "grep,107374182400,8,8,8,", "grep,107374182400,8,8,8,x", "line 2: .*float"),
        ("c3o-grep.tsv", "m4.2xlarge", "z9.huge", "line 2: VM type z9.huge is unknown; known are c4.xlarge"),
    ],
)
def test_a_wrong_table_is_an_error_of_one_line(
    tables: Path, file: str, old: str, new: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """It names file, line and mistake, and exits with 2."""
    path = tables / file
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(ShapeError, match=told):
        (read_dataproc if file.endswith(".csv") else read_c3o)(path)
    assert main(["reproduce", "shapes", "--data", str(tables), "--out", str(tables / "out")]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


def test_tables_that_are_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The error names the file that should be there."""
    assert main(["reproduce", "shapes", "--data", str(tmp_path), "--out", str(tmp_path)]) == 2
    assert "dataproc-180.csv" in capsys.readouterr().err
