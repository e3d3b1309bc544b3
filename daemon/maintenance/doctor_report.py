"""Report of the doctor: checks done, faults found, faults repaired.

`doctor.py` (the store), `host_checks.py` and `user_checks.py` do the checks.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from daemon.store.rows.database import StoreError

#: Findings of one check that are reported one by one.
_MOST = 20


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    """A fault and the advice for it; `mended` when it was repaired."""

    check: str
    what: str
    advice: str
    mended: bool = False


@dataclass(slots=True)
class DoctorReport:
    """Checks done, with the number of things in each, and findings."""

    looked_at: dict[str, int] = field(default_factory=dict)
    findings: list[DoctorFinding] = field(default_factory=list)

    @property
    def well(self) -> bool:
        """Whether nothing is left to be done."""
        return all(finding.mended for finding in self.findings)


class Examination:
    """An examination under way, and its report so far. With `repair`, it repairs faults."""

    def __init__(self, data_dir: Path, *, repair: bool, progress: Callable[[str, int], None] | None) -> None:
        """`progress` receives the check's name and its count so far."""
        self.data_dir = data_dir
        self.repair = repair
        self.report = DoctorReport()
        self._told = progress

    def progress(self, check: str, number: int) -> None:
        """So many things of a check were looked at until now; more may come."""
        if self._told is not None:
            self._told(check, number)

    def count(self, check: str, number: int = 1) -> None:
        """So many more things of a check were looked at."""
        self.report.looked_at[check] = self.report.looked_at.get(check, 0) + number

    def find(self, check: str, what: str, advice: str, mended: bool = False) -> None:
        """Something is not as it should be."""
        self.report.findings.append(DoctorFinding(check, what, advice, mended))

    def find_all(self, check: str, found: list[str], advice: str, mended: bool = False) -> None:
        """The same of many things, of which not all are told one by one."""
        for what in found[:_MOST]:
            self.find(check, what, advice, mended)
        if len(found) > _MOST:
            self.find(check, f"... and {len(found) - _MOST} more", advice, mended)

    def mend(self, mend: Callable[[], object]) -> bool:
        """Whether this was mended, which is tried if anything may be; StoreError when it cannot be."""
        if not self.repair:
            return False
        try:
            mend()
        except OSError as error:
            raise StoreError(
                f"{error.filename or self.data_dir} cannot be mended: {error.strerror}"
            ) from error
        return True
