"""A task's folder on this machine, as a `framework.substrate.Sandbox`; its files are of the task's user."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from framework.host.untrusted_files import copy_file, list_beneath, open_beneath


@dataclass(frozen=True, slots=True)
class FolderSandbox:
    """The folder `below`, a path relative to `root`, of which no part may be a link."""

    root: Path
    below: str

    def read(self, name: str, offset: int, limit: int) -> bytes:
        """See `Sandbox`."""
        with self._open(name) as file:
            # Beyond the largest file of a file system, an offset would be an error.
            return os.pread(file, limit, offset) if offset < os.fstat(file).st_size else b""

    def size(self, name: str) -> int:
        """See `Sandbox`."""
        with self._open(name) as file:
            return os.fstat(file).st_size

    def copy(self, name: str, to: int, most: int) -> int:
        """See `Sandbox`."""
        with self._open(name) as file:
            return copy_file(file, to, most)

    def files(self, folder: str) -> list[str]:
        """See `Sandbox`."""
        found = list_beneath(self.root, f"{self.below}/{folder}")
        return [name.removeprefix(f"{self.below}/") for name in found]

    @contextmanager
    def _open(self, name: str) -> Iterator[int]:
        file = open_beneath(self.root, f"{self.below}/{name}")
        try:
            yield file
        finally:
            os.close(file)
