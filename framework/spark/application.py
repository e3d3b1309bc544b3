"""The user's Spark application, checked. `command_lines` launches it."""

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit

from conf.uploaded_file import LONGEST_FILE_NAME, SCHEME, unfit_name
from framework.spark.conf_check import check_conf, check_java_options
from framework.spark.memory import heap_mib, usual_overhead_mib
from framework.spark.properties_file import properties_text
from framework.spark.property_values import beside_heap_mib, size_mib

RESERVED_ENVIRONMENT = (
    "JAVA_HOME",
    "PYSPARK_*",
    "SPARK_EXECUTOR_*",
    "SPARK_HOME",
    "SPARK_LOCAL_HOSTNAME",
    "SPARK_LOCAL_IP",
    "STOKER_*",
    "_SPARK_*",
)
"""Environment variables that an application cannot set; `*` ends a prefix."""

# Linux' MAX_ARG_STRLEN: one string of a command or an environment may hold 128 KiB, and all settings together
# are one. The rest is room for Stoker's additions.
LONGEST_TEXT = 96 * 1024
# Linux gives a command and its environment a quarter of the stack (8 MiB), together, with a pointer to each
# string. Half of that is for the daemon's own environment and options.
MOST_TEXT = 1024 * 1024
_POINTER = 8

_EXECUTOR_OPTIONS = ("spark.executor.defaultJavaOptions", "spark.executor.extraJavaOptions")
#: Fields that become one argument of spark-submit each.
_LISTS = ("py_files", "files", "jars", "archives", "packages", "repositories")
#: Endings of files that Python imports from, as Spark knows them.
_PYTHON = (".py", ".zip", ".egg")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Application:
    """A Spark application: a Python file or a jar, its arguments and all that it needs.

    Files are absolute paths or URIs.
    """

    app: str
    """The `.py` file, or the jar; empty where the driver already has it."""
    main_class: str | None = None
    """The main class of a jar whose manifest names none."""
    arguments: tuple[str, ...] = ()
    py_files: tuple[str, ...] = ()
    """Like files and jars, each may have another name behind a #, for its driver's folder."""
    files: tuple[str, ...] = ()
    jars: tuple[str, ...] = ()
    archives: tuple[str, ...] = ()
    """Each may name, behind a #, the folder into which it is unpacked."""
    packages: tuple[str, ...] = ()
    """Maven coordinates."""
    repositories: tuple[str, ...] = ()
    """URLs."""
    conf: Mapping[str, str] = field(default_factory=dict)
    """Spark's settings, without those that Stoker makes itself."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables of the driver and of every executor."""

    def heap_mib(self, memory_mib: int, process: str = "executor", most_overhead: int = 1 << 31) -> int:
        """The heap (MiB) of an executor or the driver that takes `memory_mib` in all.

        The overhead is that of its settings, at most `most_overhead`, or Spark's rule beside the memory of
        executors' Python and off-heap memory, where settings name any.

        ValueError when the memory is too little, or one in the settings is no amount of memory.
        """
        overhead = self._overhead(process)
        if overhead is None and (beside := self._beside_heap(process)):
            overhead = usual_overhead_mib(max(memory_mib - beside, 0)) + beside
        return heap_mib(memory_mib, process, None if overhead is None else min(overhead, most_overhead))

    def _overhead(self, process: str) -> int | None:
        """The overhead in the settings, MiB; None without one."""
        return self._setting(f"spark.{process}.memoryOverhead", size_mib)

    def _beside_heap(self, process: str) -> int:
        """Memory that settings give an executor beside its heap, MiB; the driver has none."""
        return beside_heap_mib(self._setting) if process == "executor" else 0

    def _setting(self, name: str, read: Callable[[str, str], int]) -> int | None:
        """A setting as `read` understands it; None when it is not there or empty."""
        text = self.conf.get(name, "").strip()
        return read(name, text) if text else None

    def check(self) -> None:
        """Raise ValueError for an application that could not be launched.

        Only new applications are checked; an accepted one is launched, even if the rules have changed since.
        """
        for path in (*filter(None, (self.app,)), *self.py_files, *self.files, *self.jars, *self.archives):
            _check_path(path)
        plain = (self.app, *self.py_files, *self.files, *self.jars)
        _check_folders(self.archives, tuple(file for file in plain if not alias_parts(file)[1]))
        self._check_aliases()
        check_conf(self.conf)
        overhead, beside = self._overhead("executor"), self._beside_heap("executor")
        if overhead is not None and overhead < beside:
            raise ValueError(
                f"conf: spark.executor.memoryOverhead is {overhead} MiB, less than "
                f"spark.executor.pyspark.memory and spark.memory.offHeap.size, {beside} MiB together: it is "
                "all of `memory` but the heap"
            )
        for key, value in self.conf.items():
            _check_texts((key, value), f"conf: {key}")
        for name, value in self.environment.items():
            _check_variable(name, value)
        check_java_options("environment: _JAVA_OPTIONS", self.environment.get("_JAVA_OPTIONS", ""))
        for argument in self.arguments:
            _check_texts((argument,), "args: one argument")
        _check_texts((properties_text(self.conf),), "conf: all settings together")
        java = [value for key, value in self.conf.items() if key in _EXECUTOR_OPTIONS]
        _check_texts(tuple(java), "conf: spark.executor's Java options together")
        for name in _LISTS:
            _check_texts((",".join(getattr(self, name)),), f"{name}: together")
        self._check_total()
        for path in (self.app, *self.py_files, *self.files, *self.jars, *self.archives):
            name = _file_name(alias_parts(path)[0])
            if len(name.encode()) > LONGEST_FILE_NAME:
                raise ValueError(f"{name[:40]}...: a file's name has at most {LONGEST_FILE_NAME} bytes")

    @property
    def aliased(self) -> tuple[tuple[str, str], ...]:
        """Files that are called otherwise than where they are: the place of each, and its name."""
        parts = map(alias_parts, (*self.py_files, *self.files, *self.jars))
        return tuple(dict.fromkeys((place, alias) for place, alias in parts if alias))

    def _check_aliases(self) -> None:
        folders = [archive_parts(archive)[1] for archive in self.archives]
        names = [alias for _, alias in self.aliased]
        files = (*self.py_files, *self.files, *self.jars, *self.archives)
        places = (self.app, *(alias_parts(each)[0] for each in files))
        for place, alias in self.aliased:
            if why := unfit_name(alias):
                raise ValueError(
                    f"{place}#{alias}: {alias!r} cannot be a file's name in a job's folder: {why}"
                )
            if urlsplit(place).scheme not in ("", "file", SCHEME):
                raise ValueError(
                    f"{place}#{alias}: Spark fetches this file by its own name; only files of the daemon's "
                    "host, and uploaded files, can have another name"
                )
            others = [PurePosixPath(urlsplit(each).path).name for each in places if each != place]
            if (names + folders).count(alias) > 1 or alias in others:
                raise ValueError(
                    f"two files or archives are named {alias}: a driver has all of them in one folder"
                )
        for file in self.py_files:
            place, alias = alias_parts(file)
            if alias and not alias.endswith(_PYTHON):
                raise ValueError(
                    f"py_files: {file}: Python imports only from files named {', '.join(_PYTHON)}"
                )

    def _check_total(self) -> None:
        texts = [self.app, *self.arguments, *self.conf.values()]
        texts += [text for name in _LISTS for text in getattr(self, name)]
        texts += [f"{name}={value}" for name, value in self.environment.items()]
        size = sum(len(text.encode()) + _POINTER for text in texts)
        if size > MOST_TEXT:
            raise ValueError(
                f"args, conf, env and files have {size // 1024} KiB together; a process can have at most "
                f"{MOST_TEXT // 1024}: put large values in a file"
            )


def alias_parts(reference: str) -> tuple[str, str]:
    """Location of a file, and its alias behind the #; empty where there is none."""
    place, _, alias = reference.partition("#")
    return place, alias


def archive_parts(archive: str) -> tuple[str, str]:
    """Location of an archive, and the folder into which it is unpacked."""
    place, folder = alias_parts(archive)
    return place, folder or _file_name(place)


def _file_name(place: str) -> str:
    """Name of the file at a path or a URI; a path may have ? and % in it, which mean nothing there."""
    return PurePosixPath(place if place.startswith("/") else unquote(urlsplit(place).path)).name


def is_reserved(name: str, reserved: tuple[str, ...]) -> bool:
    """Whether `name` is one of `reserved`; an entry may end in `*`."""
    return any(name.startswith(entry[:-1]) if entry.endswith("*") else name == entry for entry in reserved)


def _check_path(path: str) -> None:
    if "," in path or "\0" in path or "\n" in path:
        raise ValueError(f"{path!r}: Spark separates files by commas; rename the file without one")
    if not path.startswith("/") and not urlsplit(path).scheme:
        raise ValueError(f"{path!r} is neither an absolute path nor a URI")


def _check_folders(archives: tuple[str, ...], files: tuple[str, ...]) -> None:
    """Check that the folder of each archive has a name that no other file of the job has."""
    folders = Counter(archive_parts(archive)[1] for archive in archives)
    names = {_file_name(file) for file in files}
    for folder, number in folders.items():
        if folder in names:
            raise ValueError(
                f"archives: {folder} is also the name of a file of the job: name another folder, "
                "as in x.zip#x"
            )
        if number > 1:
            raise ValueError(f"archives: two are unpacked into {folder}: name other folders, as in x.zip#x")
        if why := unfit_name(folder):
            raise ValueError(f"archives: {folder[:80]!r} cannot be the name of a job's folder: {why}")


def _check_variable(name: str, value: str) -> None:
    if not _VARIABLE.fullmatch(name):
        raise ValueError(f"environment: {name!r} is not a variable's name (letters, digits, underscores)")
    if is_reserved(name, RESERVED_ENVIRONMENT):
        raise ValueError(
            f"environment: {name} is reserved: Stoker sets it. Reserved are {', '.join(RESERVED_ENVIRONMENT)}"
        )
    _check_texts((name, value), f"environment: {name}")


def _check_texts(texts: tuple[str, ...], where: str) -> None:
    if any("\0" in text for text in texts):
        raise ValueError(f"{where}: a NUL character cannot be passed to a process")
    if sum(len(text.encode()) for text in texts) > LONGEST_TEXT:
        raise ValueError(f"{where}: more than {LONGEST_TEXT // 1024} KiB of text; put it in a file")
