"""What other threads are shown of pools."""

from daemon.picture import Picture, picture_of
from environment.model import events as ev
from tests.environment.model.elastic_world import ElasticWorld


def test_a_pool_costs_what_its_provider_says() -> None:
    """Or what the cluster file does, where it says nothing."""
    world = ElasticWorld()
    world.begin()
    (pool,) = picture_of(world.model, world.now, Picture()).pools
    assert (pool.name, pool.price_per_hour) == ("general", 0.24)
    world.send(ev.PoolPrices(world.now, (("general", 0.1),)))
    (pool,) = picture_of(world.model, world.now, Picture()).pools
    assert (pool.name, pool.price_per_hour) == ("general", 0.1)
