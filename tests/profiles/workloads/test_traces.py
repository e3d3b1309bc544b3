"""The trace readers on small files, and on the real ones where they are at hand."""

from pathlib import Path

import pytest

from profiles.workloads.generators import load_workload
from profiles.workloads.traces import (
    WINDOWS,
    AlibabaMachine,
    AlibabaTask,
    FacebookJob,
    Window,
    arrivals_in,
    read_alibaba_machines,
    read_alibaba_tasks,
    read_facebook,
)
from profiles.workloads.workload_files import WorkloadError

TRACES = Path(__file__).parents[3].parent / "shared/traces"
FACEBOOK = TRACES / "facebook-swim/FB-2009_samples_24_times_1hr_0.tsv"
ALIBABA = TRACES / "alibaba-gpu-2023"

needs_traces = pytest.mark.skipif(not TRACES.is_dir(), reason=f"the traces are not at hand in {TRACES}")
PODS = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,"
    "scheduled_time\n"
)


def test_facebook_jobs_are_read(tmp_path: Path) -> None:
    """Six columns between tabs; the gap is not kept, since it follows from the times."""
    path = tmp_path / "fb.tsv"
    path.write_text("job0\t49\t49\t740773\t2339561\t627471\njob1\t101\t52\t0\t0\t0\n")
    assert read_facebook(path) == (
        FacebookJob("job0", 49.0, 740773, 2339561, 627471),
        FacebookJob("job1", 101.0, 0, 0, 0),
    )


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("job0\t49", "fb.tsv:1: 2 columns, 6 expected"),
        ("a\t1\t1\t1\tx\t1", "fb.tsv:1: shuffle: should be a whole"),
        ("a\tnan\t1\t1\t1\t1", "fb.tsv:1: submit time: should be a number, found 'nan'"),
    ],
)
def test_bad_facebook_lines_are_named(text: str, complaint: str, tmp_path: Path) -> None:
    """The error names file, line and column."""
    path = tmp_path / "fb.tsv"
    path.write_text(text)
    with pytest.raises(WorkloadError, match=complaint):
        read_facebook(path)


def test_paths_behind_a_facebook_job_are_counted(tmp_path: Path) -> None:
    """As SWIM's suite has them; the workload says that they were left out."""
    trace, spec = tmp_path / "fb.tsv", tmp_path / "mine.yaml"
    trace.write_text(
        "job0\t1\t1\t2267942\t0\t1937944\tinputPath1\t\t\n"
        "job1\t2\t1\t20791551476\t12295202125\t1491950225\tinputPath2\toutput\t\n"
    )
    assert [job.paths for job in read_facebook(trace)] == [1, 2]
    assert [job.input_bytes for job in read_facebook(trace)] == [2267942, 20791551476]
    spec.write_text(f"jobs: 2\narrivals: {{kind: facebook, window: normal, path: {trace}}}\n")
    workload = load_workload(spec)
    assert [job.submitted_at for job in workload.jobs] == [1.0, 2.0]
    assert workload.left_out == (f"{trace}: 3 paths of inputs and outputs",)


def test_gpus_of_a_trace_are_kept_or_told(tmp_path: Path) -> None:
    """And so is how many of its tasks never ran; a task may share a GPU."""
    pods, spec = tmp_path / "pods.csv", tmp_path / "mine.yaml"
    pods.write_text(
        PODS
        + "a,12000,16384,2,1000,,LS,Running,0,125,5\nb,500,1,0,0,,BE,Running,7,9,8\n"
        + "c,500,1,1,460,,BE,Running,8,19,9\nd,500,1,1,460,,BE,Pending,8,9,\n"
    )
    spec.write_text(f"jobs: 3\nalibaba: {{path: {pods}}}\n")
    workload = load_workload(spec)
    assert [dict(job.resources) for job in workload.jobs] == [{}, {}, {}]
    assert workload.left_out == (
        f"{pods}: the GPUs of 2 jobs (alibaba: {{gpus: true}} keeps them)",
        f"{pods}: 1 task of 4 that never ran",
    )
    assert workload.first(1).left_out == workload.left_out
    spec.write_text(f"jobs: 3\nalibaba: {{path: {pods}, gpus: true}}\nusers: {{ann: {{}}}}\n")
    workload = load_workload(spec)
    assert [dict(job.resources) for job in workload.jobs] == [{"gpus": 2.0}, {}, {"gpus": 1.0}]
    assert workload.left_out == (
        f"{pods}: the part of a GPU that 1 job had: each takes a whole",
        f"{pods}: 1 task of 4 that never ran",
    )


def test_a_window_holds_its_start_and_not_its_end() -> None:
    """Arrivals count from the window's start."""
    jobs = tuple(FacebookJob(f"j{at}", float(at), 0, 0, 0) for at in (30, 9, 10, 19, 20))
    assert arrivals_in(jobs, Window(10.0, 10.0)) == (0.0, 9.0)


def test_tasks_that_cannot_be_jobs_are_named_with_their_file(tmp_path: Path) -> None:
    """One ends before it begins, two have one name."""
    head = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,qos,creation_time,deletion_time,scheduled_time"
    row = "{},1000,1024,0,,LS,0,{},5"
    path, spec = tmp_path / "pods.csv", tmp_path / "work.yaml"
    spec.write_text(f"jobs: 2\nalibaba: {{path: {path}}}\n")
    for rows, why in (([("a", 5), ("b", 9)], "duration"), ([("a", 8), ("a", 9)], "a")):
        path.write_text("\n".join([head, *(row.format(*each) for each in rows)]) + "\n")
        with pytest.raises(WorkloadError, match=f"pods.csv: .*{why}"):
            load_workload(str(spec))


def test_alibaba_files_are_read(tmp_path: Path) -> None:
    """Thousandths become cpus; a task that was never scheduled has no time for it."""
    pods, nodes = tmp_path / "pods.csv", tmp_path / "nodes.csv"
    pods.write_text(PODS + "a,12000,16384,1,1000,,LS,Running,0,125,5\nb,500,1,0,0,,BE,Pending,7,9,\n")
    nodes.write_text("sn,cpu_milli,memory_mib,gpu,model\nn0,32000,262144,2,T4\n")
    assert read_alibaba_tasks(pods) == (
        AlibabaTask("a", 12.0, 16384, 1, "LS", 0.0, 5.0, 125.0),
        AlibabaTask("b", 0.5, 1, 0, "BE", 7.0, None, 9.0),
    )
    assert read_alibaba_machines(nodes) == (AlibabaMachine("n0", 32.0, 262144, 2, "T4"),)


def test_bad_alibaba_files_are_named(tmp_path: Path) -> None:
    """A missing column, a missing cell and a word for a number."""
    path = tmp_path / "pods.csv"
    for text, complaint in (
        ("name\n", "pods.csv:1: cpu_milli: missing"),
        (PODS.replace("cpu_milli", "cpu_mili"), r"pods.csv:1: cpu_milli: missing \(is it cpu_mili\?\)"),
        (PODS + "a,1\n", "pods.csv:2: should have 11 columns"),
        (PODS + "a,x,1,1,1,,LS,Running,0,1,0\n", "pods.csv:2: cpu_milli: should be a number, found 'x'"),
    ):
        path.write_text(text)
        with pytest.raises(WorkloadError, match=complaint):
            read_alibaba_tasks(path)


@needs_traces
def test_named_windows_have_the_papers_densities() -> None:
    """An hour with at least 50 arrivals in every part of it, and ten minutes with exactly 100."""
    jobs = read_facebook(FACEBOOK)
    assert len(jobs) == 5894
    normal = arrivals_in(jobs, WINDOWS["normal"])
    assert len(normal) == 78
    assert all(any(600 * i <= at < 600 * (i + 1) for at in normal) for i in range(6))
    assert len(arrivals_in(jobs, WINDOWS["burst"])) == 100
    assert len(arrivals_in(jobs, WINDOWS["day"])) == 5892


@needs_traces
def test_facebook_workloads_are_drawn_from_the_window() -> None:
    """Fifty of the hour's arrivals by seed; the burst takes all hundred for any seed."""
    jobs = read_facebook(FACEBOOK)
    normal, again, other = (load_workload("facebook-normal", seed) for seed in (1, 1, 2))
    assert normal == again != other
    assert {job.submitted_at for job in normal.jobs} <= set(arrivals_in(jobs, WINDOWS["normal"]))
    burst = load_workload("facebook-burst", 1)
    assert tuple(job.submitted_at for job in burst.jobs) == arrivals_in(jobs, WINDOWS["burst"])
    with pytest.raises(WorkloadError, match="78 jobs in its window normal, 79 are asked for"):
        load_workload("facebook-normal", jobs=79)


@needs_traces
def test_alibaba_workloads_are_tasks_that_ran() -> None:
    """Arrivals begin at 0, and every task is one executor."""
    workload = load_workload("alibaba", jobs=300)
    assert len(workload) == 300
    assert workload.jobs[0].submitted_at == 0
    assert {job.executors for job in workload.jobs} == {1}
    assert len(read_alibaba_machines(ALIBABA / "openb_node_list_all_node.csv")) == 1523
