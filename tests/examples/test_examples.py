"""The examples, in a shortened form: they run, and their claims are true."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_a_policy_learns_in_numpy() -> None:
    """Six updates make jobs of workloads that it was not trained on cheaper than chance does."""
    command = [sys.executable, str(EXAMPLES / "learn.py"), "--updates", "6", "--seeds", "1"]
    told = subprocess.run(
        command, cwd=EXAMPLES.parent, capture_output=True, text=True, check=True, timeout=300
    )
    _, line = told.stdout.splitlines()
    _, before, after, dear, _, cheap, *_ = line.split()
    assert float(after) > float(before)
    assert float(cheap) < 0.97 * float(dear)


def test_the_notebook_compares_policies(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is of format 4.5 and has outputs; its cells are run one after the other, with less to do."""
    book = json.loads((EXAMPLES / "compare_policies.ipynb").read_text(encoding="utf-8"))
    assert (book["nbformat"], book["nbformat_minor"]) == (4, 5)
    assert len({cell["id"] for cell in book["cells"]}) == len(book["cells"])
    codes = [cell for cell in book["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in codes] == list(range(1, len(codes) + 1))
    shown = [out["data"] for cell in codes for out in cell["outputs"]]
    assert sum("image/png" in data for data in shown) == 2
    assert {"text/plain": ["50"]} in shown
    text = "".join(book["cells"][0]["source"])
    assert "-m venv .venv-notebook" in text
    # pip refuses a folder beside a lock file, whose packages all have hashes.
    installs = [line for line in text.splitlines() if "pip install" in line]
    assert any("--editable ." in line for line in installs)
    assert not any(".lock" in line and "--editable" in line for line in installs)
    monkeypatch.setattr(mpl, "rcParams", mpl.rcParams.copy())
    mpl.use("Agg")
    found: dict[str, Any] = {}
    exec("".join(codes[0]["source"]), found)  # noqa: S102  our own
    assert found["POLICIES"][0] == "rr"
    found |= {"POLICIES": ["rr", "ff"], "WORKLOADS": ["burst", "normal"], "SEEDS": range(2), "JOBS": 8}
    for cell in codes[1:]:
        exec("".join(cell["source"]), found)  # noqa: S102
    assert len(found["runs"]) == 8
    (dots, *_), *_ = found["axes"]
    assert [line.get_label() for line in dots.get_lines()] == ["rr", "ff"]
    assert np.all(found["difference"]["burst"]["rr"] == 0)
    assert len(found["axis"].patches) == 4
    found["plt"].close("all")
