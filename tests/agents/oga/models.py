"""Small models and allocations for the tests of OgaSched."""

import numpy as np

from agents.oga.bipartite import Model, Request, build_model
from environment.types import FloatArray


def random_model(
    seed: int = 0,
    ports: int = 5,
    instances: int = 7,
    resources: int = 3,
    *,
    utility: int | None = None,
    request: Request = "per_channel",
) -> Model:
    """Two or three edges an instance, mixed utilities, unequal bounds, some of them without contention."""
    draw = np.random.default_rng(seed)
    edges = [
        (port, r)
        for r in range(instances)
        for port in draw.choice(ports, min(ports, int(draw.integers(2, 4))), replace=False)
    ]
    shape = (instances, resources)
    return build_model(
        edges,
        draw.uniform(0.5, 6, (ports, resources)) * (2 if request == "total" else 1),
        draw.uniform(1, 8, shape),
        utilities=draw.integers(0, 4, shape) if utility is None else utility,
        alphas=draw.uniform(1, 1.5, shape),
        beta=draw.uniform(0.3, 0.5, resources),
        request=request,
    )


def random_arrivals(model: Model, slots: int, seed: int = 0, rho: float = 0.7) -> FloatArray:
    """Arrivals [T, L]."""
    draw = np.random.default_rng(seed)
    return (draw.random((slots, len(model.ports))) < rho).astype(np.float64)
