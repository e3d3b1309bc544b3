"""The references of docs/reference; `python -m tests.docs.reference` (`make reference`) stores them."""

from collections.abc import Callable, Mapping
from pathlib import Path

from tests.docs.api_reference import api_reference
from tests.docs.cli_reference import cli_reference
from tests.docs.config_reference import config_reference
from tests.docs.spark_reference import spark_reference

FOLDER = Path(__file__).parents[2] / "docs/reference"
PAGES: Mapping[str, Callable[[], str]] = {
    "api.md": api_reference,
    "cli.md": cli_reference,
    "config.md": config_reference,
    "spark.md": spark_reference,
}

if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, page in PAGES.items():
        (FOLDER / name).write_text(page(), encoding="utf-8")
