"""The Spark applications compute their stated results. All run in one process with Spark in local mode."""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from framework.spark import local_spark_home, python_path
from tests.profiles.local_spark import run_with_spark

#: The folder in which the applications ran, and what each of them printed.
Ran = tuple[Path, dict[str, Any]]

APPS = Path(__file__).parents[2] / "profiles" / "apps"

# Runs one application after the other, each as spark-submit would, and writes the exit codes down. All have
# one session, since each takes seconds to start; that they stop it is counted.
RUNNER = """
import json, runpy, sys
from pathlib import Path
from pyspark.sql import SparkSession

codes, stopped = [], []
stop, SparkSession.stop = SparkSession.stop, lambda session: stopped.append(session)
session = SparkSession.builder.getOrCreate()
for app, *arguments in json.loads(sys.argv[1]):
    sys.argv = [app, *arguments]
    try:
        runpy.run_path(app, run_name="__main__")
        codes.append(0)
    except SystemExit as end:
        codes.append(end.code)
    if len(stopped) != len(codes):
        sys.exit(f"{app} stopped its session {len(stopped)} times")
    session.catalog.clearCache()
stop(session)
Path("codes.json").write_text(json.dumps(codes))
"""

TEXT = "the cat\nthe  dog and the cat\n\nand a bird\n"
LINKS = "1 2\n1 3\n2 3\n3 1\n3 1\n4 3\n3 5\n"

WORDS = ("--size", "0.2", "--partitions", "3")
GRAPH = ("--size", "0.0125", "--links", "4", "--partitions", "3")  # 204 pages
LINES = ("--size", "0.2", "--partitions", "3")
SMALL = ("--size", "0.3", "--partitions", "3")
WRONG_SIZE = ("--size", "0.05", "--partitions", "2")

FEW = {**dict.fromkeys(("pagerank", "kmeans"), ("--iterations", "2")), "bursts": ("--bursts", "1")}

# Mistakes that an application's own check must find: what stands there, and what would be wrong.
BROKEN = {
    "wordcount": ("flatMap(str.split)", "flatMap(lambda line: line.split()[1:])"),
    "pagerank": ("received += np.bincount", "received = np.bincount"),
    "sort": ('.sortWithinPartitions("value")', ""),
    "kmeans": ("distances.argmin(axis=0)", "distances.argmax(axis=0)"),
    "sql": ("active < 9\n", "active < 8\n"),
    "gather": ("size(clicks)", "size(clicks) - 1"),
    "index": ("held[key][order]", "held[key][0] + 1"),
    "bursts": ("number * number", "number * number + 1"),
}


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """Run all applications of the tests; return the folder and the output of each run."""
    folder = tmp_path_factory.mktemp("apps")
    (folder / "text").write_text(TEXT)
    (folder / "links").write_text(LINKS)
    (folder / "empty").write_text("")
    runs = {
        "count given": ("wordcount", "--input", "text", "--partitions", "2", "--output", "counts"),
        "make text": ("wordcount", *WORDS, "--save-input", "made-text"),
        "count made": ("wordcount", *WORDS),
        "rank given": (
            "pagerank",
            "--input",
            "links",
            "--partitions",
            "2",
            "--iterations",
            "3",
            "--output",
            "ranks",
        ),
        "make links": ("pagerank", *GRAPH, "--save-input", "made-links"),
        "rank made": ("pagerank", *GRAPH, "--iterations", "3"),
        "make lines": ("sort", *LINES, "--save-input", "made-lines"),
        "sort made": ("sort", *LINES, "--output", "sorted"),
        "sort nothing": ("sort", "--input", "empty", "--partitions", "2"),
        "find clouds": ("kmeans", *SMALL, "--clusters", "5", "--iterations", "2"),
        "join and sum": ("sql", *SMALL),
        "gather clicks": ("gather", *SMALL),
        "look up": ("index", *SMALL),
        "add up": ("bursts", *SMALL, "--bursts", "2", "--pause", "0.1"),
    }
    wrong = [(broken(folder, app, *change), *WRONG_SIZE, *FEW.get(app, ())) for app, change in BROKEN.items()]
    printed, codes = run_all(folder, [*runs.values(), *wrong])
    assert codes == [0] * len(runs) + [1] * len(wrong), codes
    return folder, dict(zip([*runs, *BROKEN], printed, strict=True))


def broken(folder: Path, app: str, right: str, wrong: str) -> str:
    """Write a copy of an application with a mistake in it and return its name."""
    source = (APPS / f"{app}.py").read_text()
    assert right in source
    (folder / f"{app}.py").write_text(source.replace(right, wrong, 1))
    return str(folder / app)


def run_all(folder: Path, runs: Sequence[tuple[str, ...]]) -> tuple[list[Any], list[int]]:
    """Run the applications one after the other; return the outputs and the exit codes."""
    commands = json.dumps([[str(APPS / f"{app}.py"), *arguments] for app, *arguments in runs])
    process = run_with_spark(folder, RUNNER, commands)
    lines = iter(process.stdout.splitlines())
    printed = [None if "--save-input" in arguments else json.loads(next(lines)) for arguments in runs]
    return printed, json.loads((folder / "codes.json").read_text())


def lines_of(folder: Path) -> list[str]:
    """The lines of a folder that Spark wrote, part by part."""
    return [line for part in sorted(folder.glob("part-*")) for line in part.read_text().splitlines()]


def reference_ranks(links: Mapping[Any, Collection[Any]], iterations: int) -> dict[Any, float]:
    """The ranks of pages, worked out without Spark; `links` has all pages."""
    ranks = dict.fromkeys(links, 1.0)
    for _ in range(iterations):
        received = dict.fromkeys(links, 0.0)
        for page, targets in links.items():
            for target in targets:
                received[target] += ranks[page] / len(targets)
        ranks = {page: 0.15 + 0.85 * got for page, got in received.items()}
    return ranks


@pytest.mark.slow
def test_wordcount_counts_a_given_text(ran: Ran) -> None:
    """Words of a given text are counted, with any blanks between them, and all counts are written."""
    folder, results = ran
    top = [["the", 3], ["and", 2], ["cat", 2], ["a", 1], ["bird", 1]]
    counted = {"app": "wordcount", "words": 10, "distinct": 6, "top": top, "right": None}
    assert results["count given"] == counted
    counts = dict(line.split("\t") for line in lines_of(folder / "counts"))
    assert counts == {word: str(count) for word, count in Counter(TEXT.split()).items()}


def test_wordcount_counts_the_text_that_it_makes(ran: Ran) -> None:
    """The text that is made has the size asked for, and its counts are those of a plain count."""
    folder, results = ran
    lines = lines_of(folder / "made-text")
    assert sum(len(line) + 1 for line in lines) == pytest.approx(0.2 * 2**20, rel=0.001)
    counts = Counter(" ".join(lines).split())
    top = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))[:5]
    assert results["count made"] == {
        "app": "wordcount",
        "words": counts.total(),
        "distinct": len(counts),
        "top": [list(pair) for pair in top],
        "right": True,
    }


@pytest.mark.usefixtures("pyspark")
def test_made_text_depends_on_the_seed() -> None:
    """The same seed gives the same text, another seed or part another one."""
    from profiles.apps.wordcount import make_lines

    text = list(make_lines(0, 1000, seed=0))
    assert list(make_lines(0, 1000, seed=0)) == text
    assert list(make_lines(0, 1000, seed=1)) != text
    assert list(make_lines(1, 1000, seed=0)) != text


@pytest.mark.usefixtures("pyspark")
def test_made_graphs_depend_on_the_seed() -> None:
    """The same seed gives the same links, which no page has twice; another seed gives others."""
    from profiles.apps.pagerank import make_links

    sources, targets = make_links(0, 100, 4, seed=0)
    again, others = make_links(0, 100, 4, seed=0), make_links(0, 100, 4, seed=1)
    assert (sources.tolist(), targets.tolist()) == (again[0].tolist(), again[1].tolist())
    assert targets.tolist() != others[1].tolist()
    assert len(set(zip(sources.tolist(), targets.tolist(), strict=True))) == len(sources)
    assert set(sources.tolist()) == set(range(100))


def test_pagerank_of_a_given_graph(ran: Ran) -> None:
    """Ranks of a given graph are those of a plain computation; links count once, an end links to itself."""
    folder, results = ran
    links = {1: (2, 3), 2: (3,), 3: (1, 5), 4: (3,), 5: (5,)}
    expected = reference_ranks(links, 3)
    ranks = {
        int(page): float(rank) for page, rank in (line.split("\t") for line in lines_of(folder / "ranks"))
    }
    assert ranks == pytest.approx(expected)
    result = results["rank given"]
    assert (result["pages"], result["links"], result["rank_sum"]) == (5, 7, 5.0)
    assert [page for page, _ in result["top"]] == sorted(expected, key=lambda page: -expected[page])


def test_pagerank_of_the_graph_that_it_makes(ran: Ran) -> None:
    """Ranks of the made graph are those of a plain computation, and their sum is the number of pages."""
    folder, results = ran
    links: dict[int, list[int]] = {page: [] for page in range(204)}
    for line in lines_of(folder / "made-links"):
        source, target = map(int, line.split())
        links[source].append(target)
    assert all(links.values())
    expected = reference_ranks(links, 3)
    top = sorted(expected, key=lambda page: -expected[page])[:5]
    assert results["rank made"] == {
        "app": "pagerank",
        "pages": 204,
        "links": sum(map(len, links.values())),
        "rank_sum": 204.0,
        "top": [[page, pytest.approx(expected[page], abs=0.001)] for page in top],
        "right": True,
    }


def test_sort_sorts_all_lines(ran: Ran) -> None:
    """The sorted lines are the made ones in order, and the summary says so."""
    folder, results = ran
    made = lines_of(folder / "made-lines")
    assert {len(line) for line in made} == {99}
    assert len(set(made)) == len(made) == round(0.2 * 2**20 / 100)
    assert made != sorted(made)
    assert lines_of(folder / "sorted") == sorted(made)
    result = results["sort made"]
    assert result | {"rows": len(made), "sorted": True, "complete": True, "right": True} == result


def test_sort_of_nothing(ran: Ran) -> None:
    """An empty input is in order and complete."""
    _, results = ran
    assert results["sort nothing"] == {
        "app": "sort",
        "rows": 0,
        "checksum": 0,
        "sorted": True,
        "complete": True,
        "right": True,
    }


def test_kmeans_finds_the_clouds(ran: Ran) -> None:
    """The centres are the means of the clouds; the spread is that of the noise of which they are made."""
    _, results = ran
    points = int(0.3 * 2**20 / 128)
    spread = pytest.approx(points * 16 * 4.0**2, rel=0.05)
    assert results["find clouds"] == {"app": "kmeans", "points": points, "spread": spread, "right": True}


def test_sql_joins_and_sums(ran: Ran) -> None:
    """Every active customer's orders are summed up: nine of ten customers buy for 500 on average."""
    _, results = ran
    result, orders = results["join and sum"], int(0.3 * 2**20 / 24)
    assert result | {"app": "sql", "orders": orders, "regions": 25, "right": True} == result
    assert result["cents"] == pytest.approx(0.9 * orders * 50_000, rel=0.02)


def test_clicks_are_gathered_and_records_are_looked_up(ran: Ran) -> None:
    """All that were made, of each user in order; each record as often as there are orders."""
    _, results = ran
    made = int(0.3 * 2**20 / 1000)
    assert results["gather clicks"] == {"app": "gather", "clicks": made, "users": 16, "right": True}
    assert results["look up"] == {"app": "index", "records": made, "looked_up": 12 * made, "right": True}


def test_bursts_are_added_up(ran: Ran) -> None:
    """Each has as many numbers."""
    _, results = ran
    made = int(0.3 * 2**20 / 8)
    assert results["add up"] == {"app": "bursts", "numbers": made, "bursts": 2, "right": True}


@pytest.mark.parametrize("app", BROKEN)
def test_a_wrong_result_is_found(ran: Ran, app: str) -> None:
    """An application with a mistake in it prints that its result is not right; its exit code is 1."""
    _, results = ran
    assert results[app]["right"] is False


@pytest.mark.parametrize(
    ("app", "arguments", "message"),
    [
        ("wordcount", ["--size", "0"], "must be positive"),
        ("pagerank", ["--iterations", "-1"], "must be positive"),
        ("sort", ["--partitions", "0"], "must be positive"),
        ("sort", ["--size"], "expected one argument"),
        ("kmeans", ["--clusters", "0"], "must be positive"),
        ("sql", ["--seed", "-1"], "--seed from 0"),
        ("gather", ["--size", "-1"], "must be positive"),
        ("index", ["--seed", "-1"], "--seed not negative"),
        ("bursts", ["--pause", "-1"], "--pause not negative"),
    ],
)
def test_bad_arguments_are_refused(app: str, arguments: list[str], message: str) -> None:
    """Arguments that make no sense end with a usage message before Spark starts."""
    home = local_spark_home(os.environ)
    process = subprocess.run(
        [sys.executable, str(APPS / f"{app}.py"), *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(python_path(Path(home.home)))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 2
    assert message in process.stderr
