"""Jobs that a limit of their queue never lets run: they wait aside, until the limit is another."""

from environment.model.messages import events as ev
from environment.queues.types import Most, Queue, Queues, Sharing
from tests.builders import make_job, make_vms
from tests.environment.two_worlds.world import World


def limited(cpus: float) -> Sharing:
    """Jobs of one queue have so many cpus at most; a round is shown two jobs."""
    return Sharing(("fifo",), window=2, queues=Queues((Queue("default", most=Most({"cpus": cpus})),)))


def test_who_is_over_a_limit_alone_waits_aside_until_it_is_another() -> None:
    """It waits aside with an old or a new limit; jobs behind it run meanwhile."""
    world = World(make_vms(1))
    world.subscribe()
    for number in range(1, 4):
        world.submit(make_job(f"job-{number}", executors=4))
    world.send(ev.SharingChanged(world.now, limited(2.0)))
    world.submit(make_job("job-4", executors=1))
    assert [request.job.id for request in world.model.requests()] == ["job-4"]
    assert world.job("job-1").reason.startswith(
        "it could not run now even alone: queue default may have 2 cpus"
    )
    world.send(ev.SharingChanged(world.now, limited(4.0)))
    assert [request.job.id for request in world.model.requests()][:2] == ["job-1", "job-2"]
    assert world.job("job-1").reason == "waits for its turn"
