"""Jobs by name wherever ids are: the one that is meant, and no other."""

import time

import pytest

from daemon.auth.permits import Permit
from daemon.core.errors import RejectedError
from daemon.core.identity import Person
from daemon.http.routes.jobs.job_names import find_job
from tests.client.conftest import cast, daemon
from tests.daemon.cli.conftest import Daemon

__all__ = ["cast", "daemon"]

Capture = pytest.CaptureFixture[str]


def submitted(daemon: Daemon, name: str, **flags: str) -> str:
    """The id of a new job of that name."""
    more = [part for flag, value in flags.items() for part in (f"--{flag}", value)]
    assert daemon.run("submit", "--name", name, *more, __file__) == 0
    return daemon.cast.store.jobs.page(limit=1)[0].job.id


def test_a_name_is_taken_wherever_an_id_is(daemon: Daemon, capsys: Capture) -> None:
    """A name is accepted wherever an id is; answers are about that job, by its id."""
    job_id = submitted(daemon, "etl")
    daemon.cast.place(job_id)
    daemon.cast.logs = {"driver stdout": "hello\n"}
    for command in (["job"], ["explain"], ["describe"], ["events"], ["job", "-o", "name"]):
        capsys.readouterr()
        assert daemon.run(command[0], "etl", *command[1:]) == 0
        assert job_id in capsys.readouterr().out
    assert daemon.run("logs", "etl") == 0
    assert capsys.readouterr().out == "hello\n"
    assert daemon.run("kill", "etl") == 0
    assert f"Job {job_id} " in capsys.readouterr().out
    assert daemon.run("wait", "etl") == 1
    assert daemon.run("retry", "etl") == 0
    assert daemon.cast.store.jobs.page(limit=1)[0].job.name == "etl"
    assert daemon.run("job", "nothing") == 2
    assert "there is no job, group or array nothing" in capsys.readouterr().err


def test_of_several_the_one_that_goes_on_is_meant_or_none(daemon: Daemon, capsys: Capture) -> None:
    """Of jobs that are over the newest; where several go on, nothing is done, and the ids are told."""
    first, second = submitted(daemon, "etl"), submitted(daemon, "etl")
    store, permit = daemon.cast.store, Permit()
    with pytest.raises(RejectedError, match=f"2 jobs that have not ended are called etl: {second}, {first}"):
        find_job(store, permit, "etl")
    assert daemon.run("kill", "etl") == 2
    assert "give the id" in capsys.readouterr().err
    assert all(record.state == "queued" for record in store.jobs.page())
    daemon.cast.put(second, "finished", "", finished_at=time.time())
    assert find_job(store, permit, "etl").job.id == first
    daemon.cast.put(first, "finished", "", finished_at=time.time())
    assert find_job(store, permit, "etl").job.id == second


def test_ones_own_job_comes_before_others_of_its_name(daemon: Daemon) -> None:
    """Also when it is over and another's runs, for operators and where all see all."""
    first, second = submitted(daemon, "etl", owner="ann"), submitted(daemon, "etl", owner="bob")
    store = daemon.cast.store
    daemon.cast.put(first, "finished", "", finished_at=time.time())
    for role in ("submit", "operate"):
        assert find_job(store, Permit(Person("ann", role)), "etl").job.id == first
        assert find_job(store, Permit(Person("bob", role)), "etl").job.id == second
        assert find_job(store, Permit(Person("cid", role), changes=False), "etl").job.id == second


def test_one_that_goes_on_is_found_behind_any_number_that_ended(daemon: Daemon) -> None:
    """Those that have not ended come first, then the newest, however many there are of a name."""
    store, permit = daemon.cast.store, Permit()
    first, *ended = (submitted(daemon, "etl") for _ in range(23))
    for job_id in ended:
        daemon.cast.put(job_id, "finished", "", finished_at=time.time())
    assert find_job(store, permit, "etl").job.id == first
    assert [record.job.id for record in store.jobs.named("etl", (), 3)] == [first, ended[-1], ended[-2]]
    daemon.cast.put(first, "killed", "", finished_at=time.time())
    assert find_job(store, permit, "etl").job.id == ended[-1]


def test_names_of_others_are_not_there(daemon: Daemon) -> None:
    """A user that sees only own jobs cannot find others' jobs by name."""
    submitted(daemon, "secret", owner="ann")
    bob = Permit(Person("bob", "submit"), sees_all=False)
    with pytest.raises(RejectedError) as refused:
        find_job(daemon.cast.store, bob, "secret")
    assert refused.value.status == 404
    assert find_job(daemon.cast.store, Permit(), "secret").job.owner == "ann"
    submitted(daemon, "secret", owner="ann")
    with pytest.raises(RejectedError) as refused:
        find_job(daemon.cast.store, bob, "secret")
    assert refused.value.status == 404, "nor how many there are"
