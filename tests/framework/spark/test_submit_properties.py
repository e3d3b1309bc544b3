"""Spark's properties as job fields. Sizes and times equal those of Spark's own JavaUtils."""

from typing import Any

import pytest

from conf.schema import JobSpec
from framework.spark import heap_mib
from framework.spark import property_values as values
from framework.spark.property_values import PropertyError
from framework.spark.submit_properties import OURS, job_properties

DYNAMIC = "spark.dynamicAllocation."


def fields(**given: Any) -> dict[str, Any]:
    """The fields of a job with these properties; `executor_memory` stands for spark.executor.memory."""
    return dict(
        job_properties({f"spark.{name.replace('_', '.')}": str(v) for name, v in given.items()}).fields
    )


@pytest.mark.parametrize(
    ("text", "mib"),
    [
        *[("1g", 1024), ("512m", 512), ("512", 512), ("1500k", 1), ("2048b", 0), ("1GB", 1024), ("0", 0)],
        *[("1t", 1 << 20), ("1p", 1 << 30), ("3mb", 3), ("1048576b", 1)],
    ],
)
def test_sizes_are_read_as_by_spark(text: str, mib: int) -> None:
    """A number alone is one of MiB; units are powers of 1024, and fractions of a MiB are cut off."""
    assert values.size_mib("spark.executor.memory", text) == mib


@pytest.mark.parametrize(
    "text", ["1.5g", "1gib", "-1g", "1 g", "g", "+1g", "1e3", "٣g", "4p", "9" * 18 + "p"]
)
def test_what_is_no_size_is_refused(text: str) -> None:
    """The error names the property, and the value found."""
    with pytest.raises(PropertyError, match=r"^spark\.executor\.memory=.*memory"):
        values.size_mib("spark.executor.memory", text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        *[("90", 90), ("90s", 90), ("30m", 1800), ("30min", 1800), ("2h", 7200), ("1d", 86400), ("2H", 7200)],
        *[("100ms", 0.1), ("5us", 5e-6)],
    ],
)
def test_times_are_read_as_by_spark(text: str, seconds: float) -> None:
    """A number alone is one of seconds."""
    assert values.seconds("spark.stoker.maxRuntime", text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["1.5h", "1w", "-1s", "1 h", "0", "soon"])
def test_what_is_no_time_is_refused(text: str) -> None:
    """A time of 0 is none, either."""
    with pytest.raises(PropertyError, match=r"such as 90s, 30m"):
        values.seconds("spark.stoker.maxRuntime", text)


def test_nothing_said_is_sparks_default() -> None:
    """One core and a heap of 1 GiB; how many executors there are is left to the job's own default."""
    found = fields()
    assert found == {"cpus": 1.0, "memory": 1408}
    assert heap_mib(found["memory"]) == 1024


@pytest.mark.parametrize(
    ("given", "executors", "cpus"),
    [
        ({"spark.executor.instances": "3"}, 3, 1.0),
        ({"spark.executor.instances": "3", "spark.executor.cores": "2"}, 3, 2.0),
        ({"spark.executor.instances": " 3 ", "spark.cores.max": "3"}, 3, 1.0),
        ({"spark.executor.instances": "3", "spark.cores.max": "8"}, 3, 2.0),
        ({"spark.cores.max": "8", "spark.executor.cores": "3"}, 2, 3.0),
        ({"spark.cores.max": "8"}, 8, 1.0),
        ({"spark.executor.instances": "2", "spark.executor.cores": "2", "spark.cores.max": "100"}, 2, 2.0),
    ],
)
def test_executors_and_cores_follow_from_what_is_said(
    given: dict[str, str], executors: int, cpus: float
) -> None:
    """cores.max bounds all executors together; without cores each has an equal part of the rest."""
    found = job_properties(given).fields
    assert (found["executors"], found["cpus"]) == (executors, cpus)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            {"spark.executor.cores": "4", "spark.cores.max": "2"},
            "spark.executor.cores=4 is more than spark.c",
        ),
        (
            {"spark.executor.instances": "3", "spark.cores.max": "2"},
            "spark.executor.instances=3 of 1 core each",
        ),
        ({"spark.task.cpus": "2"}, "spark.task.cpus=2 is more than spark.executor.cores=1"),
        (
            {"spark.executor.instances": "0"},
            "spark.executor.instances=0: should be a whole number of at least 1",
        ),
        ({"spark.executor.cores": "-1"}, "spark.executor.cores=-1: should be a number of cores above 0"),
        ({"spark.executor.cores": "1e3"}, "spark.executor.cores=1e3: should be a number of cores above 0"),
        ({"spark.executor.memory": "0"}, "spark.executor.memory=0: should be at least 1m"),
        ({"spark.executor.memory": "lots"}, "spark.executor.memory=lots: should be a whole amount"),
        (
            {"spark.executor.memoryOverheadFactor": "no"},
            "memoryOverheadFactor=no: should be a number above 0",
        ),
        (
            {"spark.executor.memoryOverheadFactor": "nan"},
            "memoryOverheadFactor=nan: should be a number above 0",
        ),
        ({"spark.driver.supervise": "yes"}, "spark.driver.supervise=yes: should be true or false"),
        ({"spark.shuffle.service.enabled": "TRUE"}, "there is no shuffle service here"),
        ({"spark.stoker.beta": "0.5"}, "a policy's beta is in the daemon's config"),
        ({"spark.stoker.spot": "prefer"}, "spark.stoker.spot=prefer: should be never, allowed, only"),
        ({"spark.stoker.driver": "moon"}, "spark.stoker.driver=moon: should be host or cluster"),
        ({"spark.stoker.retries": "-1"}, "spark.stoker.retries=-1: should be a whole number of at least 0"),
        ({"spark.mesos.constraints": "rack:1"}, "spark.mesos.constraints: the policy decides"),
        ({f"{DYNAMIC}enabled": "on"}, "enabled=on: should be true or false"),
    ],
)
def test_what_cannot_be_followed_is_refused(given: dict[str, str], words: str) -> None:
    """The error names the properties and their fault."""
    with pytest.raises(PropertyError) as error:
        job_properties(given)
    assert words in str(error.value)


def test_an_unknown_property_of_ours_is_refused_with_those_there_are() -> None:
    """A typo in a property of Stoker has no other reader that would notice it."""
    with pytest.raises(PropertyError) as error:
        job_properties({"spark.stoker.typo": "1"})
    assert str(error.value).startswith("spark.stoker.typo does not exist; the properties are ")
    assert all(name in str(error.value) for name in OURS)


def test_ours_are_fields_of_the_job() -> None:
    """Each property of ours is the field that it is called after."""
    ours = {
        "spark.stoker.type": "wordcount",
        "spark.stoker.queue": "night",
        "spark.stoker.priority": "-3",
        "spark.stoker.deadline": "2h",
        "spark.stoker.restartable": "false",
        "spark.stoker.memoryRetry": "true",
        "spark.stoker.after": "job-7, load:any",
        "spark.stoker.startAt": "in 2h",
        "spark.stoker.group": "nightly",
        "spark.stoker.labels": "team=a,stage=load",
        "spark.stoker.owner": "ann",
        "spark.stoker.spark": "3.5",
        "spark.stoker.minExecutors": "2",
        "spark.stoker.maxRuntime": "30m",
        "spark.stoker.maxCost": "5",
        "spark.stoker.atMaxCost": "end",
        "spark.stoker.retries": "2",
        "spark.stoker.driver": "cluster",
        "spark.stoker.spot": "never",
        "spark.stoker.executors": "auto:2-16",
        "spark.stoker.cores": "auto",
        "spark.stoker.memory": "auto:-8g",
        "spark.stoker.packTasks": "false",
    }
    assert set(ours) == set(OURS)
    found = job_properties({**ours, "spark.executor.instances": "4", "spark.driver.supervise": "true"}).fields
    assert found == {
        "type": "wordcount",
        "queue": "night",
        "priority": -3,
        "deadline": "2h",
        "restartable": False,
        "memory_retry": True,
        "after": ["job-7", {"job": "load", "when": "any"}],
        "start_at": "in 2h",
        "group": "nightly",
        "labels": {"team": "a", "stage": "load"},
        "owner": "ann",
        "spark": "3.5",
        "min_executors": 2,
        "max_runtime": 1800.0,
        "max_cost": 5.0,
        "at_max_cost": "end",
        "retries": 2,
        "driver": {"on": "cluster"},
        "spot": "never",
        "executors": "auto:2-16",
        "cpus": "auto",
        "memory": "auto:-8g",
        "conf": {"spark.stoker.packTasks": "false"},
    }
    with pytest.raises(PropertyError, match=r"spark.stoker.packTasks=few: should be true or false"):
        job_properties({"spark.stoker.packTasks": "few"})
    with pytest.raises(PropertyError, match=r"spark.stoker.cores=4: should be auto, or auto:MIN-MAX"):
        job_properties({"spark.stoker.cores": "4"})


def test_supervise_means_some_retries() -> None:
    """spark-submit gives no number."""
    assert fields(driver_supervise="true")["retries"] == 10
    assert "retries" not in fields(driver_supervise="false")
    assert fields(driver_supervise="true", stoker_retries=0)["retries"] == 0


@pytest.mark.parametrize(
    ("given", "memory", "overhead"),
    [
        ({"spark.executor.memory": "1g"}, 1408, None),
        ({"spark.executor.memory": "2048"}, 2432, None),
        ({"spark.executor.memory": "10g"}, 11264, "1024m"),
        ({"spark.executor.memory": "1g", "spark.executor.memoryOverhead": "2g"}, 3072, "2048m"),
        ({"spark.executor.memoryOverhead": "384"}, 1408, None),
        ({"spark.executor.memoryOverhead": "0"}, 1024, "0m"),
        ({"spark.mesos.executor.memoryOverhead": "512"}, 1536, "512m"),
        ({"spark.executor.memory": "4g", "spark.executor.memoryOverheadFactor": "0.4"}, 5734, "1638m"),
        ({"spark.executor.minMemoryOverhead": "1g"}, 2048, "1024m"),
        ({"spark.executor.pyspark.memory": "1g"}, 2432, "1408m"),
        ({"spark.memory.offHeap.enabled": "true", "spark.memory.offHeap.size": "1048577"}, 1410, "386m"),
        ({"spark.memory.offHeap.size": "1g"}, 1408, None),
    ],
)
def test_memory_is_heap_and_overhead(given: dict[str, str], memory: int, overhead: str | None) -> None:
    """Spark's rule, and the overhead is told where the heap could not be known without it."""
    found = job_properties(given).fields
    assert found["memory"] == memory
    assert found.get("conf", {}).get("spark.executor.memoryOverhead") == overhead


def test_a_driver_is_said_as_far_as_it_is() -> None:
    """Unset fields are left to the daemon's config."""
    assert "driver" not in fields(executor_memory="1g")
    assert fields(driver_memory="2g")["driver"] == {"memory": 2432}
    assert fields(driver_cores=2)["driver"] == {"cpus": 2.0}
    found = fields(driver_memory="1g", driver_memoryOverhead="1g")
    assert (found["driver"], found["conf"]) == ({"memory": 2048}, {"spark.driver.memoryOverhead": "1024m"})


def test_lists_are_split_at_commas() -> None:
    """Blanks and empty items are none of a list's, as in Spark."""
    found = job_properties(
        {
            "spark.jars": "file:/a.jar, file:/b.jar,,",
            "spark.submit.pyFiles": "file:/a.py",
            "spark.files": "file:/f.txt",
            "spark.archives": "file:/venv.tgz#venv",
            "spark.jars.packages": "org.x:y:1,org.x:z:2",
            "spark.jars.repositories": "https://repo.example",
            "spark.jars.excludes": "org.x:w",
        }
    ).fields
    assert found["jars"] == ["file:/a.jar", "file:/b.jar"]
    assert (found["py_files"], found["files"]) == (["file:/a.py"], ["file:/f.txt"])
    assert found["archives"] == ["file:/venv.tgz#venv"]
    assert found["packages"] == ["org.x:y:1", "org.x:z:2"]
    assert found["repositories"] == ["https://repo.example"]
    assert found["conf"] == {"spark.jars.excludes": "org.x:w"}


@pytest.mark.parametrize(
    ("given", "bounds"),
    [
        ({}, {"min": 0, "max": 10_000, "initial": 0}),
        ({"minExecutors": "1", "maxExecutors": "20"}, {"min": 1, "max": 20, "initial": 1}),
        ({"initialExecutors": "4", "maxExecutors": "2147483647"}, {"min": 0, "max": 10_000, "initial": 4}),
        ({"minExecutors": "3", "initialExecutors": "1"}, {"min": 3, "max": 10_000, "initial": 3}),
    ],
)
def test_dynamic_allocation_has_bounds(given: dict[str, str], bounds: dict[str, int]) -> None:
    """As Spark has them: none at least, as many as a job may have, and at first the fewest."""
    found = job_properties(
        {f"{DYNAMIC}{name}": value for name, value in {"enabled": "true", **given}.items()}
    )
    assert found.fields["executors"] == bounds


def test_dynamic_allocation_begins_with_the_instances_and_ends_with_the_cores() -> None:
    """executor.instances are the first ones, as in Spark; cores.max bounds them."""
    given = {f"{DYNAMIC}enabled": "true", "spark.executor.instances": "2", "spark.executor.cores": "3"}
    more = {f"{DYNAMIC}executorIdleTimeout": "5s", f"{DYNAMIC}shuffleTracking.enabled": "true"}
    found = job_properties({**given, "spark.cores.max": "10", **more})
    assert found.fields["executors"] == {"min": 0, "max": 3, "initial": 2}
    assert found.fields["conf"] == {f"{DYNAMIC}executorIdleTimeout": "5s"}
    assert [*found.set_aside] == [f"{DYNAMIC}shuffleTracking.enabled"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({f"{DYNAMIC}minExecutors": "5"}, f"{DYNAMIC}minExecutors=5 is more than {DYNAMIC}maxExecutors=4"),
        ({f"{DYNAMIC}initialExecutors": "5"}, f"{DYNAMIC}initialExecutors=5 is more than {DYNAMIC}max"),
        (
            {"spark.executor.instances": "5"},
            f"spark.executor.instances=5 is more than {DYNAMIC}maxExecutors=4",
        ),
        (
            {"spark.executor.instances": "3", "spark.cores.max": "2"},
            "=3 is more than spark.cores.max allows, 2",
        ),
        (
            {f"{DYNAMIC}maxExecutors": "99999", "spark.executor.instances": "20000"},
            "more than a job may have",
        ),
        ({f"{DYNAMIC}maxExecutors": "0"}, f"{DYNAMIC}maxExecutors=0: should be a whole number of at least 1"),
    ],
)
def test_contradicting_bounds_are_refused(given: dict[str, str], words: str) -> None:
    """The error names both sides."""
    with pytest.raises(PropertyError) as error:
        job_properties({f"{DYNAMIC}enabled": "true", f"{DYNAMIC}maxExecutors": "4", **given})
    assert words in str(error.value)


def test_bounds_of_an_allocation_that_is_not_on_are_nothing() -> None:
    """A spark-defaults.conf has them; Spark does not look at them either."""
    given = {f"{DYNAMIC}maxExecutors": "1", f"{DYNAMIC}executorIdleTimeout": "5s"}
    assert job_properties({**given, "spark.executor.instances": "5"}).fields["executors"] == 5


def test_what_is_set_aside_is_told() -> None:
    """Settings that Stoker makes itself do not go to the application, and their author can be told."""
    found = job_properties(
        {
            "spark.master": "mesos://here:1",
            "spark.master.rest.enabled": "true",
            "spark.submit.deployMode": "cluster",
            "spark.app.submitTime": "1",
            "spark.ui.port": "4050",
            "spark.eventLog.dir": "hdfs://x",
            "spark.authenticate.secret": "hush",
            "spark.mesos.secret": "hush",
            "spark.sql.shuffle.partitions": "7",
            "spark.executorEnv.A": "b",
            "spark.mesos.driverEnv.C": "d",
        }
    )
    aside = ["spark.authenticate.secret", "spark.eventLog.dir", "spark.mesos.secret", "spark.ui.port"]
    assert [*found.set_aside] == aside
    assert found.set_aside["spark.ui.port"] == "Stoker serves the pages of drivers"
    assert found.fields["conf"] == {"spark.sql.shuffle.partitions": "7", "spark.executorEnv.A": "b"}
    assert found.fields["env"] == {"C": "d"}


def test_how_a_client_reaches_the_daemon_is_part_of_no_job() -> None:
    """A token least of all."""
    found = job_properties(
        {"spark.stoker.token": "hush", "spark.stoker.job": "job-1", "spark.stoker.job.secret": "hush"}
    )
    assert "hush" not in repr(found)
    assert found.set_aside == {}


def test_gpus_are_resources() -> None:
    """And the application's to know."""
    found = job_properties({"spark.executor.resource.gpu.amount": "2"}).fields
    assert found["resources"] == {"gpus": 2.0}
    assert found["conf"] == {"spark.executor.resource.gpu.amount": "2"}


def test_the_fields_make_a_job() -> None:
    """The properties that spark-submit sends for its usual flags make a launchable job."""
    found = job_properties(
        {
            "spark.app.name": "wc",
            "spark.cores.max": "3",
            "spark.executor.instances": "3",
            "spark.executor.memory": "1g",
            "spark.submit.pyFiles": "file:/a.py",
            "spark.files": "file:/f.txt",
            "spark.master": "mesos://host:8642",
            "spark.submit.deployMode": "cluster",
        }
    )
    spec = JobSpec.model_validate({"app": "/app.py", **found.fields})
    assert (spec.name, spec.executors, spec.cpus, spec.memory) == ("wc", 3, 1.0, 1408)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (
            {"spark.executor.memory": "4g", "spark.yarn.executor.memoryOverhead": "2048"},
            {"memory": 6144, "conf": {"spark.executor.memoryOverhead": "2048m"}},
        ),
        (
            {"spark.yarn.executor.memoryOverhead": "2048", "spark.executor.memoryOverhead": "384"},
            {"memory": 1408},
        ),
        (
            {"spark.executor.memoryOverhead": "384", "spark.yarn.executor.memoryOverhead": "2048"},
            {"memory": 1408},
        ),
        ({"spark.yarn.driver.memoryOverhead": "1g"}, {"driver": {"memory": 2048}}),
        ({"spark.unsafe.offHeap": "true", "spark.memory.offHeap.size": "1g"}, {"memory": 2432}),
        ({"spark.driver.minMemoryOverhead": "2g"}, {"driver": {"memory": 3072}}),
        (
            {"spark.driver.minMemoryOverhead": "1g", "spark.driver.memory": "20g"},
            {"driver": {"memory": 22528}},
        ),
        ({"spark.driver.memoryOverheadFactor": "0.5"}, {"driver": {"memory": 1536}}),
        ({"spark.mesos.driver.memoryOverhead": "512"}, {"driver": {"memory": 1536}}),
    ],
)
def test_overheads_count_by_each_of_their_names(given: dict[str, str], expected: dict[str, Any]) -> None:
    """By older names, alone or not; that of today goes before an older one, wherever it stands."""
    found = job_properties(given).fields
    assert {name: found[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("given", "cpus", "driver"),
    [
        ({"spark.driver.cores": "0.5"}, 1.0, 0.5),
        ({"spark.executor.cores": "1.5", "spark.driver.cores": "2.0"}, 1.5, 2.0),
        ({"spark.executor.cores": "0.5", "spark.mesos.mesosExecutor.cores": "0.1"}, 0.5, None),
        ({"spark.executor.cores": "2.5", "spark.task.cpus": "2"}, 2.5, None),
    ],
)
def test_cores_may_be_fractions(given: dict[str, str], cpus: float, driver: float | None) -> None:
    """Mesos counts thousandths of a cpu; tasks take whole ones."""
    found = job_properties(given).fields
    assert (found["cpus"], found.get("driver", {}).get("cpus")) == (cpus, driver)
    JobSpec.model_validate({"app": "/app.py", "cpus": cpus})


@pytest.mark.parametrize(
    ("given", "resources"),
    [
        ({"spark.mesos.gpus.max": "2", "spark.mesos.executor.gpus": "1"}, {"gpus": 1.0}),
        ({"spark.mesos.gpus.max": "4", "spark.executor.instances": "2"}, {"gpus": 2.0}),
        ({"spark.mesos.gpus.max": "0"}, None),
        ({"spark.executor.resource.gpu.amount": "1", "spark.mesos.executor.gpus": "1"}, {"gpus": 1.0}),
        ({"spark.executor.resource.fpga.amount": "3"}, {"fpga": 3.0}),
        (
            {"spark.executor.resource.fpga.amount": "1", "spark.task.resource.fpga.amount": "0.25"},
            {"fpga": 1.0},
        ),
        ({"spark.executor.resource.gpu.amount": "0"}, None),
    ],
)
def test_resources_are_those_of_executors(given: dict[str, str], resources: dict[str, float] | None) -> None:
    """Of each kind by the name that agents give it, whichever settings say how many."""
    assert job_properties(given).fields.get("resources") == resources


def test_gpus_bound_executors_that_are_asked_for() -> None:
    """Of all executors that there may be, each has its share; with a number for each there are no more."""
    dynamic = {f"{DYNAMIC}enabled": "true", "spark.mesos.gpus.max": "5"}
    shared = job_properties({**dynamic, f"{DYNAMIC}maxExecutors": "2"}).fields
    assert (shared["executors"]["max"], shared["resources"]) == (2, {"gpus": 2.0})
    each = job_properties({**dynamic, "spark.mesos.executor.gpus": "2"}).fields
    assert (each["executors"]["max"], each["resources"]) == (2, {"gpus": 2.0})
    with pytest.raises(
        PropertyError, match=r"spark\.mesos\.gpus\.max=5: is less than one for each of 10,000"
    ):
        job_properties(dynamic)
    with pytest.raises(PropertyError, match=r"=4 is more than spark\.mesos\.gpus\.max allows, 2"):
        job_properties({**dynamic, "spark.mesos.executor.gpus": "2", f"{DYNAMIC}minExecutors": "4"})


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            {"spark.mesos.gpus.max": "1", "spark.executor.instances": "2"},
            "spark.mesos.gpus.max=1: is less than",
        ),
        (
            {"spark.mesos.gpus.max": "1", "spark.mesos.executor.gpus": "2"},
            "spark.mesos.executor.gpus=2: an executor has 2 gpus",
        ),
        (
            {"spark.mesos.executor.gpus": "2", "spark.executor.resource.gpu.amount": "1"},
            "spark.executor.resource.gpu.amount=1 contradicts",
        ),
        ({"spark.task.resource.gpu.amount": "1"}, "requires spark.executor.resource.gpu.amount"),
        (
            {"spark.task.resource.gpu.amount": "2", "spark.executor.resource.gpu.amount": "1"},
            "spark.task.resource.gpu.amount=2 is more than spark.executor.resource.gpu.amount=1",
        ),
        (
            {"spark.task.resource.gpu.amount": "1.5", "spark.executor.resource.gpu.amount": "2"},
            "should be a whole number, or at most 1",
        ),
        (
            {"spark.executor.resource.gpu.discoveryScript": "/x"},
            "requires spark.executor.resource.gpu.amount",
        ),
        ({"spark.executor.resource.gpu.amount": "0.5"}, "should be a whole number"),
        ({"spark.executor.resource.a b.amount": "1"}, "'a b': should be a resource's name"),
        ({"spark.driver.resource.gpu.amount": "1"}, "a driver takes cpus and memory alone"),
        ({"spark.mesos.coarse": "false"}, "spark.mesos.coarse=false: executors are Mesos tasks"),
        ({"spark.mesos.role": "gold"}, "spark.mesos.role=gold: the daemon's config sets"),
    ],
)
def test_what_cannot_be_had_of_resources_is_refused(given: dict[str, str], words: str) -> None:
    """Requests that Spark would refuse later, or that cannot be granted to any job."""
    with pytest.raises(PropertyError) as error:
        job_properties(given)
    assert words in str(error.value)


def test_what_says_that_all_is_as_it_is_anyway_is_taken() -> None:
    """Coarse-grained, without a shuffle service: nobody needs to be told."""
    given = {"spark.mesos.coarse": "TRUE", "spark.shuffle.service.enabled": "false", "spark.mesos.role": "*"}
    found = job_properties(given)
    assert found.fields == fields()
    assert found.set_aside == {}


def test_memory_beside_the_heap_is_always_written_down() -> None:
    """Also where overhead and Python's memory together are just the usual overhead of all of it."""
    given = {"spark.executor.memory": "9000m", "spark.executor.pyspark.memory": "100m"}
    found = job_properties(given).fields
    assert (found["memory"], found["conf"]["spark.executor.memoryOverhead"]) == (10_000, "1000m")
