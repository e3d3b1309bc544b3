"""Spark's settings as Stoker knows them: those of Spark's jars, and each treated as the one table says."""

import hashlib
from collections.abc import Iterator, Mapping
from itertools import groupby

import pytest

from conf.schema import JobSpec
from framework.spark import Application
from framework.spark.install.fetch import fetchable
from framework.spark.install.homes import fetched_folder
from framework.spark.property_values import PropertyError
from framework.spark.settings_table import FOLDER, Setting, all_settings, current, current_name
from framework.spark.submit_properties import OURS, job_properties
from framework.spark.treatments import PASSES, TREATMENTS, treatment
from tests.framework.spark.settings_of_spark import settings_text

#: A value of each kind that says something, whatever the setting.
VALUES: Mapping[str, str] = {
    "boolean": "true",
    "whole number": "2",
    "number": "2",
    "list": "file:/a.zip",
    "text": "2g",
    "choice": "other",
    "size in B": "2g",
    "size in KiB": "2048k",
    "size in MiB": "2g",
    "time in ms": "90s",
    "time in s": "90s",
    "time in us": "90s",
    "time in min": "90m",
}
#: Values that say something where those of the kind do not.
OWN_VALUES: Mapping[str, str] = {
    "spark.mesos.coarse": "false",
    "spark.executor.extraJavaOptions": "-Da=b",
    "spark.executor.memoryOverheadFactor": "0.5",
    "spark.driver.memoryOverheadFactor": "0.5",
    "spark.memory.fraction": "0.5",
    "spark.memory.storageFraction": "0.5",
    "spark.jars.packages": "a:b:1",
    "spark.jars.repositories": "https://repo.example",
    "spark.yarn.applicationMaster.waitTries": "3",
}
#: What has to be said with a setting for it to mean something.
BESIDE: Mapping[str, Mapping[str, str]] = {
    "spark.dynamicAllocation.": {
        "spark.dynamicAllocation.enabled": "true",
        "spark.dynamicAllocation.maxExecutors": "5",
    },
    "spark.memory.offHeap.enabled": {"spark.memory.offHeap.size": "1g"},
    "spark.memory.offHeap.size": {"spark.memory.offHeap.enabled": "true"},
    "spark.task.cpus": {"spark.executor.cores": "2"},
}
#: Settings that Spark does not declare, or declares by a part of their name.
UNDECLARED = {
    "spark.driver.resource.gpu.amount": "1",
    "spark.executor.resource.fpga.amount": "1",
    "spark.executorEnv.A": "1",
    "spark.hadoop.fs.defaultFS": "hdfs://name",
    "spark.mesos.dispatcher.driverDefault.spark.executor.memory": "1g",
    "spark.mesos.driverEnv.A": "1",
    "spark.mesos.executor.gpus": "1",
    "spark.mesos.made.up": "1",
    "spark.network.crypto.cipher": "AES/GCM/NoPadding",
    "spark.port.maxRetries": "1",
    "spark.ssl.enabled": "true",
    "spark.kubernetes.driverEnv.A": "1",
    "spark.yarn.appMasterEnv.A": "1",
    "spark.app.id": "app-1",
    "spark.app.name": "x",
    "spark.made.up": "1",
}


def everything() -> Iterator[tuple[str, str]]:
    """Every setting by each of its names, with a value that says something."""
    for setting in all_settings().values():
        for name in (setting.name, *setting.others):
            kind = all_settings().get(current_name(name), setting).kind
            yield name, OWN_VALUES.get(setting.name, OWN_VALUES.get(name, VALUES[kind]))
    yield from UNDECLARED.items()


def families() -> list[tuple[str, list[tuple[str, str]]]]:
    """All of them, by the part of their names behind `spark.`."""
    ordered = sorted(everything())
    return [(family, list(names)) for family, names in groupby(ordered, lambda pair: pair[0].split(".")[1])]


@pytest.mark.slow
@pytest.mark.parametrize("version", fetchable())
def test_settings_are_those_of_sparks_jars(version: str) -> None:
    """The file of a version equals its Spark's own answers."""
    place = fetched_folder() / version
    if not place.exists():
        pytest.skip(f"Spark {version} is not fetched")
    kept = (FOLDER / f"{version}.tsv").read_text(encoding="utf-8")
    assert settings_text(place / "spark", place / "java").splitlines() == kept.splitlines()


def test_there_is_a_file_for_each_spark_that_can_be_fetched() -> None:
    """There is no other file: a setting of an unserved version is none."""
    assert {path.stem for path in FOLDER.glob("*.tsv")} == set(fetchable())


@pytest.mark.parametrize(
    ("family", "settings"), families(), ids=lambda each: each if isinstance(each, str) else ""
)
def test_each_setting_is_treated_as_the_table_says(family: str, settings: list[tuple[str, str]]) -> None:
    """Mapped, passed on, refused or set aside with its reason; under every name that Spark has for it."""
    assert family
    for name, value in settings:
        beside = next((more for key, more in BESIDE.items() if current_name(name).startswith(key)), {})
        given = {**beside, name: value}
        without = job_properties(beside)
        says = treatment(name)
        if says.refusal(value):
            with pytest.raises(PropertyError) as refused:
                job_properties(given)
            assert str(refused.value).startswith(name), name
            assert says.why in str(refused.value), name
            continue
        found = job_properties(given)
        conf = found.fields.get("conf", {})
        if says.does == "passes":
            assert conf.get(name) == value, name
        elif says.does == "sets aside":
            assert dict(found.set_aside).get(name) == (None if says.quiet else says.why), name
            assert name not in conf, name
            assert {**found.fields, "conf": 0} == {**without.fields, "conf": 0}, name
        elif says.does == "maps" and name not in MEANT_WITH_OTHERS:
            assert found.fields != without.fields or name in beside, name
            assert name not in found.set_aside, name
            field = says.why.split(",")[0].split(".")[0].split(" ")[0]
            assert field in JobSpec.model_fields, name


#: They say something only where others do: the tests of `spark_properties` have them.
MEANT_WITH_OTHERS = frozenset({"spark.task.cpus"})


@pytest.mark.parametrize(
    ("family", "settings"), families(), ids=lambda each: each if isinstance(each, str) else ""
)
def test_conf_of_a_job_file_has_what_the_table_says(family: str, settings: list[tuple[str, str]]) -> None:
    """A setting with a job field is refused with that field, one that Stoker sets with the reason."""
    assert family
    for name, value in settings:
        says = treatment(name)
        beside = {"spark.executor.resource.fpga.amount": "1"} if "task.resource" in name else {}
        application = Application(app="/app.py", conf={**beside, name: value})
        if says.in_conf or (says.does == "refuses" and not says.refusal(value)):
            application.check()
            continue
        with pytest.raises(ValueError, match=r"^conf: ") as refused:
            application.check()
        assert name in str(refused.value), name
        assert says.why in str(refused.value), name


def test_no_line_of_the_table_is_about_nothing() -> None:
    """Each is about a setting that some Spark has, or that is known to exist all the same."""
    names = [name for name, _ in everything()] + [*OURS, "spark.task.resource.gpu.amount"]
    for line in TREATMENTS:
        begins = line.removesuffix("*")
        assert any(name.startswith(begins) if line != begins else name == line for name in names), line


#: Digest of the names of settings that pass because somebody found that Stoker has nothing to do with them.
JUDGED = "3dbe76df89b45152"


def test_no_setting_passes_that_nobody_judged() -> None:
    """`make settings` brings the settings of a new Spark, which would all pass; those of queries do."""
    names = [n for n in sorted(all_settings()) if treatment(n) is PASSES and not n.startswith("spark.sql.")]
    digest = hashlib.sha256("\n".join(names).encode()).hexdigest()[:16]
    todo = (
        "judge each setting that `git diff framework/spark/settings` shows as new: it passes, or gets a line"
    )
    assert digest == JUDGED, f"{todo} of TREATMENTS; then JUDGED = {digest!r}"


def test_older_names_count_as_those_of_today() -> None:
    """An older name of an older one counts too; unit changes are applied."""
    assert current_name("spark.yarn.executor.memoryOverhead") == "spark.executor.memoryOverhead"
    assert current_name("spark.yarn.max.worker.failures") == "spark.executor.maxNumFailures"
    assert current("spark.yarn.applicationMaster.waitTries", "3") == ("spark.yarn.am.waitTime", "30s")
    assert current("spark.kryoserializer.buffer.mb", "0.064") == ("spark.kryoserializer.buffer", "64k")
    assert current("spark.kryoserializer.buffer.mb", "lots") == ("spark.kryoserializer.buffer", "lots")
    assert current("spark.sql.shuffle.partitions", "3") == ("spark.sql.shuffle.partitions", "3")


def test_what_both_versions_know_is_said_of_both() -> None:
    """The kind is that of the newest."""
    both = all_settings()["spark.task.cpus"]
    assert both == Setting("spark.task.cpus", "number", {}, "", ("3.5", "4.3"))
    assert all_settings()["spark.mesos.coarse"].versions == ("3.5",)


def test_settings_of_other_cluster_managers_are_not_dropped_unsaid() -> None:
    """Whoever comes from them is told; those with another name of Spark's own count by that."""
    others = {
        "spark.yarn.queue": "; its queue is spark.stoker.queue",
        "spark.yarn.maxAppAttempts": "; spark.stoker.retries restarts its driver",
        "spark.yarn.appMasterEnv.A": "; set a driver's variables by spark.mesos.driverEnv.NAME",
        "spark.yarn.am.memory": "",
        "spark.kubernetes.container.image": "",
    }
    found = job_properties(dict.fromkeys(others, "2"))
    told = {name: why.partition(", but Mesos runs the job")[2] for name, why in found.set_aside.items()}
    assert told == others
    assert "conf" not in found.fields
    with pytest.raises(PropertyError, match="YARN does not run the job; give files by --files"):
        job_properties({"spark.yarn.dist.files": "/a"})
    assert job_properties({"spark.yarn.keytab": "/k"}).fields["conf"] == {"spark.yarn.keytab": "/k"}


def test_tls_that_a_job_requests_is_not_promised() -> None:
    """SECURITY.md says that drivers' UIs use HTTP."""
    found = job_properties({"spark.ssl.ui.enabled": "true"}).set_aside
    assert "no TLS" in found["spark.ssl.ui.enabled"]
    assert "drivers' UIs use HTTP" in found["spark.ssl.ui.enabled"]
