"""Measured runs are kept as they were, and those far from their like are found."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from profiles.runs import (
    ABOUT,
    RUNS,
    ProfileError,
    about_machine,
    outliers,
    read_about,
    read_runs,
    write_runs,
)
from profiles.spark_event_log import read_log
from tests.profiles.measured import make_run
from tests.profiles.test_spark_event_log import RECORDED


def test_runs_come_back_as_they_went(tmp_path: Path) -> None:
    """Stages, unknown values and the facts about the machine are included."""
    runs = (make_run(stages=read_log(RECORDED).stages), make_run(copy=1, input_mib=None, startup=None))
    write_runs(tmp_path / "new", runs, {"machine": about_machine("4.3.0")})
    assert read_runs(tmp_path / "new") == runs
    about = read_about(tmp_path / "new")
    assert about["schema"] == 1
    assert {"cpu", "cores", "memory_mib", "kernel", "python", "spark", "stoker"} == about["machine"].keys()


def test_what_cannot_be_read(tmp_path: Path) -> None:
    """No folder, no Parquet, another version: the text says which file and why."""
    with pytest.raises(ProfileError, match="contains no profiles"):
        read_runs(tmp_path)
    (tmp_path / RUNS).write_text("nonsense")
    with pytest.raises(ProfileError, match="cannot be read as Parquet"):
        read_runs(tmp_path)
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.table({"name": ["x"]}), tmp_path / RUNS)
    with pytest.raises(ProfileError, match="its schema is version none, this program reads 1"):
        read_runs(tmp_path)
    lacking = pyarrow.table({"name": ["x"]}).replace_schema_metadata({"stoker.schema": "1"})
    pyarrow.parquet.write_table(lacking, tmp_path / RUNS)
    with pytest.raises(ProfileError, match="has no column copy, cost"):
        read_runs(tmp_path)
    (tmp_path / ABOUT).write_text(json.dumps([]))
    with pytest.raises(ProfileError, match="should hold an object"):
        read_about(tmp_path)


def test_outliers_are_found_within_their_group() -> None:
    """One of five that takes twice as long stands out; a job of another size that does so does not."""
    usual = [make_run(name=f"wordcount-r{i}", duration=20.0 + 0.2 * i) for i in range(5)]
    large = [make_run(name=f"large-r{i}", input_mib=64.0, duration=60.0 + 0.2 * i) for i in range(3)]
    strange = replace(usual[2], duration=40.0)
    runs = [*usual[:2], strange, *usual[3:], *large]
    assert outliers(runs) == {("wordcount-r2", 0)}
    assert outliers([*usual, *large]) == frozenset()
    assert outliers([replace(run, state="failed") for run in runs]) == frozenset()


def test_what_is_made_of_a_run() -> None:
    """VMs are counted once, sums are over stages, and it holds its VMs from the decision on."""
    run = make_run(placement=("a", "b", "a"), stages=read_log(RECORDED).stages)
    assert (run.vms, run.held) == (2, 20.5)
    assert run.total("gc_seconds") == pytest.approx(sum(stage.gc_seconds for stage in run.stages))


def test_who_is_killed_between_the_files_leaves_no_runs_without_their_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever of the two files was the last, the runs that are there can be gone on with."""
    replace = Path.replace

    def killed_after_the_first(path: Path, target: Path) -> Path:
        monkeypatch.setattr(Path, "replace", killed)
        return replace(path, target)

    def killed(path: Path, target: Path) -> Path:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", killed_after_the_first)
    with pytest.raises(KeyboardInterrupt):
        write_runs(tmp_path, [make_run()], {"machine": {}})
    assert read_about(tmp_path)["machine"] == {}
    with pytest.raises(ProfileError, match="contains no profiles"):
        read_runs(tmp_path)
