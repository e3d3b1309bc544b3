"""A job's settings as its Spark gets them."""

import pytest

from daemon.launch.launch_validation import python_raised

_PYTHON = "spark.executor.pyspark.memory"


@pytest.mark.parametrize(
    ("python", "memory_mib", "given"),
    [("400m", 2048, "800m"), ("1g", 1536, "1536m"), ("400", 1024, "400"), ("1g", 896, "1g")],
)
def test_pythons_limit_is_raised_with_the_memory(python: str, memory_mib: int, given: str) -> None:
    """By the same factor after a restart with more memory; otherwise it is the submitted one."""
    assert python_raised({_PYTHON: python}, 1024, memory_mib) == {_PYTHON: given}
    assert python_raised({}, 1024, memory_mib) == {}
