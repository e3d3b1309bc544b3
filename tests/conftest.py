"""Setup of all tests: how workers of pytest-xdist share them, and clean-up at the end."""

import contextlib
import gc
import itertools
import logging
import os
import signal
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import structlog
from httpx._config import DEFAULT_TIMEOUT_CONFIG
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadFileScheduling

from agents.registry import POLICIES, create
from framework.host.process_tree import adopt_orphans, kill_below
from tests.builders import make_request, make_view, make_vms
from tests.waiting import PATIENCE

# No test fails by a clock, however slowly a busy machine draws examples, nor by chance: examples are the same
# each time, but for `make explore`.
settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
settings.register_profile("explore", settings.get_profile("any machine"), derandomize=False, print_blob=True)
settings.load_profile("explore" if "STOKER_EXPLORE" in os.environ else "any machine")

# Responses are waited for as long as everything else: by default httpx gives up after 5 s.
DEFAULT_TIMEOUT_CONFIG.read = PATIENCE

# No test speaks to strangers: to read who certifies them takes 30 ms for each of thousands of clients.
os.environ.pop("SSL_CERT_FILE", None)
os.environ["SSL_CERT_DIR"] = os.devnull

_REPOSITORY = Path(__file__).parents[1]
#: TensorFlow 2.15 has packages for Python 3.11 only: these are skipped elsewhere.
_NEED_TENSORFLOW = frozenset(
    f"tests/{file}.py"
    for file in (
        "agents/drl/test_dqn_worlds",
        "agents/drl/test_records",
        "agents/drl/test_training",
        "environment/training/test_training_environments",
    )
)


def _share_of_worker() -> float | None:
    """Start of this worker within the shared work, from 0.0 to below 1.0; None in one process."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "")
    return int(worker[2:]) / int(os.environ["PYTEST_XDIST_WORKER_COUNT"]) if worker else None


def pytest_configure() -> None:
    """Have all that tests start below this process, so that it can be ended, also by SIGINT."""
    gc.set_threshold(10_000)  # a tenth of the time in which tests are collected went into looking for garbage
    adopt_orphans()
    # In the background of a shell SIGINT is ignored, here and by all that is started here.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_unconfigure() -> None:
    """End processes that failed or interrupted tests started and did not end."""
    kill_below(os.getpid(), 10.0)


def pytest_collection(session: pytest.Session) -> None:
    """Share the compilation of test files among workers: each begins elsewhere, and finds others' results.

    Where nothing is compiled yet, pytest rewrites the assertions of all files, which takes seven seconds.
    """
    if (share := _share_of_worker()) is not None:
        paths = [session.config.invocation_params.dir / arg.partition("::")[0] for arg in session.config.args]
        found = (path.rglob("test_*.py") if path.is_dir() else [path] for path in paths)
        files = sorted(itertools.chain.from_iterable(found))
        first = int(share * len(files))
        for file in files[first:] + files[:first]:
            # Whoever collects it says what is wrong with it.
            with contextlib.suppress(Exception):
                import_module(".".join(file.relative_to(_REPOSITORY).with_suffix("").parts))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip tests of training where it does not run; schedule slow files first for workers."""
    if sys.version_info >= (3, 12):
        for item in items:
            if item.path.relative_to(_REPOSITORY).as_posix() in _NEED_TENSORFLOW:
                item.add_marker(pytest.mark.skip(reason="training needs Python 3.11"))
    if hasattr(config, "workerinput"):
        slow = {item.path for item in items if item.get_closest_marker("slow")}
        items.sort(key=lambda item: item.path not in slow)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give all files that import TensorFlow to one worker: that takes five seconds of CPU."""
    if config.getvalue("dist") != "loadfile":
        return None
    scheduler = LoadFileScheduling(config, log)
    file_of = scheduler._split_scope
    scheduler._split_scope = lambda test: "tensorflow" if file_of(test) in _NEED_TENSORFLOW else file_of(test)
    return scheduler


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Exclude objects from before the first test from garbage collection."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def as_in_one_process() -> None:
    """Hide from a worker that it is one: neither the terminal nor uncompiled code shows it.

    In one process tests of policies come first, and compile code that a daemon must not wait for later.
    Workers share that work, and find the code that others compiled.
    """
    os.environ.pop("COLUMNS", None)
    if (share := _share_of_worker()) is not None:
        names = sorted(POLICIES)
        first = int(share * len(names))
        for name in names[first:] + names[:first]:
            create(name).decide(make_view(make_vms(2)), [make_request(2)])


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """Undo process-wide settings of a test, as from `stoker up`, which has a process of its own."""
    logs, handlers, level = structlog.get_config(), logging.root.handlers[:], logging.root.level
    signals = {number: signal.getsignal(number) for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)}
    mask = os.umask(0o022)
    os.umask(mask)
    yield
    structlog.configure(**logs)
    logging.root.handlers[:] = handlers
    logging.root.setLevel(level)
    for number, handler in signals.items():
        signal.signal(number, handler)
    os.umask(mask)
