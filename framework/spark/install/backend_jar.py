"""The jar by which a Spark knows the master `spark+stoker://HOST:PORT`, compiled from our Scala source.

It takes no JDK: Scala's compiler is among Spark's own jars, and runs on the Java that Spark has. Each Spark
gets a jar of its own, since its classes and its Scala differ; a jar is cached under a name derived from its
sources. The source documents its own work.
"""

import fcntl
import hashlib
import os
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

from framework.spark.install.homes import SparkHome

SOURCES = tuple(sorted(Path(__file__).parent.glob("*.scala")))
#: The interface that Spark's service loader looks up, and the class that it finds.
_SERVICE = "META-INF/services/org.apache.spark.scheduler.ExternalClusterManager"
_MANAGER = "org.apache.spark.scheduler.cluster.stoker.StokerClusterManager"
#: Seconds; it takes 7 to 20 on a machine of today.
_PATIENCE = 300.0


class BackendJarError(Exception):
    """The jar cannot be obtained; the message gives the reason and the remedy."""


def jar_folders(data_dir: Path) -> tuple[Path, ...]:
    """Folders for jars: beside the fetched Spark versions, then in the daemon's data folder."""
    return Path(sys.prefix, "share/stoker/backend"), data_dir / "backend"


def backend_jar(spark: SparkHome, folders: Sequence[Path]) -> Path:
    """The jar for this Spark, which is on this host: a cached one, or compiled in the first writable folder.

    That takes seconds, and is done once, even for concurrent callers. BackendJarError when it fails.
    """
    name = f"stoker-backend-{spark.version}-{_content(spark)}.jar"
    kept = next((folder / name for folder in folders if (folder / name).is_file()), None)
    if kept is not None:
        return kept
    troubles = []
    for folder in folders:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with (folder / f"{name}.lock").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                if not (folder / name).is_file():
                    _compile(spark, folder / name)
            return folder / name
        except OSError as error:
            troubles.append(str(error))
    raise BackendJarError(f"the jar for Spark {spark.version} can be stored nowhere: {'; '.join(troubles)}")


def _content(spark: SparkHome) -> str:
    """Name derived from the jar's sources: our source, and Spark's and Scala's versions."""
    jars = _jars(spark)
    compiler = [name for name in jars if name.startswith("scala-compiler-")]
    if not compiler:
        raise BackendJarError(
            f"{spark.home}/jars has no Scala compiler (scala-compiler-*.jar), which compiles the jar for "
            f"Spark {spark.version}; Spark's own distributions and PyPI's pyspark have one"
        )
    made_from = [name for name in jars if name.startswith("spark-core_")] + compiler
    sources = (source.read_bytes() for source in SOURCES)
    return hashlib.sha256(b"\n".join([*sources, *map(str.encode, made_from)])).hexdigest()[:12]


def _jars(spark: SparkHome) -> list[str]:
    try:
        return sorted(path.name for path in Path(spark.home, "jars").iterdir())
    except OSError as error:
        raise BackendJarError(f"the jars of Spark {spark.version} are not on this host: {error}") from None


def _compile(spark: SparkHome, jar: Path) -> None:
    """Compile the jar; OSError when its folder takes nothing, BackendJarError when the compiler fails."""
    draft = jar.with_name(f"{jar.stem}.{os.getpid()}.jar")
    java = Path(spark.java_home, "bin/java") if spark.java_home else Path("java")
    compiler = ("-cp", f"{spark.home}/jars/*", "scala.tools.nsc.Main", "-usejavacp", "-nowarn")
    # Chosen: compiled quickly rather than well, a run this short is over twice as fast.
    command = [str(java), "-XX:TieredStopAtLevel=1", *compiler, "-d", str(draft), *map(str, SOURCES)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE, check=False)
        if done.returncode:
            said = (done.stdout + done.stderr).strip()[-2000:]
            raise BackendJarError(f"the jar for Spark {spark.version} cannot be compiled: {said}")
        with zipfile.ZipFile(draft, "a") as opened:
            opened.writestr(_SERVICE, f"{_MANAGER}\n")
        draft.replace(jar)
    except FileNotFoundError:
        raise BackendJarError(
            f"the jar for Spark {spark.version} cannot be compiled: there is no {java}"
        ) from None
    except subprocess.TimeoutExpired:
        raise BackendJarError(
            f"the jar for Spark {spark.version} cannot be compiled: it took over {_PATIENCE:.0f} s"
        ) from None
    finally:
        draft.unlink(missing_ok=True)
