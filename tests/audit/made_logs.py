"""Event logs made for tests: events as Spark writes them, times in seconds after `BEGAN`."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from audit.applications import LoggedApplication
from audit.log_files import LogFiles
from audit.read_logs import read_log

#: 2026-11-01, in seconds.
BEGAN = 1793491200
SHARED = Path(__file__).parents[2] / "../shared/datasets/event-logs"
Event = Mapping[str, Any]


def log_start(version: str = "3.5.1") -> Event:
    """Spark's first event."""
    return {"Event": "SparkListenerLogStart", "Spark Version": version}


def app_start(name: str = "etl", at: float = 0, attempt: str | None = None, app: str = "app-1") -> Event:
    """The start of an application."""
    event = {"Event": "SparkListenerApplicationStart", "App Name": name, "App ID": app, "User": "ann"}
    return event | {"Timestamp": ms(at)} | ({"App Attempt ID": attempt} if attempt else {})


def app_end(at: float) -> Event:
    """Its end."""
    return {"Event": "SparkListenerApplicationEnd", "Timestamp": ms(at)}


def environment(**conf: str) -> Event:
    """Its settings; dots are written as two underscores."""
    given = {f"spark.{key.replace('__', '.')}": value for key, value in conf.items()}
    return {"Event": "SparkListenerEnvironmentUpdate", "Spark Properties": given}


def added(name: str, at: float, cores: int = 2, host: str = "host-1", info: Event | None = None) -> Event:
    """An executor comes."""
    told = {"Host": host, "Total Cores": cores, "Log Urls": {}, **(info or {})}
    return {
        "Event": "SparkListenerExecutorAdded",
        "Timestamp": ms(at),
        "Executor ID": name,
        "Executor Info": told,
    }


def removed(name: str, at: float, why: str = "Executor killed by driver.") -> Event:
    """An executor goes."""
    return {
        "Event": "SparkListenerExecutorRemoved",
        "Timestamp": ms(at),
        "Executor ID": name,
        "Removed Reason": why,
    }


def task(
    executor: str,
    begin: float,
    end: float,
    stage: int = 0,
    *,
    failed: bool = False,
    input_mib: float = 0,
    peak_mib: float = 0,
) -> Event:
    """A task that is over."""
    return {
        "Event": "SparkListenerTaskEnd",
        "Stage ID": stage,
        "Stage Attempt ID": 0,
        "Task Type": "ResultTask",
        "Task End Reason": {"Reason": "ExceptionFailure" if failed else "Success"},
        "Task Info": {
            "Task ID": 0,
            "Launch Time": ms(begin),
            "Executor ID": executor,
            "Host": "host-1",
            "Finish Time": ms(end),
            "Failed": failed,
            "Killed": False,
            "Accumulables": [{"ID": 1, "Name": '"Task Metrics":', "Update": [{"a": 1}]}],
        },
        "Task Executor Metrics": {"JVMHeapMemory": peak_mib * 2**20, "JVMOffHeapMemory": 0},
        "Task Metrics": {
            "Input Metrics": {"Bytes Read": input_mib * 2**20},
            "Disk Bytes Spilled": 0,
            "Shuffle Read Metrics": {"Remote Bytes Read": 0, "Local Bytes Read": 0},
        },
    }


def stage(
    number: int, begin: float, end: float, name: str = "count at /home/ann/etl.py:3", profile: int = 0
) -> Event:
    """A stage that is over."""
    return {
        "Event": "SparkListenerStageCompleted",
        "Stage Info": {
            "Stage ID": number,
            "Stage Attempt ID": 0,
            "Stage Name": name,
            "Submission Time": ms(begin),
            "Completion Time": ms(end),
            "Resource Profile Id": profile,
        },
    }


def ms(seconds: float) -> int:
    """Seconds after `BEGAN` as Spark's milliseconds."""
    return round((BEGAN + seconds) * 1000)


def text_of(events: Iterable[Event]) -> str:
    """A log of these events, as Spark writes it: without spaces."""
    return "".join(json.dumps(event, separators=(",", ":")) + "\n" for event in events)


#: An application by which all causes can be counted by hand: 2 executors of 2 cores, 1 GiB and overhead.
#:
#: seconds     0        10       20       30       40       50
#: executor 1  +------  A A A A  A A A A  . . . .  B B B B  -------  (cores 1; core 2: A from 10 to 20)
#: executor 2     +---  C failed C done   . . . .  removed at 40
ETL = (
    log_start(),
    environment(executor__memory="1g", executor__cores="2"),
    app_start(),
    added("1", 2),
    added("2", 5, host="host-2"),
    task("1", 10, 30, peak_mib=512),
    task("1", 10, 20),
    task("2", 10, 20, failed=True),
    task("2", 20, 30),
    stage(0, 10, 30),
    removed("2", 40),
    task("1", 40, 50, stage=1),
    stage(1, 40, 50),
    app_end(60),
)


def written(folder: Path, events: Iterable[Event], name: str = "app-1") -> Path:
    """The log as a file of that folder, by the id of its application."""
    folder.mkdir(parents=True, exist_ok=True)
    own = f'"App ID":"{name.partition(".")[0]}"'
    (folder / name).write_text(text_of(events).replace('"App ID":"app-1"', own))
    return folder / name


def read(path: Path) -> LoggedApplication:
    """The application of a log that can be read."""
    found = read_log(LogFiles(path.name, (str(path),), path.stat().st_size))
    assert isinstance(found, LoggedApplication), found
    return found
