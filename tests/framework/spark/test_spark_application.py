"""What an application may and may not ask for."""

import pytest

from framework.spark import Application


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"app": "app.py"}, "'app.py' is neither an absolute path nor a URI"),
        ({"py_files": ("/a,b.py",)}, "separates files by commas"),
        ({"conf": {"driver.port": "1"}}, "must begin with 'spark.'"),
        ({"conf": {"spark.driver.port": "1"}}, "spark.driver.port is reserved"),
        ({"conf": {"spark.authenticate.secret": "x"}}, "spark.authenticate.secret is reserved"),
        ({"conf": {"spark.dynamicAllocation.enabled": "true"}}, "is reserved"),
        ({"conf": {"spark.x": "a\0b"}}, "NUL"),
        ({"environment": {"A B": "1"}}, "'A B' is no variable's name"),
        ({"environment": {"JAVA_HOME": "/java"}}, "JAVA_HOME is reserved"),
        ({"environment": {"_SPARK_AUTH_SECRET": "x"}}, "is reserved"),
        ({"arguments": ("x" * 100_000,)}, "arguments: more than 96 KiB"),
        ({"arguments": ("a\0b",)}, "arguments: a NUL"),
    ],
)
def test_what_cannot_be_launched_is_refused(fields, message):
    """Paths, settings, variables and arguments that would break the launch are refused by name."""
    with pytest.raises(ValueError, match=message):
        Application(**{"app": "/apps/app.py", **fields})


def test_ordinary_application_is_accepted():
    """Paths, URIs, settings and variables of an ordinary application pass."""
    application = Application(
        app="hdfs://name/app.jar",
        main_class="org.example.Main",
        arguments=("--rows", "5"),
        jars=("/lib/a.jar", "https://example.org/b.jar"),
        conf={"spark.sql.shuffle.partitions": "4", "spark.driverEnv": ""},
        environment={"MODE": "fast"},
    )
    assert application.main_class == "org.example.Main"
