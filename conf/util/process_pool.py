"""A pool of processes that ends at once with the work that it is for."""

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import active_children, get_context, parent_process
from typing import Any


@contextlib.contextmanager
def process_pool(
    processes: int | None, initializer: Callable[..., object] | None = None, *arguments: Any
) -> Iterator[ProcessPoolExecutor]:
    """Run so many processes (None: one for each core), each after `initializer(*arguments)`.

    After an exception, as by Ctrl-C, and when this process is killed, they are ended in the middle of their
    work, which would be of no use.
    """
    others = set(active_children())
    # Processes that are spawned, since a copy of one with TensorFlow's threads would not run.
    pool = ProcessPoolExecutor(processes, get_context("spawn"), _begin, (initializer, *arguments))
    try:
        yield pool
    except BaseException:
        for process in set(active_children()) - others:
            process.terminate()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _begin(initializer: Callable[..., object] | None, *arguments: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal's is for the process that waits for these
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if initializer is not None:
        initializer(*arguments)


def _end_with_parent() -> None:
    if (parent := parent_process()) is not None:
        parent.join()
        os._exit(1)
