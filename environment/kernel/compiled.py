"""How this project compiles numeric code with numba: the one decorator.

numba keeps a compiled function for the source file that it stands in, and does not see when a function that
it calls, in another file, has changed. So the cache lies in a folder named after the contents of the kernel,
of the function's own folder, and of those folders whose compiled functions its module knows, or they in
turn: after any change there, it is compiled anew. Processes that need it at once leave it to one of them.
"""

import fcntl
import hashlib
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import numba
from numba.core.compiler_lock import global_compiler_lock
from numba.core.dispatcher import Dispatcher

Compiled = TypeVar("Compiled", bound=Callable[..., Any])

_KERNEL = Path(__file__).parent
#: By compiled function: the folders that it is made of.
_FOLDERS: dict[object, frozenset[Path]] = {}


def _folders_of(function: Callable[..., Any]) -> frozenset[Path]:
    """The folder of the function, and of those that it may call, by their names or those of their modules."""
    known: list[object] = []
    for value in function.__globals__.values():
        known += vars(value).values() if isinstance(value, ModuleType) else (value,)
    own = Path(function.__code__.co_filename).parent
    return frozenset(
        {own}.union(*(_FOLDERS.get(value, ()) for value in known if isinstance(value, Dispatcher)))
    )


@cache
def _cache_for(folders: frozenset[Path]) -> Path:
    """Where what functions of these folders become is kept."""
    contents = hashlib.sha256()
    for folder in sorted({_KERNEL, *folders}):
        for path in sorted(folder.glob("*.py")):
            contents.update(path.read_bytes())
    return Path(numba.config.CACHE_DIR or _KERNEL / "__pycache__") / f"numba-{contents.hexdigest()[:12]}"


def _leave_it_to_one_process(compiled: Any) -> None:
    """Let the other processes wait while one compiles, and find it in the cache then.

    numba lets all of them compile, and mixes up what two of them keep for different arguments at once.
    """
    compile_it, function = compiled.compile, compiled.py_func
    name = f"{function.__module__}.{function.__qualname__}-{function.__code__.co_firstlineno}.lock"

    def compile_alone(signature: object) -> object:
        # numba's own lock comes first, as it does for a function that is compiled because another calls it.
        with global_compiler_lock:
            try:
                lock = os.open(Path(compiled.stats.cache_path, name), os.O_RDONLY | os.O_CREAT, 0o666)
            except OSError:  # a folder in which nothing can be kept: then nothing is mixed up there either
                return compile_it(signature)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX)
                return compile_it(signature)
            finally:
                os.close(lock)

    compiled.compile = compile_alone


def njit(
    *, allocates: bool = False, inline: bool = False, ieee: bool = False
) -> Callable[[Compiled], Compiled]:
    """Compile a function at its first call; later processes find it in the cache.

    No fast mathematics: the same inputs give the same bits. The GIL is released while it runs. A function
    that makes arrays says so with `allocates`: for the others numba need not count references, which takes
    twenty times as long as the transitions themselves, and longer with every thread. One that takes or gives
    a tuple of many arrays says `inline`: handing it over can take longer than what is done there. With `ieee`
    a division by zero gives infinity rather than an exception; loops that divide then need no test for it,
    and compute several of their turns at a time.
    """
    options = {"_nrt": allocates, "forceinline": inline, "error_model": "numpy" if ieee else "python"}

    def compile_it(function: Compiled) -> Compiled:
        folders = _folders_of(function)
        folder = _cache_for(folders)
        before, numba.config.CACHE_DIR = numba.config.CACHE_DIR, str(folder)
        try:
            compiled: Compiled = numba.njit(cache=True, nogil=True, **options)(function)
        finally:
            numba.config.CACHE_DIR = before
        if isinstance(compiled, Dispatcher):  # with NUMBA_DISABLE_JIT it is the function itself
            _leave_it_to_one_process(compiled)
            _FOLDERS[compiled] = folders
        return compiled

    return compile_it
