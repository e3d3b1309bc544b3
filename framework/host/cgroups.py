"""Control groups of version 1 or 2: created with limits, checked for out-of-memory kills, removed.

A `ControlGroup` is one folder under version 2, and one for each controller under version 1.
"""

import contextlib
import math
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_PERIOD_US = 100_000  # the kernel's own default
_SMALLEST_QUOTA_US = 1_000  # the kernel refuses less
_MIB = 2**20
#: Processes that are left to others than jobs, where an eighth of all would be fewer; and how many there can
#: be at most where no limit is known (the kernel's own default).
_SPARED_PIDS, _UNKNOWN_PIDS = 512, 32_768
_END_SECONDS = 5.0  # chosen: killed processes are gone in a moment, unless the disk hangs


class CgroupError(OSError):
    """No groups can be made; the text is the reason."""


@dataclass(frozen=True, slots=True)
class ControlGroup:
    """A group for cpu, memory and processes; these are one folder under version 2.

    `pids` is None where no controller limits processes.
    """

    cpu: Path
    memory: Path
    pids: Path | None = None

    @property
    def folders(self) -> tuple[Path, ...]:
        """The different folders."""
        return tuple(dict.fromkeys(path for path in (self.cpu, self.memory, self.pids) if path))

    @property
    def unified(self) -> bool:
        """Whether this is version 2."""
        return self.cpu == self.memory

    @property
    def memory_limit_mib(self) -> float:
        """The limit in force, MiB."""
        name = "memory.max" if self.unified else "memory.limit_in_bytes"
        told = (self.memory / name).read_text().strip()
        return math.inf if told == "max" else int(told) // _MIB

    def child(self, name: str) -> "ControlGroup":
        """Make a group below this one."""
        child = self._below(name)
        for folder in child.folders:
            folder.mkdir()
        return child

    def _below(self, name: str) -> "ControlGroup":
        return ControlGroup(self.cpu / name, self.memory / name, self.pids and self.pids / name)

    def open_to_children(self) -> None:
        """Let groups below this one have limits too; version 1 needs no such word."""
        if self.unified:
            (self.cpu / "cgroup.subtree_control").write_text(f"+cpu +memory{' +pids' if self.pids else ''}")

    def limit_cores(self, cores: float) -> None:
        """Limit the cores of this machine that it may use; at least a hundredth, the kernel's minimum."""
        quota = max(round(cores * _PERIOD_US), _SMALLEST_QUOTA_US)
        if self.unified:
            (self.cpu / "cpu.max").write_text(f"{quota} {_PERIOD_US}")
        else:
            (self.cpu / "cpu.cfs_period_us").write_text(str(_PERIOD_US))
            (self.cpu / "cpu.cfs_quota_us").write_text(str(quota))

    def limit_memory(self, memory_mib: int) -> None:
        """Limit its memory, without swap."""
        limit = str(memory_mib * _MIB)
        if self.unified:
            (self.memory / "memory.max").write_text(limit)
            swap, no_swap = self.memory / "memory.swap.max", "0"
        else:
            (self.memory / "memory.limit_in_bytes").write_text(limit)
            swap, no_swap = self.memory / "memory.memsw.limit_in_bytes", limit
        if swap.exists():  # a kernel without swap has none to forbid
            swap.write_text(no_swap)

    def limit_processes(self, most: int) -> None:
        """Limit its processes and threads, of all users together, where a controller can."""
        if self.pids:
            (self.pids / "pids.max").write_text(str(most))

    def share(self, cpus: float) -> None:
        """Let it have its part of the group above by its cpus, when that one's are scarce."""
        if self.unified:
            (self.cpu / "cpu.weight").write_text(str(min(max(round(100 * cpus), 1), 10_000)))
        else:
            (self.cpu / "cpu.shares").write_text(str(min(max(round(1024 * cpus), 2), 262_144)))

    def end_together(self) -> None:
        """Let the kernel kill all of it or nothing (version 2), as Mesos does with a container."""
        if self.unified:
            (self.memory / "memory.oom.group").write_text("1")

    def killed_for_memory(self) -> bool:
        """Whether the kernel killed a process of this group because memory was at its limit."""
        return self._happened("oom_kill")

    def was_at_its_limit(self) -> bool:
        """Whether memory reached the limit of this group, and not of one above."""
        if self.unified:
            return self._happened("max")
        # memory.failcnt stays 0 on some kernels.
        most, limit = (
            int((self.memory / f"memory.{n}_in_bytes").read_text()) for n in ("max_usage", "limit")
        )
        return most > limit - _MIB

    def _happened(self, event: str) -> bool:
        text = (self.memory / ("memory.events" if self.unified else "memory.oom_control")).read_text()
        counts = dict(line.split() for line in text.splitlines())
        return int(counts.get(event, 0)) > 0

    def kill(self) -> None:
        """Kill all its processes; those that they start meanwhile need another call."""
        for folder in self.folders:
            for pid in _pids(folder):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def remove(self) -> bool:
        """Kill all its processes and remove it; return whether it is gone: processes need a moment to end."""
        self.kill()
        for folder in self.folders:
            with contextlib.suppress(OSError):
                folder.rmdir()
        return not any(folder.exists() for folder in self.folders)

    def remove_all(self) -> bool:
        """Remove it with all groups below it, waiting for their processes; return whether all are gone."""
        end = time.monotonic() + _END_SECONDS
        while not self._remove_once():
            if time.monotonic() > end:
                return False
            time.sleep(0.01)
        return True

    def _remove_once(self) -> bool:
        for name in {folder.name for path in self.folders for folder in _folders_in(path)}:
            self._below(name)._remove_once()
        return self.remove()


def make_group(name: str, mounts: str, own: str) -> ControlGroup:
    """Make a group without limits, as near below this process's own as the kernel allows.

    `name` is that of its folder, `mounts` the text of /proc/self/mountinfo, `own` that of /proc/self/cgroup.

    CgroupError when the controllers cpu and memory are not there, or no group can be made.
    """
    cpu, memory, pids = (_own_folder(controller, mounts, own) for controller in ("cpu", "memory", "pids"))
    try:
        if cpu and memory:
            return ControlGroup(cpu, memory, pids).child(name)
        return _make_unified(name, mounts, own)
    except CgroupError:
        raise
    except OSError as error:
        raise CgroupError(f"no cgroup can be created: {error.filename}: {error.strerror}") from None


def make_tracker(name: str, mounts: str, own: str) -> Path | None:
    """Make a group without limits, or find it again: it identifies all processes that were started in it.

    Arguments as `make_group`. None where no group can be made; only root's processes can leave one.
    """
    for controller in ("", "freezer", "pids"):
        nearest = _own_folder(controller, mounts, own)
        if nearest is not None and nearest.is_relative_to("/sys/fs/cgroup"):
            with contextlib.suppress(OSError):
                group = nearest / name
                group.mkdir(exist_ok=True)
                if os.access(group / "cgroup.procs", os.W_OK):
                    return group
                group.rmdir()
    return None


def processes_for_jobs(mounts: str, own: str) -> int:
    """The number of processes and threads that a user's jobs may have: of all that can be, most.

    The rest is left to this process and to others, which cannot start anything otherwise. Arguments as
    `make_group`.
    """
    limits = [_number(Path("/proc/sys/kernel", name)) for name in ("pid_max", "threads-max")]
    for controller in ("", "pids"):
        group = _own_folder(controller, mounts, own)
        limits += [_number(place / "pids.max") for place in (group, *group.parents)] if group else []
    whole = min((limit for limit in limits if limit), default=_UNKNOWN_PIDS)
    return whole - min(max(whole // 8, _SPARED_PIDS), whole // 2)


def most_processes_here() -> int:
    """`processes_for_jobs` of this process's groups."""
    return processes_for_jobs(*(Path("/proc/self", name).read_text() for name in ("mountinfo", "cgroup")))


def _number(path: Path) -> int:
    """The limit in a file of the kernel; 0 where there is none."""
    with contextlib.suppress(OSError, ValueError):
        return int(path.read_text())
    return 0


def _make_unified(name: str, mounts: str, own: str) -> ControlGroup:
    """A group below the nearest one above this process that may set limits for its children."""
    nearest = _own_folder("", mounts, own)
    lacking = "the controllers cpu and memory are mounted neither as cgroup v1 nor in cgroup v2"
    if nearest is None:
        raise CgroupError(lacking)
    for folder in (nearest, *nearest.parents):
        if not (folder / "cgroup.controllers").exists():
            break
        controllers = set((folder / "cgroup.controllers").read_text().split())
        if not {"cpu", "memory"} <= controllers:
            raise CgroupError(f"{lacking} ({folder}/cgroup.controllers)")
        with contextlib.suppress(OSError):  # a group with processes of its own may have no limited children
            nearest_open = ControlGroup(folder, folder, folder if "pids" in controllers else None)
            nearest_open.open_to_children()
            group = nearest_open.child(name)
            group.open_to_children()
            return group
    raise CgroupError(f"no group above {nearest} allows its children limits on cpu and memory")


def _own_folder(controller: str, mounts: str, own: str) -> Path | None:
    """Folder of this process's group of a version 1 controller; of version 2 for an empty name."""
    path = next((group for names, group in _groups(own) if controller in names.split(",")), None)
    for root, point, kind, options in _mounts(mounts):
        if path is not None and kind == ("cgroup" if controller else "cgroup2"):
            if controller and controller not in options:
                continue
            # A mount may show a part of the tree only; groups outside of it are shown as its top.
            inside = Path(path).relative_to(root) if Path(path).is_relative_to(root) else Path()
            return Path(point) / inside
    return None


def _groups(own: str) -> Iterator[tuple[str, str]]:
    for line in own.splitlines():
        _, names, path = line.split(":", 2)
        yield names, path


def _mounts(text: str) -> Iterator[tuple[str, str, str, list[str]]]:
    """Yield root, mount point, type and options of each mount; see proc(5)."""
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        fields, (kind, _, options) = before.split(), after.split()[:3]
        yield fields[3], fields[4], kind, options.split(",")


def _folders_in(folder: Path) -> list[Path]:
    try:
        return [entry for entry in folder.iterdir() if entry.is_dir()]
    except FileNotFoundError:
        return []


def _pids(folder: Path) -> list[int]:
    try:
        return [int(line) for line in (folder / "cgroup.procs").read_text().split()]
    except OSError:
        return []
