"""Workloads as files: read back the same, and errors that say where."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from stoker.characters import unseen

from profiles.workloads.workload import Workload, WorkloadJob, workload_of
from profiles.workloads.workload_files import WorkloadError, read_workload, write_workload

HEADER = "submitted_at,type,cpus,memory_mib,executors,duration"
CHARACTERS = st.characters(exclude_categories=("Cs", "Cc")).filter(lambda text: not unseen(text))
TEXTS = st.text(CHARACTERS, min_size=1, max_size=8)
SECONDS = st.floats(0, 1e9)


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    """A few jobs with names and types of any characters."""
    names = draw(st.lists(TEXTS, min_size=1, max_size=6, unique=True))
    return workload_of(
        WorkloadJob(
            name,
            draw(SECONDS),
            draw(TEXTS),
            draw(st.floats(0.001, 1e3)),
            draw(st.integers(1, 2**40)),
            draw(st.integers(1, 10_000)),
            draw(st.floats(0, 1e9, exclude_min=True)),
        )
        for name in names
    )


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@given(workload=workloads())
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_workload_comes_back_the_same(suffix: str, workload: Workload, tmp_path: Path) -> None:
    """A written workload is read back the same, bit by bit."""
    path = tmp_path / f"workload{suffix}"
    write_workload(workload, path)
    assert read_workload(path) == workload


def test_jobs_without_names_are_numbered_and_put_in_order(tmp_path: Path) -> None:
    """Names follow the lines of the file, order follows arrival."""
    path = tmp_path / "mine.csv"
    path.write_text(f"{HEADER}\n30,sort,2,1024,3,60\n10,wordcount,0.5,512,1,20.5\n")
    assert read_workload(path) == Workload(
        (
            WorkloadJob("job-2", 10.0, "wordcount", 0.5, 512, 1, 20.5),
            WorkloadJob("job-1", 30.0, "sort", 2.0, 1024, 3, 60.0),
        )
    )


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "{path}: holds no job"),
        (HEADER, "{path}: holds no job"),
        (f"{HEADER}\n1,sort,2,1024,3,soon", "{path}:2: duration: should be a number, found 'soon'"),
        (f"{HEADER}\n1,sort,2,1024,3.5,9", "{path}:2: executors: should be a whole number, found '3.5'"),
        (f"{HEADER}\n\n1,sort,2,1024,0,9", "{path}:3: executors: should be 1 to 1e+06, found 0"),
        (f"{HEADER}\n-1,sort,2,1024,1,9", "{path}:2: submitted_at: should be 0 to 1e+10 seconds, found -1.0"),
        (f"{HEADER}\n1,sort,nan,1024,1,9", "{path}:2: cpus: should be 0.001 to 1e+06, found nan"),
        (f"{HEADER}\n1,,1,1024,1,9", "{path}:2: type: should be a text, found ''"),
        (
            f"{HEADER}\n1e308,sort,2,1024,1,9",
            "{path}:2: submitted_at: should be 0 to 1e+10 seconds, fou",
        ),
        (
            f"{HEADER}\n1,sort,2,1024,1,1e308",
            "{path}:2: duration: should be more than 0, up to 1e+10 s, fo",
        ),
        (f"{HEADER}\n1,sort,2,{2**70},1,9", "{path}:2: memory_mib: should be 1 to "),
        (
            f"{HEADER}\n1,sort,2,{'9' * 5000},1,9",
            "{path}:2: memory_mib: should be a whole number, found",
        ),
        (f"{HEADER}\n1,so\0rt,2,1024,1,9", "{path}:2: type: should be one line without control"),
        (f"{HEADER}\n1,sort\u202e,2,1024,1,9", "{path}:2: type: should be one line without control"),
        (f"{HEADER}\n1,sort,2,1024", "{path}:2: 4 columns, 6 expected"),
        (f'{HEADER}\n1,"sort,2,1024,1,9', "{path}:2: not valid CSV: "),
        (
            "submitted_at,type,cpus,memory_mib,executors",
            "{path}:1: duration: missing; the header should be " + HEADER,
        ),
        (
            "Arrival Time,type,cores,mem,num_executors,durations",
            "{path}:1: submitted_at: missing (is it Arrival Time?); cpus: missing (is it cores?); "
            "memory_mib: missing (is it mem?); executors: missing (is it num_executors?); "
            "duration: missing (is it durations?); the header",
        ),
        (f"{HEADER},priorty", "{path}:1: priorty: unknown column; is it priority? known are submitted_at"),
        (f"{HEADER}\n1,sort,2,1024.5,1,9", "{path}:2: memory_mib: should be a whole number, found '1024.5'"),
        (f"{HEADER}\n1,sort,2,2q,1,9", "{path}:2: memory_mib: should be an amount of memory such as 512m"),
        (f"{HEADER}\n1,sort,2,1024,2.5,9", "{path}:2: executors: should be a whole number, found '2.5'"),
        (f'{HEADER},name\n1,sort,2,1024,1,9,"a\nb"', "{path}:3: name: should be one line without control"),
        (
            f'{HEADER},name\n1,sort,2,1024,1,9,"a\u2028b"',
            "{path}:2: name: should be one line without control",
        ),
        (f"{HEADER},gpus", "{path}:1: gpus: unknown column; known are submitted_at, type,"),
        (f"{HEADER},name,name", "{path}:1: name: given twice"),
        (f"{HEADER},name\n1,a,1,1,1,9,x\n2,a,1,1,1,9,x", "{path}:3: name: another job is called x"),
    ],
)
def test_a_bad_csv_is_told_by_line_and_column(text: str, complaint: str, tmp_path: Path) -> None:
    """The error names file, line and column, the value found and the correct form."""
    path = tmp_path / "mine.csv"
    path.write_text(text)
    with pytest.raises(WorkloadError) as caught:
        read_workload(path)
    assert str(caught.value).startswith(complaint.format(path=path))


def test_a_bad_parquet_is_told_by_row_and_column(tmp_path: Path) -> None:
    """A missing value is an error with its row."""
    import pyarrow
    import pyarrow.parquet

    path = tmp_path / "mine.parquet"
    columns = {"submitted_at": [1, 2], "type": ["a", "b"], "cpus": [1.0, 2.0], "memory_mib": [1, 1]}
    table = pyarrow.table({**columns, "executors": [1, None], "duration": [3.0, 4.0]})
    pyarrow.parquet.write_table(table, path)
    with pytest.raises(WorkloadError, match=r"mine\.parquet: row 2: executors: .* found None"):
        read_workload(path)


def test_files_that_are_none(tmp_path: Path) -> None:
    """Not there, not Parquet, of another kind: each is said."""
    with pytest.raises(WorkloadError, match="cannot be read: No such file"):
        read_workload(tmp_path / "none.csv")
    with pytest.raises(WorkloadError, match=r"should end in \.csv or \.parquet"):
        read_workload(tmp_path / "none.json")
    (tmp_path / "text.parquet").write_text("text")
    with pytest.raises(WorkloadError, match="cannot be read as Parquet"):
        read_workload(tmp_path / "text.parquet")


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_what_executors_take_besides_is_a_column(tmp_path: Path, suffix: str) -> None:
    """gpus=1;disk=100 for jobs that have them; other jobs have an empty cell."""
    jobs = (
        WorkloadJob("a", 0.0, "sort", 1.0, 1024, 1, 10.0, resources={"gpus": 1.0, "disk": 100.5}),
        WorkloadJob("b", 1.0, "sort", 1.0, 1024, 1, 10.0),
    )
    path = tmp_path / f"gpus{suffix}"
    write_workload(Workload(jobs), path)
    assert read_workload(path).jobs == jobs
    assert suffix != ".csv" or "gpus=1;disk=100.5\n" in path.read_text()


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_owners_and_queues_are_columns(tmp_path: Path, suffix: str) -> None:
    """An empty cell is nobody, or the default queue; where all are that, there is no column."""
    jobs = (
        WorkloadJob("a", 0.0, "sort", 1.0, 1024, 1, 10.0, owner="alice"),
        WorkloadJob("b", 1.0, "sort", 1.0, 1024, 1, 10.0, queue="night", priority=-2, deadline=3.5),
        WorkloadJob("c", 2.0, "sort", 1.0, 1024, 1, 10.0),
    )
    path = tmp_path / f"owned{suffix}"
    write_workload(Workload(jobs), path)
    assert read_workload(path).jobs == jobs
    write_workload(Workload(jobs[2:]), path)
    assert read_workload(path).jobs == jobs[2:]
    assert suffix != ".csv" or "owner" not in path.read_text()


@pytest.mark.parametrize(
    ("cells", "complaint"),
    [
        ("al\x1bice,q", r"owner: should be one line .*x1b"),
        ("alice,\u202eq", r"queue: should be one line"),
        (f"{'x' * 201},q", r"owner: should have 200 characters at most, found 201"),
    ],
)
def test_bad_owners_and_queues_are_told(tmp_path: Path, cells: str, complaint: str) -> None:
    """By the rules of names."""
    path = tmp_path / "bad.csv"
    path.write_text(f"{HEADER},owner,queue\n0,sort,1,1024,1,10,{cells}\n")
    with pytest.raises(WorkloadError, match=rf"bad\.csv:2: {complaint}"):
        read_workload(path)


def test_bad_resources_are_told_with_their_column(tmp_path: Path) -> None:
    """File, line, column and fault."""
    path = tmp_path / "bad.csv"
    path.write_text(f"{HEADER},resources\n0,sort,1,1024,1,10,gpus=0.5\n")
    with pytest.raises(WorkloadError, match=r"bad\.csv:2: resources: gpus: should be a whole number"):
        read_workload(path)


def test_jobs_that_come_after_others(tmp_path: Path) -> None:
    """Written and read the same; errors name impossible ones: an unknown name, a circle, a later job."""
    text = "submitted_at,type,cpus,memory_mib,executors,duration,name,after,start_at\n"
    cells = "0,sort,1,1024,1,5"
    path, copy = tmp_path / "jobs.csv", tmp_path / "copy.csv"
    path.write_text(text + f"{cells},load,,\n{cells},clean,load,\n{cells},report,load;clean,90\n")
    workload = read_workload(path)
    assert [job.after for job in workload.jobs] == [(), ("load",), ("load", "clean")]
    assert workload.jobs[2].start_at == 90.0
    write_workload(workload, copy)
    assert read_workload(copy) == workload
    assert workload.first(2).jobs == workload.jobs[:2]
    for after, why in (
        ("load", "report comes after load, but no job has that name"),
        ("report", "report comes after report"),
        ("last", "report comes after last comes after report"),
    ):
        path.write_text(text + f"{cells},report,{after},\n{cells},last,report,\n")
        with pytest.raises(WorkloadError, match=why):
            read_workload(path)
    path.write_text(text + f"{cells},report,last,\n{cells},last,,\n")
    with pytest.raises(WorkloadError, match="report comes after last, which arrives later"):
        read_workload(path)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_whether_a_job_may_be_stopped_is_a_column(tmp_path: Path, suffix: str) -> None:
    """An empty cell is true; where all may be, there is no column."""
    jobs = (
        WorkloadJob("a", 0.0, "sort", 1.0, 1024, 1, 10.0, restartable=False),
        WorkloadJob("b", 1.0, "sort", 1.0, 1024, 1, 10.0),
    )
    path = tmp_path / f"jobs{suffix}"
    write_workload(Workload(jobs), path)
    assert read_workload(path).jobs == jobs
    if suffix == ".csv":
        assert path.read_text().splitlines()[1:] == [
            "0.0,sort,1.0,1024,1,10.0,a,false",
            "1.0,sort,1.0,1024,1,10.0,b,",
        ]
        path.write_text(path.read_text().replace("false", "no"))
        with pytest.raises(
            WorkloadError, match=r"jobs.csv:2: restartable: should be true or false, found 'no'"
        ):
            read_workload(path)
    write_workload(Workload(jobs[1:]), path)
    assert read_workload(path).jobs == jobs[1:]
    assert suffix != ".csv" or "restartable" not in path.read_text()


def test_numbers_as_others_write_them(tmp_path: Path) -> None:
    """Whole numbers with a point, as pandas does, amounts with their units, and empty cells as NaN."""
    path = tmp_path / "mine.csv"
    path.write_text(
        f"{HEADER},min_executors,deadline\n0,sort,1,2048.0,4.0,120,,\n1m,sort,1.0,2g,4e0,2m,2.0,nan\n"
    )
    first, second = read_workload(path).jobs
    assert (first.memory_mib, first.executors, first.min_executors) == (2048, 4, None)
    assert type(first.memory_mib) is type(first.executors) is int
    assert (second.submitted_at, second.memory_mib, second.executors) == (60.0, 2048, 4)
    assert (second.duration, second.min_executors) == (120.0, 2)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_sizes_that_are_left_to_stoker_are_kept(suffix: str, tmp_path: Path) -> None:
    """In a column of their own, beside the sizes that the duration is of."""
    job = WorkloadJob(
        "a", 0.0, "etl", 2.0, 4096, 4, 60.0, auto={"executors": "auto:2-16", "memory": "auto:4g-"}
    )
    path = tmp_path / f"workload{suffix}"
    write_workload(Workload((job, WorkloadJob("b", 1.0, "etl", 2.0, 4096, 4, 60.0))), path)
    read = read_workload(path)
    assert [each.auto for each in read.jobs] == [job.auto, {}]
    assert read.jobs[0] == job


@pytest.mark.parametrize(
    ("executors", "auto", "complaint"),
    [
        (
            "auto:2-16",
            "",
            "executors: should be a number, that `duration` is of; what is left to Stoker goes",
        ),
        ("4", "executors", "auto: should be as in executors=auto:2-16;cpus=auto, found 'executors'"),
        ("4", "cpus=auto;cpus=auto", "auto: should be as in executors=auto:2-16;cpus=auto, found "),
        ("4", "executors=auto:16-2", "auto: executors: the minimum is above the maximum in 'auto:16-2'"),
    ],
)
def test_sizes_that_are_left_wrongly_are_named(
    executors: str, auto: str, complaint: str, tmp_path: Path
) -> None:
    """With file and line."""
    path = tmp_path / "mine.csv"
    path.write_text(f"{HEADER},auto\n0,sort,2,1024,{executors},60,{auto}\n")
    with pytest.raises(WorkloadError, match=f"mine.csv:2: {complaint}"):
        read_workload(path)


def test_a_parquet_of_endless_equal_rows_is_refused(tmp_path: Path) -> None:
    """They take a few bytes in the file, and all of the memory when each is a job."""
    import pyarrow
    import pyarrow.parquet

    path = tmp_path / "mine.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"cpus": pyarrow.repeat(1.0, 1_000_001)}), path)
    with pytest.raises(WorkloadError, match="at most 1,000,000 rows, and has 1,000,001"):
        read_workload(path)
