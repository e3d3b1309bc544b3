"""`stoker` without Mesos: `python -m tests.daemon.substrate.process_daemon up --config FILE`."""

import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from unittest.mock import patch

from conf.schema import Config
from daemon.cli import main
from daemon.store.job_store import Store
from daemon.substrate.choice import ChosenSubstrate
from environment.resources import Resources
from environment.types import Vm
from tests.daemon.substrate.process_substrate import ProcessSubstrate


@dataclass(frozen=True, slots=True)
class ProcessChoice:
    """Takes the place of `SubstrateChoice`: two VMs, and tasks in the data folder."""

    config: Config
    config_dir: Path
    data_dir: Path
    account: str | None
    url: str
    root: bool = True
    driver_host: str = "127.0.0.1"

    @contextmanager
    def for_term(self, store: Store, own: Store) -> Iterator[ChosenSubstrate]:
        """The substrate; it opens no VMs."""
        folder = self.data_dir / "tasks"
        folder.mkdir(exist_ok=True)
        folder.chmod(0o711)  # the tasks' user comes through
        net = f"127.9.{zlib.crc32(bytes(folder)) % 256}"
        vms = tuple(
            Vm(name, name, "m1.large", Resources.of(4.0, 8192), 0.24, f"{net}.{number}")
            for number, name in enumerate(("vm-1", "vm-2"), start=1)
        )
        connect = partial(ProcessSubstrate, folder, vms, self.account)
        yield ChosenSubstrate(connect, self.driver_host, None, ())


if __name__ == "__main__":
    with patch("daemon.wiring.SubstrateChoice", ProcessChoice):
        sys.exit(main())
