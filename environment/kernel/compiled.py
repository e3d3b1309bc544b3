"""Compiles numeric code with numba: the one decorator.

numba caches a compiled function under the source file that it stands in, and does not notice when a function
that it calls, or a constant of another file, has changed. So the cache lies in a folder named after the
contents of the kernel, of the function's own folder, and of those folders whose compiled functions its
module knows, or they in turn, and after the constants that these modules know: after any change there, it is
compiled anew. Processes that need it at once leave it to one of them.
"""

import fcntl
import hashlib
import os
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, TypeGuard, TypeVar

import numba
import numpy as np
from numba import types
from numba.core.compiler_lock import global_compiler_lock
from numba.core.dispatcher import Dispatcher

Compiled = TypeVar("Compiled", bound=Callable[..., Any])

_KERNEL = Path(__file__).parent
#: Packages of this project, and the program that runs: constants of other packages are taken to stay as they
#: are.
_OURS = {"__main__", *(path.parent.name for path in _KERNEL.parents[1].glob("*/__init__.py"))}


class _Sources(NamedTuple):
    """Sources of a compiled function: folders of code and frozen constants."""

    folders: frozenset[Path]
    #: Module, name and value of each constant frozen into it: a module may have them from anywhere. Of a
    #: NamedTuple the value is the order of its fields, which numba's types do not tell apart when they are of
    #: one kind.
    constants: frozenset[tuple[str, str, str]]


#: By compiled function.
_SOURCES: dict[object, _Sources] = {}


def _sources_of(function: Callable[..., Any]) -> _Sources:
    """The folder of the function and the constants that it may use, and of those that it may call the same.

    These are all that its module knows when the function is defined, by their names or those of modules.
    """
    folders, constants = {Path(function.__code__.co_filename).parent}, set[tuple[str, str, str]]()
    for module, known in _scopes(function):
        for name, value in known.items():
            if isinstance(value, Dispatcher) and value in _SOURCES:
                folders |= _SOURCES[value].folders
                constants |= _SOURCES[value].constants
            elif name.startswith("__") or module.split(".")[0] not in _OURS:
                continue
            elif _is_constant(value):
                constants.add((module, name, repr(value)))
            elif _is_record(value):
                constants.add((module, name, repr(_fields_of(value))))
    return _Sources(frozenset(folders), frozenset(constants))


def _scopes(function: Callable[..., Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Modules, by name, with the names that the function may use: its own and those that it imports."""
    yield function.__module__, function.__globals__
    for value in list(function.__globals__.values()):
        if isinstance(value, ModuleType):
            yield value.__name__, vars(value)


def _is_record(value: object) -> TypeGuard[type[Any]]:
    return isinstance(value, type) and issubclass(value, tuple) and hasattr(value, "_fields")


def _fields_of(record: type[Any]) -> list[Any]:
    """The fields of a NamedTuple in order, and of those that they are."""
    kinds = ((name, record.__annotations__.get(name)) for name in record._fields)
    return [(name, _fields_of(kind) if _is_record(kind) else ()) for name, kind in kinds]


def _is_constant(value: object) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_constant, value))
    return isinstance(value, bool | int | float | str | np.generic)


@cache
def _cache_for(sources: _Sources) -> Path:
    """Cache folder for the compiled functions of these sources."""
    contents = hashlib.sha256(repr(sorted(sources.constants)).encode())
    for folder in sorted({_KERNEL, *sources.folders}):
        for path in sorted(folder.glob("*.py")):
            contents.update(path.read_bytes())
    return Path(numba.config.CACHE_DIR or _KERNEL / "__pycache__") / f"numba-{contents.hexdigest()[:12]}"


def _widened(signature: Any) -> Any:
    """Signature for whole numbers of any kind, where it is for one of 32 bits, or for 0, or 1, alone."""
    if not isinstance(signature, tuple):
        return signature
    plain = map(types.unliteral, signature)
    return tuple(types.int64 if each == types.int32 else each for each in plain)


def _compile_sparingly(compiled: Any) -> None:
    """Compile the function once for all whole numbers; other processes wait, and find it in the cache then.

    numba compiles a function anew for each constant argument. It lets all processes compile, and mixes up
    the results that two of them cache for different arguments at once.
    """
    compile_it, function = compiled.compile, compiled.py_func
    name = f"{function.__module__}.{function.__qualname__}-{function.__code__.co_firstlineno}.lock"

    def compile_alone(asked: object) -> object:
        signature = _widened(asked)
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


def _without_a_door(compiled: Any) -> None:
    """Refuse a call from Python of a function that has no wrapper for it, which numba does not look for."""
    name = compiled.py_func.__qualname__

    def refuse(*_args: object, **_named: object) -> object:
        message = f"{name} is called by compiled functions alone: @njit(entry=True) lets Python call it"
        raise TypeError(message)

    def keep(result: Any) -> None:  # among the names that compiled functions find, not among those of Python
        compiled.overloads[tuple(result.signature.args)] = result

    compiled.add_overload, compiled._compile_for_args = keep, refuse


def njit(*, entry: bool = False, inline: bool = False, ieee: bool = False) -> Callable[[Compiled], Compiled]:
    """Compile a function at its first call; later processes find it in the cache.

    Python may call it if it is an `entry`. The wrapper that takes Python's objects apart, and counts them,
    is made for these alone: for small functions it is most of the compiled code.

    No fast mathematics: the same inputs give the same bits. The GIL is released while it runs. No function
    makes arrays, and none that does compiles: then numba need not count references, which takes twenty times
    as long as the transitions themselves, and longer with every thread. One that takes or gives a tuple of
    many arrays says `inline`: handing it over can take longer than the work there. With `ieee` a division by
    zero gives infinity rather than an exception; loops that divide then need no test for it, and compute
    several of their turns at a time.
    """
    options = {
        "_nrt": False,
        "forceinline": inline,
        "error_model": "numpy" if ieee else "python",
        "no_cpython_wrapper": not entry,
        "no_cfunc_wrapper": True,
    }

    def compile_it(function: Compiled) -> Compiled:
        sources = _sources_of(function)
        before, numba.config.CACHE_DIR = numba.config.CACHE_DIR, str(_cache_for(sources))
        try:
            compiled: Compiled = numba.njit(cache=True, nogil=True, **options)(function)
        finally:
            numba.config.CACHE_DIR = before
        if isinstance(compiled, Dispatcher):  # with NUMBA_DISABLE_JIT it is the function itself
            _compile_sparingly(compiled)
            if not entry:
                _without_a_door(compiled)
            _SOURCES[compiled] = sources
        return compiled

    return compile_it
