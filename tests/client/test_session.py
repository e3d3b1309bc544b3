"""Requirements of `stoker.session()`, and errors without them; tests/doors has one with real Spark."""

import builtins
import os
from pathlib import Path
from typing import Any

import httpx
import pytest
import stoker
from stoker import notebook as sessions
from stoker.spark_arguments import parse_properties

SERVED = {
    "default": "4.3",
    "driver_host": "127.0.1.1",
    "sparks": [{"name": "4.3", "version": "4.3.0", "jar": "/v1/spark/4.3/stoker-backend.jar"}],
}


def test_pyspark_is_the_users_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error without pyspark names the package to install."""
    plain = builtins.__import__

    def without(name: str, *more: Any, **named: Any) -> Any:
        if name.startswith("pyspark"):
            raise ModuleNotFoundError("No module named 'pyspark'", name="pyspark")
        return plain(name, *more, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(stoker.StokerError, match=r"takes a Spark of your own .*pip install pyspark"):
        stoker.session()


def test_a_version_that_is_not_served_is_refused() -> None:
    """With those that are; one of the same line will do."""
    settings = stoker.Stoker("http://127.0.0.1:8642").settings
    with pytest.raises(stoker.StokerError, match=r"pyspark 3\.4\.1 is installed .* served are 4\.3"):
        sessions._connection(settings, SERVED, "3.4.1", None)
    found = sessions._connection(settings, SERVED, "4.3.7", "/etc/token")
    assert found["spark.master"] == "spark+stoker://127.0.0.1:8642"
    assert found["spark.jars"] == "http://127.0.0.1:8642/v1/spark/4.3/stoker-backend.jar"
    assert found["spark.stoker.token.file"] == "/etc/token"
    assert found["spark.driver.host"] == "127.0.1.1"
    outside = stoker.Stoker("https://stoker.example").settings
    found = sessions._connection(outside, SERVED, "4.3.0", None)
    assert found["spark.master"] == "spark+stokers://stoker.example:443"
    assert "spark.driver.host" not in found


def test_sizes_are_those_of_a_job_file() -> None:
    """Memory is an executor's total; two numbers of executors are bounds."""
    fixed = sessions._size(4, 2, "2g")
    assert (fixed["spark.executor.memory"], fixed["spark.executor.memoryOverhead"]) == ("1664m", "384m")
    assert (fixed["spark.executor.instances"], fixed["spark.executor.cores"]) == ("4", "2")
    bounds = sessions._size((0, 8), 1, 8192)
    assert bounds["spark.executor.memoryOverhead"] == "820m"
    assert bounds["spark.dynamicAllocation.maxExecutors"] == "8"
    for wrong in ("2x", "", "-1g", "0"):
        with pytest.raises(stoker.StokerError, match="memory: should be MiB"):
            sessions._size(1, 1, wrong)
    with pytest.raises(stoker.StokerError, match="leaves nothing beside"):
        sessions._size(1, 1, "300m")
    for odd in (0, "2", (3, 1), (0, 0), (1, 2, 3)):
        with pytest.raises(stoker.StokerError, match="executors: should be a number of at least 1, or"):
            sessions._size(odd, 1, "2g")  # type: ignore[arg-type]


def test_secrets_go_by_a_file_that_is_gone_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the owner may read the file while it is there; the user's own JVM options stay."""
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--driver-class-path 'a b' pyspark-shell")
    odd = {"spark.a": " b=c\\d:é\n#😀 ", "spark.b b": "!x"}
    with sessions._by_file(odd):
        words = os.environ["PYSPARK_SUBMIT_ARGS"].split()
        file = Path(words[1])
        assert words[2:] == ["--driver-class-path", "'a", "b'", "pyspark-shell"]
        assert file.stat().st_mode & 0o777 == 0o600
        found = parse_properties(file.read_text())
        whole = found["spark.a"].encode("utf-16", "surrogatepass").decode("utf-16")
        assert (whole, found["spark.b b"]) == ("b=c\\d:é\n#😀", "!x")
    assert not file.exists()
    assert os.environ["PYSPARK_SUBMIT_ARGS"] == "--driver-class-path 'a b' pyspark-shell"
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--properties-file f pyspark-shell")
    with pytest.raises(stoker.StokerError, match="names a --properties-file"), sessions._by_file({}):
        pass


def test_a_daemon_without_the_door_says_so() -> None:
    """Such as one of an earlier version."""
    problem = {"title": "Not Found", "status": 404, "detail": "there is nothing at /v1/spark"}
    answers = httpx.MockTransport(lambda _: httpx.Response(404, json=problem))
    with stoker.Stoker("http://h:1") as client:
        client._http = httpx.Client(base_url="http://h:1", transport=answers)
        with pytest.raises(stoker.StokerError, match="the daemon at http://h:1 serves no drivers of others"):
            sessions._served(client)
