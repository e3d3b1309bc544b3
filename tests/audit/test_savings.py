"""Possible costs of applications: hand-counted changes, held-out errors, scenarios, and files of them."""

import csv
import io
import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from audit.costs import costs_of
from audit.names import type_of
from audit.over_time import cores_over_time
from audit.prices import Prices, load_prices
from audit.read_logs import read_logs
from audit.savings.changes import Change, fewer_executors
from audit.savings.job_runs import JobRun, job_runs
from audit.savings.predict import Savings, predict
from audit.savings.types import job_types, predicted
from conf.loader import load
from conf.schema.cluster import Cluster, VmGroup
from conf.schema.prices import PriceList, VmPrice
from daemon.cli import main
from profiles.job_profile import load_profiles
from profiles.workloads.workload_files import read_workload
from tests.audit.made_logs import (
    BEGAN,
    ETL,
    Event,
    added,
    app_end,
    app_start,
    environment,
    log_start,
    stage,
    task,
    written,
)  # fmt: skip
from tests.audit.made_month import month

#: A VM that one executor of made_month takes half of.
HALF = PriceList(types={"big": VmPrice(cpus=8, memory=16384, price_per_hour=1.0)})


@cache
def savings() -> Savings:
    """Of ten days."""
    with TemporaryDirectory() as folder:
        read = read_logs([str(month(Path(folder)))])
    prices = Prices(HALF, "big")
    return predict(costs_of(read.applications, prices), prices)


def runs(of: str) -> list[JobRun]:
    """The runs of a type."""
    return list(savings().types[of].runs)


def change(kind: str, subject: str) -> Change:
    """The change of that kind; there is one."""
    (found,) = [each for each in savings().changes if (each.kind, each.subject) == (kind, subject)]
    return found


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("etl-2026-11-01", "etl"),
        ("etl 2026-11-01T10:11:12Z", "etl"),
        ("load_9f8e7d6c5b4a", "load"),
        ("tpch q12", "tpch q12"),
        ("2026-11-01", "2026-11-01"),
        ("a\n\x1b[31mb", "a [31mb"),
        ("\u200b", "unnamed"),
    ],
)
def test_runs_of_the_same_application(name: str, kind: str) -> None:
    """Are told by their name without date, time and id."""
    assert type_of(name) == kind


def test_seconds_on_other_cores() -> None:
    """Half of the cores doubles what is wide; neither the longest task nor the driver's time changes."""
    etl, skewed = runs("etl")[0], runs("skewed")[0]
    assert (etl.executors, etl.cpus) == (8, 4)
    work = etl.groups.seconds.sum()
    assert etl.seconds_on(32) == pytest.approx(etl.seconds)
    assert etl.seconds_on(16) == pytest.approx(etl.seconds + work)
    assert etl.seconds_on(64) == pytest.approx(etl.seconds)  # 32 tasks cannot use more
    assert skewed.seconds_on(8) == pytest.approx(skewed.seconds)


def test_executors_warm_up_for_themselves(tmp_path: Path) -> None:
    """One executor instead of two does the work of both, and the warming of one."""
    first, later = 5.0, 1.0
    events = [log_start(), environment(executor__cores="1"), app_start()]
    for name in ("1", "2"):
        ends = [10 + first + later * number for number in range(4)]
        begins = [10.0, *ends[:-1]]
        events += [added(name, 0, cores=1), *(task(name, *each) for each in zip(begins, ends, strict=True))]
    (run,) = audited(tmp_path, [*events, stage(0, 10, 18), app_end(20)])
    (work,) = run.application.stages
    assert work.warming_seconds == pytest.approx(2 * (first - later))
    # 10 s before the stage, 2 s after it; in between a task of 5 s and seven of 1 s.
    assert run.seconds_on(1) == pytest.approx(12 + first + 7 * later)
    assert run.seconds_on(2) == pytest.approx(20)
    # Four executors warm up four times, in eight tasks.
    assert run.seconds_on(4) == pytest.approx(12 + (4 * first + 4 * later) / 4)


def test_two_waves_show_how_warm_a_third_would_be(tmp_path: Path) -> None:
    """Tasks of 5 s and 2 s: 1 s would be steady, with 4 s and a quarter of them beside it."""
    events = [log_start(), environment(executor__cores="1"), app_start()]
    for name in ("1", "2"):
        events += [added(name, 0, cores=1), task(name, 10, 15), task(name, 15, 17)]
    (run,) = audited(tmp_path, [*events, stage(0, 10, 17), app_end(20)])
    (work,) = run.application.stages
    assert work.warming_seconds == pytest.approx(2 * (4 + 1))
    # One executor warms up once, in four tasks.
    assert run.seconds_on(1) == pytest.approx(13 + 5 + 4 * 1)


def test_warming_is_bounded(tmp_path: Path) -> None:
    """Tasks of minutes that become shorter have less data: compiling takes seconds."""
    events = [log_start(), environment(executor__cores="1"), app_start(), added("1", 0, 1)]
    events += [task("1", 10, 310), task("1", 310, 410), task("1", 410, 510)]
    (run,) = audited(tmp_path, [*events, stage(0, 10, 510), app_end(511)])
    assert [each.warming_seconds for each in run.application.stages] == [30.0]


def test_a_long_first_task_of_one_executor_is_no_warming(tmp_path: Path) -> None:
    """It may have more data than the others; neither do stages show any in which all tasks are first ones."""
    events = [log_start(), environment(executor__cores="1"), app_start(), added("1", 0, 1), added("2", 0, 1)]
    events += [task("1", 10, 30), task("1", 30, 31), *(task("2", 10 + n, 11 + n) for n in range(6))]
    events += [stage(0, 10, 31), task("1", 32, 40, stage=1), task("2", 32, 39, stage=1), stage(1, 32, 40)]
    (run,) = audited(tmp_path, [*events, app_end(41)])
    assert [each.warming_seconds for each in run.application.stages] == [0.0, 0.0]


def test_executors_that_are_paid_before_the_start_are_no_more_of_them(tmp_path: Path) -> None:
    """Two are paid for 40 s of a run of 20 s: on one it takes 10 s longer, and these 20 s stay as long."""
    events = [log_start(), environment(executor__cores="1"), app_start(at=20)]
    for name in ("1", "2"):
        tasks = [task(name, 30 + number, 31 + number) for number in range(10)]
        events += [added(name, 0, cores=1), *tasks]
    (run,) = audited(tmp_path, [*events, stage(0, 30, 40), app_end(40)])
    assert run.executors == 2
    assert run.ahead == pytest.approx(20)
    (of,) = job_types([run]).values()
    found = fewer_executors(of, 0.5)
    assert found is not None
    assert found.share == pytest.approx(1 - (20 + 30) / (2 * 40))
    assert found.slower == pytest.approx(1.5)


def audited(folder: Path, events: Sequence[Event]) -> list[JobRun]:
    """The runs of a log."""
    read, prices = read_logs([str(written(folder, events))]), load_prices("ec2-us-east-1")
    return job_runs(costs_of(read.applications, prices).each, prices)


def test_held_out_errors() -> None:
    """Each half of the runs is predicted by the other, as far as runs differ: by a twentieth here."""
    found = savings()
    assert found.checked == 50
    assert found.error is not None
    assert 0.005 < found.error < 0.1
    for each in found.types.values():
        assert each.profile.spread == pytest.approx(each.sigma, abs=1e-4)
    (lonely,) = job_types(runs("etl")[:1]).values()
    assert lonely.error is None
    assert lonely.sigma == 0.25


def test_the_input_is_followed_where_runs_show_it() -> None:
    """A run of the largest input is predicted by runs of less, along the line that they show."""
    seen, run = runs("etl")[1:], max(runs("etl"), key=lambda each: each.seconds)
    seen = [each for each in seen if each is not run]
    assert predicted(seen, run) == pytest.approx(run.seconds, rel=0.05)


def test_changes_counted_by_hand() -> None:
    """Of each application, the change that fits its fault; dollars are within the interval."""
    dynamic = change("dynamic allocation", "etl")
    # 8 executors of half a dollar an hour are idle for 1000 s less a minute; a start of 5 s each comes back.
    by_hand = 10 * 8 * 0.5 * (1010 - 10 - 60 - 5) / 3600
    assert dynamic.saving.middle == pytest.approx(by_hand, rel=0.02)
    assert (dynamic.runs, dynamic.saving.low) == (10, 0)
    fewer = change("fewer executors", "skewed")
    assert fewer.saving.middle == pytest.approx(0.75 * savings().types["skewed"].dollars, rel=0.05)
    assert fewer.slower == pytest.approx(1.0, abs=0.5)
    assert "--conf spark.executor.instances=1 " in fewer.command
    skew = change("skew", "skewed")
    assert "stage 0 (join at skewed.py:12): its longest task took" in skew.needs
    assert all(each.error is not None for each in savings().changes)
    for each in savings().changes:
        assert each.saving.low <= each.saving.middle <= each.saving.high, each


def test_less_memory(tmp_path: Path) -> None:
    """Where memory is what is paid for, its reserve is 30 % above the most that was used."""
    prices = Prices(PriceList(types={"wide": VmPrice(cpus=64, memory=16384, price_per_hour=1.0)}), "wide")
    read = read_logs([str(month(tmp_path, 2))])
    found = predict(costs_of(read.applications, prices), prices)
    (memory,) = [each for each in found.changes if (each.kind, each.subject) == ("less memory", "report")]
    assert memory.command == "--conf spark.executor.memory=1280m"
    assert memory.share == pytest.approx(1 - (1280 + 384) / (4096 + 410), rel=0.01)


def test_scenarios() -> None:
    """All applications are played on each; a VM that two share costs less than one that idles."""
    played = {each.scenario.name: each for each in savings().played}
    names = ["Karpenter-like", "shared VMs, ff", "shared VMs, greedy", "shared VMs, greedy, half the size"]
    assert list(played) == [*names, "spot VMs, greedy", "fixed cluster"]
    for each in played.values():
        assert (each.failed, each.refused) == ("", ())
        assert each.saving.low < each.saving.middle < each.saving.high
        assert each.dollars + each.saving.middle == pytest.approx(savings().logged)
    assert played["spot VMs, greedy"].dollars < 0.6 * played["shared VMs, greedy"].dollars
    assert played["fixed cluster"].idle_share > 0.9
    assert "spot VMs, greedy" in [each.subject for each in savings().changes if each.kind == "cluster"]


@pytest.mark.parametrize(
    ("vm_type", "price"), [("big", 0.4), ("big", 1.0), ("big", 3.0), ("not-listed", 3.0)]
)
def test_prices_alone_save_nothing(vm_type: str, price: float, tmp_path: Path) -> None:
    """A VM that is full all the time costs the same when it is always there, at any price."""
    day = 86400
    for number in range(8):
        at = day * number
        told = {
            "STOKER_LAUNCHED_MS": str((BEGAN + at) * 1000),
            "STOKER_VM_TYPE": vm_type,
            "STOKER_VM_SHARE": "1.0",
            "STOKER_VM_PRICE": str(price),
        }
        events = [
            log_start(),
            app_start("etl", at, app=f"app-{number}"),
            added("1", at, cores=8, info={"Attributes": told}),
            *(task("1", at + hour * 3600, at + (hour + 1) * 3600) for hour in range(24)),
            app_end(at + day),
        ]
        written(tmp_path, events, f"app-{number}")
    prices = Prices(HALF)
    found = predict(costs_of(read_logs([str(tmp_path)]).applications, prices), prices)
    assert found.logged == pytest.approx(8 * 24 * price)
    (fixed,) = (each for each in found.played if each.scenario.name == "fixed cluster")
    assert abs(fixed.saving.middle) < 0.01 * found.logged
    assert not [each for each in found.changes if each.kind == "commitment" and price < 1.0]


def test_files_are_what_simulate_takes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Profiles, workload and cluster of an audit, and the command that a change prints."""
    logs = month(tmp_path / "logs", 3)
    names = {"profiles": "types.yaml", "workload": "jobs.csv", "cluster": "vms.yaml"}
    paths = {what: tmp_path / name for what, name in names.items()}
    written_to = [word for what, path in paths.items() for word in (f"--write-{what}", str(path))]
    command = ["audit", str(logs), "--scenario", "spot VMs, greedy", *written_to, "-o", "json"]
    assert main(command) == 0
    told = json.loads(capsys.readouterr().out)["savings"]
    assert len(read_workload(paths["workload"])) == told["applications"] == 15
    assert load_profiles(str(paths["profiles"])).keys() == {"etl", "skewed", "report"}
    assert [pool.spot is None for pool in load(paths["cluster"], Cluster).pools] == [True, False]
    arguments = ["--workload", str(paths["workload"]), "--profiles", str(paths["profiles"])]
    arguments += ["--cluster", str(paths["cluster"]), "--policy", "greedy", "--keep", "break_even"]
    assert main(["simulate", *arguments, "-o", "json"]) == 0
    (run,) = json.loads(capsys.readouterr().out)
    (scenario,) = [each for each in told["scenarios"] if each["name"] == "spot VMs, greedy"]
    # The audit scales it to the logs' cost, which whole numbers of executors miss by a hundredth.
    assert run["bill"] == pytest.approx(scenario["dollars"], rel=0.02)
    assert (
        main(
            [
                "audit",
                str(logs),
                "--scenario",
                "shared VMs, greedy",
                "--write-cluster",
                str(tmp_path / "demand.yaml"),
            ]
        )
        == 0
    )
    capsys.readouterr()
    words = ["--workload", str(paths["workload"]), "--profiles", str(paths["profiles"]), "--policy", "greedy"]
    words += ["--cluster", str(tmp_path / "demand.yaml"), "-o", "json"]
    bills = []
    for dynamic in ([], ["--dynamic", "1"]):
        assert main(["simulate", *words, *dynamic]) == 0
        bills.append(json.loads(capsys.readouterr().out)[0]["bill"])
    assert bills[1] < bills[0]  # etl holds eight executors for 1,000 idle seconds


def test_changes_as_csv(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same as in JSON."""
    logs = month(tmp_path, 2)
    assert main(["audit", str(logs), "-o", "csv", "--by", "change"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert main(["audit", str(logs), "-o", "json", "--cluster", "elastic", "--policy", "best_fit"]) == 0
    told = json.loads(capsys.readouterr().out)["savings"]
    assert [each["name"] for each in told["scenarios"]][1] == "shared VMs, best_fit"
    assert rows[0]["type"]
    own = [row for row in rows if row["change"] != "cluster"]
    same = [each for each in told["changes"] if each["change"] != "cluster"]
    assert [float(row["dollars"]) for row in own] == [each["dollars"] for each in same]


def test_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each is one line with what to do."""
    log = str(written(tmp_path / "logs", ETL))
    for arguments, text in (
        (["--policy", "magic"], "policy magic"),
        (["--policy", ","], "names no policy"),
        (["--cluster", "moon"], "no such cluster"),
        (["--scenario", "moon", "--write-cluster", "x.yaml"], "should be one of Karpenter-like; shared VMs"),
        (["--write-workload", str(tmp_path / "jobs.txt")], "should end in .csv or .parquet"),
        (["--write-profiles", str(tmp_path / "no/such.yaml")], "No such file"),
        (["--no-savings", "-o", "csv", "--by", "change"], "leave --no-savings out"),
    ):
        assert main(["audit", log, *arguments]) == 2, arguments
        error = capsys.readouterr().err
        assert text in error
        assert len([line for line in error.splitlines() if line.startswith("stoker: ")]) == 1


def test_nothing_to_play(tmp_path: Path) -> None:
    """An application without executors is no job; others still are."""
    written(tmp_path, [app_start(app="idle"), app_end(9)], "idle")
    written(tmp_path, ETL)
    prices = load_prices("ec2-us-east-1")
    costs = costs_of(read_logs([str(tmp_path)]).applications, prices)
    assert [run.type for run in job_runs(costs.each, prices)] == ["etl"]
    assert predict(costs_of([], prices), prices).changes == ()


def test_a_cluster_that_holds_some(tmp_path: Path) -> None:
    """Applications that it cannot hold are counted and left out; it is no change that saves."""
    written(tmp_path, [*ETL[:2], app_start("large", app="large"), added("1", 2, 64), *ETL[5:7], app_end(60)])
    written(tmp_path, ETL, "etl")
    prices = load_prices("ec2-us-east-1")
    costs = costs_of(read_logs([str(tmp_path)]).applications, prices)

    def played(cpus: float) -> Savings:
        vms = VmGroup(type="own", cpus=cpus, memory=8192, price_per_hour=0.001, count=4)
        return predict(costs, prices, ["ff"], ("own.yaml", Cluster(vms=(vms,))))

    some = next(each for each in played(4).played if each.scenario.name == "shared VMs, ff")
    assert (some.refused, some.failed) == (("large",), "")
    assert some.dollars + some.saving.middle == pytest.approx(costs.by("type")[1].total)
    none = next(each for each in played(1).played if each.scenario.name == "shared VMs, ff")
    assert none.failed.startswith("its VMs hold none of the applications (")
    assert not [each for each in played(4).changes if each.subject == "shared VMs, ff"]


def test_cores_over_time(tmp_path: Path) -> None:
    """Their integral is what the executors were paid for, and what they worked."""
    costs = costs_of(read_logs([str(written(tmp_path, ETL))]).applications, load_prices("ec2-us-east-1"))
    found = cores_over_time(costs, 58)
    assert found is not None
    assert found.paid[:4].tolist() == pytest.approx([2, 2, 2, 4])
    assert found.paid.sum() == pytest.approx(186)
    assert found.worked.sum() == pytest.approx(50)
    assert cores_over_time(costs_of([], load_prices("ec2-us-east-1"))) is None
