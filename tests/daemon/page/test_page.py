"""The page in a headless Chromium: it updates by itself, obeys clicks, and treats no text as markup."""

import re
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from fastapi import FastAPI

from conf.schema import JobSpec
from conf.util.dollars import money
from daemon.core.estimate import Estimate, KeptEstimates
from daemon.core.status import LogChunk
from daemon.http.app import create_app
from daemon.http.app_options import AppOptions
from daemon.page import stream
from daemon.store.job_store import Store
from daemon.store.rows.event_recorder import HistoryEvent
from daemon.what_if.cases import Present
from daemon.what_if.worker import compile_for
from environment.decisions.explain import CandidateVm, Choice, Explanation
from environment.decisions.sizing import Sizes
from environment.decisions.vm_kinds import KindEstimate
from environment.model.cluster_model import Changes
from environment.model.messages.records import ExecutorRecord, JobRecord, MemoryUse
from environment.model.messages.states import JobState
from environment.model.messages.vm_accounts import Account, Charge
from environment.resources import Resources
from environment.simulation.durations.prediction_intervals import Interval
from environment.types import PlacementRequest
from profiles.memory_peaks import MemoryPeak
from tests.builders import make_job, make_view, make_vms
from tests.daemon.maintenance.test_job_audits import ended_job
from tests.daemon.page.browser import PROGRAM, Browser, Page, browser
from tests.daemon.page.crowd import Crowd, served
from tests.daemon.small_scheduler import ESTIMATE, Foreseeing
from tests.waiting import until

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="Chromium is not installed (Debian: chromium)")

EVIL = "<img src=x onerror=document.title='taken'><script>document.title='taken'</script>"


MOVE = """{ const slider = document.querySelector('[data-type="m1.large"]'); slider.value = %d;
for (const kind of ["input", "change"]) slider.dispatchEvent(new Event(kind)); }"""


class Scribbler(Crowd):
    """A crowd with jobs that print text which the page must not trust."""

    def log(
        self, job: JobRecord, executor: ExecutorRecord | None, stream: str, offset: int, limit: int
    ) -> LogChunk:
        """The same for all."""
        text = f"{EVIL}\n\x1b[31mred</pre>\n"[offset:]
        return LogChunk(text, offset + len(text), job.ended, note=EVIL)


@pytest.fixture(scope="module")
def running() -> Iterator[Browser]:
    """One for all tests."""
    with browser() as found:
        yield found


@pytest.fixture
def chromium(running: Browser) -> Iterator[Browser]:
    """The browser, without pages of other tests."""
    yield running
    running.close_pages()


@pytest.fixture
def crowd(store: Store) -> Crowd:
    """A dozen VMs, and more jobs than they take."""
    return Scribbler(store, 12, 60)


def app_of(crowd: Crowd, token: str | None = None) -> FastAPI:
    """The API around it."""
    return create_app(crowd, crowd.store, AppOptions(token=token, version="1"))


def well(page: Page, url: str) -> None:
    """Nothing failed, nobody else was asked, and nothing took the page over."""
    assert page.complaints == []
    assert [asked for asked in page.asked if not asked.startswith(url)] == []
    assert "taken" not in page.run("document.title")


def test_it_changes_by_itself(chromium: Browser, crowd: Crowd) -> None:
    """A job that comes is in the list, one that ends is over, without anything being clicked."""
    with served(app_of(crowd)) as url:
        page = chromium.page(url)
        page.sees("m1.large-1")
        page.sees("greedy" if "greedy" in page.text() else "policy")
        page.until("document.querySelectorAll('.card').length === 12")
        page.go(f"{url}/#/jobs")
        page.sees("60", ".jobs .chip")
        title = page.until("document.querySelector('a.job .size')?.title")
        assert re.fullmatch(r"\d executors? of [\d.]+ cores? and \d+ GiB", title)
        assert page.run("document.querySelector('a.job .since').title").startswith("submitted ")
        crowd.submit_some(3)
        page.sees("63", ".jobs .chip")
        first = page.run("document.querySelector('a.job .id').innerText")
        crowd.kill(first)
        page.go(f"{url}/#/jobs/{first}")
        page.sees("killed on request")
        page.sees("stoker history")
        well(page, url)


def test_the_page_writes_dollars_as_commands_do(chromium: Browser, crowd: Crowd) -> None:
    """The same cost has the same digits on the page, in tables, and in reasons."""
    amounts = [0.0, 4e-7, 0.00002, 0.000562, 0.001, 0.0072, 0.0303, 0.45, 1.0, 12.345, 1234.5]
    with served(app_of(crowd)) as url:
        page = chromium.page(url)
        page.sees("Queue")
        said = page.run(f"import('/page/format.js').then((found) => {amounts}.map(found.money))")
    assert said == [money(amount) for amount in amounts]


def apart(crowd: Crowd) -> None:
    """Each of the jobs that wait has a reason of its own."""
    for number, job_id in enumerate(crowd.waiting[1:]):
        record = crowd.store.jobs.get(job_id)
        assert record is not None
        crowd.store.changes.save(Changes((replace(record, reason=f"waits for its turn, {number}"),), ()))


def test_jobs_that_wait_for_the_same_are_one_row(chromium: Browser, crowd: Crowd) -> None:
    """How many, and behind which; the head has its own."""
    first, *others = crowd.waiting
    with served(app_of(crowd)) as url:
        page = chromium.page(url)
        page.sees(f"{len(others)} jobs behind {first}")
        assert page.run("(one => one.scrollWidth <= one.clientWidth)(document.querySelector('.many b'))")
        page.until("document.querySelectorAll('.columns section:first-child a.row').length === 2")
        crowd.expected = {others[0]: _in_hours(1, 2), others[-1]: _in_hours(5, 6)}
        page.sees("starts in ")
        page.sees("the last by ")
        well(page, url)


def test_a_small_machine_is_told_where_jobs_wait_for_it(chromium: Browser, crowd: Crowd) -> None:
    """On the overview and where other policies and VMs are played; gone when none waits any more."""
    crowd.carries = 4
    with served(app_of(crowd)) as url:
        page = chromium.page(url)
        page.sees("it carries 4 JVMs", ".banner")
        page.go(f"{url}/#/what-if")
        page.sees("it carries 4 JVMs", ".banner")
        crowd.carries = None
        page.until("document.querySelector('.banner').hidden")
        page.go(url)
        page.sees("Cluster")
        assert page.run("document.querySelector('.banner').hidden")
        well(page, url)


def test_a_phone_shows_names_and_errors_uncut(chromium: Browser, crowd: Crowd) -> None:
    """However long, on the overview and in the list, of which there is more when it is asked for."""
    long = " ".join(f"part-{number}" for number in range(24))
    record = crowd.store.jobs.page(states=("running",), limit=1)[0]
    of = replace(record, job=replace(record.job, name=f"name {long}"), reason=f"KeyError: {long}")
    crowd.store.changes.save(Changes((of,), ()))
    crowd.submit_some(40)
    with served(app_of(crowd)) as url:
        page = chromium.page(f"{url}/#/jobs", width=390, height=860)
        page.sees(record.job.id, ".list")
        cut = (
            "[...document.querySelectorAll('.job:not([hidden]) *, .row *')].filter((one) => "
            "one.offsetParent && getComputedStyle(one).overflow !== 'visible' && "
            "(one.scrollWidth > one.clientWidth + 1 || one.scrollHeight > one.clientHeight + 1)).length"
        )
        assert f"KeyError: {long}" in page.text(".list")
        assert page.run(cut) == 0
        assert page.run("document.documentElement.scrollWidth") == 390
        shown = "document.querySelectorAll('.job:not([hidden])').length"
        assert page.run(shown) == 50
        page.click(".list > button")
        page.until(f"{shown} === 100")
        page.until("document.querySelector('.list > button').hidden")
        page.go(url)
        page.sees(f"name {long}", ".columns")
        assert page.run(cut) == 0
        assert page.run("document.documentElement.scrollWidth") == 390
        well(page, url)


def test_the_queue_stands_in_columns_and_its_number_leads_to_it(chromium: Browser, crowd: Crowd) -> None:
    """Reasons are aligned, however long jobs have waited; the tile leads to the waiting jobs."""
    apart(crowd)
    with served(app_of(crowd)) as url:
        page = chromium.page(url)
        page.sees("waits for its turn")
        rows = "[...document.querySelectorAll('.columns section:first-child .why')]"
        page.until(f"{rows}.length > 5")
        assert page.run(f"new Set({rows}.map((one) => one.getBoundingClientRect().left)).size") == 1
        page.click("a.tile[href='#/jobs?state=queued']")
        page.sees("Owner · queue")
        states = "[...document.querySelectorAll('.job:not([hidden]) .state')]"
        page.until(f"{states}.every((one) => one.innerText === 'queued')")
        well(page, url)


def test_a_job_that_waits_says_when_it_will_start(chromium: Browser, crowd: Crowd) -> None:
    """A waiting job shows its expected start and its cost as an interval.

    A job without an estimate shows that there is none.
    """
    crowd.expected = {"job-60": ESTIMATE}
    with served(app_of(crowd)) as url:
        page = chromium.page(f"{url}/#/jobs/job-60")
        page.sees("Will start")
        page.sees("$0.40")
        page.go(f"{url}/#/jobs/job-59")
        page.sees("job-59")
        page.sees("no estimate")
        page.sees("the first is being made: it takes seconds, or minutes where code is compiled")
        well(page, url)


def test_a_deadline_that_has_passed_says_so(chromium: Browser, crowd: Crowd) -> None:
    """On the job's page, and in the queue, where names are whole on a phone, too."""
    now = time.time()
    job_id = crowd.waiting[0]
    record = crowd.store.jobs.get(job_id)
    assert record is not None
    crowd.store.changes.save(Changes((replace(record, job=replace(record.job, deadline=now - 65.0)),), ()))
    with served(app_of(crowd)) as url:
        page = chromium.page(f"{url}/#/jobs/{job_id}")
        page.sees("passed 1m")
        page.sees("No policy has considered it yet; see the reason above.")
        page.resize(390, 844)
        page.go(f"{url}/#/")
        page.sees("too late for")
        name = "document.querySelector('.rows .what b')"
        assert page.run(f"{name}.scrollWidth <= {name}.clientWidth")
        well(page, url)


@pytest.mark.parametrize(
    ("state", "beside", "said"),
    [
        ("finished", 60.0, "met"),
        ("finished", -60.0, "missed"),
        ("killed", 60.0, ""),
        ("failed", -60.0, "missed"),
    ],
)
def test_a_deadline_is_met_by_who_finishes(
    chromium: Browser, crowd: Crowd, state: JobState, beside: float, said: str
) -> None:
    """A job that was killed before it has met nothing."""
    now, job_id = time.time(), crowd.waiting[0]
    record = crowd.store.jobs.get(job_id)
    assert record is not None
    job = replace(record.job, deadline=now + beside)
    crowd.store.changes.save(Changes((replace(record, job=job, state=state, finished_at=now),), ()))
    with served(app_of(crowd)) as url:
        page = chromium.page(f"{url}/#/jobs/{job_id}")
        page.sees("Deadline")
        facts = "[...document.querySelectorAll('.facts div')]"
        found = f"{facts}.find((each) => each.textContent.startsWith('Deadline'))"
        assert page.run(f"{found}.textContent.split(' · ')[1] ?? ''") == said
        well(page, url)


@pytest.mark.parametrize(
    ("python", "said"),
    [
        (200.0, "300 MiB of 1 GiB at most (heap 90 MiB, JVM beside it 10 MiB, Python 200 MiB) · 30 % of"),
        (None, "100 MiB of 1 GiB at most (heap 90 MiB, JVM beside it 10 MiB, Python not reported) · 30 % of"),
    ],
)
def test_the_memory_that_a_job_used(chromium: Browser, crowd: Crowd, python: float | None, said: str) -> None:
    """Nothing is told before it ends; then the peak, or that it was not reported."""
    job_id = crowd.waiting[0]
    record = crowd.store.jobs.get(job_id)
    assert record is not None
    at = time.time()
    job = replace(record.job, size=Resources.of(1.0, 1024))
    ended = replace(record, job=job, state="finished", started_at=at - 9, finished_at=at)
    use = MemoryUse(MemoryPeak(90.0, 10.0, python), None, 1024.0, 1000.0, 300.0)
    with served(app_of(crowd)) as url:
        page = chromium.page(f"{url}/#/jobs/{job_id}")
        page.sees("Waits for")
        assert not page.run("document.body.textContent.includes('Memory used')")
        crowd.store.changes.save(Changes((ended,), ()))
        page.go(f"{url}/#/jobs")
        page.go(f"{url}/#/jobs/{job_id}")
        page.sees("not reported")
        crowd.store.jobs.ended.note_memory(job_id, use)
        page.go(f"{url}/#/jobs")
        page.go(f"{url}/#/jobs/{job_id}")
        page.sees(said)
        well(page, url)


def test_alike_executors_and_vms_share_a_line(chromium: Browser, crowd: Crowd) -> None:
    """Why executors are where they are is told once of those that went to one VM for one reason."""
    job_id = crowd.waiting[-1]
    first, later = {"cpus": 4.0, "mem": 4096.0}, {"cpus": 3.0, "mem": 3072.0}

    def choice(number: int) -> Choice:
        there = CandidateVm("vm-0", "small", later if number else first, (), None, chosen=True)
        others = [CandidateVm(f"vm-{n}", "small", first, (), None, chosen=False) for n in range(1, 6)]
        return Choice(number, "vm-0", "the first with room", (there, *others), 0, Resources.of(1.0, 1024))

    choices = tuple(choice(number) for number in range(3))
    placed = KindEstimate(("small",), True, 3, 1, 0, 0, 0.0, 61.0, 0.0123)
    kinds = placed, replace(placed, types=("large",), placed=False, spot=1, opens=1, ready_in=60.0)
    full = replace(placed, types=("tiny",), placed=False, room=1, seconds=None, dollars=None)
    why = Explanation(
        time.time(), job_id, "ff", "place", "3 of 3 executors placed", (), choices, (*kinds, full)
    )
    crowd.store.changes.save(Changes((), ()), (why,))
    with served(app_of(crowd)) as url:
        page = chromium.page(f"{url}/#/jobs/{job_id}")
        page.sees("→ vm-0: the first with room; seen at the first of them")
        assert page.run("document.querySelectorAll('.choice tbody tr').length") == 3 + 2
        page.sees("vm-1, …, vm-5 (5) small")
        page.sees("All 3 executors on")
        rows = [*page.run("[...document.querySelectorAll('.choice tbody')].map((each) => each.innerText)")]
        shown = [" ".join(row.split()) for row in rows[0].splitlines()]
        assert shown[0].endswith("small now 1m 01s $0.0123")
        assert shown[1].endswith("large spot, to be opened 1m 00s 1m 01s $0.0123")
        assert "tiny room for 1" in shown[2]
        well(page, url)


def test_a_vm_without_a_score_stands_behind_those_with_one(chromium: Browser, crowd: Crowd) -> None:
    """Also where these are below 0, as prices are."""
    job_id = crowd.waiting[-1]
    scores = {"vm-chosen": -0.3, "vm-dear": -0.9, "vm-unknown": None, "vm-cheap": -0.5}
    free = {"cpus": 4.0, "mem": 4096.0}
    looked = [CandidateVm(vm, "small", free, (), of, vm == "vm-chosen") for vm, of in scores.items()]
    choice = Choice(0, "vm-chosen", "the cheapest", tuple(looked), 0, Resources.of(1.0, 1024))
    why = Explanation(time.time(), job_id, "greedy", "place", "1 of 1 executors placed", (), (choice,))
    crowd.store.changes.save(Changes((), ()), (why,))
    with served(app_of(crowd)) as url:
        page = chromium.page(f"{url}/#/jobs/{job_id}")
        page.sees("→ vm-chosen: the cheapest")
        rows = "[...document.querySelectorAll('.choice tbody tr td:first-child')]"
        shown = page.run(f"{rows}.map((each) => each.firstChild.textContent + each.textContent).join()")
        order = [shown.index(vm) for vm in ("vm-chosen", "vm-cheap", "vm-dear", "vm-unknown")]
        assert order == sorted(order)
        well(page, url)


def test_a_page_of_which_a_script_is_missing_says_so(chromium: Browser, crowd: Crowd) -> None:
    """After it has tried once more by itself; and is whole again when it is loaded then."""
    with served(app_of(crowd)) as url:
        page = chromium.page("about:blank")
        page.ask("Network.setBlockedURLs", urls=["*/page/format.js"])
        page.go(url)
        page.sees("This page could not be loaded completely", "#main")
        assert page.asked.count(f"{url}/") == 3  # the second time to see whether there is anybody
        page.ask("Network.setBlockedURLs", urls=[])
        page.run("document.querySelector('.failed button').click()")
        page.sees("Acting policy")
        page.go(f"{url}/docs")
        page.sees("/v1/jobs")


@pytest.mark.slow
def test_a_page_of_an_earlier_daemon_says_so(
    chromium: Browser, crowd: Crowd, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once the stream comes from one that has other files; not where it has the same."""
    monkeypatch.setattr(stream, "_LONGEST", 0.3)
    app = app_of(crowd)
    with served(app) as url:
        page = chromium.page(url)
        page.sees("Acting policy")
        until(lambda: page.asked.count(f"{url}/v1/stream") > 1, "it is connected again")
        assert page.run("document.querySelector('.upgraded')") is None
        app.state.stream._page = "another"
        page.sees("The daemon was upgraded", ".upgraded")
        page.run("document.querySelector('.upgraded button').click()")
        page.until("!document.querySelector('.upgraded')")
        page.sees("Acting policy")
        well(page, url)


def test_the_queue_says_when_who_waits_will_start(chromium: Browser, crowd: Crowd) -> None:
    """In the overview and in the list, and again when another is made; without asking about each job."""
    first = crowd.waiting[0]
    crowd.expected = {first: _in_hours(2.0, 4.0)}
    with served(app_of(crowd)) as url:
        page = chromium.page(url)
        page.sees("starts in 2h", "a.row .soon")
        assert "$0.2000 to $0.5000" in page.run("document.querySelector('a.row .soon').title")
        crowd.expected = {first: _in_hours(10.0, 10.0)}
        page.sees("starts in 10h", "a.row .soon")
        page.go(f"{url}/#/jobs?state=queued")
        page.sees("starts in 10h · ", ".job .why")
        crowd.expected = {}
        page.until("!document.querySelector('.job .why').innerText.includes('starts in')")
        well(page, url)


def test_a_job_says_whether_what_was_told_came_true(chromium: Browser, crowd: Crowd) -> None:
    """In the daemon's words: within, or on which side of it."""
    started = next(job.job.id for job in crowd.store.jobs.open.unfinished()[0] if job.placed_at is not None)
    crowd.store.estimates.keep({started: KeptEstimates(ESTIMATE, ESTIMATE)})
    with served(app_of(crowd)) as url:
        page = chromium.page(f"{url}/#/jobs/{started}")
        page.sees("First estimate of the start")
        page.sees(", later")
        well(page, url)


def with_executors(store: Store, number: int, vms: int) -> str:
    """A job that runs, with so many executors on so many VMs, of which two were lost; its id."""
    spec = JobSpec(app="a.py", executors=number)
    record, _ = store.jobs.new.add_one(spec, lambda job_id: make_job(job_id, executors=number), None, 100.0)
    now, size = time.time(), Resources.of(2.0, 4096)
    tasks = [
        ExecutorRecord(
            f"{record.job.id}.{n}", record.job.id, n, f"S{n % vms}", f"big-{n % vms + 1}", "m2.xlarge",
            "10.0.0.1", 0.5, size, (), now - 60, "running", now - 58, cost=0.01,
        )
        for n in range(number)
    ]  # fmt: skip
    for n in (1, 1 + vms):
        tasks[n] = replace(tasks[n], state="lost", ended_at=now - 5, message=EVIL)
    began = replace(record, state="running", reason="it runs", placed_at=now - 60, started_at=now - 58)
    store.changes.save(Changes((began,), tuple(tasks)))
    return record.job.id


def test_many_executors_are_folded_by_vm(chromium: Browser, crowd: Crowd, tmp_path: Path) -> None:
    """A VM is a line with how many are how; opened it has each of them, and stays open while time goes by."""
    job_id = with_executors(crowd.store, 400, 10)
    rows = "[...document.querySelectorAll('.tall tbody tr')]"
    with served(app_of(crowd)) as url:
        page = chromium.page(f"{url}/#/jobs/{job_id}")
        page.sees("on 10 VMs")
        assert page.run(f"{rows}.length") == 10
        assert page.run(f"{rows}.map((row) => row.cells[1].innerText.split(' ')[0])") == [
            f"big-{n}" for n in range(1, 11)
        ]
        second = page.run(f"{rows}[1].innerText")
        assert all(text in second for text in ("40", "38 running", "2 lost", "2 each", "4 GiB each", "$0.40"))
        page.picture(tmp_path / "folded.png")
        page.click("[data-vm='big-2']")
        page.until(f"{rows}.length === 50")
        assert page.run("document.activeElement.dataset.vm") == "big-2"
        assert page.run("document.querySelector('[data-vm=big-2]').ariaExpanded") == "true"
        assert EVIL in page.run(f"{rows}[2].innerText")
        page.run(
            "document.querySelector('.tall').scrollTop = 200; window.was = document.querySelector('.tall')"
        )
        page.until("document.querySelector('.tall') !== window.was")  # drawn anew, as it is now
        assert page.run(f"[{rows}.length, document.querySelector('.tall').scrollTop]") == [50, 200]
        assert page.run("document.activeElement.dataset.vm") == "big-2"
        page.picture(tmp_path / "open.png")
        page.press("Enter")
        page.until(f"{rows}.length === 10")
        page.run(
            "[...document.querySelectorAll('button')].find((one) => one.innerText === 'Open all').click()"
        )
        page.until(f"{rows}.length === 410")
        page.resize(390, 844)
        page.until("document.documentElement.scrollWidth <= 390")
        page.picture(tmp_path / "phone.png")
        well(page, url)


def test_executors_on_very_many_vms_are_shown_in_part(chromium: Browser, crowd: Crowd) -> None:
    """And all when that is asked for; few are shown one by one."""
    job_id, few = with_executors(crowd.store, 300, 150), with_executors(crowd.store, 6, 2)
    rows = "[...document.querySelectorAll('.tall tbody tr')]"
    with served(app_of(crowd)) as url:
        page = chromium.page(f"{url}/#/jobs/{job_id}")
        page.sees("and 90 other VMs")
        assert page.run(f"{rows}.length") == 61
        assert page.run(f"{rows}.at(0).cells[1].innerText").startswith("big-1 ")
        page.run(f"{rows}.at(-1).querySelector('button').click()")
        page.until(f"{rows}.length === 150")
        assert page.run(f"{rows}.at(-1).innerText.includes('2 lost')")  # nothing is there any more
        page.go(f"{url}/#/jobs/{few}")
        page.sees(few, ".head")
        page.until(f"{rows}.length === 6")
        well(page, url)


def test_a_job_is_ended_once_somebody_means_it(chromium: Browser, crowd: Crowd) -> None:
    """Ending a job needs a confirmation; a cancelled dialog ends nothing."""
    crowd.store.facts.put("x", "y", [HistoryEvent(1.0, "job-1", "running", "its word <b>for all</b>")])
    with served(app_of(crowd)) as url:
        page = chromium.page(f"{url}/#/jobs/job-1")
        page.sees("Why there")
        page.sees("the cheapest that holds it")
        page.sees("its word <b>for all</b>")  # among its events
        page.click("button.danger")
        page.sees("End job-1?", "dialog")
        page.press("Escape")
        page.until("!document.querySelector('dialog')")
        record = crowd.store.jobs.get("job-1")
        assert record is not None
        assert not record.ended
        page.click("button.danger")
        page.click("dialog button.danger")
        page.sees("killed", "h1 + .chip")
        record = crowd.store.jobs.get("job-1")
        assert record is not None
        assert record.state == "killed"
        well(page, url)


def test_texts_are_texts(chromium: Browser, crowd: Crowd) -> None:
    """Names, types, owners, queues, reasons, notes and logs are shown as they are, and are nothing else."""
    record = crowd.store.jobs.get("job-60")
    assert record is not None
    job = replace(record.job, name=EVIL, type=EVIL, owner=EVIL, queue=EVIL)
    runs = crowd.store.jobs.get("job-1")
    assert runs is not None
    crowd.store.changes.save(Changes((replace(record, job=job, reason=EVIL), replace(runs, reason=EVIL)), ()))
    crowd._vms[0] = replace(crowd._vms[0], note=EVIL, name=EVIL, type=EVIL)
    crowd.step(0)
    crowd.set_shadow("rr", {})
    with served(app_of(crowd)) as url:
        page = chromium.page(f"{url}/#/jobs/job-60")
        page.sees(EVIL, "h1")
        for address in ("#/jobs?state=queued&find=job-60", "#/", "#/timeline", "#/bill"):
            page.go(f"{url}/{address}")
            if address != "#/bill" and address != "#/timeline":
                page.sees("onerror")
        page.go(f"{url}/#/jobs/job-1")
        page.sees(EVIL, ".log")
        page.sees(EVIL, ".reason")
        assert page.run("document.querySelectorAll('img, main script, iframe').length") == 0
        page.go(f"{url}/#/jobs/{EVIL}")
        page.sees("job")
        well_but = [one for one in page.complaints if "404" not in one and "422" not in one]
        assert well_but == []
        assert page.run("document.title") != "taken"


def test_links_lead_nowhere_strange(chromium: Browser, crowd: Crowd) -> None:
    """A driver may say anything of where its UI is."""
    record = crowd.store.jobs.get("job-1")
    assert record is not None
    job = replace(record.job, client_driver="http:javascript:alert(1)//")
    crowd.store.changes.save(Changes((replace(record, job=job),), ()))
    with served(app_of(crowd)) as url:
        page = chromium.page(f"{url}/#/jobs/job-1")
        page.sees("Spark UI")
        assert page.run("document.querySelector('a[target=_blank]').getAttribute('href')") == "#/"
        well(page, url)


def test_the_token_is_asked_for_once(chromium: Browser, crowd: Crowd) -> None:
    """A wrong one is refused and said so; the right one is in no address and no storage; it can be left."""
    with served(app_of(crowd, "t0ken")) as url:
        page = chromium.page(url)
        page.sees("requires a token")
        page.click("#token")
        page.type("wrong")
        page.press("Enter")
        page.sees("the token is not the one of this server", "#refused")
        page.type("t0ken")
        page.press("Enter")
        page.sees("m1.large-1")
        assert page.run("document.cookie") == ""
        stored = page.run("JSON.stringify([Object.entries(localStorage), Object.entries(sessionStorage)])")
        assert "t0ken" not in stored
        assert not any("t0ken" in asked for asked in page.asked)
        page.go(f"{url}/#/jobs/job-1")
        page.click("button.danger")
        page.click("dialog button.danger")
        page.sees("killed", "h1 + .chip")
        page.ask("Page.reload")
        page.sees("killed on request")
        page.click("#leave")
        page.sees("requires a token")
        assert [one for one in page.complaints if "401" not in one] == []


def test_the_keyboard_is_enough(chromium: Browser, crowd: Crowd) -> None:
    """Numbers for views, / to find, arrows and Enter in the list, Escape back, t for light and dark."""
    with served(app_of(crowd)) as url:
        page = chromium.page(url)
        page.sees("m1.large-1")
        page.press("2")
        page.until("location.hash === '#/jobs' && document.querySelectorAll('a.job').length > 3")
        page.press("/")
        page.until("document.activeElement.id === 'find'")
        page.type("job-5")
        ids = "[...document.querySelectorAll('a.job:not([hidden]) .id')].map((each) => each.innerText)"
        page.until(f"{ids}.every((id) => id.startsWith('job-5'))")
        page.run("document.querySelector('.list').focus()")
        second = page.until("document.querySelectorAll('a.job .id')[1]?.innerText")
        page.press("ArrowDown")
        page.press("Enter")
        page.until(f"location.hash === '#/jobs/{second}'")
        page.press("Escape")
        page.until("location.hash.startsWith('#/jobs?')")
        page.run("document.activeElement.blur()")
        dark = "document.documentElement.classList.contains('dark')"
        assert page.run(dark) is False
        page.press("t")
        page.until(dark)
        well(page, url)


@pytest.mark.parametrize("dark", [False, True])
def test_a_phone_shows_all_of_it(chromium: Browser, crowd: Crowd, *, dark: bool) -> None:
    """Nothing is wider than the screen, in any view; by night it is dark, and text stands out."""
    with served(app_of(crowd)) as url:
        page = chromium.page(url, width=390, height=844, dark=dark)
        for address, text in (
            ("#/", "m1.large-1"), ("#/jobs", "job-1"), ("#/jobs/job-1", "Why there"),
            ("#/timeline", "Decisions"), ("#/bill", "Fixed cluster"), ("#/audit", "Last month"),
        ):  # fmt: skip
            page.go(f"{url}/{address}")
            page.sees(text)
            assert page.run("document.documentElement.scrollWidth <= 390"), address
        ground = "getComputedStyle(document.documentElement).backgroundColor.match(/\\d+/g)"
        light = page.run(f"{ground}.reduce((sum, part) => sum + Number(part), 0)")
        assert (light < 200) is dark
        well(page, url)


@pytest.mark.slow
def test_the_audit_of_ended_jobs(chromium: Browser, crowd: Crowd, tmp_path: Path) -> None:
    """A click on a period shows the report, with its pictures; where there is none, the reason."""
    app = create_app(crowd, crowd.store, AppOptions(token=None, version="1", data_dir=tmp_path))
    with served(app) as url:
        page = chromium.page(f"{url}/#/audit")
        page.sees("Last week")
        page.click("main button:nth-of-type(2)")
        page.sees("that ended in the last week, none has an event log here")
        assert all("404" in complaint for complaint in page.complaints)
        page.complaints.clear()
        ended_job(crowd.store, tmp_path, "ann", 1, "etl")
        page.click("main button:nth-of-type(1)")
        page.sees("The daemon reads the event logs")
        page.until("location.pathname === '/v1/audit' && document.readyState === 'complete'")
        page.sees("What Spark cost, and what it could cost")
        assert page.run("document.querySelectorAll('svg').length") > 0
        assert page.run("getComputedStyle(document.querySelector('.figure')).borderRadius") == "10px"
        well(page, url)


def test_a_list_of_thousands_has_few_rows(chromium: Browser, store: Store) -> None:
    """Only those that are seen are there; the last is reached by End."""
    with served(app_of(Crowd(store, 3, 2500))) as url:
        page = chromium.page(f"{url}/#/jobs")
        page.sees("2,500", ".jobs .chip")
        page.run("document.querySelector('.list').focus()")
        page.press("End")
        page.sees("job-2500", ".list")
        assert page.run("document.querySelectorAll('a.job').length") < 60
        well(page, url)


def test_the_api_is_shown_to_read(chromium: Browser, crowd: Crowd) -> None:
    """Each operation and schema, found by words, from our server alone."""
    app = app_of(crowd)
    either = {
        "oneOf": [{"type": "integer"}, {"allOf": [{"$ref": "#/components/schemas/JobBody"}, {"const": 1}]}]
    }
    app.openapi()["components"]["schemas"]["Made"] = {
        "type": "object", "properties": {"all": {"type": "array", "items": either}},
    }  # fmt: skip
    app.openapi()["components"]["schemas"]["Union"] = either
    with served(app) as url:
        page = chromium.page(f"{url}/docs")
        page.until("document.querySelectorAll('details').length > 80")
        cells = "[...document.querySelectorAll('#Made td, #Union div')].map(each => each.textContent)"
        assert page.run(cells) == [
            "all",
            "list of (integer or (JobBody and 1))",
            "",
            "integer or (JobBody and 1)",
        ]
        spec = page.run("document.querySelector('#JobSpecInput').textContent")
        assert "integer or DynamicExecutors or string" in spec
        page.run("var find = document.getElementById('find')")
        page.run("find.value = 'post /v1/jobs/{job_id}/kill'; find.dispatchEvent(new Event('input'))")
        there = "details:not([hidden]) summary .mono"
        assert (
            page.run(f"[...document.querySelectorAll('{there}')].map(e => e.textContent).join()")
            == "/v1/jobs/{job_id}/kill"
        )
        page.run("find.value = ''; find.dispatchEvent(new Event('input')); location.hash = 'JobDetail'")
        page.until("document.getElementById('JobDetail').open")
        assert "ExecutorBody" in page.run("document.getElementById('JobDetail').textContent")
        well(page, url)


@pytest.fixture(scope="module")
def compiled() -> None:
    """Compile the simulated policies in advance: the browser's wait is too short for it."""
    for name in ("ff", "greedy"):
        compile_for(name, {})


@pytest.mark.usefixtures("compiled")
def test_what_if_is_asked_by_sliders(chromium: Browser, crowd: Crowd) -> None:
    """A moved slider adds a case beside the present one.

    The page states the assumptions, and the cluster is untouched.
    """
    jobs = [make_job(f"job-{n}", 4, expected_duration=60.0) for n in range(1, 6)]
    jobs[0] = replace(jobs[0], name=EVIL)
    queue = tuple(PlacementRequest(job, 4) for job in jobs)
    crowd.foresight = Waiting(Present(make_view(make_vms(2)), queue))
    try:
        with served(app_of(crowd)) as url:
            page = chromium.page(f"{url}/#/what-if")
            page.sees("as now", ".outcomes")
            page.until("document.querySelectorAll('.start').length >= 5")
            page.run(MOVE % 2)
            page.sees("+2 m1.large", ".outcomes")
            page.sees("added VMs are available at once")
            page.resize(390, 860)
            assert page.run("document.documentElement.scrollWidth") == 390
            well(page, url)
            page.run(MOVE % -5)
            page.sees("cannot be removed", ".asking")
    finally:
        crowd.foresight.close()


@pytest.mark.usefixtures("compiled")
def test_what_if_plays_a_time_that_is_over(chromium: Browser, crowd: Crowd) -> None:
    """As the address says, or as is chosen there; the cheapest is said in a sentence."""
    crowd.foresight = Waiting(Present(make_view(make_vms(2)), ()))
    try:
        with served(app_of(crowd)) as url:
            page = chromium.page(f"{url}/#/what-if")
            page.sees("No job waits", ".verdict")
            page.go(f"{url}/#/what-if?since=day")
            page.sees("jobs were submitted since then", ".answer")
            page.sees("ff", ".verdict")
            page.sees("the cluster is the present one")
            well(page, url)
    finally:
        crowd.foresight.close()


def test_costs_are_told_by_job_and_who_would_have_been_cheaper(chromium: Browser, crowd: Crowd) -> None:
    """The bill lists today's costs by job name, beside those under a shadow policy."""
    record = crowd.store.jobs.page(states=("running",), limit=1)[0]
    today = time.strftime("%Y-%m-%d", time.gmtime())
    vm = ("m1.large-1", "", "m1.large")
    paid = Charge(today, *vm, record.job.id, "", "default", "ff", "used", 0.25)
    long_ago = Charge("2020-01-01", *vm, "", "", "", "ff", "idle", 0.5)
    crowd.store.changes.save(Changes((), (), charges=(paid, long_ago)))
    with served(app_of(crowd)) as url:
        page = chromium.page(f"{url}/#/bill")
        page.sees(record.job.name, "tbody")
        page.sees("100 % ($0.2500) for VMs in use by jobs, 0 % ($0.0000) for idle ones.")
        cells = "[...document.querySelectorAll('tbody tr:first-child td')].map((one) => one.innerText)"
        assert page.run(cells)[1:3] == ["$0.2500", "$0.2500"]
        assert page.text("thead").strip().split("\t") == ["job", "Billed", "used by jobs", "Cost of the job"]
        assert page.run(f"{cells}.at(-1)") in {f"$0.0{part:03}" for part in range(100, 1000)}
        page.sees("The cost of today's jobs under other policies")
        assert "$0.50" not in page.text("table")
        page.run(
            "const o = document.querySelector('select'); o.value = ''; o.dispatchEvent(new Event('change'))"
        )
        page.sees("$0.50", "table")
        well(page, url)


def test_no_policy_is_ranked_by_the_hours_in_which_it_decided(chromium: Browser, crowd: Crowd) -> None:
    """Idle costs belong to no policy; no policy changes the bill of VMs that stay."""
    today = time.strftime("%Y-%m-%d", time.gmtime())
    idle = Charge(today, "m1.large-1", "", "m1.large", "", "", "", "ff", "idle", 0.75)
    used = idle._replace(job="job-1", kind="used", dollars=0.25)
    crowd.store.changes.save(
        Changes((), (), charges=(idle, used, used._replace(policy="greedy", job="job-2")))
    )
    crowd.fixed = True
    with served(app_of(crowd)) as url:
        page = chromium.page(f"{url}/#/bill")
        page.sees("no policy changes this bill", ".bars")
        assert "Fixed cluster" not in page.text(".bars")
        page.run(
            "const o = document.querySelectorAll('select')[1]; o.value = 'policy'; "
            "o.dispatchEvent(new Event('change'))"
        )
        page.sees("it ranks no policy")
        rows = page.run("[...document.querySelectorAll('tbody tr')].map((one) => one.innerText.split('\\t'))")
        assert sorted(rows) == [
            ["all", "$1.25"],
            ["ff", "$0.2500"],
            ["greedy", "$0.2500"],
            ["idle and the rest, under any policy", "$0.7500"],
        ]
        well(page, url)


def test_what_is_saved_says_beside_what(chromium: Browser, crowd: Crowd) -> None:
    """All VMs on since then: that no daemon ran for some of the time is not taken off."""
    today = time.strftime("%Y-%m-%d", time.gmtime())
    paid = Charge(today, "m1.large-1", "", "m1.large", "", "", "", "ff", "idle", 1e-6)
    account = Account("vm-1", "m1.large-1", "m1.large", 0.24, 5.0, 5.0)
    crowd.store.changes.save(Changes((), (), charges=(paid,), accounts=(account,)))
    with served(app_of(crowd)) as url:
        page = chromium.page(f"{url}/#/bill")
        page.sees("100 % less than all VMs on since ")
        since = page.text(".head .soft").rpartition("since ")[2]
        page.sees(f"less than all VMs on since {since}, whether or not the daemon ran")
        well(page, url)


def _in_hours(low: float, high: float) -> Estimate:
    start = Interval(3600 * low, 3600 * low, 3600 * high).later(time.time())
    return Estimate(time.time(), start, start.later(60.0), Interval(0.3, 0.2, 0.5))


class Waiting(Foreseeing):
    """Foresight with a fixed set of waiting jobs, independent of the cluster."""

    def __init__(self, present: Present) -> None:
        super().__init__(Sizes(), lambda _: None)
        self._shown = present

    def _present(self) -> Present:
        return self._shown
