"""The filter before drivers' web pages: it matches its source, and only some clients get the key."""

import subprocess
from pathlib import Path

import pytest

from framework.spark import ui_key
from framework.spark.driver import ui_key as ui_module
from tests.framework.spark.driver.key_filter import SPARKS, compiled, stored


@pytest.mark.parametrize("servlets", SPARKS)
def test_the_class_is_what_its_source_says(servlets: str, tmp_path: Path) -> None:
    """Compiled again, by the compiler in Spark's jars, it is the same to the last byte (`make filter`)."""
    assert compiled(servlets, tmp_path) == stored(servlets).read_bytes()


def test_the_class_is_written_whole_by_any_bash(tmp_path: Path) -> None:
    """As `driver.sh` does it: with no tool but bash, in any locale; the one that suits the Spark."""
    for line, servlets in (((3, 5), "javax"), ((4, 0), "jakarta"), ((4, 3), "jakarta")):
        for locale in ("C", "C.UTF-8"):
            variables = {"FILTER": ui_module.ui_filter(line), "LC_ALL": locale}
            subprocess.run(["bash", "-c", 'printf "$FILTER" > it'], cwd=tmp_path, env=variables, check=True)
            assert (tmp_path / "it").read_bytes() == stored(servlets).read_bytes()


def test_the_key_is_the_jobs_own_and_tells_no_secret() -> None:
    """It crosses the network with every request."""
    assert ui_key("one") == ui_key("one") != ui_key("two")
    assert len(ui_key("one")) == 64
    assert ui_key("one") not in repr(ui_module.DriverUi("127.0.0.1", 1, ui_key("one")))
