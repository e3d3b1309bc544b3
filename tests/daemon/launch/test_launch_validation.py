"""A job's spec as its Spark gets it."""

from dataclasses import replace

import pytest

from conf.schema import JobSpec
from daemon.launch.launch_validation import raised
from environment.resources import Resources
from tests.builders import make_job

_PYTHON = "spark.executor.pyspark.memory"


@pytest.mark.parametrize(
    ("conf", "memory_mib", "python"),
    [({_PYTHON: "400m"}, 2048, "800m"), ({_PYTHON: "1g"}, 1536, "1536m"), ({_PYTHON: "400"}, 1024, "400")],
)
def test_pythons_limit_is_raised_with_the_memory(conf: dict[str, str], memory_mib: int, python: str) -> None:
    """By the same factor after a restart with more memory; otherwise the spec is the submitted one."""
    spec = JobSpec(app="/app.py", memory=1024, conf=conf)
    job = replace(make_job(), size=Resources.of(1.0, memory_mib))
    assert raised(spec, job).conf == {_PYTHON: python}
    assert raised(spec, replace(job, size=Resources.of(1.0, 1024))) is spec
