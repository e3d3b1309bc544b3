"""Files of an audit that `stoker simulate`, `train` and a daemon read: profiles, workload, cluster."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

from audit.savings.job_runs import JobRun
from audit.savings.plays import workload
from audit.savings.scenarios import Scenario
from audit.savings.types import JobType
from conf.util.whole_file import replacing
from profiles.summary import profiles_text
from profiles.workloads.workload_files import write_workload


def write_profiles(types: Mapping[str, JobType], path: Path) -> None:
    """Profiles of all types, as `simulate --profiles` and the daemon's `profiles` take them. OSError."""
    text = profiles_text(
        {name: each.profile for name, each in sorted(types.items())},
        "fitted to event logs by stoker audit",
    )
    with replacing(path) as draft:
        draft.write_text(text, encoding="utf-8")


def write_jobs(runs: Sequence[JobRun], path: Path) -> None:
    """The applications as a workload, .csv or .parquet. WorkloadError for another suffix, OSError."""
    write_workload(workload(runs), path)


def write_cluster(scenario: Scenario, path: Path) -> None:
    """The VMs of a scenario as a cluster file. OSError."""
    values = scenario.cluster.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    text = yaml.safe_dump(values, sort_keys=False)
    with replacing(path) as draft:
        draft.write_text(f"# Made by stoker audit: {scenario.name}\n{text}", encoding="utf-8")
