"""The savings that `stoker audit` computes beside the costs, and the files that it writes of them."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from daemon.cli.shared.errors import CommandError, writing
from daemon.cli.shared.progress import progress_bar

if TYPE_CHECKING:
    from audit.savings.plays import Played
    from audit.savings.predict import Savings
    from audit.write import AuditResult


@dataclass(frozen=True, slots=True)
class Files:
    """Files for `simulate`, `train` and a daemon that an audit writes where they are named."""

    profiles: Path | None
    workload: Path | None
    cluster: Path | None
    #: Name of the cluster's scenario.
    scenario: str | None

    @property
    def any(self) -> bool:
        """Whether there is one."""
        return any(path is not None for path in (self.profiles, self.workload, self.cluster))

    def write(self, savings: "Savings | None") -> None:
        """Write them; CommandError for a scenario that is not there, or a place that cannot be written."""
        from audit.savings import files

        if savings is None or not (self.any or self.scenario):
            return
        if not savings.runs:
            raise CommandError("no application had an executor with cores for a while: nothing can be played")
        played = self._played(savings)
        if self.profiles is not None:
            with writing(self.profiles):
                files.write_profiles(savings.types, self.profiles)
        if self.workload is not None:
            with writing(self.workload):
                files.write_jobs(savings.runs, self.workload)
        if self.cluster is not None:
            with writing(self.cluster):
                files.write_cluster(played.scenario, self.cluster)

    def _played(self, savings: "Savings") -> "Played":
        by_name = {each.scenario.name: each for each in savings.played}
        if self.scenario is None:
            return max(savings.played, key=lambda each: (not each.failed, each.saving.middle))
        if self.scenario not in by_name:
            raise CommandError(f"--scenario {self.scenario}: should be one of {'; '.join(by_name)}")
        return by_name[self.scenario]


def saved(found: "AuditResult", policy: str, cluster: str | None) -> "Savings":
    """Play the applications in the simulator, with progress."""
    from audit.savings.predict import predict
    from conf.loader import load
    from conf.schema.cluster import Cluster
    from environment.clusters.cluster_files import cluster_file

    names = [name for each in policy.split(",") if (name := each.strip())]
    if not names:
        raise CommandError("--policy: names no policy; `stoker policy list` shows them")
    given = None if cluster is None else (cluster, load(cluster_file(cluster), Cluster))
    with progress_bar() as progress:
        return predict(found.costs, found.prices, names, given, progress)
