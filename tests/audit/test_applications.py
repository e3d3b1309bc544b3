"""Applications by their event logs: causes counted by hand, and logs of every kind."""

from pathlib import Path

import pytest

from audit.executor_use import CAUSES, CoreUse
from profiles.memory_peaks import MemoryPeak
from tests.audit.made_logs import (
    BEGAN,
    ETL,
    Event,
    added,
    app_end,
    app_start,
    environment,
    log_start,
    read,
    removed,
    stage,
    task,
    text_of,
    written,
)


def test_core_seconds_of_each_cause(tmp_path: Path) -> None:
    """All of them as counted by hand, and together the cores by the time."""
    app = read(written(tmp_path, ETL))
    first, second = app.executors
    assert (first.added_at, first.removed_at) == (BEGAN + 2, BEGAN + 60)
    assert (second.added_at, second.removed_at, second.lost) == (BEGAN + 5, BEGAN + 40, False)
    # Start: 2 cores from 2 to 10. Work: 20 + 10 + 10. Waiting: of 2 x 20 s in which tasks ran 10 are free,
    # and of 2 x 10 s of the second stage 10. Driver: 2 cores from 30 to 40. Tail: 2 cores from 50 to 60.
    assert first.use == pytest.approx(CoreUse(40, 0, 16, 20, 20, 20))
    # Failed: 10, work: 10; waiting: of 2 x 20 s half. From 30 to 40 nothing runs.
    assert second.use == pytest.approx(CoreUse(10, 10, 10, 20, 20, 0))
    assert app.paid_core_seconds == pytest.approx(sum(each.use.total for each in app.executors)) == 186
    assert (app.tasks, app.failed_tasks, app.seconds, app.cut_short) == (5, 1, 60, False)
    assert tuple(CAUSES) == CoreUse._fields


def test_memory_and_stages(tmp_path: Path) -> None:
    """Heap and overhead are held, the peak is of the executor that tells one; stages have a longest task."""
    app = read(written(tmp_path, ETL))
    assert [each.memory_mib for each in app.executors] == [1024 + 384] * 2
    assert app.peak_memory_seconds == pytest.approx((512 * 58, 1408 * 58))
    assert app.memory_peak == MemoryPeak(512, 0)
    first, second = app.stages
    assert (first.name, first.tasks, first.longest_task, first.task_seconds) == (
        "count at etl.py:3",
        4,
        20,
        50,
    )
    assert (second.submitted_at, second.completed_at) == (BEGAN + 40, BEGAN + 50)


@pytest.mark.parametrize(
    ("conf", "memory"),
    [
        ({}, 1024 + 384),
        ({"executor__memory": "8g"}, 8192 + 820),
        ({"executor__memory": "8g", "executor__memoryOverhead": "2g"}, 10240),
        ({"executor__memory": "8g", "yarn__executor__memoryOverhead": "1024"}, 9216),
        ({"executor__memory": "8g", "kubernetes__memoryOverheadFactor": "0.4"}, 8192 + 3277),
        (
            {"executor__memory": "2g", "memory__offHeap__enabled": "true", "memory__offHeap__size": "1g"},
            2048 + 384 + 1024,
        ),
        ({"executor__memory": "a lot"}, 1024 + 384),
    ],
)
def test_memory_of_settings(tmp_path: Path, conf: dict[str, str], memory: int) -> None:
    """Heap, overhead and memory outside of the heap by every name that versions and masters have for them."""
    app = read(
        written(tmp_path, [app_start(), environment(**conf), added("1", 0), task("1", 1, 2), app_end(3)])
    )
    assert app.executors[0].memory_mib == memory


def test_a_resource_profile_and_gpus(tmp_path: Path) -> None:
    """An executor of another resource profile has that one's memory, and its GPUs are counted."""
    asked = {"memory": {"Amount": 4096}, "memoryOverhead": {"Amount": 512}}
    profile = {
        "Event": "SparkListenerResourceProfileAdded",
        "Resource Profile Id": 3,
        "Executor Resource Requests": asked,
    }
    info = {"Resource Profile Id": 3, "Resources": {"gpu": {"name": "gpu", "addresses": ["0", "1"]}}}
    events = [
        app_start(),
        environment(executor__memory="1g"),
        profile,
        added("1", 0, info=info),
        task("1", 1, 2),
    ]
    (executor,) = read(written(tmp_path, events)).executors
    assert (executor.memory_mib, executor.gpus) == (4608, 2)


def test_cores_of_tasks_by_the_profile_of_their_stage(tmp_path: Path) -> None:
    """Stages ask for their own cores a task: four tasks of two cores fill eight, and nothing waits."""
    profile = {
        "Event": "SparkListenerResourceProfileAdded",
        "Resource Profile Id": 1,
        "Executor Resource Requests": {},
        "Task Resource Requests": {"cpus": {"Resource Name": "cpus", "Amount": 2.0}},
    }
    events = (
        *(log_start(), environment(executor__memory="1g"), app_start(), profile, added("1", 0, 8)),
        *(task("1", 0, 10) for _ in range(8)),
        stage(0, 0, 10),
        *(task("1", 10, 20, stage=1) for _ in range(4)),
        stage(1, 10, 20, profile=1),
        app_end(20),
    )
    app = read(written(tmp_path, events))
    assert [each.cpus_per_task for each in app.stages] == [1.0, 2.0]
    assert app.executors[0].use == CoreUse(work=160.0)
    # Without an event of its executor, its cores are those that its tasks took at once.
    unseen = read(
        written(tmp_path, [event for event in events if event["Event"] != "SparkListenerExecutorAdded"])
    )
    assert unseen.executors[0].cores == 8.0


def test_a_log_that_ends_early(tmp_path: Path) -> None:
    """It counts until its last event; half a line, and lines that are none, are left out and counted."""
    text = text_of(ETL[:-2])
    path = tmp_path / "app-1.inprogress"
    path.write_text(text[:-40].replace('{"Event":"SparkListenerExecutorRemoved"', "nonsense", 1))
    app = read(path)
    assert (app.cut_short, app.bad_lines, app.ended_at) == (True, 1, BEGAN + 30)
    assert "1 line without an event left out" in app.notes


def test_executors_that_no_event_tells_of(tmp_path: Path) -> None:
    """They are known by their tasks: as many cores as tasks ran at once, from the first one on."""
    app = read(written(tmp_path, [app_start(), task("7", 10, 20), task("7", 10, 30), app_end(40)]))
    (executor,) = app.executors
    assert (executor.cores, executor.added_at, executor.removed_at) == (2, BEGAN + 10, BEGAN + 40)
    assert executor.use == pytest.approx(CoreUse(30, 0, 0, 10, 0, 20))
    assert app.notes[0] == "no event tells of executors: 1 (7), known by their tasks"


def test_a_local_run(tmp_path: Path) -> None:
    """The driver is the executor, from when its block manager was there."""
    block = {
        "Event": "SparkListenerBlockManagerAdded",
        "Block Manager ID": {"Executor ID": "driver", "Host": "here", "Port": 1},
        "Maximum Memory": 1,
        "Timestamp": (BEGAN + 1) * 1000,
    }
    conf = environment(master="local[2]", driver__memory="4g")
    app = read(written(tmp_path, [app_start(), conf, block, task("driver", 10, 20), app_end(21)]))
    (executor,) = app.executors
    assert (executor.added_at, executor.memory_mib) == (BEGAN + 1, 4096 + 410)


def test_times_of_another_clock(tmp_path: Path) -> None:
    """Executors that come years after the application have no part of it."""
    years = 3e7
    app = read(
        written(tmp_path, [app_start(), added("1", years), added("2", years), task("2", 1, 5), app_end(9)])
    )
    assert [executor.seconds for executor in app.executors] == [8, 0]
    assert "times of 2 executors outside" in app.notes[0]


def test_ids_that_are_used_twice(tmp_path: Path) -> None:
    """An executor that comes again under its id is another one; each is paid for once."""
    events = [app_start(), added("1", 0), removed("1", 10, "worker lost"), added("1", 20), task("1", 21, 30)]
    app = read(written(tmp_path, [*events, app_end(30)]))
    assert sorted((each.seconds, each.lost) for each in app.executors) == [(10, False), (10, True)]


def test_when_spark_asked_for_an_executor(tmp_path: Path) -> None:
    """From then on it is held, where the log says so, but for the time in a full cluster's queue."""
    events = [
        app_start(),
        added("1", 8, info={"Request Time": (BEGAN + 3) * 1000}),
        added("2", 3000, info={"Request Time": (BEGAN + 3) * 1000}),
        task("1", 9, 10),
        app_end(3600),
    ]
    assert [each.seconds for each in read(written(tmp_path, events)).executors] == [3597, 660]


def test_times_and_cores_that_cannot_be_are_noted(tmp_path: Path) -> None:
    """An end before the start, and an executor of no cores, which its tasks then tell."""
    log = [app_start(at=100), added("1", 0, cores=0), task("1", 0, 10), task("1", 5, 10), app_end(60)]
    app = read(written(tmp_path, log))
    assert app.executors[0].cores == 2
    assert app.notes == (
        "1 executor without cores: taken from tasks",
        "its end is before its start: taken as lasting no time",
    )


def test_spark_2(tmp_path: Path) -> None:
    """Settings are a list of pairs, stages have no attempt in tasks, and a queue is YARN's."""
    old = {
        "Event": "SparkListenerEnvironmentUpdate",
        "Spark Properties": [["spark.yarn.queue", "night"], ["spark.task.cpus", "2"]],
    }
    of_task = {key: value for key, value in task("1", 10, 20).items() if key != "Stage Attempt ID"}
    events = [log_start("2.2.0"), app_start(attempt="2"), old, added("1", 0, cores=4), of_task, app_end(20)]
    app = read(written(tmp_path, events))
    assert (app.queue, app.user, app.attempt, app.spark_version) == ("night", "ann", "2", "2.2.0")
    assert app.executors[0].use.work == 20, "a task takes two cores"


def test_events_that_are_odd(tmp_path: Path) -> None:
    """They are counted, and the rest of the log counts."""
    odd: list[Event] = [
        {"Event": "SparkListenerExecutorAdded"},
        {"Event": "SparkListenerTaskEnd", "Task Info": None},
    ]
    app = read(
        written(tmp_path, [app_start(), *odd, added("1", 0), task("1", 0, 5), stage(0, 0, 5), app_end(5)])
    )
    assert app.notes == ("2 events not as Spark writes them left out",)
    assert app.executors[0].use == pytest.approx(CoreUse(5, 0, 0, 5, 0, 0))
