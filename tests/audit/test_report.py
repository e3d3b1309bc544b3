"""The report of an audit: one file in a real browser, light and dark, and no text of a log is markup."""

import html
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from audit.costs import costs_of
from audit.prices import load_prices
from audit.read_logs import read_logs
from audit.report.html import report
from audit.savings.predict import predict
from audit.write import AuditResult
from daemon.cli import main
from tests.audit.made_logs import ETL, added, app_end, app_start, stage, task, written
from tests.audit.made_month import month
from tests.daemon.page.browser import PROGRAM, Browser, browser

EVIL = (
    "</title><img src=http://evil.example/x onerror=document.title='taken'>"
    "<script>document.title='taken'</script>"
)
in_a_browser = pytest.mark.skipif(PROGRAM is None, reason="Chromium is not installed (Debian: chromium)")


def made(folder: Path, *, savings: bool = True) -> str:
    """The report of these logs."""
    prices = load_prices("ec2-us-east-1", "m5.4xlarge")
    read = read_logs([str(folder)])
    costs = costs_of(read.applications, prices)
    return report(AuditResult(read, prices, costs, predict(costs, prices) if savings else None))


def hostile(folder: Path) -> Path:
    """Logs in which all names are markup, in a folder with a file that is none."""
    events = [
        app_start(EVIL, app=EVIL),
        added("1", 1, host=EVIL),
        task("1", 1, 100),
        *(task("1", 1, 3) for _ in range(9)),
        stage(0, 1, 100, EVIL),
        removed_by(EVIL),
        app_end(5000),
    ]
    written(folder, [{**event, "User": EVIL} if "User" in event else event for event in events], "app-1")
    (folder / f"<script>{'x' * 9}").write_text("no log\n")
    return folder


def removed_by(reason: str) -> dict[str, object]:
    """An event that is not as Spark writes it."""
    return {"Event": "SparkListenerExecutorRemoved", "Removed Reason": reason}


def test_what_it_has(tmp_path: Path) -> None:
    """Ten changes at most, each with its error and what to type; pictures; no other host."""
    text = html.unescape(made(month(tmp_path, 4)))
    assert 3 <= text.count("It takes: ") <= 10
    for words in (
        "Type <code>--conf spark.dynamicAllocation.enabled=true",
        "held-out error of durations: ",
        "stoker simulate --workload jobs.csv",
        "Karpenter-like",
        "of it was not work",
    ):
        assert words in text
    assert text.count("<svg") == 3
    assert not re.search(r"(src|href)=|url\(|@import|<script", text)


def test_without_savings(tmp_path: Path) -> None:
    """The costs alone; and where nothing saves, that is said."""
    written(tmp_path, ETL)
    text = made(tmp_path, savings=False)
    assert text.count("<svg") == 2
    assert "saved by" not in text


def test_many_applications(tmp_path: Path) -> None:
    """The picture has the dearest, and the others as one bar; the table has all of them."""
    for number in range(14):
        letter = "abcdefghijklmn"[number]
        written(tmp_path, [app_start(letter * 5), *ETL[3:-1], app_end(60 + number)], letter)
    text = made(tmp_path, savings=False)
    assert text.count("<td>") == 14
    assert "2 more</text>" in text
    (rest,) = re.findall(r"2 more</text>.*?<text[^>]*>\$([\d.]+)", text, re.DOTALL)
    each = [float(dollars) for dollars in re.findall(r'class="num">\$([\d.]+)', text)]
    assert float(rest) == pytest.approx(sum(sorted(each)[:2]), abs=2e-4)


def test_names_are_no_markup(tmp_path: Path) -> None:
    """In titles, tables, pictures and lists of files."""
    text = made(hostile(tmp_path))
    assert "&lt;script&gt;document" in text
    assert "<script" not in text
    assert "<img" not in text


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--html` writes it beside the table; a place that cannot be written is one line."""
    logs, out = written(tmp_path / "logs", ETL), tmp_path / "report.html"
    assert main(["audit", str(logs), "--html", str(out)]) == 0
    assert "tasks that were done" in capsys.readouterr().out
    assert out.read_text().startswith("<!doctype html>")
    assert main(["audit", str(logs), "--no-savings", "--html", str(tmp_path / "no/report.html")]) == 2
    assert "No such file" in capsys.readouterr().err


@pytest.fixture(scope="module")
def running() -> Iterator[Browser]:
    """One for all tests."""
    with browser() as found:
        yield found


@in_a_browser
@pytest.mark.parametrize("dark", [False, True])
def test_it_is_seen(tmp_path: Path, running: Browser, dark: bool) -> None:
    """In both schemes, on a screen and a phone, with texts inside of their pictures."""
    path = tmp_path / "report.html"
    path.write_text(made(month(tmp_path / "logs", 4)))
    page = running.page(path.as_uri(), dark=dark)
    page.until("document.readyState === 'complete'")
    page.sees("What Spark cost, and what it could cost")
    page.sees("The changes that save most")
    light = page.run("getComputedStyle(document.body).backgroundColor") == "rgb(245, 246, 248)"
    assert light is not dark
    outside = """[...document.querySelectorAll("svg text")].filter(text => {
      const [inner, outer] = [text.getBoundingClientRect(), text.closest("svg").getBoundingClientRect()];
      return inner.left < outer.left - 1 || inner.right > outer.right + 1;
    }).map(text => text.textContent)"""
    assert page.run(outside) == []
    for width in (1280, 390):
        page.resize(width, 860)
        assert page.run("document.documentElement.scrollWidth <= window.innerWidth"), width
    page.picture(tmp_path / "report.png")
    assert page.asked == [path.as_uri()]
    assert page.complaints == []


@in_a_browser
def test_hostile_names_do_nothing(tmp_path: Path, running: Browser) -> None:
    """They are seen as they are, and nothing of them runs or is fetched."""
    path = tmp_path / "report.html"
    path.write_text(made(hostile(tmp_path / "logs")))
    page = running.page(path.as_uri())
    page.until("document.readyState === 'complete'")
    page.sees("onerror=document.title='taken'")
    assert page.run("document.title").startswith("Spark audit, ")
    assert page.run("document.querySelectorAll('img, script').length") == 0
    assert page.asked == [path.as_uri()]
